# SPDX-License-Identifier: MIT
"""cases.py STANDIN EXPECTED: makes calls in every way Python can, and writes down what the interpreter itself says."""
import asyncio
import ctypes
import gc
import json
import os
import sys
import threading
import traceback

lib = ctypes.CDLL(sys.argv[1])  # releases the interpreter lock around calls
held = ctypes.PyDLL(sys.argv[1])  # keeps it
for dll in (lib, held):
    dll.standin_alloc.argtypes = [ctypes.c_uint64]
    dll.standin_evals.argtypes = [ctypes.POINTER(ctypes.c_uint64), ctypes.c_int]
CALLBACK = ctypes.CFUNCTYPE(None)
lib.standin_thread.argtypes = [ctypes.c_uint64, CALLBACK]

expected = []
kept = []  # code objects that must be there when their names are asked for
lock = threading.Lock()
last = 0
process = 0  # the first; its child is 1


def ask(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
    if sys.stdin.readline() != "go\n":
        sys.exit("no answer to " + line)


def number():
    global last
    with lock:
        last += 1
        return last


def evals():
    pairs = (ctypes.c_uint64 * 512)()
    n = held.standin_evals(pairs, 256)
    return [[pairs[2 * i], pairs[2 * i + 1]] for i in range(n)]


def frames_here():
    """The caller's stack, innermost first, as traceback.extract_stack has it but with qualified names."""
    found = []
    for frame, line in traceback.walk_stack(sys._getframe(1)):
        code = frame.f_code
        found.append([getattr(code, "co_qualname", code.co_name), os.fsencode(code.co_filename).hex(), line])
    summary = traceback.extract_stack(sys._getframe(1))
    assert [(f.lineno, f.name) for f in reversed(summary)] == [
        (line, frame.f_code.co_name) for frame, line in traceback.walk_stack(sys._getframe(1))]
    return found


def note(case, arg, where, frames, **more):
    with lock:
        expected.append(dict(case=case, process=process, arg=arg, evals=where, frames=frames, **more))


# In one expression, so that the innermost frame is on one line for both.
def hit(case, dll=lib, **more):
    arg = number()
    note(case, dll.standin_alloc(arg) and arg, evals(), frames_here(), **more)


def run(source, file="<string>"):
    code = compile(source, file, "exec")
    names = {"hit": hit, "__name__": "run"}
    kept.append((code, names))
    exec(code, names)
    return names


def plain():
    def inner():
        hit("plain")

    def outer():
        inner()

    outer()


class Outer:
    class Inner:
        def method(self):
            hit("method")

        @staticmethod
        def static():
            hit("static method")

        @property
        def value(self):
            hit("property")
            return 1

    def __enter__(self):
        hit("with, enter")
        return self

    def __exit__(self, *args):
        hit("with, exit")

    def __lt__(self, other):
        hit("comparison from C")
        return False


def classes():
    Outer.Inner().method()
    Outer.Inner.static()
    Outer.Inner().value
    with Outer():
        hit("in with")
    sorted([Outer(), Outer()])

    class Body:
        hit("class body")


def generators():
    def leaf():
        yield 1
        hit("generator")
        yield 2

    def middle():
        yield from leaf()

    for _ in middle():
        pass
    list(middle())
    next(x for x in range(1) if not hit("generator expression"))
    [hit("list comprehension") for _ in range(1)]

    async def coroutine():
        await asyncio.sleep(0)
        hit("coroutine")

    async def outer():
        await coroutine()

    asyncio.run(outer())


def callbacks():
    list(map(lambda x: hit("lambda in map"), [1]))
    sorted([2, 1], key=lambda x: hit("key of sorted") or x)
    list(map(lambda x: list(map(lambda y: hit("map in map"), [1])), [1]))
    CALLBACK(lambda: hit("callback from C"))()
    list(map(lambda x: hit("callback, lock held", dll=held), [1]))
    run("\n\nhit('exec')\n")


def lines():
    hit(
        "call over lines",
        **dict(
            a=1,
        )
    )
    (hit
     ("odd call"))
    try:
        raise ValueError
    except ValueError:
        hit("except")
    finally:
        hit("finally")
    for _ in range(2):
        hit("loop"); hit("loop, again")
    if True: hit("one line")
    x = [hit("a"),
         hit("b"),

         hit("c")]
    hit("long line" if x else
        "no")


# A long function: deltas of lines and instructions that do not fit one byte.
LONG = "def long():\n" + "".join("    x%d = %d\n" % (i, i) for i in range(400)) + "\n" * 300 + \
    "    hit('long function')\n" + "\n" * 1000 + "    if x1:\n        hit('long function, end')\n"


def long_function():
    run(LONG, "long.py")["long"]()
    source = "def back(\n    a=1):\n    return [\n" + "\n" * 200 + "        hit('backwards') for _ in [1]\n    ][0]\n"
    run(source, "back.py")["back"]()


def recursion(n, case):
    if n == 0:
        hit(case)
    else:
        recursion(n - 1, case)


def recursion_through_c(n):
    if n == 0:
        hit("recursion through C")
    else:
        list(map(recursion_through_c, [n - 1]))


def depth():
    return len(list(traceback.walk_stack(sys._getframe(1))))


def recursions():
    recursion(200, "recursion")
    # hit() and recursion(0) are two more than the count says.
    recursion(64 - 2 - depth(), "64 frames")
    recursion(64 - 1 - depth(), "65 frames")
    recursion_through_c(60)


def names():
    for i, file in enumerate(["plain.py", "caf\u00e9.py", "\u6f22\u5b57.py", "\U0001f600.py", "raw\udcff\udc80.py",
                              "a b|c\\d\n.py", "x" * 3000 + ".py"]):
        source = "def f%d(): hit('file name %d')\n" % (i, i)
        source += "class C:\n  def m\u00e9thode(self): f%d()\nC().m\u00e9thode()\n" % i
        run(source, file)
    run("def \u6f22\u5b57(): hit('name UCS2')\n\u6f22\u5b57()")
    run("def \U00020000(): hit('name UCS4')\n\U00020000()")


def traced():
    sys.settrace(lambda *args: None)
    hit("traced")
    sys.settrace(None)


def threads():
    ready, go = threading.Barrier(301), threading.Event()

    def wait():
        ready.wait()
        go.wait()

    def work(case):
        for _ in range(3):
            hit(case)

    first = threading.Thread(target=work, args=["thread"])
    first.start()
    first.join()
    many = [threading.Thread(target=wait) for _ in range(300)]
    for t in many:
        t.start()
    ready.wait()
    hit("main among 300 threads")
    crowd = [threading.Thread(target=work, args=["thread among 300"]) for _ in range(10)]
    for t in crowd:
        t.start()
    for t in crowd:
        t.join()
    go.set()
    for t in many:
        t.join()
    hit("main after threads")


def foreign_thread():
    arg = number()
    for _ in range(2):
        number()
    for i in range(3):
        note("thread without Python", arg + i, [], [], no_thread=True)
    lib.standin_thread(arg, CALLBACK(lambda: hit("Python in a foreign thread")))


def sub_interpreters():
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    others = [interpreters.create() for _ in range(3)]
    plain()
    thread = threading.Thread(target=hit, args=["thread, with sub-interpreters"])
    thread.start()
    thread.join()
    foreign_thread()
    for i in others:
        interpreters.destroy(i)


def freed():
    """The code objects are gone, and others at their place, when their names are asked for."""
    for i in range(50):
        names = {"hit": hit}
        exec(compile("\n" * (100 * i) + "def gone%d(): hit('freed', freed=1)\n" % i, "gone.py", "exec"), names)
        names["gone%d" % i]()
        names.clear()
        gc.collect()
    keep = []
    for i in range(2000):
        names = {}
        exec(compile("\n" * (7 * i + 3) + "def other%d(): hit('other')\n" % i, "other.py", "exec"), names)
        keep.append(names)
    ask("drain")


def reused():
    """Code after code at one place in memory, all from line 1, each named while it is there."""
    for i in range(40):
        source = "\\\n" * (i % 3) + "hit('address used again'); ask('drain')\n"
        kept.append("reused%d.py" % i)
        exec(compile(source, kept[-1], "exec"), {"hit": hit, "ask": ask})
        gc.collect()


def chased():
    """Code that is freed, and its memory used again, while its names are being read."""
    names = {"alloc": lib.standin_alloc}
    ask("follow")
    for i in range(1500):
        arg, name, file = number(), "chased%d" % i, "chased%d%s.py" % (i, "x" * (i % 97))
        exec(compile("\n" * i + "def %s():\n%s  return alloc(%d)\n" % (name, "\n" * (i % 7), arg), file, "exec"), names)
        frame = [name, os.fsencode(file).hex(), i + i % 7 + 2]
        # One line, as above. Where the loops are is not asked: that takes time in which the code would be there.
        note("freed while it is read", arg, None, [frame] + frames_here(), freed=0); names.pop(name)()
    ask("drain")


def forked():
    pid = os.fork()
    if pid == 0:
        global process
        process = 1
        del expected[:]
        number()
        hit("forked, not looked at yet", unknown=True)
        ask("ready")
        for case in (plain, threads):
            case()
        ask("drain")
        with open(sys.argv[2] + ".forked", "w") as f:
            json.dump(expected, f)
        os._exit(0)
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit("the forked child failed")
    with open(sys.argv[2] + ".forked") as f:
        expected.extend(json.load(f))
    os.unlink(sys.argv[2] + ".forked")


def main():
    hit("not looked at yet", unknown=True)
    ask("ready")
    for case in (plain, classes, generators, callbacks, lines, long_function, recursions, names, traced, threads,
                 foreign_thread, sub_interpreters):
        case()
    hit("lock held", dll=held)
    ask("drain")
    freed()
    reused()
    chased()
    forked()
    plain()
    ask("drain")
    with open(sys.argv[2], "w") as f:
        json.dump(dict(version=sys.hexversion, calls=expected), f)


main()
