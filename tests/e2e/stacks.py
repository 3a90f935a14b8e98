# SPDX-License-Identifier: MIT
"""What the tests of stacks share: programs built for them, records found again by the bytes asked for, frames compared.

The programs (tests/stacks) are built here, in the world of the tests: each shape needs other options of the compiler.
"""
import bisect
import json
import os
import re
import shutil
import subprocess

import harness as h

SOURCES = h.ROOT + "/tests/stacks"
BUILT = h.TMP + "/stacks"
OPTIMISED = ["-O2", "-fomit-frame-pointer", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"]
FAIL_BYTES = 1 << 50
LARGE_BYTES = 8 * h.GIB  # what others on the machine allocate makes no record
RULES = """version = 1;
rules = (
  { name = "fail";  kind = "alloc_failure"; count = 1; window = "1m"; severity = "notice"; budget = "100000/1m"; },
  { name = "alloc"; kind = "single_alloc"; fire_above = "8GiB"; severity = "info"; budget = "100000/1m"; }
);
"""
CONFIG = "limits = { records_per_minute = 100000; queue = 8192; };\n"
LIBC = r"(libc\.so\.6\+0x|.+ \(libc\.so\.6\))"
# From the C library into main, and before it.
START = [LIBC, LIBC, "_start"]
THREAD = [LIBC, LIBC]  # start_thread, clone3


# ---- programs


def must_build(argv):
    p = subprocess.run(argv, capture_output=True, text=True, errors="replace")
    if p.returncode:
        raise h.Failure(f"{' '.join(argv)}: {p.stderr[-1500:]}")


def build(name, *sources, cc="gcc", options=(), libraries=(), driver=True):
    """Path of a program of these files of tests/stacks and stack.c, linked with the stand-in driver; built once."""
    path = f"{BUILT}/{name}"
    if os.path.exists(path):
        return path
    os.makedirs(os.path.dirname(path), exist_ok=True)
    files = [s if s.startswith("/") else f"{SOURCES}/{s}" for s in sources]
    compiled = []
    for f in files:  # each in its own language
        o = f"{path}.{os.path.basename(f)}.o"
        language = {"g++": "gcc", "clang++": "clang"}.get(cc, cc) if f.endswith(".c") else cc
        more = ["-std=gnu11"] if f.endswith(".c") else ["-std=gnu++17"]
        must_build([language, *more, *OPTIMISED, *[x for x in options if x != "-static"], "-c", f, "-o", o])
        compiled.append(o)
    link = [f"-L{h.FAKE}", "-l:libcuda.so.1", f"-Wl,-rpath,{h.FAKE}"] if driver else []
    must_build([cc, *options, *compiled, "-Wl,--build-id", *libraries, *link, "-pthread", "-o", path])
    for o in compiled:
        os.unlink(o)
    return path


def c_program(name, *sources, **kw):
    return build(name, *sources, "stack.c", **kw)


def shared_library(name, source, *options, cc="gcc"):
    path = f"{BUILT}/{name}"
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        must_build([cc, "-std=gnu11", *OPTIMISED, "-fPIC", "-shared", f"-Wl,-soname,{os.path.basename(name)}",
                    "-Wl,--build-id", *options, f"{SOURCES}/{source}", "-o", path])
    return path


def copy_of(path, name):
    to = f"{BUILT}/{name}"
    os.makedirs(os.path.dirname(to), exist_ok=True)
    shutil.copy2(path, to)
    return to


# ---- what a file says of its own addresses


class Symbols:
    """Functions of a file, by nm: address to the names that may be shown for it."""

    cache = {}

    def __init__(self, path):
        table = []
        for line in h.run("nm", "-S", "--defined-only", path).stdout.splitlines():
            m = re.match(r"([0-9a-f]+) ([0-9a-f]+) [tTwWiIuV] (.*)", line)
            if m:
                table.append((int(m[1], 16), int(m[2], 16), m[3].split("@")[0]))
            else:
                m = re.match(r"([0-9a-f]+) [tT] (_start)$", line)  # has no size
                if m:
                    table.append((int(m[1], 16), 64, m[2]))
        # As records show them: no arguments, no results, no parts that the compiler moved away.
        names = h.must("c++filt", "-p", input="".join(t[2] + "\n" for t in table)).split("\n")
        names = [re.sub(r"(\(\))?( \[clone [^]]*\])+$", "", n) for n in names]
        table = [(start, size, name) for (start, size, _), name in zip(table, names)]
        self.table = sorted(table)
        self.starts = [t[0] for t in self.table]

    @classmethod
    def of(cls, path):
        key = (path, os.stat(path).st_mtime_ns)
        if key not in cls.cache:
            cls.cache[key] = cls(path)
        return cls.cache[key]

    def names(self, address):
        i = bisect.bisect_right(self.starts, address) - 1
        found = set()
        while i >= 0 and self.starts[i] > address - (1 << 20) and len(found) < 50:
            start, size, name = self.table[i]
            if start <= address < start + size:
                found.add((name, start))
            i -= 1
        return found


# ---- frames of a record


class Frame:
    """One line of GPUXRAY_STACK."""

    def __init__(self, text):
        self.text = text
        self.function = self.module = self.file = self.line = self.offset = None
        self.is_python = False
        m = re.fullmatch(r"(?P<rest>.+?)(?: at (?P<file>[^()]+):(?P<line>\d+))?", text)
        n = re.fullmatch(r"(.+)\+0x([0-9a-f]+) \(([^()]+)\)", m["rest"])
        if n:
            self.function, self.offset, self.module = n[1], int(n[2], 16), n[3]
            self.file, self.line = m["file"], m["line"] and int(m["line"])
            return
        n = re.fullmatch(r"(.+) \((.+?)(?::(\d+|\?))?\)", text)  # "?" is what could not be read
        if n:
            self.is_python = True
            self.function, self.file, self.line = n[1], n[2], int(n[3]) if (n[3] or "?") != "?" else None
            return
        n = re.fullmatch(r"(.+)\+0x([0-9a-f]+)", text)
        if n:
            self.module, self.offset = n[1], int(n[2], 16)

    def __repr__(self):
        return self.text


class Stack:
    def __init__(self, record):
        self.record = record
        self.frames = []
        self.more = 0  # frames of which only the number is there
        self.id = record.get("GPUXRAY_STACK_ID")
        self.info = record.get("GPUXRAY_STACK_INFO")
        for line in record.get("GPUXRAY_STACK", "").splitlines():
            m = re.fullmatch(r"\[(\d+) more frames?\]", line)
            if m:
                self.more += int(m[1])
                self.frames.append(None)
            else:
                self.frames.append(Frame(line))

    @property
    def count(self):
        return sum(f is not None for f in self.frames) + self.more

    def text(self):
        return "\n".join([str(f) for f in self.frames] + [f"info: {self.info}"])


def line_fits(want, text):
    """want: a function's name, or a pattern (what has a bracket or a backslash in it) for the beginning of the line."""
    if re.search(r"[\\\[(^.]", want):
        return re.match(want, text)
    return text.startswith(want + "+0x")


def check_chain(case, s, chain, what, is_whole=True):
    """That the frames are these; is_whole: and no others follow, and nothing is missing."""
    texts = [str(f) for f in s.frames]
    good = len(texts) == len(chain) if is_whole else len(texts) >= len(chain)
    good = good and all(line_fits(want, got) for want, got in zip(chain, texts))
    case.check(good, f"{what}: frames are\n    " + "\n    ".join(texts) + "\n  not\n    " + "\n    ".join(chain) +
               f"\n  info: {s.info}")
    if is_whole:
        case.check(s.info is None, f"{what}: GPUXRAY_STACK_INFO is {s.info!r} for a complete stack")


def frame_differs(frame, path, address, is_exact, main):
    """Why a frame is not what the process's own unwinder says: this address in this file ("" = the program itself)."""
    path = path or main
    module = "[vdso]" if path == "linux-vdso.so.1" else os.path.basename(path)
    is_ours = path.startswith(BUILT + "/") or path == main
    if frame.module != module:
        return f"{frame} is not in {module}"
    if frame.function is None:
        return None if frame.offset == address else f"{frame} is not {module}+{address:#x}"
    if not os.path.exists(path):
        return None
    names = Symbols.of(path).names(address if is_exact else address - 1)
    if not names:  # stripped: another file gave the name
        return None
    if (frame.function, address - frame.offset) in names:
        return None
    return f"{frame} is none of {[f'{n}+{address - start:#x}' for n, start in names]}" if is_ours else \
        f"{frame} is none of {sorted(names)}"


def check_opinion(case, s, said, main, what):
    """Frame by frame against what the process itself said, from the caller of stack_alloc() on, to the end."""
    mine = list(said["frames"])
    # opinion() and stack_alloc(), the latter at another of its calls.
    theirs = s.frames[2:]
    if not case.check(str(s.frames[0]).startswith("cuMemAlloc_v2+0x0 ") if s.frames else False,
                      f"{what}: no driver function in front: {s.text()}"):
        return
    rest = mine[2:]
    total = s.count - 2
    if not case.check(total == len(rest),
                      f"{what}: {total + 2} frames, the process itself sees {len(rest) + 2}: {s.text()}"):
        return
    for frame, (path, address, is_exact) in zip(theirs, rest):
        if frame is None:  # the rest is only counted
            break
        why = frame_differs(frame, path, address, is_exact, main)
        case.check(why is None, f"{what}: {why}\n{s.text()}")


# ---- the daemon and what it says


class Watch:
    """A daemon whose records are found by bytes asked for."""

    def __init__(self, case, rules=RULES, config=CONFIG, options=(), **kw):
        self.case = case
        self.found = {}
        self.count = 0
        self.keys = 0
        self.daemon = case.daemon(*options, sink="json", rules=rules, config=config, **kw)

    def read(self):
        for line in self.daemon.lines():
            r = json.loads(line)
            self.count += 1
            if r.get("GPUXRAY_STATE") == "firing" and "GPUXRAY_BYTES" in r:
                self.found.setdefault(int(r["GPUXRAY_BYTES"]), []).append(r)

    def record(self, number, seconds=10):
        def look():
            self.read()
            return self.found.get(number)

        return h.poll(look, seconds, lambda: f"record of {number} bytes; there are {len(self.found)} others",
                      every=0.02)[0]

    def stack(self, number, seconds=10):
        return Stack(self.record(number, seconds))

    def key(self):
        """A number for one program, part of the bytes it asks for."""
        self.keys += 1
        return self.keys

    def start(self, path, *args, **kw):
        """A program that takes a key first; what it says is said of that key."""
        key = self.key()
        w = self.case.work(os.path.basename(path), key, *args, fake=os.path.dirname(path), **kw)
        w.key = key
        return w

    def failed(self, w, n=1, seconds=10):
        """The stack of its nth failed allocation."""
        return self.stack(FAIL_BYTES + (w.key << 20) + n, seconds)

    def stop(self):
        self.daemon.stop()
