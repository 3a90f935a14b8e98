# SPDX-License-Identifier: MIT
"""cases.py KEY EXPECTED LIBCUDA LIBCALLBACK: ways for Python to come to an allocation."""
import asyncio
import contextlib
import ctypes
import functools
import gc
import multiprocessing
import sys
import threading
import time

import oracle
from oracle import hit

lib = ctypes.CDLL(sys.argv[4])
kept = []  # code that must be there when its name is asked for
CALLBACK = ctypes.CFUNCTYPE(None)
lib.callback_call.argtypes = [CALLBACK]
lib.callback_thread.argtypes = [CALLBACK]


def nested():
    def inner():
        hit("nested")

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

        @classmethod
        def of_class(cls):
            hit("class method")

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

    def __init__(self, *args):
        hit("constructor")

    def __del__(self):
        hit("destructor")


def classes():
    Outer.Inner().method()
    Outer.Inner.static()
    Outer.Inner.of_class()
    Outer.Inner().value
    with Outer():
        hit("in with")
    sorted([Outer(), Outer()])

    class Body:
        hit("class body")


def recursion(n, case, **more):
    if n == 0:
        hit(case, **more)
    else:
        recursion(n - 1, case, **more)


def recursion_through_c(n):
    if n == 0:
        hit("recursion through C")
    else:
        list(map(recursion_through_c, [n - 1]))


def recursions():
    recursion(20, "recursion")
    recursion(100, "recursion, too deep", cut=True)
    recursion_through_c(10)


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

    @contextlib.contextmanager
    def managed():
        hit("context manager")
        yield

    with managed():
        pass


async def coroutine():
    await asyncio.sleep(0)
    hit("coroutine")


async def awaits():
    await coroutine()
    await asyncio.gather(coroutine(), coroutine())


def coroutines():
    asyncio.run(awaits())


def through_c():
    list(map(lambda x: hit("lambda in map"), [1]))
    sorted([2, 1], key=lambda x: hit("key of sorted") or x)
    list(map(lambda x: list(map(lambda y: hit("map in map"), [1])), [1]))
    functools.partial(hit, "partial")()
    functools.reduce(lambda a, b: hit("reduce"), [1, 2])
    hit("lock held", dll=oracle.held)
    kept.append(compile("\n\nhit('exec')\n", "<string>", "exec"))
    exec(kept[-1], {"hit": hit})
    eval("hit('code that is freed', freed=True)")


def reuse():
    """Code after code at one place in memory, all from line 1: what is remembered of one is not true of the next."""
    for i in range(6):
        source = "\\\n" * (i % 2) + "hit('address used again', freed=True); time.sleep(0.1)\n"
        exec(compile(source, "/reused/%d.py" % i, "exec"), {"hit": hit, "time": time})
        gc.collect()


def called(case, **more):
    hit(case, **more)


def callbacks():
    lib.callback_call(CALLBACK(lambda: hit("callback", between=[2])))
    lib.callback_call(CALLBACK(lambda: called("callback, two frames", between=[3])))
    inside = CALLBACK(lambda: hit("callback in callback", between=[2, 3]))
    lib.callback_call(CALLBACK(lambda: lib.callback_call(inside)))
    lib.callback_call(CALLBACK(lambda: hit("callback, lock held", dll=oracle.held, between=[2])))
    lib.callback_call(CALLBACK(lambda: list(map(lambda x: hit("map in callback", between=[3]), [1]))))
    lib.callback_thread(CALLBACK(lambda: hit("in a thread of C's", between=[2])))


def lines():
    hit(
        "call over lines",
        **dict(
            cut=False,
        )
    )
    (hit
     ("odd call"))
    called("arguments") if True else called(
        "never")
    try:
        raise ValueError
    except ValueError:
        hit("except")
    finally:
        hit("finally")
    for _ in range(2):
        hit("loop"); hit("loop, again")
    x = [hit("a"),
         hit("b"),

         hit("c")]
    hit("long line" if x else
        "no")


def threads():
    def work(case):
        for _ in range(3):
            hit(case)

    def work_callback():
        lib.callback_call(CALLBACK(lambda: hit("callback in thread", between=[2])))

    some = [threading.Thread(target=work, args=["thread"]) for _ in range(4)] + [threading.Thread(target=work_callback)]
    for t in some:
        t.start()
    for t in some:
        t.join()


def installed():
    """Files in the places that names are shortened by."""
    import stacks_installed.module

    stacks_installed.module.call(lambda: hit("in site-packages"))
    import stacks_imported  # noqa: F401


def in_child():
    del oracle.expected[:]
    oracle.last = 500
    hit("forked, first", first=True)
    oracle.ask("child")
    hit("forked")
    nested()
    recursion(5, "forked, recursion")
    threads()
    oracle.write(".child")
    oracle.ask("child done")


def forked():
    p = multiprocessing.get_context("fork").Process(target=in_child)
    p.start()
    p.join()
    if p.exitcode:
        sys.exit("the child failed")


def main():
    hit("first", first=True)
    oracle.ask("first")
    for case in (nested, classes, recursions, generators, coroutines, through_c, reuse, callbacks, lines, threads,
                 installed):
        case()
    oracle.write()
    oracle.ask("done")
    forked()
    oracle.ask("end")


main()
