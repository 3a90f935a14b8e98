#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""In which order the probes keep the books: tests/bpf/count_order.py OBJECT. TAP.

A change takes room in the ring, then adds to a count, by an instruction that orders memory, then to the other sums, and then
submits; see add_first() in bpf/books.h for what goes wrong otherwise, where a program is interrupted in between. It shows
only on a machine whose processors are taken away at the wrong moment, so this looks at the object file: on all ways through
a function there must be a bpf_ringbuf_reserve() before a count, and a count before a sum, with no end of it in between.
"""
import struct
import sys

sys.dont_write_bytecode = True
import stack_depth  # noqa: E402

COUNTS = ("alloc_count", "free_count", "fail_count", "unknown_free_count", "framework_alloc_count", "framework_free_count")
SUMS = ("device_bytes", "live_count", "framework_live_count")
RESERVE, ENDS = 131, (132, 133)
ATOMIC64, ADD, FETCH_ADD = 0xDB, 0x00, 0x01
CALL, EXIT, GOTO, LOAD64 = 0x85, 0x95, 0x05, 0x18
STRUCT = 4
ROOM, COUNTED = 1, 2
# Bytes behind a type's own 12: fixed ones, and for each member.
BEHIND = {1: (4, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 13: (0, 8), 14: (4, 0), 15: (0, 12), 17: (4, 0),
          19: (0, 12)}


def offsets(obj):
    """Of the members of struct books, by the type information of the object."""
    where = obj.sections[obj.section_names.index(".BTF")][4]
    header, types, length, strings = struct.unpack_from("<4xIIII", obj.data, where)
    at, end, strings = where + header + types, where + header + types + length, where + header + strings
    while at < end:
        name, info, _ = struct.unpack_from("<III", obj.data, at)
        kind, count = info >> 24 & 31, info & 0xFFFF
        if kind == STRUCT and obj.text(strings + name) == "books":
            members = [struct.unpack_from("<III", obj.data, at + 12 + 12 * i) for i in range(count)]
            return {obj.text(strings + m[0]): (m[2] & 0xFFFFFF if info >> 31 else m[2]) // 8 for m in members}
        fixed, each = BEHIND.get(kind, (0, 0))
        at += 12 + fixed + each * count
    raise LookupError("no struct books in the type information")


class Function:
    def __init__(self, obj, function, names):
        self.names = names
        start = obj.sections[function["section"]][4] + function["value"]
        self.code = [struct.unpack_from("<BBhi", obj.data, start + 8 * i) for i in range(function["size"] // 8)]
        self.problems, self.seen = set(), set()

    def after(self, at, state):
        """Where it can go on from an instruction."""
        op, _, offset, _ = self.code[at]
        if op == EXIT:
            return []
        if op == LOAD64:
            return [(at + 2, state)]
        if op == GOTO:
            return [(at + 1 + offset, state)]
        if op & 7 in (5, 6) and op != CALL:
            return [(at + 1, state), (at + 1 + offset, state)]
        return [(at + 1, state)]

    def look(self, at, state):
        """The state after an instruction; what is wrong with it goes to the problems."""
        op, registers, offset, imm = self.code[at]
        if op == CALL and registers >> 4 == 0:
            return ROOM if imm == RESERVE else 0 if imm in ENDS else state
        name = self.names.get(offset) if op == ATOMIC64 and imm in (ADD, FETCH_ADD) else None
        if name in COUNTS:
            self.seen.add(name)
            if not state & ROOM:
                self.problems.add(f"{name} before there is room in the ring")
            if imm != FETCH_ADD:
                self.problems.add(f"{name} by an add that orders nothing")
            return state | COUNTED
        if name in SUMS:
            self.seen.add(name)
            if not state & COUNTED:
                self.problems.add(f"{name} before a count")
        return state

    def check(self):
        waiting, done = [(0, 0)], set()
        while waiting:
            at, state = waiting.pop()
            if (at, state) not in done:
                done.add((at, state))
                waiting += self.after(at, self.look(at, state))


def main():
    obj = stack_depth.Object(sys.argv[1])
    names = {at: name for name, at in offsets(obj).items() if name in COUNTS + SUMS}
    functions = [(f["name"], Function(obj, f, names)) for f in obj.functions.values()]
    seen = set()
    for _, f in functions:
        f.check()
        seen |= f.seen
    shown = [(name, f) for name, f in sorted(functions, key=lambda x: x[0]) if f.seen]
    bad = 0
    for n, (name, f) in enumerate(shown, 1):
        bad += bool(f.problems)
        print(f"{'not ' if f.problems else ''}ok {n} - {name}: {'; '.join(sorted(f.problems)) or ', '.join(sorted(f.seen))}")
    missing = set(COUNTS + SUMS) - seen
    print(f"{'not ' if missing else ''}ok {len(shown) + 1} - all counts and sums are found{': not ' if missing else ''}"
          f"{', '.join(sorted(missing))}")
    print(f"1..{len(shown) + 1}")
    sys.exit(1 if bad or missing else 0)


main()
