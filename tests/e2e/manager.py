# SPDX-License-Identifier: MIT
"""A stand-in for systemd's store of file descriptors: keeps what the daemon gives it and hands it to the next start.

As systemd does it: FDSTORE=1 with FDNAME= keeps what came along, FDSTOREREMOVE=1 lets go of a name, and unless the
message says FDPOLL=0, a descriptor that reads as hung up or broken is let go of at once. A start gets them from 3 up.
"""
import os
import select
import socket
import sys
import threading

# Asks the manager for the descriptors, puts them where they belong and becomes the daemon.
LAUNCH = """
import fcntl, os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
names, fds = [], []
while True:
    data, got, _flags, _address = socket.recv_fds(s, 65536, 200)
    if not data:
        break
    names += data.decode().split("\\n")
    fds += got
s.close()
high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 3 + len(fds) + 64) for fd in fds]
for fd in fds:
    os.close(fd)
for i, fd in enumerate(high):
    os.dup2(fd, 3 + i, inheritable=True)
    os.close(fd)
env = dict(os.environ)
if fds:
    env.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=":".join(names))
os.execvpe(sys.argv[2], sys.argv[2:], env)
"""


class Manager:
    def __init__(self, case):
        self.case = case
        self.store = []  # (name, fd)
        self.messages = []
        self.dropped = 0  # for being broken
        self.lock = threading.Lock()
        self.notify_path = case.path("notify")
        self.start_path = case.path("start")
        self.notify = self.listen(socket.SOCK_DGRAM, self.notify_path)
        self.starts = self.listen(socket.SOCK_SEQPACKET, self.start_path)
        self.starts.listen()
        self.stop_r, self.stop_w = os.pipe()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        case.finally_(self.close)

    @staticmethod
    def listen(kind, path):
        s = socket.socket(socket.AF_UNIX, kind)
        s.bind(path)
        return s

    def run(self):
        while True:
            ready = select.select([self.notify, self.starts, self.stop_r], [], [])[0]
            if self.stop_r in ready:
                return
            if self.notify in ready:
                self.take()
            elif self.starts in ready:  # messages first, as systemd does it
                self.hand_out()

    def take(self):
        data, fds, _flags, _address = socket.recv_fds(self.notify, 65536, 253)
        lines = dict(line.split("=", 1) for line in data.decode().splitlines() if "=" in line)
        name = lines.get("FDNAME", "stored")
        with self.lock:
            self.messages.append(lines)
            if lines.get("FDSTOREREMOVE") == "1":
                for n, fd in self.store:
                    if n == name:
                        os.close(fd)
                self.store = [(n, fd) for n, fd in self.store if n != name]
            for fd in fds:
                if lines.get("FDSTORE") == "1" and (lines.get("FDPOLL") == "0" or self.is_sound(fd)):
                    self.store.append((name, fd))
                else:
                    self.dropped += lines.get("FDSTORE") == "1"
                    os.close(fd)

    @staticmethod
    def is_sound(fd):
        p = select.epoll()
        try:
            p.register(fd, 0)
        except PermissionError:  # cannot be waited for: kept
            return True
        return not p.poll(0)

    def hand_out(self):
        s, _ = self.starts.accept()
        with self.lock:
            for i in range(0, len(self.store), 200):
                part = self.store[i:i + 200]
                socket.send_fds(s, ["\n".join(n for n, _ in part).encode()], [fd for _, fd in part])
        s.close()

    def names(self):
        with self.lock:
            return sorted(n for n, _ in self.store)

    def add(self, name, fd):
        with self.lock:
            self.store.append((name, fd))

    def drop(self, test):
        """What a store that is too small, or another manager, would lack."""
        with self.lock:
            kept = []
            for n, fd in self.store:
                if test(n):
                    os.close(fd)
                else:
                    kept.append((n, fd))
            self.store = kept

    def said(self, key, value):
        with self.lock:
            return any(m.get(key) == value for m in self.messages)

    def daemon(self, *options, env=None, **kw):
        with self.lock:
            self.messages = []
        return self.case.daemon(*options, env={"NOTIFY_SOCKET": self.notify_path, **(env or {})},
                                wrap=(sys.executable, "-c", LAUNCH, self.start_path), **kw)

    def close(self):
        os.write(self.stop_w, b"x")
        self.thread.join(10)
        for s in (self.notify, self.starts):
            s.close()
        self.drop(lambda n: True)
        os.close(self.stop_r)
        os.close(self.stop_w)
