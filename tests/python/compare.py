# SPDX-License-Identifier: MIT
"""compare.py EXPECTED ACTUAL LABEL: TAP, one result for each case."""
import json
import sys

FRAMES_MAX = 64
UNPLACED = 1
TRUNCATED, FAULT, NO_THREAD = 1, 2, 4
ESTALE = -116


def read_actual(path):
    calls = {}
    python = set()
    call = None
    with open(path) as f:
        for line in f:
            word = line.rstrip("\n").split(" ")
            if word[0] == "python":
                python.add(int(word[1], 16) >> 16)
            elif word[0] == "call":
                call = dict(known=int(word[3]), flags=int(word[4]), ns=int(word[5]), frames=[])
                calls[int(word[1]), int(word[2])] = call
            else:
                call["frames"].append(dict(result=int(word[1]), entry=int(word[2]), line=int(word[3]),
                                           function=bytes.fromhex(word[4]).decode("utf-8", "replace"), file=word[5]))
    return python, calls


def frame_differs(want, got):
    function, file, line = want
    function = "".join(c if not 0xd800 <= ord(c) <= 0xdfff else "?" for c in function)
    return got["result"] != 0 or [got["function"], got["file"], got["line"]] != [function, file, line]


def places_differ(want, got, is_cut, minor):
    ends = [f["entry"] for f in got["frames"] if f["entry"]]
    evals = want["evals"]
    if is_cut:
        evals = evals[:len(ends)]
    if len(ends) != len(evals):
        return "%d evaluation loops, not %d" % (len(ends), len(evals))
    if got["frames"] and not got["frames"][-1]["entry"] and not is_cut:
        return "the outermost frame ends no loop"
    for end, (low, high) in zip(ends, evals):
        if minor < 11 and end != UNPLACED:
            return "a place where none can be known"
        if minor >= 11 and not low <= end < high:
            return "loop at sp+%d, not in %d..%d" % (end, low, high)
    return None


def differs(want, got, minor):
    if got is None:
        return "no event"
    if want.get("unknown"):
        return "known too early" if got["known"] else None
    if not got["known"]:
        return "not known"
    if want.get("no_thread"):
        return None if got["flags"] == NO_THREAD and not got["frames"] else "thread found: flags %d" % got["flags"]
    is_cut = len(want["frames"]) > FRAMES_MAX
    if got["flags"] != (TRUNCATED if is_cut else 0):
        return "flags %d" % got["flags"]
    frames = want["frames"][:FRAMES_MAX]
    if len(got["frames"]) != len(frames):
        return "%d frames, not %d" % (len(got["frames"]), len(frames))
    for i, (w, g) in enumerate(zip(frames, got["frames"])):
        # Freed code says so, or is still what it was; never something else.
        if want.get("freed") == i and g["result"] == ESTALE:
            continue
        if frame_differs(w, g):
            return "frame %d is %r, not %r" % (i, g, w)
    return places_differ(want, got, is_cut, minor) if want["evals"] is not None else None


def main():
    with open(sys.argv[1]) as f:
        expected = json.load(f)
    python, calls = read_actual(sys.argv[2])
    label = sys.argv[3]
    minor = expected["version"] >> 16 & 255
    cases = {}
    for want in expected["calls"]:
        why = differs(want, calls.get((want["process"], want["arg"])), minor)
        cases.setdefault(want["case"], []).append(why)
    count = 0
    for case, results in cases.items():
        bad = [r for r in results if r]
        for r in bad[:3]:
            print("# %s" % r)
        count += 1
        print("%sok %d - %s: %s (%d calls)" % ("not " if bad else "", count, label, case, len(results)))
    extra = len(calls) - len(expected["calls"])
    count += 1
    print("%sok %d - %s: no other calls" % ("not " if extra else "", count, label))
    stale = [c for w in expected["calls"] if "freed" in w for c in [calls.get((w["process"], w["arg"]))]
             if c and len(c["frames"]) > w["freed"] and c["frames"][w["freed"]]["result"] == ESTALE]
    count += 1
    print("%sok %d - %s: code that was freed is known to be (%d)" % ("" if stale else "not ", count, label, len(stale)))
    count += 1
    print("%sok %d - %s: version %s" % ("" if python == {expected["version"] >> 16} else "not ", count, label,
                                       ", ".join("%d.%d" % (v >> 8, v & 255) for v in python)))
    walked = sorted((c["ns"], len(c["frames"])) for c in calls.values() if c["known"] and c["frames"])
    if walked:
        print("# %s: median walk %d ns, of %d frames" % ((label,) + walked[len(walked) // 2]))
    print("1..%d" % count)


main()
