# SPDX-License-Identifier: MIT
"""Driver libraries that nobody would link: very large ones that work, and broken ones. x86-64, written byte by byte."""
import array
import os
import struct

PAGE = 4096
EHDR, PHDR, SHDR, SYM = 64, 56, 64, 24
SECTIONS = ("", ".dynsym", ".dynstr", ".gnu.hash", ".text", ".dynamic", ".shstrtab")
DYNSYM, DYNSTR, HASH, TEXT, DYNAMIC, SHSTRTAB = range(1, 7)
SHOFF, SHENTSIZE, SHNUM = 40, 58, 60  # in the file's header
SH_OFFSET, SH_SIZE, SH_LINK, SH_ENTSIZE = 24, 32, 40, 56  # in a section's

# *arg0 = 0x700000000000; return 0. Each function has its own.
ALLOCATES = bytes.fromhex("48b8000000000070000048890731c0c3")
SUCCEEDS = bytes.fromhex("31c0c3") + b"\x90" * 13
FUNCTIONS = {"cuMemAlloc_v2": ALLOCATES, "cuMemFree_v2": SUCCEEDS, "cuCtxCreate_v2": SUCCEEDS, "cuInit": SUCCEEDS}


def gnu_hash(name, h=5381):
    for c in name:
        h = (h * 33 + c) & 0xffffffff
    return h


def many_names(count):
    """So many names of eleven characters each, and their hashes: six digits, of which the last three are a table."""
    tail = [gnu_hash(b"%03d" % i, 0) for i in range(1000)]
    names, hashes = [], array.array("I")
    for i in range((count + 999) // 1000):
        head = b"cuFn_%03d" % i if i < 1000 else b"cuG%05d" % i
        base = gnu_hash(head) * 33 ** 3
        names += [head + b"%03d" % j for j in range(1000)]
        hashes.extend((base + t) & 0xffffffff for t in tail)
    return names[:count], hashes[:count]


class Elf:
    """The parts of a library with these functions and so many more, and where they lie."""

    def __init__(self, count=0, functions=None):
        functions = FUNCTIONS if functions is None else functions
        names, hashes = many_names(count)
        names += [n.encode() for n in functions]
        hashes.extend(gnu_hash(n.encode()) for n in functions)
        strings = b"\0" + b"\0".join(names) + b"\0libcuda.so.1\0"
        code = SUCCEEDS + b"".join(functions.values())
        self.count = len(names) + 1

        sizes = {DYNSYM: self.count * SYM, DYNSTR: len(strings), HASH: 16 + 8 + 4 + 4 * len(names), TEXT: len(code),
                 DYNAMIC: 16 * 7, SHSTRTAB: sum(len(s) + 1 for s in SECTIONS)}
        at, self.offset, self.size = EHDR + 2 * PHDR, {}, sizes
        for i, n in sizes.items():
            at = (at + 15) & ~15
            self.offset[i] = at
            at += n
        self.sections = (at + 15) & ~15
        self.data = bytearray(self.sections + SHDR * len(SECTIONS))

        self.put(self.offset[DYNSYM], self.symbols(names, len(functions)))
        self.put(self.offset[DYNSTR], strings)
        # One bucket, a filter that lets all pass, and the end marked on the last hash alone.
        chain = array.array("I", (x & ~1 for x in hashes))
        chain[-1] |= 1
        self.put(self.offset[HASH], struct.pack("<IIIIQI", 1, 1, 1, 0, 2 ** 64 - 1, 1) + chain.tobytes())
        self.put(self.offset[TEXT], code)
        soname = len(strings) - len("libcuda.so.1") - 1
        tags = ((6, self.offset[DYNSYM]), (11, SYM), (5, self.offset[DYNSTR]), (10, len(strings)),
                (0x6ffffef5, self.offset[HASH]), (14, soname), (0, 0))
        self.put(self.offset[DYNAMIC], b"".join(struct.pack("<QQ", *t) for t in tags))
        self.put_headers()

    def put(self, at, data):
        self.data[at:at + len(data)] = data

    def symbols(self, names, own):
        """The first are all at one place; each of the last has its own code."""
        n = len(names)
        table = array.array("Q", bytes(SYM * (n + 1)))
        start, at, word = 1, [], (1 << 4 | 2) << 32 | TEXT << 48  # global function
        for name in names:
            at.append(word | start)
            start += len(name) + 1
        table[3::3] = array.array("Q", at)
        text = self.offset[TEXT]
        table[4::3] = array.array("Q", [text] * (n - own) + [text + 16 * (i + 1) for i in range(own)])
        table[5::3] = array.array("Q", [16]) * n
        return table.tobytes()

    def put_headers(self):
        end = len(self.data)
        self.put(0, b"\x7fELF\x02\x01\x01" + bytes(9) +
                 struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, EHDR, self.sections, 0, EHDR, PHDR, 2, SHDR, len(SECTIONS),
                             SHSTRTAB))
        self.put(EHDR, struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, end, end, PAGE))
        self.put(EHDR + PHDR, struct.pack("<IIQQQQQQ", 2, 4, self.offset[DYNAMIC], self.offset[DYNAMIC],
                                          self.offset[DYNAMIC], self.size[DYNAMIC], self.size[DYNAMIC], 8))
        kinds = {DYNSYM: (11, DYNSTR, SYM), DYNSTR: (3, 0, 0), HASH: (0x6ffffff6, DYNSYM, 0), TEXT: (1, 0, 0),
                 DYNAMIC: (6, DYNSTR, 16), SHSTRTAB: (3, 0, 0)}
        name = 1
        for i, (kind, link, entry) in kinds.items():
            self.put(self.sections + SHDR * i,
                     struct.pack("<IIQQQQIIQQ", name, kind, 2, self.offset[i], self.offset[i], self.size[i], link, 1, 8,
                                 entry))
            name += len(SECTIONS[i]) + 1
        self.put(self.offset[SHSTRTAB], b"\0".join(s.encode() for s in SECTIONS) + b"\0")

    def patch(self, at, form, value):
        struct.pack_into("<" + form, self.data, at, value)
        return self

    def section(self, index, field, value):
        return self.patch(self.sections + SHDR * index + field, "I" if field == SH_LINK else "Q", value)

    def write(self, path, length=None, sparse=None):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(self.data if length is None else self.data[:length])
            if sparse:
                f.truncate(sparse)
        os.chmod(path, 0o755)
        return path


