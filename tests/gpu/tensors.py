# SPDX-License-Identifier: MIT
"""PyTorch's tensors under the daemon (trace_frameworks): its own count of them against gpuxray's, and what it costs."""
import json
import subprocess
import sys
import time

from daemon import WORK, Daemon

CONF = f"{WORK}/tensors.conf"


def books():
    with open(CONF, "w", encoding="ascii") as f:
        f.write('trace_frameworks = [ "pytorch" ];\n')
    d = Daemon("tensors", "--config", CONF)
    bad = 0
    rows = []
    if not d.start():
        return 1, rows
    p = subprocess.Popen([sys.executable, "tests/gpu/tensors_torch.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in p.stdout:
        try:
            own = json.loads(line)
        except ValueError:
            continue
        seen = {}
        for _ in range(20):
            time.sleep(0.3)
            seen = d.process_of(own["pid"]) or {}
            if seen.get("framework_bytes") == own["requested"] and seen.get("live_bytes") == own["reserved"]:
                break
        ok = seen.get("framework_bytes") == own["requested"]
        bad += not ok
        rows.append((own["label"], own["requested"], seen.get("framework_bytes"), own["tensors"], own["reserved"],
                     seen.get("live_bytes"), "ok" if ok else "DIFFERS"))
        p.stdin.write("\n")
        p.stdin.flush()
    p.wait(60)
    if p.returncode:
        bad += 1
        print(f"the program's exit status: {p.returncode}")
    status = d.status() or {}
    for library in status.get("libraries", []):
        print("library", library["path"], library["calls_found"], "of", library["calls_wanted"], "unknown calls:",
              library["unknown_names"])
    print("calls", {k: v for k, v in status.get("calls", {}).items() if "::" in k})
    print("counters", {k: v for k, v in status.get("counters", {}).items() if v})
    print("daemon's exit status", d.stop())
    return bad, rows


def rate(options, seconds=4):
    d = Daemon("cost", *options) if options is not None else None
    if d and not d.start():
        return None
    p = subprocess.Popen([sys.executable, "tests/gpu/train_loop.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    p.stdin.write(f"{seconds}\n")
    p.stdin.flush()
    steps = float(p.stdout.readline())
    p.stdin.close()
    p.wait(60)
    if d:
        d.stop()
    return steps


def main():
    bad, rows = books()
    print(f"\n{'moment':24} {'asked for':>14} {'gpuxray':>14} {'tensors':>8} {'reserved':>14} {'gpuxray':>14}  verdict")
    for r in rows:
        print(f"{r[0]:24} {r[1]:>14} {str(r[2]):>14} {r[3]:>8} {r[4]:>14} {str(r[5]):>14}  {r[6]}")
    rates = {"without": [], "gpuxray": [], "gpuxray with tensors": []}
    for _ in range(3 if "--cost" in sys.argv else 0):
        rates["without"].append(rate(None))
        rates["gpuxray"].append(rate([]))
        rates["gpuxray with tensors"].append(rate(["--config", CONF]))
    for name, found in rates.items():
        if found:
            print(f"{name:24} {sorted(found)[1]:8.1f} steps/s  of {['%.0f' % f for f in found]}")
    sys.exit(1 if bad or not rows else 0)


main()
