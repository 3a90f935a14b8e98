# SPDX-License-Identifier: MIT
"""What the tests of integrations share, on top of the harness of the end-to-end tests: where programs are, and ways to
wait for what arrives."""
import ctypes
import fcntl
import glob
import http.server
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.realpath(__file__))
E2E = os.path.realpath(HERE + "/../e2e")
sys.path.insert(0, E2E)
import harness as h  # noqa: E402

h.HERE = HERE  # where tests and their runner are
CONTRIB = h.ROOT + "/contrib"
SHIPPERS = os.path.realpath(os.environ.get("SHIPPERS") or h.ROOT + "/.build/shippers")


def lib_folders():
    return glob.glob(SHIPPERS + "/usr/lib/*-linux-gnu") + [SHIPPERS + "/usr/lib/syslog-ng"]


def env():
    """For what fetch has unpacked: where its libraries are."""
    return {"LD_LIBRARY_PATH": ":".join(lib_folders())}


def program(name):
    """Path of a program, unpacked or installed; Skip where there is none."""
    folders = ("usr/sbin", "usr/bin", "lib/systemd", "usr/lib/systemd")
    places = [f"{root}/{d}/{name}" for root in (SHIPPERS, "") for d in folders]
    found = next((p for p in places if os.access(p, os.X_OK)), None) or shutil.which(name)
    if not found:
        raise h.Skip(f"no {name} here (tests/integrations/fetch gets it)")
    return found


def is_unpacked(path):
    return path.startswith(SHIPPERS + "/")


def checker(case, name, *args, good=True):
    """Runs one that says whether a file is good; its output."""
    r = h.run(program(name), *args, env={**os.environ, **env()})
    out = r.stdout + r.stderr
    case.check((r.returncode == 0) == good, f"{name} {' '.join(args)}: exit status {r.returncode}: {out[-1500:]}")
    return out


