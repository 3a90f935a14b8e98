#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How deep the stacks of the probes become, over all they call: tests/bpf/stack_depth.py OBJECT. TAP.

Linux before 6.12 refuses a program whose frames, each rounded up to 32 bytes, exceed 512 bytes together with those of any
chain of functions that it calls, callbacks of bpf_loop() and bpf_for_each_map_elem() among them; later kernels give some
programs a stack of their own and do not mind. So the kernel that runs the tests does not tell, and this does: it adds up
the frames of the object file, by the relocations of calls and of function addresses.
"""
import struct
import sys

LIMIT = 512
CALL, LOAD64 = 0x85, 0x18
MOV_REG, ADD_IMM = 0xBF, 0x07
FRAME_POINTER = 10


class Object:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        offset, = struct.unpack_from("<Q", self.data, 0x28)
        count, names = struct.unpack_from("<HH", self.data, 0x3C)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", self.data, offset + 64 * i) for i in range(count)]
        self.section_names = [self.text(self.sections[names][4] + s[0]) for s in self.sections]
        self.symbols = [sym for s in self.sections if s[1] == 2 for sym in self.read_symbols(s)]
        self.functions = {(s["section"], s["value"]): s for s in self.symbols if s["type"] == 2}
        self.relocations = {}
        for s in self.sections:
            if s[1] != 9:
                continue
            for at in range(s[4], s[4] + s[5], 16):
                where, info = struct.unpack_from("<QQ", self.data, at)
                self.relocations[s[7], where] = self.symbols[info >> 32]

    def text(self, at):
        return self.data[at:self.data.index(b"\0", at)].decode()

    def read_symbols(self, section):
        strings = self.sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, info, _, where, value, size = struct.unpack_from("<IBBHQQ", self.data, at)
            yield {"name": self.text(strings + name), "type": info & 15, "section": where, "value": value, "size": size}

    def called(self, section, at, op, source, imm):
        """The function whose address this instruction takes or jumps to, None if it is none of ours."""
        r = self.relocations.get((section, at))
        if op == CALL and source == 1:
            if not r:
                return self.functions[section, at + 8 + imm * 8]
            return self.functions[r["section"], r["value"] + ((imm + 1) * 8 if r["type"] == 3 else 0)]
        if op == LOAD64 and r and (r["type"] == 2 or self.section_names[r["section"]] == ".text"):
            return self.functions[r["section"], r["value"] + (imm if r["type"] == 3 else 0)]
        return None

    def look_into(self, function):
        """Bytes of its own frame, and names of what it calls."""
        section, at = function["section"], function["value"]
        end, frame, calls, copied_to = at + function["size"], 0, set(), None
        while at < end:
            op, registers, offset, imm = struct.unpack_from("<BBhi", self.data, self.sections[section][4] + at)
            target, source = registers & 15, registers >> 4
            if (op & 7 in (2, 3) and target == FRAME_POINTER) or (op & 7 == 1 and source == FRAME_POINTER):
                frame = max(frame, -offset)
            if op == ADD_IMM and target == copied_to and imm < 0:
                frame = max(frame, -imm)
            copied_to = target if op == MOV_REG and source == FRAME_POINTER else None
            callee = self.called(section, at, op, source, imm)
            if callee:
                calls.add(callee["name"])
            at += 16 if op == LOAD64 else 8
        return frame, calls


def deepest(graph, name):
    frame, calls = graph[name]
    own = max((frame + 31) // 32 * 32, 32)
    depth, chain = max((deepest(graph, c) for c in calls), default=(0, []))
    return own + depth, [f"{name} {own}"] + chain


def main():
    obj = Object(sys.argv[1])
    graph = {f["name"]: obj.look_into(f) for f in obj.functions.values()}
    programs = sorted(f["name"] for f in obj.functions.values() if obj.section_names[f["section"]] != ".text")
    bad = 0
    print(f"1..{len(programs)}")
    for n, name in enumerate(programs, 1):
        depth, chain = deepest(graph, name)
        bad += depth > LIMIT
        print(f"{'not ' if depth > LIMIT else ''}ok {n} - {name}: {depth} bytes of {LIMIT}: {', '.join(chain)}")
    if not programs:
        print("not ok 1 - no program in this object")
    sys.exit(1 if bad or not programs else 0)


if __name__ == "__main__":
    main()
