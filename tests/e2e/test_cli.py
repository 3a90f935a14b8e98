#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Options: what getopt takes, --help, the man pages and the completions of bash, zsh and fish tell the same ones."""
import functools
import glob
import os
import pty
import re
import select
import shlex
import shutil
import termios
import time

import harness as h

SRC = h.ROOT + "/src/"
MAN = h.ROOT + "/contrib/man/"
COMPLETION = h.ROOT + "/contrib/completion/"
BASH, ZSH, FISH = COMPLETION + "gpuxray.bash", COMPLETION + "_gpuxray", COMPLETION + "gpuxray.fish"
# Options whose values are a fixed set.
CHOICES = (("run", "--sink"), ("replay", "--sink"), ("report", "--format"), ("report", "--colour"), ("report", "--color"), ("top", "--sort"))
TAKE_FILES = {"--config", "--rules", "--library", "--socket", "--record", "-o", "--output", "--file", "--textfile"}
TAKE_FOLDERS = {"-D", "--directory"}
TAKE_PATHS = ("check", "test", "replay")
UNITS = ("train.service", "user@1000.service", "docker-0a.scope", r"a\x2db.service", "$(odd).service")
SYSTEMCTL = "#!/bin/sh\ncat <<'END'\n" + "".join(f"{u} loaded active running It\n" for u in UNITS) + "END\n"


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


# ---- what the program takes, and what it tells


@functools.cache
def getopt_options():
    """By command: options, True where an argument follows."""
    commands = {}
    for path in sorted(glob.glob(SRC + "cmd/*.c")):
        text = read(path)
        call = re.search(r'getopt_long\(argc, argv, "([^"]*)"', text)
        if not call:
            continue
        table = re.search(r"struct option \w+\[\] = \{(.*?)\n\t\};", text, re.S)[1]
        shorts = {m[0]: bool(m[1]) for m in re.findall(r"([A-Za-z])(:?)", call[1])}
        found = {"-" + letter: arg for letter, arg in shorts.items()}
        for name, has_arg in re.findall(r'\{ "([^"]+)", (\w+),', table):
            found["--" + name] = {"no_argument": False, "required_argument": True}[has_arg]
        commands[os.path.basename(path)[:-2].removesuffix("_options")] = found
    return commands


def commands():
    """In the order of the program's own help."""
    return re.findall(r"^  ([a-z]+) ", h.must(h.GPUXRAY, "--help").split("Commands:\n")[1], re.M)


def values(command, option):
    """As the program says when it is given another one: "must be text, json, folded or html"."""
    r = h.run(h.GPUXRAY, command, option, "?", *(["/dev/null"] if command == "replay" else []))
    said = re.search(r"must be (.*)", r.stderr)
    if not said:
        raise h.Failure(f"{command} {option} ?: {r.stderr}")
    return re.split(r", | or ", said[1])


def help_options(command):
    """From the column of options: "  -S, --since T   from then on"."""
    found = {}
    for line in h.must(h.GPUXRAY, command, "--help").splitlines():
        m = re.match(r" {2,6}(-.*?)(?:  |$)", line)
        for option in re.findall(r"(?:^|, )(--?[A-Za-z][a-z-]*)", m[1]) if m else ():
            found[option] = bool(re.search(r" [A-Z]+(:[A-Z]+)?$", m[1]))
    return found


def unroff(line):
    line = re.sub(r"^\.[BI]+R? |^\.RB |^\.RI ", "", line)
    return re.sub(r"\\f.|\"", "", line).replace("\\ ", " ").replace("\\-", "-")


def man_options(text):
    """From the tags of paragraphs: ".BI \\-S\\  TIME \\fR,\\ \\fB\\-\\-since= TIME"."""
    found = {}
    for line in re.findall(r"^\.TP\n(.*)", text, re.M):
        tag = unroff(line)
        for option in re.findall(r"(?:^|,) *(--?[A-Za-z][a-z-]*)", tag) if tag.startswith("-") else ():
            found[option] = bool(re.search(r" [A-Z]+$", tag))
    return found


def man_commands():
    """By command: what its part of gpuxray(8) says."""
    part = read(MAN + "gpuxray.8").split("\n.SH COMMANDS\n")[1].split("\n.SH ")[0]
    return dict(re.findall(r"^\.SS gpuxray (\w+)\n(.*?)(?=^\.SS |\Z)", part + "\n", re.M | re.S))