class Service(h.Process):
    """A shipper or its like, in the foreground. stop() is the polite way, as its service manager has it."""

    def __init__(self, case, name, argv, extra_env=None, cwd=None):
        # One log a start: a second one of the same name must not hide the first.
        case.service_count = getattr(case, "service_count", 0) + 1
        argv = ["env", "-C", cwd, *argv] if cwd else argv
        super().__init__(case, f"{name}-{case.service_count}", argv, env={**env(), **(extra_env or {})},
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def stop(self, seconds=15):
        self.p.terminate()
        return self.wait(seconds)


# ---- a world of each test's own

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000


def bring_up_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH14x", b"lo", 0x1)  # struct ifreq: IFF_UP
        fcntl.ioctl(sock, 0x8914, request)  # SIOCSIFFLAGS


def enter_world():
    """From here on this process and its children have a network of their own, with nothing but loopback, and empty
    folders where shippers keep their files: shipped configurations run as they are, on the ports that they name."""
    if h.libc.unshare(CLONE_NEWNS | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    for d in ("/var/log", "/var/lib", "/var/spool"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", d], check=True)
    bring_up_loopback()


def test(name, **kw):
    """As that of the end-to-end tests, in such a world."""
    def add(fn):
        @h.test(name, **kw)
        def inside(case):
            enter_world()
            fn(case)
        return inside
    return add


# ---- Alertmanager, and who is paged


ALERTS = "http://127.0.0.1:9093/api/v2/alerts"


class Pager(threading.Thread):
    """What a receiver of Alertmanager's webhooks is told."""

    PORT = 9876

    def __init__(self):
        super().__init__(daemon=True)
        told = self.told = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.PORT), Handler)
        self.start()

    def run(self):
        self.server.serve_forever()

    def alerts(self, **labels):
        """Those told of, with the status at the time."""
        return [a for t in self.told for a in t["alerts"] if labels.items() <= a["labels"].items()]


def alertmanager_conf(case, places=("gpu-pager", "gpu-tickets", "gpu-log")):
    """The shipped file with places to send to, and without its patience."""
    with open(CONTRIB + "/alertmanager/gpuxray-route.yml") as f:
        text = f.read()
    text = re.sub(r"(group_wait|group_interval): \w+", r"\1: 1s", text)
    for name in places:
        text = text.replace(f"  - name: {name}\n", f"  - name: {name}\n    webhook_configs:\n"
                            f"      - url: http://127.0.0.1:{Pager.PORT}/{name}\n")
    return case.write("alertmanager.yml", text)


def start_alertmanager(case):
    path = program("prometheus-alertmanager")
    if is_unpacked(path) and not os.path.exists("/usr/share/prometheus/alertmanager"):
        # It wants a file at the place where its package puts it.
        h.must("mount", "-t", "overlay", "-o", f"lowerdir={SHIPPERS}/usr/share:/usr/share", "overlay", "/usr/share")
    am = Service(case, "alertmanager", [
        path, "--config.file=" + alertmanager_conf(case), "--storage.path=" + case.path("am"),
        "--web.listen-address=127.0.0.1:9093", "--cluster.listen-address="])
    h.poll(lambda: get_json(ALERTS) is not None, 15, "Alertmanager answers")
    return am


# ---- records that are not the daemon's


def write_record(fields, uid=0):
    """One in the journal, as the daemon writes it."""
    text = "".join(f"{k}={v}\n" for k, v in fields.items())
    h.must("setpriv", f"--reuid={uid}", "logger", "--journald", input=text)


def write_foreign_records():
    """One by another program, and one that a user has forged: a page that nobody may cause."""
    write_record({"SYSLOG_IDENTIFIER": "another", "MESSAGE": "of another program"})
    forged = {"SYSLOG_IDENTIFIER": "gpuxray", "MESSAGE": "forged", "GPUXRAY_EVENT": "live_bytes", "GPUXRAY_STATE": "firing"}
    write_record(forged, uid=65534)
    h.poll(lambda: h.journal_json("_UID=65534", "MESSAGE=forged"), 5, "the forged record in the journal")


def check_no_foreign(case, got):
    case.equal([g.get("MESSAGE") for g in got if g.get("_UID") != "0" or g["SYSLOG_IDENTIFIER"] != "gpuxray"], [],
               "records of others")


# ---- what arrives


def json_lines(path):
    """Objects of a file of JSON lines, as far as it is written; a line that is none shows itself."""
    try:
        with open(path, encoding="utf-8") as f:
            text = f.read()
    except FileNotFoundError:
        return []
    found = []
    for line in text.split("\n")[:-1]:
        try:
            found.append(json.loads(line))
        except ValueError as e:
            raise h.Failure(f"{path}: {e}: {line[:500]!r}") from None
    return found


def get_json(url, body=None, seconds=5):
    """The answer of an HTTP server; None while it is not there or says no."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})
    try:
        with urllib.request.urlopen(request, timeout=seconds) as f:
            return json.load(f)
    except (OSError, urllib.error.URLError, ValueError):
        return None


def get_text(url, seconds=5):
    try:
        with urllib.request.urlopen(url, timeout=seconds) as f:
            return f.read().decode()
    except OSError:
        return None


def is_listening(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def our_fields(r):
    """What the daemon itself has put into a record."""
    ours = r"GPUXRAY_|MESSAGE$|MESSAGE_ID$|PRIORITY$|DOCUMENTATION$|SYSLOG_(IDENTIFIER|FACILITY)$"
    return {k: v for k, v in r.items() if re.match(ours, k)}


def key(r):
    """One record among those of a test."""
    return tuple(r.get(k) for k in ("_PID", "GPUXRAY_TIME_USEC", "GPUXRAY_EVENT", "GPUXRAY_STATE", "GPUXRAY_PID",
                                    "GPUXRAY_INCIDENT", "GPUXRAY_SEQ", "MESSAGE_ID", "GPUXRAY_STACK_ID"))


def of_same(sent, got):
    """Those by the same daemons: the journal of a run holds records of other tests, too."""
    pids = {r["_PID"] for r in sent}
    return [r for r in got if r.get("_PID") in pids]


def wait_all(sent, get, seconds=15):
    """What get() has, of the same daemons, once all that was sent is among it."""
    wanted = {key(r) for r in sent}

    def look():
        got = of_same(sent, get())
        return got if wanted <= {key(r) for r in got} else None

    return h.poll(look, seconds, lambda: f"{len(sent)} records arrive: there are {len(of_same(sent, get()))}")


def check_same(case, sent, got, what):
    """Each record of the journal is there once, and every field of ours with the same value."""
    got_by_key = {}
    for r in of_same(sent, got):
        got_by_key.setdefault(key(r), []).append(r)
    case.check(sent, f"{what}: nothing was sent: the test shows nothing")
    for r in sent:
        there = got_by_key.pop(key(r), [])
        name = f"{what}: {r['GPUXRAY_EVENT']} {r.get('GPUXRAY_STATE', '')}"
        if not case.equal(len(there), 1, f"{name}: times it is there"):
            continue
        ours = our_fields(r)
        for k, v in ours.items():
            case.equal(there[0].get(k), v, f"{name}: {k}")
        case.equal(sorted(set(our_fields(there[0])) - set(ours)), [], f"{name}: fields that were never sent")
    case.equal(len(got_by_key), 0, f"{what}: records that were never sent: {list(got_by_key)[:3]}")
