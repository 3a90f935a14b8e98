#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stacks of C and C++ programs without frame pointers: every frame, with its name, down to where the thread began."""
import os
import re
import shutil

import harness as h
import stacks as s

ALLOC = ["cuMemAlloc_v2", "stack_alloc"]
ALLOC_ONLY = ["cuMemAlloc_v2", "stack_alloc_only"]
CHAIN_C = [*ALLOC, "chain_c"]
CHAIN_B = [*CHAIN_C, "chain_b"]
MAIN = ["run", "main", *s.START]


def native(name="gcc/native", **kw):
    return s.c_program(name, "native.c", **kw)


def finish(p):
    p.next("done")
    p.end()


def run_case(case, w, path, name, chain, *options, n=1, **kw):
    """Runs a case of native.c; its nth stack must be the chain, and what the process itself says. The stack."""
    p = w.start(path, name, *options, **kw)
    said = [p.next("stack") for _ in range(n)][-1]
    stack = w.failed(p, n)
    what = f"{os.path.relpath(path, s.BUILT)} {name}"
    s.check_chain(case, stack, chain, what)
    s.check_opinion(case, stack, said, path, what)
    finish(p)
    return stack


@h.test("stacks: a plain C chain, by gcc and by clang, at fixed addresses or not")
def plain(case):
    w = s.Watch(case)
    for name, cc, options in (("gcc/native", "gcc", []), ("clang/native", "clang", []),
                              ("fixed/native", "gcc", ["-no-pie"]), ("o3/native", "gcc", ["-O3", "-fno-plt"])):
        run_case(case, w, native(name, cc=cc, options=options), "chain", [*CHAIN_B, "chain_a", *MAIN])
    w.stop()


@h.test("stacks: 250 frames of recursion are all counted")
def recursion(case):
    w = s.Watch(case)
    p = w.start(native(), "recursion")
    said = p.next("stack")
    stack = w.failed(p)
    want = 3 + 250 + len(MAIN)
    case.equal(len(said["frames"]), want, "frames that the process itself sees")
    case.equal(stack.count, want, f"frames, {stack.more} of them only counted")
    case.check(stack.more > 0, "nothing was left out of 4 KiB")
    case.equal(stack.info, None, "GPUXRAY_STACK_INFO of a complete stack")
    s.check_chain(case, stack, [*CHAIN_C, *["down"] * 40], "recursion", is_whole=False)
    s.check_opinion(case, stack, said, native(), "recursion")
    finish(p)
    w.stop()


@h.test("stacks: through glibc: qsort, pthread_once, printf")
def callbacks(case):
    w = s.Watch(case)
    for name, function, glibc in (("qsort", "compare", 2), ("once", "init_once", 1), ("printf", "print_it", 2)):
        p = w.start(native(), name)
        said = p.next("stack")
        stack = w.failed(p)
        # How many frames glibc has in the middle is its own affair: the process itself says it.
        s.check_chain(case, stack, [*CHAIN_C, function, *[s.LIBC] * glibc], name, is_whole=False)
        case.equal([x.function for x in stack.frames[-6:-3]], [f"case_{name}", "run", "main"], f"{name}: before main")
        case.equal(stack.info, None, f"{name}: GPUXRAY_STACK_INFO")
        s.check_opinion(case, stack, said, native(), name)
        finish(p)
    w.stop()


@h.test("stacks: an allocation in a signal handler, and what it interrupted")
def signal_handler(case):
    w = s.Watch(case)
    run_case(case, w, native(), "signal",
             [*CHAIN_C, "on_signal", s.LIBC, "interrupted", "with_signal", "case_signal", *MAIN])
    w.stop()


@h.test("stacks: a signal handler on a stack of its own says what is missing, or is complete")
def alternate_stack(case):
    w = s.Watch(case)
    p = w.start(native(), "altstack")
    p.next("stack")
    stack = w.failed(p)
    s.check_chain(case, stack, [*CHAIN_C, "on_signal", s.LIBC], "altstack", is_whole=False)
    whole = [x.function for x in stack.frames if x][-5:-3] == ["run", "main"]
    case.check(whole or stack.info, f"cut without a word: {stack.text()}")
    h.comment(f"handler's own stack: {'complete' if whole else stack.info}")
    finish(p)
    w.stop()