def both(case, got, want, what):
    """As sets, so that a failure says which side lacks which."""
    for option in sorted(set(want) - set(got)):
        case.check(False, f"{what} lacks {option}")
    for option in sorted(set(got) - set(want)):
        case.check(False, f"{what} has {option}, which the program does not know")


@h.test("commands: the program, its help, the man page and every command's getopt table have the same")
def _(case):
    program = re.findall(r'^\t\{ "(\w+)", cmd_', read(SRC + "main.c"), re.M)
    case.equal(commands(), program, "the help's commands")
    both(case, man_commands(), program, "gpuxray(8)")
    both(case, getopt_options(), program, "src/cmd")
    synopsis = re.findall(r'^\.BR "gpuxray (\w+)"', read(MAN + "gpuxray.8"), re.M)
    both(case, synopsis, program, "the synopsis of gpuxray(8)")
    for command in program:
        case.check(len(getopt_options().get(command, ())) > 1, f"the table of {command} was not understood")


@h.test("options: --help and the man pages tell those that getopt takes, with arguments where it wants them")
def _(case):
    pages = man_commands()
    for command in commands():
        takes = getopt_options().get(command, {})
        told = [(f"gpuxray {command} --help", help_options(command)),
                (f"gpuxray {command} in gpuxray(8)", man_options(pages.get(command, "")))]
        for page in glob.glob(f"{MAN}gpuxray-{command}.[18]"):  # one of its own
            part = read(page).split("\n.SH OPTIONS\n")[1].split("\n.SH ")[0]
            told.append((os.path.basename(page), man_options(part)))
        for what, options in told:
            both(case, options, takes, what)
            for option in set(options) & set(takes):
                case.equal(options[option], takes[option], f"{what}: {option} has an argument")


@h.test("options in place of a command: the man page tells those that the program takes")
def _(case):
    takes = set(re.findall(r'strcmp\(argv\[1\], "(-[^"]+)"\)', read(SRC + "main.c")))
    case.check(takes, "none found")
    part = read(MAN + "gpuxray.8").split("\n.SH OPTIONS\n")[1].split("\n.SH ")[0]
    both(case, man_options(part), takes, "gpuxray(8)")
    for option in takes:
        case.check(h.must(h.GPUXRAY, option), f"gpuxray {option} says nothing")


@h.test("examples of gpuxray(8) have commands and options that exist")
def _(case):
    part = read(MAN + "gpuxray.8").split("\n.SH EXAMPLES\n")[1].split("\n.SH ")[0].replace("\\-", "-")
    seen = 0
    for words in (shlex.split(x, comments=True) for line in part.splitlines() for x in re.split(r"&&|\|", line)):
        if words[:1] != ["gpuxray"]:
            continue
        seen += 1
        known = getopt_options().get(words[1])
        case.check(known is not None, f"no command {words[1]}")
        for word in words[2:]:
            if word.startswith("-") and known is not None:
                case.check(word.partition("=")[0] in known, f"gpuxray {words[1]}: no option {word}")
    case.check(seen > 5, f"{seen} examples were understood")


@h.test("gpuxray(8) is formatted without a warning")
def _(case):
    r = h.run("man", "--warnings", "-l", MAN + "gpuxray.8", env={**os.environ, "LC_ALL": "C.UTF-8"})
    case.equal((r.returncode, r.stderr), (0, ""), "man --warnings")
    case.contains(r.stdout, "EXIT STATUS", "its text")


# ---- completions: a shell answers which words it offers for a line


