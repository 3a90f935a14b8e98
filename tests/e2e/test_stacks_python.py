#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stacks of Python programs: each Python frame, in its place among the native ones, as the interpreter's own traceback
has it. With every CPython that can be had: the host's, those of pyenv (a shared library), and Debian's (one file)."""
import glob
import json
import os
import re
import shlex
import shutil

import harness as h
import stacks as s

HERE = h.TMP + "/py"  # short: 4 KiB hold more frames
FETCHED = os.environ.get("PYTHON_ROOTS") or h.ROOT + "/.build/python-roots"
PYENV = os.environ.get("PYENV_ROOT") or os.path.expanduser("~root") + "/.pyenv"
VERSIONS = ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14"]
HOST = "/usr/bin/python3"
INTERPRETER = re.compile(r"(lib)?python3?[^/]*$")


# ---- what is expected


def short(file):
    """As records show a file: what is below the last of these folders, else the whole path."""
    ends = [m.end() for m in re.finditer(r"(?:^|/)(?:site-packages|dist-packages|lib/python3\.\d+)/", file)]
    return file[ends[-1]:] if ends else file


def fits(want, got):
    """Equal, or less is known: "?" for a name, a file, a line."""
    return got == want or got == "? (?)" or got == re.sub(r":\d+\)$", ":?)", want)


def check_call(case, stack, want, what):
    """One allocation: Python frames, where native ones lie between them, and what must not be there."""
    what = f"{what}: {want['case']}"
    expected = [f"{name} ({short(file)}:{line})" for name, file, line in want["frames"]]
    shown = stack.frames[:stack.frames.index(None)] if None in stack.frames else stack.frames
    got = [str(f) for f in shown if f.is_python]
    if want.get("first") and not got:
        # Not known yet that this is Python, or gone before it could be seen: allowed, if it is said.
        case.check(stack.info, f"{what}: Python frames are missing, and nothing is said: {stack.text()}")
        return False
    is_unread = any(fits(e, g) and e != g for e, g in zip(expected, got))
    if is_unread and (want.get("first") or want.get("freed")):
        # What had ended before it was looked at has no names, but never others.
        case.check(stack.info, f"{what}: names or lines are missing, and nothing is said: {stack.text()}")
        expected = [g if fits(e, g) else e for e, g in zip(expected, got)] + expected[len(got):]
    elif want.get("cut"):
        case.check(stack.info, f"{what}: frames must be missing, and nothing is said")
        case.check(len(got) >= 20, f"{what}: only {len(got)} Python frames")
        expected = expected[:len(got)]
    else:
        case.check(stack.info is None, f"{what}: GPUXRAY_STACK_INFO is {stack.info!r}\n{stack.text()}")
        case.check(None not in stack.frames, f"{what}: {stack.more} frames are only counted")
    if not case.check(got == expected, f"{what}: Python frames are\n    " + "\n    ".join(got) + "\n  not\n    " +
                      "\n    ".join(expected) + f"\n  in\n{stack.text()}"):
        return True
    case.check(str(stack.frames[0]).startswith("cuMemAlloc_v2+0x0 "), f"{what}: innermost: {stack.frames[0]}")
    places = [i for i, f in enumerate(shown) if f.is_python]
    left = [str(f) for f in shown[places[0]:places[-1]] if not f.is_python and
            (INTERPRETER.match(f.module or "") or (f.function or "").startswith("_PyEval_"))]
    case.check(not left, f"{what}: the interpreter's own frames are left: {left} in\n{stack.text()}")
    python, between = 0, []
    for f in shown:
        python += f.is_python
        if f.function == "callback_call":
            between.append(python)
    case.equal(between, want.get("between", []),
               f"{what}: Python frames before each call of the library\n{stack.text()}")
    return not is_unread


def check_calls(case, w, path, what):
    """All that a script wrote down. Number of its allocations."""
    with open(path) as f:
        said = json.load(f)
    for want in said["calls"]:
        stack = w.stack(want["bytes"])
        whole = check_call(case, stack, want, what)
        if want.get("first"):
            h.comment(f"{what}: {want['case']}: {'complete' if whole else stack.info}")
        if len(case.problems) > 6:
            break
    return len(said["calls"])


# ---- interpreters


class Python:
    """command: its path, within root if there is one."""

    def __init__(self, label, command, root=None):
        self.label, self.command, self.root = label, command, root

    def wrap(self):
        if not self.root:
            return []
        return [*h.in_namespace(f"mkdir -p {self.root}{h.TMP}", f"mount --rbind {h.TMP} {self.root}{h.TMP}",
                                f"mount --bind /proc {self.root}/proc", f"mount --bind /dev {self.root}/dev"),
                "chroot", self.root]


def host_version():
    if not os.path.exists(HOST):
        return None
    return h.must(HOST, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()


def pyenv_python(version):
    found = sorted(glob.glob(f"{PYENV}/versions/{version}.*/bin/python{version}"))
    if not found:
        raise h.Skip(f"no Python {version} of pyenv in {PYENV}")
    return Python(f"{version}, shared", found[-1])


def debian_python(version):
    if version == host_version():
        raise h.Skip(f"{HOST} is {version}: tested above")
    r = h.run(h.ROOT + "/tests/python/fetch", FETCHED, version, timeout=80)
    if r.returncode:
        raise h.Skip(f"Python {' '.join(r.stderr.split()) or version + ': cannot be fetched'}")
    return Python(f"{version}, static", f"/usr/bin/python{version}", r.stdout.split()[1])


# ---- runs


# Its code is freed when the import is done: names must have been read by then.
IMPORTED = """import time