def dynamic_outside():
    """Without section headers, and the dynamic section leads out of the file."""
    e = Elf()
    return e.patch(SHOFF, "Q", 0).patch(e.offset[DYNAMIC] + 8, "Q", 1 << 62)


def huge(names, symbols):
    """Tables that reach over gigabytes, of which the file has holes."""
    return Elf().section(DYNSTR, SH_SIZE, names).section(DYNSYM, SH_SIZE, symbols)


def slow(symbols=16384):
    """Each string ends as many names of the driver do: as many comparisons as a file of this size can cause."""
    e = Elf(symbols)
    at, end = e.offset[DYNSTR], e.offset[DYNSTR] + e.size[DYNSTR]
    more = b"xv2\0" * (symbols * 64)
    e.section(DYNSTR, SH_OFFSET, len(e.data)).section(DYNSTR, SH_SIZE, end - at + len(more))
    e.data += e.data[at:end] + more
    return e


def broken():
    """Name, what makes it, and how it is written."""
    e = Elf()
    return (
        ("header-cut", Elf(), {"length": 40}),
        ("segments-cut", Elf(), {"length": EHDR + 10}),
        ("symbols-cut", Elf(), {"length": e.offset[DYNSYM] + 3 * SYM + 5}),
        ("no-terminator", Elf().section(DYNSTR, SH_OFFSET, e.sections + 6 * SHDR).section(DYNSTR, SH_SIZE, 1 << 40), {}),
        ("sections-outside", Elf().patch(SHOFF, "Q", 1 << 62), {}),
        ("sections-at-the-end", Elf().patch(SHOFF, "Q", len(e.data) - 8), {}),
        ("sections-many", Elf().patch(SHNUM, "H", 65535), {"sparse": 16 << 20}),
        ("section-size", Elf().patch(SHENTSIZE, "H", 0), {}),
        ("symbols-outside", Elf().section(DYNSYM, SH_OFFSET, 2 ** 63 - 24), {}),
        ("symbols-wrap", Elf().section(DYNSYM, SH_OFFSET, 2 ** 64 - 24).section(DYNSYM, SH_SIZE, 2 ** 63), {}),
        ("entry-size-0", Elf().section(DYNSYM, SH_ENTSIZE, 0), {}),
        ("names-outside", Elf().section(DYNSTR, SH_OFFSET, 2 ** 63 - 1), {}),
        ("names-of-nothing", Elf().section(DYNSTR, SH_SIZE, 0), {}),
        ("link-outside", Elf().section(DYNSYM, SH_LINK, 0xffffffff), {}),
        ("dynamic-outside", dynamic_outside(), {}),
        ("code-outside", Elf().patch(e.offset[DYNSYM] + SYM + 8, "Q", len(e.data) - 1), {}),
        ("no-code", Elf(functions={"cuMemAlloc_v2": b"\x06" * 16}), {}),
        ("strangers", Elf(functions={f"cuMemAllocStrange{i}": SUCCEEDS for i in range(2000)}), {}),
        ("huge-names", huge(4 << 30, 1 << 20), {"sparse": 4 << 30}),
        ("huge-symbols", huge(1 << 20, 4 << 30), {"sparse": 4 << 30}),
        ("huge-both", huge(4 << 30, 4 << 30), {"sparse": 4 << 30}),
    )
