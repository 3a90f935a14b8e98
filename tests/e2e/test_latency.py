#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""From the call that crosses to the record that can be read: a bound of sanity, no benchmark."""
import statistics
import time

import harness as h


@h.test("a crossing is readable in the journal within 100 ms in the median, stamped with its own time", exclusive=True)
def latency(case):
    # What fired is resolved at the next of the ticks, which come once a second: the memory is given back for longer, and
    # several take turns.
    d = case.daemon()
    works, took, off = [], [], []

    def read(w, i):
        crossed = w.next("cross")["realtime_us"]
        # Asked again and again: journalctl -f is told of a new entry half a second late, whoever sent it.
        r = h.poll(lambda: d.records(w.pid, rule="quota", state="firing")[i:], 2, f"record of crossing {i + 1}", every=0)[0]
        took.append((time.time_ns() // 1000 - crossed) / 1000)
        off.append(abs(int(r["GPUXRAY_TIME_USEC"]) - crossed) / 1000)

    for _ in range(4):
        works.append(case.work("work_cross", "--times=2", "--period=2500", "--wait-end"))
        read(works[-1], 0)
        time.sleep(0.3)
    for w in works:
        read(w, 1)
    h.comment(f"from crossing to read, ms: {[round(x, 1) for x in sorted(took)]}")
    case.check(statistics.median(took) < 100, f"median {statistics.median(took):.1f} ms of {took}")
    case.check(statistics.median(off) < 20, f"GPUXRAY_TIME_USEC is off by {statistics.median(off):.1f} ms in the median")
    for w in works:
        w.end()
    d.stop()


if __name__ == "__main__":
    h.main()