class Bash:
    name = "bash"

    def __init__(self, case):
        self.folder = case.dir
        self.script = case.write("complete.bash", f"source {shlex.quote(BASH)}\n" + r'''
compopt() { echo "compopt $*"; }
COMP_LINE=$1 COMP_POINT=${#1} replaced=$2
shift 2
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_gpuxray gpuxray "$replaced" "${COMP_WORDS[COMP_CWORD - 1]}"
for i in "${COMPREPLY[@]}"; do printf "%s\\n" "$i"; done
''')

    def cut(self, line):
        """Words as bash has them; no test has quotes in its line."""
        words = [w for part in line.split() for w in re.findall(r"[=:@]+|[^=:@]+", part)]
        return [*words, ""] if line.endswith(" ") else words

    def ask(self, line, env=None):
        replaced = re.search(r"@?[^@=: ]*$", line)[0]
        out = h.must("bash", "--norc", self.script, line, replaced, *self.cut(line), cwd=self.folder,
                     env={**os.environ, **(env or {})})
        return [x for x in out.splitlines() if not x.startswith("compopt")], re.findall("compopt -o (.*)", out)

    def offers(self, line, env=None):
        return self.ask(line, env)[0]


class Fish:
    name = "fish"

    def __init__(self, case):
        if not shutil.which("fish"):
            raise h.Skip("fish is not installed")
        self.folder = self.home = case.path("fish")
        os.makedirs(self.home, exist_ok=True)

    def offers(self, line, env=None):
        out = h.must("fish", "--no-config", "-c", f"source {FISH}; complete -C {shlex.quote(line)}", cwd=self.folder,
                     env={**os.environ, "HOME": self.home, "XDG_RUNTIME_DIR": self.home, **(env or {})})
        return [x.split("\t")[0] for x in out.splitlines()]


ZSH_SETUP = r'''
PS1= RPS1= PS2=
unsetopt zle_bracketed_paste 2>/dev/null
fpath=(%(folder)s $fpath)
autoload -Uz compinit
compinit -u -d %(dump)s
zstyle ':completion:*' list-grouped no
LISTMAX=1000000
exec {out}>%(fifo)s
# What is added is asked for, told, and then added.
compadd() {
	local -a hits
	local s=${@[1,(i)(-|--)]}
	if [[ " $s" == *' -'[a-zA-Z]#[OAD]* ]]; then
		builtin compadd "$@"
		return
	fi
	builtin compadd -A hits "$@"
	print -rlu $out -- ${hits/#/word }
	builtin compadd "$@"
}
setopt extended_glob
said() { print -ru $out done }
comppostfuncs=(said)
tell() { comppostfuncs=(said); zle list-choices }
zle -N tell
bindkey -e
bindkey '^T' tell
print -ru $out ready
'''


class Zsh:
    name = "zsh"

    def __init__(self, case):
        if not shutil.which("zsh"):
            raise h.Skip("zsh is not installed")
        fifo = case.path("zsh.fifo")
        os.mkfifo(fifo)
        self.answers = os.open(fifo, os.O_RDWR)
        self.buf = b""
        case.finally_(os.close, self.answers)
        setup = case.path("setup.zsh")
        with open(setup, "w", encoding="utf-8") as f:
            f.write(ZSH_SETUP % {"folder": COMPLETION, "dump": case.path("zcompdump"), "fifo": fifo})
        self.terminal, sub = pty.openpty()
        case.finally_(os.close, self.terminal)
        termios.tcsetwinsize(sub, (400, 200))
        shell = h.Process(case, "zsh", ["setsid", "zsh", "-f", "-i"], stdin=sub, stdout=sub,
                          env={"TERM": "xterm", "PATH": case.path("bin") + ":" + os.environ["PATH"], "LC_ALL": "C.UTF-8"})
        os.close(sub)
        self.shell = shell
        self.send(f"cd {shlex.quote(case.dir)} && source {shlex.quote(setup)}\n")
        self.until(b"ready")

    def send(self, text):
        os.write(self.terminal, text.encode())

    def until(self, what):
        """Lines before that one. What the shell shows is read too, so that it does not wait for us."""
        end, lines, shown = time.monotonic() + 20, [], b""
        while True:
            *whole, self.buf = self.buf.split(b"\n")
            for i, line in enumerate(whole):
                if line == what:
                    self.buf = b"\n".join([*whole[i + 1:], self.buf])
                    return lines
                lines.append(line.decode())
            if time.monotonic() > end:
                raise h.Failure(f"zsh does not say {what}: {lines}, it shows {shown[-2000:]}")
            ready, _, _ = select.select([self.answers, self.terminal], [], [], 0.5)
            if self.terminal in ready:
                shown += os.read(self.terminal, 65536)
            if self.answers in ready:
                self.buf += os.read(self.answers, 65536)

    def offers(self, line, env=None):
        self.send("\x15" + line + "\x14")
        return [x.removeprefix("word ") for x in self.until(b"done")]


