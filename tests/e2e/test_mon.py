#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Metrics: `gpuxray mon`, the daemon's own listener, and text files."""
import contextlib
import glob
import http.client
import os
import re
import resource
import select
import signal
import socket
import stat
import subprocess
import threading
import time

import harness as h

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
MANY = h.FAKE + "/work_many"
LIBRARY = "libmicrohttpd.so.12"


class Mon(h.Process):
    """`gpuxray mon` that has said where it listens."""

    def __init__(self, case, *options, wait=True, wrap=(), name="mon"):
        env = {"LD_LIBRARY_PATH": h.FAKE, "FAKE_GPU_STATE": case.path("gpu-state")}
        super().__init__(case, name, [*wrap, h.GPUXRAY, "mon", *options], env=env, stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL)
        if wait:
            h.poll(lambda: "metrics of " in self.stderr() or not self.is_alive(), 40, "mon says where it listens")
            if not self.is_alive():
                raise h.Failure(f"mon ended: {self.stderr()}")

    def stop(self, n=signal.SIGTERM):
        self.signal(n)
        return self.wait()


def ports(p, host="127.0.0.1"):
    """Of what the program has said on standard error."""
    return [int(n) for n in re.findall(rf"http://{re.escape(host)}:(\d+)/metrics", p.stderr())]


class UnixHTTP(http.client.HTTPConnection):
    def __init__(self, path, timeout=10):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def get(where, path="/metrics", accept=None, method="GET", timeout=10):
    """Status, headers in lower case, text. where: a port of 127.0.0.1, or the path of a socket."""
    if isinstance(where, int):
        c = http.client.HTTPConnection("127.0.0.1", where, timeout=timeout)
    else:
        c = UnixHTTP(where, timeout)
    with contextlib.closing(c):
        c.request(method, path, headers={"Accept": accept} if accept else {})
        r = c.getresponse()
        return r.status, {k.lower(): v for k, v in r.getheaders()}, r.read().decode()