@h.test("stacks: a coroutine on a stack of its own (makecontext) is complete, or says why not")
def coroutine(case):
    w = s.Watch(case)
    p = w.start(native(), "coroutine")
    said = p.next("stack")
    stack = w.failed(p)
    s.check_chain(case, stack, [*CHAIN_C, "in_coroutine", "coroutine_main"], "coroutine", is_whole=False)
    case.check(stack.info or stack.count == len(said["frames"]), f"cut without a word: {stack.text()}")
    case.check(not any(x and x.function == "main" for x in stack.frames), f"not its caller: {stack.text()}")
    h.comment(f"coroutine: {stack.info or 'complete'}")
    finish(p)
    w.stop()


@h.test("stacks: a frame of 100 KB: what lies behind the copy is said to be missing")
def large_frame(case):
    w = s.Watch(case)
    p = w.start(native(), "large")
    p.next("stack")
    stack = w.failed(p)
    s.check_chain(case, stack, [*CHAIN_C, "large_frame"], "large", is_whole=False)
    if not case.check(stack.info, f"nothing is said: {stack.text()}"):
        return
    h.comment(f"large frame: {stack.info}")
    case.check(not any(x and x.function in ("main", "run") for x in stack.frames),
               f"frames from beyond: {stack.text()}")
    finish(p)
    w.stop()


@h.test("stacks: frames whose size is known at run time alone")
def variable_frames(case):
    w = s.Watch(case)
    for name, cc in (("gcc/native", "gcc"), ("clang/native", "clang")):
        run_case(case, w, native(name, cc=cc), "variable",
                 [*CHAIN_B, "chain_a", *["variable_frame"] * 4, "case_variable", *MAIN])
    w.stop()


@h.test("stacks: a thread, a forked child, a child forked by a thread", exclusive=True)
def threads(case):
    w = s.Watch(case)
    thread = ["thread_main", *s.THREAD]
    run_case(case, w, native(), "thread", [*CHAIN_B, "in_thread", *thread])
    for name, chain in (("fork", [*CHAIN_B, "case_fork", *MAIN]),
                        ("thread-fork", [*CHAIN_B, "case_fork", "in_thread_fork", *thread])):
        p = w.start(native(), name)
        said = p.next("stack")
        stack = w.failed(p)
        case.check(stack.record["GPUXRAY_PID"] != str(p.pid), f"{name}: the record names the parent")
        s.check_chain(case, stack, chain, name)
        s.check_opinion(case, stack, said, native(), name)
        p.go()
        finish(p)
    w.stop()


# ---- C++


@h.test("stacks: C++: exceptions on the way, in a handler, in a destructor while one flies; std::function")
def exceptions(case):
    w = s.Watch(case)
    for cc in ("g++", "clang++"):
        path = s.c_program(f"{cc}/throws", "throws.cc", cc=cc)
        p = w.start(path)
        chains = [
            [*ALLOC, *["app::Worker::run"] * 3, "app::in_template<long>", "main", *s.START],
            [*ALLOC, "app::in_handler", "main", *s.START],
            [*ALLOC, "app::Allocates::~Allocates", "app::while_unwinding"],
            [*ALLOC, r".*(_M_invoke|main::\$_0)", "app::call_function", "main", *s.START],
        ]
        for n, chain in enumerate(chains, 1):
            said = p.next("stack")
            stack = w.failed(p, n)
            what = f"{cc}, allocation {n}"
            s.check_chain(case, stack, chain, what, is_whole=n != 3)
            case.equal(stack.info, None, f"{what}: GPUXRAY_STACK_INFO")
            case.equal([x.function for x in stack.frames if x][-4:][0], "main", f"{what}: {stack.text()}")
            s.check_opinion(case, stack, said, path, what)
        finish(p)
    w.stop()


@h.test("stacks: C++ without exceptions: tables are there for others all the same")
def no_exceptions(case):
    w = s.Watch(case)
    for cc in ("g++", "clang++"):
        path = s.c_program(f"{cc}/plain", "plain.cc", cc=cc,
                           options=["-fno-exceptions", "-fasynchronous-unwind-tables"])
        p = w.start(path)
        said = p.next("stack")
        stack = w.failed(p)
        s.check_chain(case, stack, [*ALLOC, *["app::Node::walk"] * 3, "app::repeat<7>", "main",
                                    *s.START], cc)
        s.check_opinion(case, stack, said, path, cc)
        finish(p)
    w.stop()


# ---- files that hold less


