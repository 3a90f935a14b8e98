# SPDX-License-Identifier: MIT
"""Programs that look for mistakes, file by file, as many at a time as there are processors."""
import concurrent.futures
import hashlib
import os
import re
import shutil
import subprocess
import tempfile

import tree

BUILD = os.environ.get("O") or ".build"
KEPT = BUILD + "/lint"
IS_QUICK = os.environ.get("LINT") == "quick"
TIMEOUT = 600
C_FLAGS = ["-D_GNU_SOURCE", '-DGPUXRAY_VERSION="lint"', "-Isrc", "-I.", "-Itests/unit", "-Itests/leak"]
BPF_FLAGS = ["-target", "bpf", "-D__BPF__", "-D__TARGET_ARCH_x86", "-Ibpf", "-I/usr/include/x86_64-linux-gnu"]
# What cppcheck 2.10 gets wrong in this code:
CPPCHECK_OFF = [
    "memleak", "resourceLeak",  # it does not know the cleanup attribute
    "zerodivcond",  # it takes the number that is divided for the divisor
    "selfAssignment",  # it reads a ?: b as a ? a : a
    "arrayIndexThenCheck",  # it takes any later comparison for the one of a limit
    "internalAstError",  # it cannot read a TAKE_PTR in a compound literal
    "uninitvar",  # it does not see what a call writes through an array of an array
    "missingIncludeSystem",
]
# What only tests do on purpose:
TESTS_OFF = [
    "cert-flp30-c",  # the generators of the leak bench count time in seconds
    "cert-env33-c",  # tests ask other programs
    "bugprone-integer-division",  # steps and whole blocks
    "misc-misleading-bidirectional",  # hostile names
    "bugprone-suspicious-missing-comma",  # long strings in lists
    "bugprone-not-null-terminated-result",  # bytes of which the end is no NUL
]


class NotInstalled(Exception):
    """With the program's name."""


class TookTooLong(Exception):
    """With what did; such an answer is not kept."""


def version(program):
    if not shutil.which(program):
        raise NotInstalled(program)
    return subprocess.run([program, "--version"], capture_output=True, check=True).stdout


def kept(parts, ask):
    """ask()'s answer, or that of the last time with these parts, which are all that it depends on."""
    key = hashlib.sha256()
    for part in parts:
        key.update(b"%d:" % len(part) + part)
    path = f"{KEPT}/{key.hexdigest()}"
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        answer = ask()
    with tempfile.NamedTemporaryFile("w", dir=KEPT, delete=False, encoding="utf-8") as f:
        f.write(answer)
    os.rename(f.name, path)
    return answer


def preprocessed(path, flags):
    r = subprocess.run(["clang", "-E", "-w", *flags, path], capture_output=True, timeout=TIMEOUT, check=False)
    return r.stdout + r.stderr


def each_c(paths, flags, about, command, wanted):
    """The lines of wanted that command prints for each file; about says what else the answer depends on."""
    os.makedirs(KEPT, exist_ok=True)

    def look(path):
        def ask():
            try:
                r = subprocess.run(command(path), capture_output=True, text=True, timeout=TIMEOUT, check=False)
            except subprocess.TimeoutExpired:
                raise TookTooLong(f"{path}: {command(path)[0]} took over {TIMEOUT} s") from None
            lines = [line.replace(os.getcwd() + "/", "") for line in (r.stdout + r.stderr).split("\n") if wanted.search(line)]
            if r.returncode < 0 or (r.returncode and not lines):
                lines.append(f"{path}: {command(path)[0]} ended with {r.returncode}: {r.stderr[-300:]!r}")
            return "\n".join(lines)

        with open(path, "rb") as f:
            parts = [f.read(), preprocessed(path, flags(path)), about, " ".join(command(path)).encode()]
        try:
            return [line for line in kept(parts, ask).split("\n") if line]
        except TookTooLong as e:
            return [str(e)]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return sorted({line for found in pool.map(look, paths) for line in found})