def parse(case, text, what):
    """Series as {(name, labels): value}; complains about what no Prometheus reads."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        m = re.fullmatch(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\n"])*",?)*)\})? (\S+)', line)
        if not case.check(m, f"{what}: not a sample: {line!r}"):
            continue
        case.check((m[1], m[2]) not in found, f"{what}: twice: {line}")
        found[m[1], m[2]] = float(m[3])
    return found


def families(text):
    return [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]


def of_process(samples, name, pid):
    """The sum over the series of a process, or None."""
    values = [v for (n, labels), v in samples.items() if n == name and labels and f'pid="{pid}"' in labels]
    return sum(values) if values else None


def holder(case, **kw):
    """A process that has made its allocations and keeps what is left."""
    w = case.work("work_ledger", "--seed=3", "--ops=600", "--pause-at=300", "--wait-end", **kw)
    return w, w.next("pause")


def wait_counted(d, w, ledger):
    d.wait_process(w.pid, lambda p: p["alloc_count"] == ledger["alloc_count"], what="all allocations seen")


def check_process(case, samples, pid, ledger, what):
    for name, key in (("live_bytes", "live_bytes"), ("live_blocks", "live_count"), ("allocations_total", "alloc_count"),
                      ("frees_total", "free_count"), ("allocation_failures_total", "fail_count")):
        case.equal(of_process(samples, "gpuxray_process_" + name, pid), ledger[key], f"{what}: {name}")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def fd_count(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def config(**keys):
    return "metrics = { " + " ".join(f"{k} = {v if isinstance(v, (int, float)) else chr(34) + v + chr(34)};"
                                     for k, v in keys.items()) + " };\n"


def without_library():
    """Words before a command that does not find libmicrohttpd."""
    found = re.search(rf"{re.escape(LIBRARY)} .*=> (\S+)", h.must("ldconfig", "-p"))
    if not found:
        raise h.Failure(f"{LIBRARY} is not installed: see tests/install-packages")
    return h.in_namespace(f"mount --bind /dev/null {os.path.realpath(found[1])}")


@h.test("mon --once prints the daemon's figures, and those of a tracer of its own where none answers")
def once(case):
    d = case.daemon()
    w, ledger = holder(case)
    wait_counted(d, w, ledger)
    samples = parse(case, h.must(h.GPUXRAY, "mon", "--once"), "of the daemon")
    case.equal(samples.get(("gpuxray_daemon", None)), 1, "gpuxray_daemon")
    check_process(case, samples, w.pid, ledger, "of the daemon")
    text = h.must(h.GPUXRAY, "mon", "--once", "--openmetrics")
    case.check(text.endswith("# EOF\n"), f"OpenMetrics ends in {text[-40:]!r}")
    text = h.must(h.GPUXRAY, "mon", "--once", "--processes", "0")
    case.check(of_process(parse(case, text, "--processes 0"), "gpuxray_process_live_bytes", w.pid) is None,
               "--processes 0 has series of a process")
    d.stop()
    r = h.run(h.GPUXRAY, "mon", "--once", "--library", h.LIBCUDA)
    samples = parse(case, r.stdout, "of an own tracer")
    case.equal((r.returncode, samples.get(("gpuxray_daemon", None))), (0, 0), f"an own tracer: {r.stderr}")
    case.equal(r.stderr, "", "what an own tracer says")
    w.go()
    w.end()


@h.test("the daemon listens by TCP: formats as asked for, paths, methods, and nothing of it unless configured")
def daemon_tcp(case):
    d = case.daemon(config=config(listen="localhost:0"))
    port = ports(d)[0]
    for other in ports(d, "[::1]"):
        case.equal(other, port, "the port of ::1")
    w, ledger = holder(case)
    wait_counted(d, w, ledger)
    status, headers, text = get(port)
    case.equal((status, headers["content-type"].split(";")[:2]), (200, ["text/plain", " version=0.0.4"]), "format")
    check_process(case, parse(case, text, "by TCP"), w.pid, ledger, "by TCP")
    status, headers, text = get(port, accept=OPENMETRICS)
    case.equal((status, headers["content-type"].split(";")[0]), (200, "application/openmetrics-text"), "OpenMetrics")
    case.check(text.endswith("# EOF\n"), "OpenMetrics has no end")
    status, headers, text = get(port, method="HEAD")
    case.check(status == 200 and text == "" and int(headers["content-length"]) > 1000, f"HEAD: {status} {headers}")
    status, headers, text = get(port, method="POST")
    case.equal((status, headers.get("allow")), (405, "GET, HEAD"), "POST")
    case.equal(get(port, "/healthz")[::2], (200, "ok\n"), "/healthz")
    case.contains(get(port, "/")[2], 'href="metrics"', "/")
    case.equal(get(port, "/x")[0], 404, "/x")
    # A storm is rendered once a second: what it costs does not grow with the number of scrapes.
    with contextlib.closing(socket.create_connection(("127.0.0.1", port))) as s:
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\nGET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        got = b"".join(iter(lambda: s.recv(1 << 16), b""))
        case.equal(got.count(b"HTTP/1.1 "), 1, "answers of a connection")
    maps = open(f"/proc/{d.pid}/maps").read()
    case.contains(maps, "libmicrohttpd", "the library of a daemon that listens")
    w.go()
    w.end()
    d.stop()
    quiet = case.daemon()
    case.check("libmicrohttpd" not in open(f"/proc/{quiet.pid}/maps").read(), "a daemon without a listener has the library")
    quiet.stop()


@h.test("the daemon's Unix socket and text file: rights, what omit and redact leave, and both go with it")
def daemon_unix(case):
    path, file = "/run/gpuxray/metrics.sock", case.path("gpuxray.prom")
    d = case.daemon(config=config(listen="unix:" + path, textfile=file, interval="1s") +
                    'redact = [ "seed=\\\\d+" ]; omit = [ "comm" ];\n')
    case.contains(d.stderr(), "metrics at unix:" + path, "the log")
    case.equal(stat.S_IMODE(os.stat(path).st_mode), 0o660, "mode of the socket")
    w, ledger = holder(case)
    wait_counted(d, w, ledger)
    text = get(path)[2]
    check_process(case, parse(case, text, "by the socket"), w.pid, ledger, "by the socket")
    case.check('comm="' not in text.replace('comm=""', ""), "what omit names is told")

    def look():
        with contextlib.suppress(FileNotFoundError):
            samples = parse(case, open(file).read(), "the file")
            return of_process(samples, "gpuxray_process_live_bytes", w.pid) == ledger["live_bytes"]
        return False

    h.poll(look, 5, "the file has the process")
    case.equal(stat.S_IMODE(os.stat(file).st_mode), 0o644, "mode of the file")
    w.go()
    w.end()
    d.stop()
    case.check(not os.path.exists(file) and not os.path.exists(path), "file and socket are gone with the daemon")
    d = case.daemon(config=config(listen="unix:" + path, args="true").replace('"true"', "true") + 'redact = [ "seed=\\\\d+" ];\n')
    w, ledger = holder(case)
    wait_counted(d, w, ledger)
    text = get(path)[2]
    case.contains(text, "--ops=600", "args")
    case.check("seed=3" not in text, "what redact names is told")
    w.go()
    w.end()
    d.signal(signal.SIGKILL)
    d.wait()
    case.check(os.path.exists(path), "no socket is left to be replaced")
    d = case.daemon(config=config(listen="unix:" + path))
    case.equal(get(path)[0], 200, "in the place of one that was left")
    d.stop()


@h.test("mon --textfile: no reader ever sees half of a file; errors name the cure")
def textfile(case):
    many = case.work("work_many", "hold", "--wait-start", "--processes=60", "--blocks=2")
    many.next("ready")
    d = case.daemon("--library", MANY)
    many.go()
    h.poll(lambda: len(d.status()["processes"]) >= 60, 20, "60 processes")
    file = case.path("gpuxray.prom")
    once = case.path("once.prom")
    case.equal(h.must(h.GPUXRAY, "mon", "--once", "--textfile", once), "", "what --once prints beside a file")
    want = families(open(once).read())
    m = Mon(case, "--textfile", file, "-i", "1", wait=False)
    h.poll(lambda: os.path.exists(file), 10, "the first file")
    seen, reads, end = set(), 0, time.monotonic() + 3.2
    while time.monotonic() < end:
        with open(file) as f:
            text = f.read()
            seen.add(os.fstat(f.fileno()).st_ino)
        reads += 1
        got = families(text)
        if not case.check((got[:1], got[-1:]) == (want[:1], want[-1:]) and text.endswith("\n"),
                          f"half a file: {len(text)} bytes, from {got[:1]} to {got[-1:]}, ends in {text[-60:]!r}"):
            break
    h.comment(f"{reads} reads, {len(seen)} files, {len(text)} bytes")
    case.check(len(seen) >= 2 and reads > 50, f"{len(seen)} files in {reads} reads")
    case.equal(stat.S_IMODE(os.stat(file).st_mode), 0o644, "mode of the file")
    case.check(not re.search(r"\} \S+ \d|^\w+ \S+ \d", text, re.M), "there are timestamps")
    case.equal(m.stop(signal.SIGINT), 0, "exit status on SIGINT")
    case.equal(glob.glob(file + "*"), [], "files that are left")
    r = h.run(h.GPUXRAY, "mon", "--once", "--textfile", case.path("none/gpuxray.prom"))
    case.equal(r.returncode, 1, "exit status without a folder")
    case.contains(r.stderr, "none/gpuxray.prom: No such file or directory: make the folder", "without a folder")
    r = h.run(h.GPUXRAY, "mon", "--once", "--textfile", case.path("gpuxray.txt"))
    case.equal(r.returncode, 0, "exit status of an odd name")
    case.contains(r.stderr, 'names end in ".prom" alone', "an odd name")
    many.kill()
    d.stop()


# ---- hostile clients


def try_connect(port):
    s = socket.socket()
    s.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        s.connect(("127.0.0.1", port))
    return s


def storm(port, count):
    """That many connections, some of which say something, all at once."""
    socks = []
    for i in range(count):
        s = try_connect(port)
        socks.append(s)
        with contextlib.suppress(OSError):
            s.send((b"", b"GET /metr", b"\x16\x03\x01\x00garbage", b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")[i % 4])
    return socks


def big_header(port):
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=10)) as s, contextlib.suppress(OSError):
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n" + b"X: " + b"x" * (1 << 20) + b"\r\n\r\n")
        s.recv(1 << 16)


def trickle(port):
    """A byte a second, until it is thrown out: after how many seconds."""
    begin = time.monotonic()
    with contextlib.closing(socket.create_connection(("127.0.0.1", port))) as s:
        with contextlib.suppress(OSError):
            for c in b"GET /metrics HTTP/1.1\r\nHost: abcdefgh":
                s.send(bytes([c]))
                if select.select([s], [], [], 1)[0]:
                    break
    return time.monotonic() - begin


@h.test("slow and hostile clients: no event is lost, the daemon answers others at once, and nothing lasts", seconds=16)
def hostile(case):
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    d = case.daemon(config=config(listen="127.0.0.1:0"))
    port = ports(d)[0]
    w = case.work("work_rate", "--seconds=5", "--rate=2000", "--threads=2", "--live=64", "--bytes=1MiB", "--depth=6",
                  "--sites=32", "--wait-end", "--ledger")
    get(port)
    fds, rss = fd_count(d.pid), resident_bytes(d.pid)
    slowest = slowest_status = 0
    end = time.monotonic() + 3
    rounds = 0
    while time.monotonic() < end:
        socks = storm(port, 500)
        threads = [threading.Thread(target=big_header, args=(port,)) for _ in range(4)]
        for t in threads:
            t.start()
        begin = time.monotonic()
        case.check(d.status()["version"], "no status")
        slowest_status = max(slowest_status, time.monotonic() - begin)
        for t in threads:
            t.join()
        case.check(fd_count(d.pid) <= fds + 80, f"{fd_count(d.pid)} descriptors, {fds} before")
        for s in socks:
            s.close()
        begin = time.monotonic()
        case.equal(get(port)[0], 200, "a scrape amid the storm")
        slowest = max(slowest, time.monotonic() - begin)
        rounds += 1
    h.comment(f"{rounds} storms of 500; slowest scrape {slowest:.3f} s, slowest status {slowest_status:.3f} s")
    case.check(slowest_status < 2, f"the status took {slowest_status:.1f} s")
    case.check(slowest < 4, f"a scrape took {slowest:.1f} s")
    ledger = w.next("end")
    h.check_books(case, d.wait_process(w.pid, lambda p: p["alloc_count"] == ledger["alloc_count"]), ledger, "meanwhile")
    w.end()
    # Nobody pushes it out: what ends it is the time that it takes.
    took = trickle(port)
    case.check(9 <= took <= 12, f"who asks a byte a second is cut off after {took:.1f} s, not 10")
    d.wait_gone(w.pid)
    h.poll(lambda: fd_count(d.pid) <= fds + 4, 12, lambda: f"descriptors are closed: {fd_count(d.pid)}, {fds} before")
    grown = resident_bytes(d.pid) - rss
    h.comment(f"{grown >> 10} KiB more resident than before")
    case.check(grown < 16 * h.MIB, f"{grown >> 20} MiB more resident than before")
    spent = cpu_seconds(d.pid)
    time.sleep(1)
    case.check(cpu_seconds(d.pid) - spent < 0.3, "it goes on working after the clients have gone")
    case.equal(d.status()["lost_events"], 0, "lost events")
    d.stop()


@h.test("mon: 503 while the daemon is away, and the figures are back when it is; ends on SIGTERM")
def restart(case):
    d = case.daemon()
    m = Mon(case, "--listen", "127.0.0.1:0")
    case.contains(m.stderr(), "metrics of the daemon at http://127.0.0.1:", "what it says")
    port = ports(m)[0]
    case.equal(get(port)[0], 200, "with the daemon")
    d.stop()
    time.sleep(1)
    status, _, text = get(port)
    case.equal(status, 503, "without the daemon")
    case.contains(text, "no metrics now: no daemon answers at /run/gpuxray/status.sock", "without the daemon")
    case.equal(get(port, "/healthz")[0], 200, "/healthz without the daemon")
    d = case.daemon()
    w, ledger = holder(case)
    wait_counted(d, w, ledger)
    h.poll(lambda: get(port)[0] == 200, 5, "the figures are back", every=0.2)
    time.sleep(1)
    check_process(case, parse(case, get(port)[2], "after the restart"), w.pid, ledger, "after the restart")
    case.equal(m.stop(), 0, "exit status on SIGTERM")
    w.go()
    w.end()
    d.stop()


@h.test("mon ends when its own tracer does, and says so")
def own_tracer(case):
    m = Mon(case, "--own", "--listen", "127.0.0.1:0", "--library", h.LIBCUDA)
    case.contains(m.stderr(), "metrics of an own tracer at http://127.0.0.1:", "what it says")
    port = ports(m)[0]
    case.equal(get(port)[0], 200, "with its tracer")
    with open(f"/proc/{m.pid}/task/{m.pid}/children") as f:
        os.kill(int(f.read().split()[0]), signal.SIGKILL)
    time.sleep(1)
    with contextlib.suppress(OSError, http.client.HTTPException):
        case.equal(get(port)[0], 503, "without its tracer")
    case.equal(m.wait(), 1, "exit status")
    case.equal(m.stderr().count("the tracer was killed by signal 9 (Killed)"), 1, "what it says, once")


@h.test("mon --own without standard streams, and a terminal that goes: the file goes with it")
def no_streams(case):
    file = case.path("gpuxray.prom")
    r = h.run("sh", "-c", '"$0" mon --own --once --textfile "$1" <&- >&-', h.GPUXRAY, file, timeout=60)
    case.equal((r.returncode, r.stderr), (0, ""), "exit status, and what it says")
    case.contains(open(file).read(), "gpuxray_processes", "the file")
    os.unlink(file)
    m = Mon(case, "--own", "--textfile", file, "-i", "1", wait=False)
    h.poll(lambda: os.path.exists(file), 30, "the file")
    case.equal(m.stop(signal.SIGHUP), 0, "exit status on SIGHUP")
    case.check(not os.path.exists(file), "the file is still there")


@h.test("a port that is taken: mon says so and ends, the daemon warns and works")
def taken(case):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        d = case.daemon(config=config(listen=address))
        for name, text in (("the daemon", d.stderr()), ("mon", h.run(h.GPUXRAY, "mon", "-l", address).stderr)):
            case.contains(text, f"cannot listen on {address}: Address already in use: another program listens there "
                          "(ss -ltnp shows which): end it, or choose another port", name)
        case.equal(h.run(h.GPUXRAY, "mon", "-l", address).returncode, 1, "exit status of mon")
        d.status()
        d.stop()
    r = h.run(h.GPUXRAY, "mon", "-l", "gpu-17:2112")
    case.equal((r.returncode, r.stderr.count("\n")), (1, 1), f"a name of a host: {r.stderr}")


@h.test("without libmicrohttpd: mon says what to install, the daemon warns and works, files are written all the same")
def library_missing(case):
    cure = f"metrics by HTTP need {LIBRARY} "
    file = case.path("gpuxray.prom")
    d = case.daemon(config=config(listen="127.0.0.1:0", textfile=file, interval="1s"), wrap=without_library())
    case.contains(d.stderr(), cure, "the daemon")
    case.contains(d.stderr(), "install libmicrohttpd12", "the daemon's cure")
    h.poll(lambda: os.path.exists(file), 5, "the file")
    r = h.run(*without_library(), h.GPUXRAY, "mon", "-l", "127.0.0.1:0")
    case.equal((r.returncode, r.stderr.count("\n")), (1, 1), f"mon: {r.stderr}")
    case.contains(r.stderr, cure, "mon")
    case.equal(h.run(*without_library(), h.GPUXRAY, "mon", "--once").returncode, 0, "mon --once")
    d.stop()


@h.test("a scrape of 1,000 processes", exclusive=True)
def thousand(case):
    w = case.work("work_many", "hold", "--wait-start", "--processes=1000", "--blocks=2", "--stacks=2")
    w.next("ready")
    d = case.daemon("--library", MANY, config=config(listen="127.0.0.1:0"))
    port = ports(d)[0]
    w.go()
    h.poll(lambda: len([p for p in d.status()["processes"] if p["live_count"]]) >= 1000, 60, "1,000 processes", every=0.5)
    times, cpu = [], []
    for _ in range(5):
        time.sleep(1.05)  # what is fresh is not made again
        spent, begin = cpu_seconds(d.pid), time.monotonic()
        status, _, text = get(port)
        times.append(time.monotonic() - begin)
        cpu.append(cpu_seconds(d.pid) - spent)
        case.equal(status, 200, "status")
    samples = parse(case, text, "1,000 processes")
    count = sum(n == "gpuxray_process_live_bytes" for n, _ in samples)
    case.equal(count, 1000, "processes with series")
    begin = time.monotonic()
    get(port)
    again = time.monotonic() - begin
    h.comment(f"{len(text) >> 10} KiB, {len(samples)} series: {min(times) * 1000:.0f} to {max(times) * 1000:.0f} ms, "
              f"{max(cpu) * 1000:.0f} ms of processor; {again * 1000:.0f} ms when it is fresh")
    case.check(min(times) < 1, f"a scrape takes {min(times):.2f} s")
    w.kill()
    d.stop()


if __name__ == "__main__":
    h.main()