def through(folder, *library_options):
    """through.c with its library in this folder, for tests to take something out of."""
    library = s.shared_library(f"{folder}/libmiddle.so", "library.c", *library_options)
    return s.c_program(f"{folder}/through", "through.c", options=[f"-L{s.BUILT}/{folder}"],
                       libraries=["-l:libmiddle.so", f"-Wl,-rpath,{s.BUILT}/{folder}"]), library


@h.test("stacks: through a stripped library, and of a stripped program: module and address")
def stripped(case):
    path, library = through("stripped")
    h.must("strip", library)
    w = s.Watch(case)
    p = w.start(path)
    said = p.next("stack")
    # library_call() is exported, library_inner() has lost its name.
    s.check_chain(case, w.failed(p, 1), [*ALLOC_ONLY, "callback", r"libmiddle\.so\+0x[0-9a-f]+$", "library_call",
                                         "before_library", "main", *s.START], "stripped library")
    s.check_opinion(case, w.failed(p, 2), said, path, "stripped library")
    finish(p)
    bare = s.copy_of(path, "bare/through")
    h.must("strip", bare)
    p = w.start(bare)
    said = p.next("stack")
    own = r"through\+0x[0-9a-f]+$"
    stack = w.failed(p, 1)
    s.check_chain(case, stack, ["cuMemAlloc_v2", own, own, r"libmiddle\.so\+0x[0-9a-f]+$", "library_call", own, own,
                                s.LIBC, s.LIBC, own], "stripped program")
    s.check_opinion(case, w.failed(p, 2), said, bare, "stripped program")
    # The addresses are those that addr2line takes: the unstripped file has the names.
    names = [[n for n, _ in s.Symbols.of(path).names(x.offset - 1)] for x in stack.frames if x.module == "through"]
    case.equal(names, [[n] for n in ("stack_alloc_only", "callback", "before_library", "main", "_start")], "by address")
    finish(p)
    w.stop()


@h.test("stacks: a library without unwind information: the rest is right, or said to be missing")
def no_unwind_info(case):
    w = s.Watch(case)
    none = ["-nostdlib", "-Wl,--no-ld-generated-unwind-info"]
    # With the C library's start files there is a table, but of others; without them there is none at all.
    for folder, options in (("nounwind", none), ("nounwind-others", []),
                            ("nounwind-fp", [*none, "-fno-omit-frame-pointer"])):
        path, library = through(folder, "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-fno-stack-protector",
                                *options)
        has_table = ".eh_frame" in h.must("readelf", "-SW", library)
        case.equal(has_table, folder == "nounwind-others", f"{folder}: .eh_frame")
        p = w.start(path)
        p.next("done")
        stack = w.failed(p, 1)
        s.check_chain(case, stack, [*ALLOC_ONLY, "callback", "library_inner"], folder, is_whole=False)
        functions = [x.function for x in stack.frames if x]
        whole = functions[3:7] == ["library_inner", "library_call", "before_library", "main"]
        # Without frame pointers nothing can lead on: a guess that went wrong must not look like a stack.
        case.check(whole or len(functions) <= 5, f"{folder}: frames from a wrong guess: {stack.text()}")
        case.check(stack.info and "libmiddle.so" in stack.info or whole and folder == "nounwind-fp",
                   f"{folder}: the library is not named: {stack.text()}")
        h.comment(f"{folder}: {len(functions)} frames, info: {stack.info}")
        p.end()
    w.stop()


def split(folder):
    """native.c without symbols, and its debug file."""
    full = native("debug/native", options=["-g"])
    path = s.copy_of(full, folder + "/native")
    debug = s.BUILT + f"/{folder}/native.debug"
    h.must("objcopy", "--only-keep-debug", full, debug)
    h.must("strip", path)
    note = h.must("readelf", "-n", path)
    return path, debug, re.search(r"Build ID: ([0-9a-f]+)", note)[1]


def make_root(case, path):
    """A folder that can be a process's root: the program with all it needs to run."""
    root = case.path("root")
    needed = re.findall(r"(/\S+) \(0x", h.must("ldd", path))
    for f in [path, *needed]:
        os.makedirs(root + os.path.dirname(f), exist_ok=True)
        try:
            os.link(os.path.realpath(f), root + f)  # the stand-in: its inode is what is probed
        except OSError:
            shutil.copy2(f, root + f)
    os.makedirs(root + "/proc")
    return root


