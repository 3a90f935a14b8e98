# SPDX-License-Identifier: MIT
"""Where growth stopped once it is expected to stop again: in the next run, and after a restart of the daemon."""
import os
import time

import harness as h

RULES = """version = 1;
rules = (
  { name = "leak"; kind = "leak"; scope = "process"; epoch = "1s"; epochs = 4; occupancy = 0.9; keep_ratio = 0.5;
    min_growth = "2MiB"; for_epochs = 2; severity = "warning"; keep_firing_for = "0s"; }
);
"""
BLOCKS = 180  # 256 KiB every 50 ms: 9 s
HEAD = "gpuxray bounds 1\n"


def fill(case, blocks=BLOCKS):
    w = case.work("work_fill", f"--blocks={blocks}")
    return w, w.next("full", 40)


def limit(d):
    return next(x for x in d.status()["limits"] if x["name"] == "bounds")


def folder(case):
    os.mkdir(case.path("lib"), 0o700)
    return case.path("lib")


def states(case, w):
    return [r["GPUXRAY_STATE"] for r in h.journal_json(f"GPUXRAY_PID={w.pid}", "GPUXRAY_RULE=leak")]


@h.test("a cache that fills is told once: not in the next run, nor after a restart; beyond where it stopped it is",
        seconds=50)
def once(case):
    lib = folder(case)
    d = case.daemon(rules=RULES, env={"STATE_DIRECTORY": lib})
    case.equal(limit(d)["used"], 0, "known before")
    case.equal(limit(d)["max"], 4096, "most")

    w, ledger = fill(case)
    d.wait_record(w.pid, 5, rule="leak", state="firing")
    d.wait_record(w.pid, 15, rule="leak", state="resolved")
    h.poll(lambda: limit(d)["used"], 10, "it is learnt where the site stopped")
    w.end()
    d.wait_gone(w.pid)

    w, _ = fill(case)
    time.sleep(1.5)
    w.end()
    case.equal(states(case, w), [], "records of the second run")

    d.stop()
    path = lib + "/bounds"
    with open(path) as f:
        lines = f.read().splitlines(keepends=True)
    case.equal(lines[0], HEAD, "the file's head")
    case.equal(len(lines), 2, "its lines")
    site, size, day = lines[1].split()
    case.equal(len(site), 16, "digits of the id")
    case.equal(int(size), ledger["live_bytes"], "where it stopped")
    case.check(abs(int(day) - time.time() / 86400) < 2, f"day {day}")
    case.equal(os.stat(path).st_mode & 0o777, 0o600, "mode")

    d = case.daemon(rules=RULES, env={"STATE_DIRECTORY": lib})
    d.wait_stderr("where 1 call sites stopped")
    w, _ = fill(case)
    time.sleep(1.5)
    w.end()
    case.equal(states(case, w), [], "records of the run after a restart")

    w, _ = fill(case, 2 * BLOCKS)
    d.wait_record(w.pid, 5, rule="leak", state="firing")
    r = d.records(w.pid, rule="leak")[0]
    case.equal(r.get("GPUXRAY_STACK_ID"), site, "the site of the record")
    case.check(int(r["GPUXRAY_LIVE_BYTES"]) >= 1.2 * ledger["live_bytes"],
               f"too early: {int(r['GPUXRAY_LIVE_BYTES']) / ledger['live_bytes']:.2f} of where it stopped before")
    w.end()
    d.stop()


@h.test("a file of noise, one that others may write, or none: the daemon says so where it matters, and starts")
def hostile(case):
    lib = folder(case)
    path = lib + "/bounds"
    for what, data, mode, text in (("noise", os.urandom(5000), 0o600, "not a file of ours"),
                                   ("writable", HEAD.encode() + b"00000000000000aa 5 20000\n", 0o622, "not permitted"),
                                   ("too large", HEAD.encode() + bytes(300 << 10), 0o600, "too long|too big|too large"),
                                   ("cut", HEAD.encode() + b"00000000000000aa 5 99999\n00000000000000bb 6 9", 0o600,
                                    "1 lines make no sense")):
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, mode)
        d = case.daemon(rules=RULES, env={"STATE_DIRECTORY": lib})
        d.wait_stderr("(?i)" + text)
        case.equal(limit(d)["used"], 1 if what == "cut" else 0, f"{what}: taken")
        d.stop()
    os.unlink(path)
    d = case.daemon(rules=RULES, env={"STATE_DIRECTORY": lib})
    case.equal(limit(d)["used"], 0, "no file: taken")
    d.stop()
    case.check("bounds" not in d.stderr(), f"complains without a file: {d.stderr()}")


if __name__ == "__main__":
    h.main()
