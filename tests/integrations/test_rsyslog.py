#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rsyslog: journal to JSON file, to another host, and the syslog sink through mmjsonparse."""
import json
import os
import re
import socket
import threading

import harness_ship as s
import golden
from harness_ship import h

CONF = s.CONTRIB + "/rsyslog/"
OUT = "/var/log/gpuxray.json"
SOCKET = "/var/spool/rsyslog/gpuxray.sock"
# What Debian's own /etc/rsyslog.conf has before and after its drop-ins, as far as it matters here.
MAIN = """module(load="imuxsock" SysSock.Use="off")
$WorkDirectory {spool}
{drop_ins}
*.* action(type="omfile" file="{rest}")
"""


class Rsyslog:
    def __init__(self, case, *drop_ins, name="rsyslog"):
        self.case, self.name = case, name
        self.rest = case.path(name + "-rest.log")
        spool = "/var/spool/" + name
        os.makedirs(spool, 0o700)
        self.conf = case.write(name + ".conf", MAIN.format(
            spool=spool, rest=self.rest, drop_ins="\n".join(f'include(file="{f}")' for f in drop_ins)))
        root = s.SHIPPERS if s.is_unpacked(s.program("rsyslogd")) else ""
        modules = [d + "/rsyslog" for d in s.lib_folders()] if root else []
        self.options = ["-f", self.conf, *(["-M", ":".join(modules)] if modules else [])]
        self.service = None

    def check(self):
        out = s.checker(self.case, "rsyslogd", "-N1", *self.options)
        self.case.check(not re.search(r"error|warning|deprecat", out.replace("error 0", ""), re.I), f"rsyslogd -N1: {out}")

    def start(self):
        self.service = s.Service(self.case, self.name,
                                 [s.program("rsyslogd"), "-n", "-i", self.case.path(self.name + ".pid"), *self.options])
        return self.service


def wait_all(sent, path=OUT, seconds=15):
    return s.wait_all(sent, lambda: s.json_lines(path), seconds)


def uncomment_tcp(text):
    """The file of a central server."""
    return re.sub(r"^#(module\(load=.imtcp|input\(type=.imtcp)", r"\1", text, flags=re.M)


@s.test("rsyslog reads the journal: every record once, every field as it is, nothing of others")
def journal(case):
    r = Rsyslog(case, CONF + "30-gpuxray-journal.conf")
    r.check()
    sent = golden.records(case)
    s.write_foreign_records()
    r.start()
    wait_all(sent)
    got = s.json_lines(OUT)
    s.check_same(case, sent, got, "file")
    s.check_no_foreign(case, got)
    case.check(not os.path.exists(r.rest) or "gpuxray" not in open(r.rest).read(), "written a second time")


@s.test("rsyslog is stopped, and killed: what comes meanwhile arrives, and after a stop once")
def restart(case):
    r = Rsyslog(case, CONF + "30-gpuxray-journal.conf")
    sent = golden.records(case)
    r.start()
    wait_all(sent)
    case.equal(r.service.stop(), 0, "exit status")
    sent += golden.more(case)
    r.start()
    s.check_same(case, sent, wait_all(sent), "after a stop")
    r.service.kill()
    sent += golden.more(case)
    r.start()
    got = wait_all(sent)
    h.comment(f"after a kill {len(got) - len(sent)} of {len(sent)} records came twice")
    case.check(len(got) - len(sent) <= 10, f"{len(got) - len(sent)} came twice")


class Tee(threading.Thread):
    """A socket that hands on to another one, and knows what has come."""

    def __init__(self, path, to):
        super().__init__(daemon=True)
        self.come = []
        self.to = to
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.start()

    def run(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.connect(self.to)
            while True:
                data = self.socket.recv(1 << 17)
                self.come.append(json.loads(data.split(b"@cee: ", 1)[1]))
                out.send(data)


@s.test("the syslog sink with \"@cee:\" through mmjsonparse: the same fields; what is cut away is counted")
def cee(case):
    r = Rsyslog(case, CONF + "30-gpuxray-cee.conf")
    r.check()
    r.start()
    h.poll(lambda: os.path.exists(SOCKET), 10, "rsyslog's socket")
    dev = case.path("dev")
    os.mkdir(dev)
    tee = Tee(dev + "/log", SOCKET)
    d = case.daemon(rules=golden.RULES, sink="syslog", config="syslog = { cee = true; };\n" + golden.CONFIG,
                    wrap=h.in_namespace(f"mount --bind '{dev}' /dev"))

    def arrives(pid, **want):
        want = {"GPUXRAY_" + k.upper(): str(v) for k, v in {"pid": pid, **want}.items() if v is not None}
        h.poll(lambda: any(want.items() <= x.items() for x in s.json_lines(OUT)), 10, f"line {want}")

    golden.act(case, arrives)
    d.stop()
    arrives(None, event="stop")
    got = s.json_lines(OUT)
    case.equal({g.pop("_HOSTNAME") for g in got}, {os.uname().nodename}, "_HOSTNAME")
    case.equal(len(got), len(tee.come), "lines")
    for g, sent in zip(got, tee.come):
        case.equal(g, sent, f"line of {sent['GPUXRAY_EVENT']}")
    # What the sink had to leave out it has counted, and a field is there or not.
    case.check(any("GPUXRAY_CUT" in g for g in got), "no record was too large: the test shows nothing about those")
    for g in got:
        is_whole = "GPUXRAY_CUT" in g or "GPUXRAY_STACK_ID" not in g or "GPUXRAY_STACK" in g
        case.check(is_whole or g["GPUXRAY_STATE"] == "resolved", f"a stack is gone: {sorted(g)}")


@s.test("rsyslog to another rsyslog: whole records, those too that come while that one is away")
def forward(case):
    here = case.write("forward.conf", open(CONF + "29-gpuxray-forward.conf").read().replace("logs.example.com", "127.0.0.1")
                      .replace('action.resumeInterval="10"', 'action.resumeInterval="1"'))
    far = case.path("far.json")
    there = case.write("receive.conf", uncomment_tcp(open(CONF + "30-gpuxray-cee.conf").read()).replace(OUT, far))
    sender = Rsyslog(case, here, CONF + "30-gpuxray-journal.conf", name="sender")
    receiver = Rsyslog(case, there, name="receiver")
    sender.check()
    receiver.check()
    receiver.start()
    h.poll(lambda: s.is_listening(6514), 10, "the receiver listens")
    sent = golden.records(case)
    sender.start()
    s.check_same(case, sent, wait_all(sent, far), "at the other host")
    receiver.service.stop()
    sent += golden.more(case)
    wait_all(sent)
    receiver.start()
    got = wait_all(sent, far)
    h.comment(f"{len(got) - len(sent)} of {len(sent)} came twice")


if __name__ == "__main__":
    h.main()