@h.test("stacks: names of a stripped program from a debug file in its own root, by build id")
def debug_file(case):
    path, debug, build_id = split("split")
    root = make_root(case, path)
    place = f"{root}/usr/lib/debug/.build-id/{build_id[:2]}"
    os.makedirs(place)
    shutil.copy2(debug, f"{place}/{build_id[2:]}.debug")
    os.unlink(debug)
    w = s.Watch(case)
    p = w.start(path, "chain", wrap=[*h.in_namespace(f"mount --bind /proc {root}/proc"), "chroot", root])
    p.next("stack")
    stack = w.failed(p)
    s.check_chain(case, stack, [*CHAIN_B, "chain_a", *MAIN], "debug file")
    lines = [(x.function, x.file) for x in stack.frames if x and x.module == "native" and x.function != "_start"]
    own = ("chain_c", "chain_b", "chain_a", "run", "main")
    case.equal(lines, [("stack_alloc", "stack.c"), *[(f, "native.c") for f in own]], "files")
    finish(p)
    w.stop()


@h.test("stacks: source lines where there is debug information: as addr2line has them")
def source_lines(case):
    for name, options in (("g5/native", ["-g"]), ("g4/native", ["-g", "-gdwarf-4"]), ("gz/native", ["-g", "-gz"])):
        path = native(name, options=options)
        w = s.Watch(case)
        p = w.start(path, "chain")
        said = p.next("stack")
        stack = w.failed(p)
        s.check_opinion(case, stack, said, path, name)
        for frame, (module, address, _) in zip(stack.frames[2:], said["frames"][2:]):
            if module:
                continue
            want = h.must("addr2line", "-e", path, hex(address - 1)).split(" ")[0].strip()
            m = re.fullmatch(r".*/(\S+):(\d+)", want)
            got = (frame.file, frame.line)
            case.equal(got, (m[1], int(m[2])) if m else (None, None), f"{name}: line of {frame}")
        case.equal(stack.frames[4].file, "native.c", f"{name}: {stack.text()}")
        finish(p)
        w.stop()


# ---- programs that are hard to read


@h.test("stacks: code made at run time: its frame has an address, its caller a name")
def jit(case):
    w = s.Watch(case)
    p = w.start(s.c_program("gcc/jit", "jit.c"))
    p.next("done")
    stack = w.failed(p)
    anonymous = r"(0x|\[|anon|//anon)[^ ]*$"
    s.check_chain(case, stack, [*ALLOC_ONLY, "called_by_jit", anonymous], "jit", is_whole=False)
    functions = [x.function for x in stack.frames if x]
    case.check(functions[4:6] == ["calls_jit", "main"] or stack.info, f"cut without a word: {stack.text()}")
    h.comment(f"jit: {len(functions)} frames, info: {stack.info}")
    p.end()
    w.stop()


@h.test("stacks: a static program that has the driver's functions itself")
def static(case):
    path = s.build("static/fixed", "fixed.c", "stack.c", options=["-static"], driver=False)
    w = s.Watch(case, library=path)
    p = w.start(path)
    said = p.next("stack")
    stack = w.failed(p)
    # All of it is in one file: no C library on the way.
    s.check_chain(case, stack, [*ALLOC, "inner", "outer", "main", "__libc_start_call_main",
                                "(__libc_start_main|__libc_start_main_impl)[+]", "_start"],
                  "static")
    s.check_opinion(case, stack, said, path, "static")
    finish(p)
    w.stop()


@h.test("stacks: a program in a mount and a pid namespace of its own, out of the host's sight", exclusive=True)
def namespaces(case):
    path = native()
    hidden = "/mnt/native"
    w = s.Watch(case)
    wrap = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
            "sh", "-c", f'mount -t tmpfs tmpfs /mnt && cp {path} {hidden} && shift && exec {hidden} "$@"', "sh"]
    p = w.start(path, "chain", wrap=wrap)
    said = p.next("stack")
    case.check(not os.path.exists(hidden), "the host sees the program: the test is void")
    stack = w.failed(p)
    s.check_chain(case, stack, [*CHAIN_B, "chain_a", *MAIN], "namespaces")
    s.check_opinion(case, stack, said, path, "namespaces")
    case.equal(p.next("done")["pid"], 1, "pid in its own namespace")
    case.check(stack.record["GPUXRAY_PID"] != "1", "the record has the pid of the namespace")
    p.end()
    w.stop()