def c_files(*patterns):
    return [p for p in tree.files(*patterns) if os.path.exists(p)]


def flags_of(path):
    return BPF_FLAGS if path.startswith("bpf/") else ["-std=gnu11", *C_FLAGS, "-I" + BUILD]


def without_known(found):
    """The analyzer looks at one file: it cannot know what another promises. tests/lint/known has what was looked at and is
    none, without line numbers; one that is no longer found has to go from there."""
    known = {line for line in tree.text_of("tests/lint/known").split("\n") if line and not line.startswith("#")}
    keys = {line: re.sub(r":\d+:\d+: warning", "", line) for line in found}
    gone = [] if IS_QUICK else sorted(known - set(keys.values()))
    return [line for line in found if keys[line] not in known] + [f"tests/lint/known: is not found any more: {k}" for k in gone]


def clang_tidy():
    about = version("clang-tidy") + version("clang") + tree.text_of("tests/lint/clang-tidy").encode()

    def command(path):
        off = [] if path.startswith("src/") and not IS_QUICK else ["clang-analyzer-*"]
        off += TESTS_OFF if path.startswith("tests/") else []
        checks = ["--checks=" + ",".join("-" + c for c in off)] if off else []
        return ["clang-tidy", "--quiet", "--config-file=tests/lint/clang-tidy", *checks, path, "--", *flags_of(path)]

    paths = c_files("src/*.c", "bpf/*.c", "tests/unit/*.c", "tests/fuzz/*.c", "tests/leak/*.c", "tests/bench/*.c")
    return without_known(each_c(paths, flags_of, about, command, re.compile(r"^(?!/usr/).*: (warning|error): ")))


def cppcheck():
    about = version("cppcheck")

    def command(path):
        # Without what is generated: a page of 80,000 numbers took it over 10 minutes. Macros that are given leave it one reading of each #if, the compiler's.
        return ["cppcheck", "-q", "--enable=warning,performance,portability", "--std=c11", "--inline-suppr", "-D__x86_64__",
                "-D__linux__", "-D__GNUC__=12", "-DLIBBPF_OPTS(T,N,...)=struct T N={0}",
                "--template={file}:{line}: {severity}: {message} [{id}]", *["--suppress=" + c for c in CPPCHECK_OFF],
                *C_FLAGS, path]

    return each_c(c_files("src/*.c"), flags_of, about, command, re.compile(r"^\S+:\d+: \w+: .*\]$"))


def lines_of(program, *args):
    r = subprocess.run([program, *args], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    lines = (r.stdout + r.stderr).splitlines()
    return lines or ([f"{program} ended with {r.returncode}"] if r.returncode else [])


def shellcheck():
    version("shellcheck")
    # SC1091: /etc/os-release is the host's. SC2015: "a && b || { message; exit; }" is meant so.
    return lines_of("shellcheck", "-x", "-f", "gcc", "-e", "SC1091,SC2015", *tree.scripts("sh|bash|dash"))


def python_files():
    return sorted({*tree.files("*.py"), *tree.scripts("python3?")})


def python_compiles():
    found = []
    for path in python_files():
        try:
            compile(tree.text_of(path), path, "exec")
        except (SyntaxError, ValueError) as e:
            found.append(f"{path}: {e}")
    return found


def pyflakes():
    version("pyflakes3")
    # What says "noqa" in its line is imported for what the import does.
    def is_meant(line):
        path, n = line.split(":")[:2]
        return n.isdigit() and "noqa" in tree.text_of(path).split("\n")[int(n) - 1]

    return [line for line in lines_of("pyflakes3", *python_files()) if not is_meant(line)]


CHECKS = [
    ("Python compiles", python_compiles),
    ("pyflakes", pyflakes),
    ("shellcheck", shellcheck),
    ("cppcheck", cppcheck),
    ("clang-tidy" + (", without its analyzer" if IS_QUICK else ""), clang_tidy),
]