from oracle import hit


def at_import():
    hit("at import")


at_import()
time.sleep(0.5)
"""


def make_files():
    """The scripts, and packages in folders by which names are shortened."""
    if os.path.exists(HERE):
        return
    os.makedirs(HERE + "/package")
    for name in ("oracle.py", "cases.py", "way.py"):
        shutil.copy(f"{s.SOURCES}/{name}", HERE)
    for place in (HERE + "/package/module.py", HERE + "/caf\u00e9 \u6f22\u5b57.py"):
        shutil.copy(f"{s.SOURCES}/way.py", place)
    open(HERE + "/package/__init__.py", "w").close()
    site = HERE + "/lib/python3/dist-packages/lib/site-packages"
    os.makedirs(site + "/stacks_installed")
    open(site + "/stacks_installed/__init__.py", "w").close()
    with open(site + "/stacks_installed/module.py", "w") as f:
        f.write("def call(fn):\n    return fn()\n")
    os.makedirs(HERE + "/lib/python3.99")
    with open(HERE + "/lib/python3.99/stacks_imported.py", "w") as f:
        f.write(IMPORTED)
    s.shared_library("py/libcallback.so", "callback.c", "-pthread")


ENV = {"PYTHONPATH": f"{HERE}:{HERE}/lib/python3/dist-packages/lib/site-packages:{HERE}/lib/python3.99",
       "PYTHONDONTWRITEBYTECODE": "1"}


class Run:
    """A script under way, with the file it writes to."""

    def __init__(self, case, w, argv, *args, wrap=(), env=None):
        key = w.key()
        self.expected = f"{case.dir}/expected-{key}"
        command, *before = argv
        self.p = case.work(os.path.basename(command), *before, key, self.expected, h.LIBCUDA, *args, wrap=wrap,
                           fake=os.path.dirname(command), env={**ENV, **(env or {})})
        self.key = key
        self.w = w

    def wait_known(self, label="first", number=1):
        """Until its first allocation is resolved: from then on it is known that this is Python."""
        self.p.next(label)
        self.w.stack(s.FAIL_BYTES + (self.key << 20) + number)
        self.p.go()


def run_cases(case, python):
    make_files()
    w = s.Watch(case)
    r = Run(case, w, [python.command, HERE + "/cases.py"], s.BUILT + "/py/libcallback.so", wrap=python.wrap())
    r.wait_known()
    r.p.next("done")
    n = check_calls(case, w, r.expected, python.label)
    r.p.go()
    r.wait_known("child", 501)
    child = r.p.next("child done")
    n += check_calls(case, w, r.expected + ".child", f"{python.label}, forked child")
    if not python.root:
        case.equal(w.record(s.FAIL_BYTES + (r.key << 20) + 502)["GPUXRAY_PID"], str(child["pid"]), "pid of the child")
    r.p.go()
    r.p.next("end")
    r.p.end()
    h.comment(f"{python.label}: {n} allocations")
    w.stop()


def run_way(case, w, what, argv, **kw):
    r = Run(case, w, argv, **kw)
    r.wait_known()
    r.p.next("end")
    check_calls(case, w, r.expected, what)
    stack = w.stack(s.FAIL_BYTES + (r.key << 20) + 2)
    r.p.end()
    return stack


def run_ways(case, python):
    make_files()
    w = s.Watch(case)
    label, command, wrap = python.label, python.command, python.wrap()
    run_way(case, w, f"{label}: script", [command, HERE + "/way.py"], wrap=wrap)
    stack = run_way(case, w, f"{label}: -m", [command, "-m", "package.module"], wrap=wrap)
    case.check(any(f and f.file == "<frozen runpy>" or f and f.file == "runpy.py" for f in stack.frames),
               f"{label}: -m without runpy: {stack.text()}")
    run_way(case, w, f"{label}: non-ASCII name", [command, HERE + "/caf\u00e9 \u6f22\u5b57.py"], wrap=wrap,
            env={"PYTHONUTF8": "1"})
    if not python.root:  # chroot(1) takes no other name for what it runs
        run_way(case, w, f"{label}: by another name", [command, HERE + "/way.py"],
                wrap=["bash", "-c", 'exec -a trainer "$0" "$@"'])
    # What ends right after its call: names must have been read before, or it must be said that they were not.
    for mode, times in (("exit", 3), ("raise", 2), ("late", 2)):
        for _ in range(times):
            r = Run(case, w, [command, HERE + "/way.py"], mode, wrap=wrap)
            r.p.wait()
            check_calls(case, w, r.expected, f"{label}: {mode}")
    w.stop()


def embed(config, home):
    """A program with this Python in it, or Skip."""
    if not os.path.exists(config):
        raise h.Skip(f"no {config} (package python3-dev)")
    flags = shlex.split(h.must(config, "--includes"))
    libraries = shlex.split(h.must(config, "--embed", "--ldflags"))
    if not os.path.exists(f"{flags[0][2:]}/Python.h"):
        raise h.Skip(f"no {flags[0][2:]}/Python.h (package python3-dev)")
    return s.build(f"embed-{os.path.basename(home)}/embed", "embed.c", options=flags, driver=False,
                   libraries=[*libraries, f"-Wl,-rpath,{home}/lib", "-Wl,--no-as-needed"])


def run_embedded(case, label, config, home):
    path = embed(config, home)
    make_files()
    w = s.Watch(case)
    stack = run_way(case, w, f"{label}: embedded", [path, HERE + "/way.py"], env={"PYTHONHOME": home})
    names = [f.function for f in stack.frames if f]
    last = max((i for i, f in enumerate(stack.frames) if f and f.is_python), default=0)
    case.check(names[last + 1:].count("run_script") == 1 and "main" in names[last + 1:],
               f"{label}: the program's own frames are not below: {stack.text()}")
    w.stop()


# ---- tests


@h.test("stacks: Python of the host: cases")
def host_cases(case):
    if not os.path.exists(HOST):
        raise h.Failure(f"no {HOST}: that is no reason to skip")
    run_cases(case, Python(f"{HOST} ({host_version()})", HOST))


@h.test("stacks: Python of the host: ways to start")
def host_ways(case):
    run_ways(case, Python(f"{HOST} ({host_version()})", HOST))


@h.test("stacks: Python of the host: embedded in a program")
def host_embedded(case):
    run_embedded(case, HOST, HOST + "-config", "/usr")


def add(name, get, run):
    h.test(name)(lambda case: run(case, get()))


for v in VERSIONS:
    add(f"stacks: Python {v} of pyenv: cases", lambda v=v: pyenv_python(v), run_cases)
    add(f"stacks: Python {v} of pyenv: ways to start", lambda v=v: pyenv_python(v), run_ways)
    add(f"stacks: Python {v} of pyenv: embedded in a program", lambda v=v: pyenv_python(v).command,
        lambda case, command: run_embedded(case, command, command + "-config", command.rsplit("/bin/", 1)[0]))
for v in VERSIONS:
    add(f"stacks: Python {v} of Debian: cases", lambda v=v: debian_python(v), run_cases)
    add(f"stacks: Python {v} of Debian: ways to start", lambda v=v: debian_python(v), run_ways)

if __name__ == "__main__":
    h.main()