SHELLS = (Bash, Zsh, Fish)


def odd_systemctl(case):
    """An environment whose systemctl tells of odd units, and where a program that their names would run leaves a trace."""
    folder = case.path("bin")
    os.makedirs(folder, exist_ok=True)
    for name, text in (("systemctl", SYSTEMCTL), ("odd", f"#!/bin/sh\ntouch {case.path('was-run')}\n")):
        with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(f"{folder}/{name}", 0o755)
    return {"PATH": folder + ":" + os.environ["PATH"]}


def offered_options(shell, line):
    """Long and short ones; where values are asked for with =, a shell may show that."""
    return {x.removesuffix("=") for dash in ("-", "--") for x in shell.offers(line + dash) if x.startswith("-")}


for Shell in SHELLS:
    @h.test(f"{Shell.name}: the completion offers every command and its options, no others")
    def _(case, Shell=Shell):
        shell = Shell(case)
        offered = [x for x in shell.offers("gpuxray ") if not x.startswith("-")]
        both(case, offered, [*commands(), "help"], f"{shell.name}")
        both(case, offered_options(shell, "gpuxray "), {"-h", "--help", "-V", "--version"}, shell.name)
        for command in commands():
            both(case, offered_options(shell, f"gpuxray {command} "), getopt_options().get(command, {}),
                 f"{shell.name}: {command}")

    @h.test(f"{Shell.name}: the completion knows what stands behind an option")
    def _(case, Shell=Shell):
        shell = Shell(case)
        for command, option in CHOICES:
            want = sorted(values(command, option))
            for line in (f"gpuxray {command} {option} ", f"gpuxray {command} {option}="):
                got = [x.removeprefix(option + "=") for x in shell.offers(line)]
                case.equal(sorted(got), want, line)
        pid = str(os.getpid())
        for line in (f"gpuxray run -p {pid}", f"gpuxray report --pid {pid}"):
            case.check(pid in shell.offers(line), f"{line}: {shell.offers(line)}")
        case.check("--since" not in offered_options(shell, "gpuxray check report "), "a file called like a command")
        for command in commands():
            for option, has_arg in getopt_options().get(command, {}).items():
                # fish offers options behind every dash.
                if has_arg and not isinstance(shell, Fish):
                    got = shell.offers(f"gpuxray {command} {option} --")
                    case.equal([x for x in got if x.startswith("--")], [], f"{command} {option} --")

    @h.test(f"{Shell.name}: units of systemd are offered as they are, and nothing of them is run")
    def _(case, Shell=Shell):
        shell = Shell(case)
        env = odd_systemctl(case)
        if isinstance(shell, Zsh):
            shell.send("rehash\n")
        quoted = {shlex_name(u): u for u in UNITS}
        got = shell.offers("gpuxray report -u ", env)
        case.equal(sorted(quoted.get(x, x) for x in got), sorted(UNITS), "all")
        got = shell.offers("gpuxray report --unit tr", env)
        case.equal(got, ["train.service"], "one")
        case.check(not os.path.exists(case.path("was-run")), "a name was run")


def has_name(shell, line, name):
    return any(name in x.replace("\\", "") for x in shell.offers(line))


for Shell in (Zsh, Fish):
    @h.test(f"{Shell.name}: files are offered behind options that want one and where a command takes one")
    def _(case, Shell=Shell):
        folder = case.path("files")
        os.makedirs(folder + "/odd folder")
        with open(folder + "/odd name.conf", "w", encoding="utf-8"):
            pass
        shell = Shell(case)
        if isinstance(shell, Zsh):
            shell.send(f"cd {shlex.quote(folder)}\n")
        else:
            shell.folder = folder
        for command in commands():
            for option, has_arg in getopt_options().get(command, {}).items():
                if has_arg:
                    line = f"gpuxray {command} {option} "
                    case.equal(has_name(shell, line, "odd name.conf"), option in TAKE_FILES, line + "FILE")
                    case.equal(has_name(shell, line, "odd folder"), option in TAKE_FILES | TAKE_FOLDERS,
                               line + "FOLDER")
            line = f"gpuxray {command} "
            case.equal(has_name(shell, line, "odd name.conf"), command in TAKE_PATHS, line)