@h.test("stacks: a program whose file was removed after its start")
def removed(case):
    path = s.copy_of(native(), "removed/native")
    w = s.Watch(case)
    p = w.start(path, "chain", "unlink")
    p.next("stack")
    stack = w.failed(p)
    case.check(not os.path.exists(path), "the file is still there: the test is void")
    s.check_chain(case, stack, [*CHAIN_B, "chain_a", *MAIN], "removed")
    case.check("deleted" not in stack.text(), f"module: {stack.text()}")
    finish(p)
    w.stop()


@h.test("stacks: a process that ends right after its failure has names all the same")
def at_once(case):
    w = s.Watch(case)
    chain = [*CHAIN_B, "chain_a", *MAIN]
    for i, p in enumerate([w.start(native(), "chain", "exit-late") for _ in range(10)]):
        s.check_chain(case, w.failed(p), chain, f"process {i + 1}")
        p.end()
        if case.problems:
            break
    # One that lives for less than a millisecond may be gone before anybody could look: then that is said.
    whole = 0
    for i in range(10):
        p = w.start(native(), "chain", "exit")
        stack = w.failed(p)
        whole += stack.info is None
        if stack.info is None:
            s.check_chain(case, stack, chain, f"short-lived process {i + 1}")
        p.end()
    h.comment(f"{whole} of 10 short-lived processes have whole stacks")
    w.stop()


# ---- which call site it is


@h.test("stacks: a call site has one id, in every run, at every address, in every folder; two callers have two")
def identity(case):
    path = native()
    w = s.Watch(case)
    ids = {}
    for what, at, wrap in (("first", path, []), ("again", path, []),
                           ("fixed addresses", path, ["setarch", os.uname().machine, "-R"]),
                           ("elsewhere", s.copy_of(path, "elsewhere/native"), []),
                           ("other name", s.copy_of(path, "elsewhere/another-name"), [])):
        p = w.start(at, "callers", wrap=wrap)
        p.next("done")
        ids[what] = [w.failed(p, n).id for n in (1, 2)]
        p.end()
    first = ids["first"]
    case.check(all(re.fullmatch("[0-9a-f]{16}", x or "") for x in first), f"ids: {first}")
    case.check(first[0] != first[1], "two callers have one id")
    for what, got in ids.items():
        case.equal(got, first, f"ids, {what}")
    w2 = s.Watch(case, options=["--socket", case.path("other.sock")], wait=False)
    h.poll(lambda: os.path.exists(case.path("other.sock")), 20, "the second daemon")
    p = w2.start(path, "callers")
    p.next("done")
    case.equal([w2.failed(p, n).id for n in (1, 2)], first, "ids of another daemon")
    p.end()
    w2.stop()
    w.stop()


@h.test("stacks: sixteen chains alike behind one call, in random order: each record shows its own")
def sites(case):
    times = 200
    path = s.c_program("gcc/sites", "sites.c")
    w = s.Watch(case)
    p = w.start(path, times)
    want = 16 * times
    base = s.LARGE_BYTES + (p.key << 20)

    def all_there():
        w.read()
        return sum(base <= b < base + (1 << 20) for b in w.found) >= want

    h.poll(all_there, 60, lambda: f"{want} records; there are {sum(base <= b < base + (1 << 20) for b in w.found)}")
    finish(p)
    ids, wrong, without = {}, [], 0
    for number, records in w.found.items():
        if not base <= number < base + (1 << 20):
            continue
        chain = f"{number & 15:x}"
        stack = s.Stack(records[0])
        names = [x.function for x in stack.frames if x]
        if not names:
            without += 1
            continue
        own = ["cuMemAlloc_v2", "stack_alloc_number", f"chain_{chain}_b", f"chain_{chain}_a", "dispatch", "main"]
        if names[:6] != own or len(names) != 9 or stack.info:
            wrong.append(f"chain {chain}: {stack.text()}")
        ids.setdefault(chain, set()).add(stack.id)
    case.equal(len(wrong), 0, f"records with another's chain, such as {wrong[:2]}")
    # One that is late, where others keep the processors busy, is left out of its record; never another's in its place.
    h.comment(f"{without} of {want} records without a stack")
    case.check(without <= want // 4, f"{without} of {want} records without a stack")
    case.check(len(ids) == 16 and all(len(x) == 1 for x in ids.values()), f"ids of each chain: {ids}")
    case.equal(len(set.union(*ids.values())), 16, "ids in all")
    w.stop()


if __name__ == "__main__":
    h.main()
