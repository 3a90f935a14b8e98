#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""systemd-journal-upload to systemd-journal-remote, each in a network of its own."""
import json
import os
import shutil
import subprocess

import harness_ship as s
import golden
from harness_ship import h

CONF = s.CONTRIB + "/journal-remote/"
FAR = "/var/log/journal/remote"
ADDRESS = "10.99.0.1"  # of the server, on a wire of its own to the sender


def far_records():
    if not os.path.isdir(FAR) or not os.listdir(FAR):
        return []
    out = h.must("journalctl", "-D", FAR, "-o", "json", "-a", "--no-pager", "-t", "gpuxray")
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def sender_network(case):
    """Words before a command that give it the other end of a wire to this network."""
    if not shutil.which("ip"):
        raise h.Skip("no ip here (package iproute2)")
    holder = case_process(case, ["unshare", "--net", "sleep", "1000"])
    h.poll(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != os.readlink("/proc/self/ns/net"), 5, "a second network")
    for words in (f"link add wire type veth peer name far netns {holder.pid}", f"address add {ADDRESS}/24 dev wire",
                  "link set wire up"):
        h.must("ip", *words.split())
    enter = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
    for words in ("link set lo up", "address add 10.99.0.2/24 dev far", "link set far up"):
        h.must(*enter, "ip", *words.split())
    return enter


def case_process(case, argv):
    return h.Process(case, "network", argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


class Remote:
    """Both ends, with the shipped files where systemd looks for them."""

    def __init__(self, case):
        self.case = case
        self.upload_path, self.remote_path = s.program("systemd-journal-upload"), s.program("systemd-journal-remote")
        self.enter = sender_network(case)
        for name, text in (("upload", open(CONF + "journal-upload.conf").read().replace("logs.example.com", ADDRESS)),
                           ("remote", open(CONF + "journal-remote.conf").read())):
            os.makedirs(f"/run/systemd/journal-{name}.conf.d", exist_ok=True)
            with open(f"/run/systemd/journal-{name}.conf.d/gpuxray.conf", "w") as f:
                f.write(text)
        os.makedirs(FAR)
        self.state = "/var/lib/systemd/journal-upload/state"
        os.makedirs(os.path.dirname(self.state))

    def listen(self):
        # Of its socket unit the test has no use; the rest is as in the shipped drop-in.
        self.server = s.Service(self.case, "remote", [self.remote_path, "--listen-http=19532", f"--output={FAR}/"])
        h.poll(lambda: s.is_listening(19532), 10, "the server listens")

    def upload(self):
        self.client = s.Service(self.case, "upload", [*self.enter, self.upload_path, f"--save-state={self.state}"])
        return self.client


@s.test("journal-upload to journal-remote: the journal itself arrives, with what journald has added")
def whole(case):
    r = Remote(case)
    sent = golden.records(case)
    r.listen()
    r.upload()
    got = s.wait_all(sent, far_records)
    s.check_same(case, sent, got, "at the server")
    by_key = {s.key(g): g for g in got}
    for one in sent:
        there = by_key[s.key(one)]
        case.equal({k: v for k, v in there.items() if not k.startswith("__")},
                   {k: v for k, v in one.items() if not k.startswith("__")}, "fields, journald's too")
    # It is stopped, as a service is, and started again: nothing is lost, and one record of the host may come twice.
    r.client.stop()
    sent += golden.more(case)
    r.upload()
    got = s.wait_all(sent, far_records)
    case.check(len(got) - len(sent) <= 1, f"after a stop {len(got) - len(sent)} records came twice")
    # The server is away: the sender ends, and is started again by its manager.
    r.server.stop()
    sent += golden.more(case)
    case.check(r.client.wait(10) != 0, "the sender ends well without a server")
    r.listen()
    r.upload()
    got = s.wait_all(sent, far_records)
    h.comment(f"after two restarts {len(got) - len(sent)} of {len(sent)} records came twice")
    case.check(len(got) - len(sent) <= 4, f"after the server was away {len(got) - len(sent)} records came twice")


if __name__ == "__main__":
    h.main()