def shlex_name(unit):
    """As bash quotes a word: a backslash before what means something."""
    return re.sub(r"([\\$()])", r"\\\1", unit)


@h.test("bash: files are left to bash itself, behind options that want one and where a command takes one")
def _(case):
    shell = Bash(case)
    for command in commands():
        for option, has_arg in getopt_options().get(command, {}).items():
            if has_arg:
                words, files = shell.ask(f"gpuxray {command} {option} ")
                want = ["default"] if option in TAKE_FILES else ["dirnames"] if option in TAKE_FOLDERS else []
                case.equal(files, want, f"{command} {option}: files")
                case.check(not (words and files), f"{command} {option}: {words} and files")
        want = ["default"] if command in TAKE_PATHS else []
        case.equal(shell.ask(f"gpuxray {command} ")[1], want, f"{command}: files")
    case.equal(shell.ask("gpuxray check -- -"), ([], ["default"]), "behind --")


@h.test("bash: what is offered goes on from where bash cuts the word")
def _(case):
    shell = Bash(case)
    env = odd_systemctl(case)
    case.equal(shell.offers("gpuxray report --format=js"), ["json"], "--format=js")
    case.equal(shell.offers("gpuxray report --unit=user@", env), ["@1000.service"], "--unit=user@")
    case.equal(shell.offers("gpuxray report -u user@10", env), ["@1000.service"], "-u user@10")
    case.equal(shell.offers("  gpuxray   re"), ["record", "replay", "report"], "blanks")


@h.test("bash: the key completes what is typed, so that the program gets the very name")
def _(case):
    env = odd_systemctl(case)
    with open(case.path("odd name;x.conf"), "w", encoding="utf-8"):
        pass
    os.makedirs(case.path("fold er"))
    main, sub = pty.openpty()
    case.finally_(os.close, main)
    out = case.path("arguments")
    bash = h.Process(case, "bash", ["setsid", "bash", "--norc", "--noprofile", "-i"], stdin=sub, stdout=sub,
                     env={**env, "TERM": "dumb", "HISTFILE": "/dev/null", "INPUTRC": "/dev/null"})
    os.close(sub)
    lines = {
        "gpuxray check od": ["check", "odd name;x.conf"],
        "gpuxray check --config=od": ["check", "--config=odd name;x.conf"],
        "gpuxray report -D fo": ["report", "-D", "fold er/"],
        "gpuxray run --sink=sy": ["run", "--sink=syslog"],
        "gpuxray rec": ["record"],
        "gpuxray report -u user@": ["report", "-u", "user@1000.service"],
        "gpuxray report --unit=a": ["report", "--unit=a\\x2db.service"],
        "gpuxray report -u \\$": ["report", "-u", UNITS[-1]],
    }
    for text in (f"cd {case.dir}", f"source {BASH}", f"gpuxray() {{ printf '%s\\n' \"$@\" end >>{out}; }}"):
        os.write(main, text.encode() + b"\n")
    shown = b""
    for line, want in lines.items():
        os.write(main, line.encode() + b"\t\n")

        def done():
            nonlocal shown
            while select.select([main], [], [], 0)[0]:
                shown += os.read(main, 65536)
            return os.path.exists(out) and read(out).endswith("end\n")

        h.poll(done, 10, lambda: f"{line}: {shown[-500:]}")
        case.equal(read(out).splitlines()[:-1], want, line)
        os.unlink(out)
    case.check(bash.is_alive() and not os.path.exists(case.path("was-run")), "a name was run")


@h.test("completions: bash, zsh and fish find no fault in their syntax")
def _(case):
    case.equal(h.run("bash", "-n", BASH).stderr, "", "bash -n")
    missing = [s for s in ("zsh", "fish") if not shutil.which(s)]
    for shell, path in (("zsh", ZSH), ("fish", FISH)):
        if shell not in missing:
            r = h.run(shell, "-n", path)
            case.equal((r.returncode, r.stderr), (0, ""), f"{shell} -n")
    if missing and not case.problems:
        raise h.Skip(f"bash alone was asked: {' and '.join(missing)} not installed")


if __name__ == "__main__":
    h.main()
