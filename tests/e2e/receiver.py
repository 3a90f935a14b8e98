# SPDX-License-Identifier: MIT
"""Receivers of syslog: by UDP, TCP and sockets of this host, and a strict parser of what they get."""
import fcntl
import os
import re
import select
import socket
import struct
import termios
import threading

import harness as h

HEADER = re.compile(r"<(\d{1,3})>1 (\S+) (\S{1,255}) (\S{1,48}) (\S{1,128}) (\S{1,32}) ")


class Message:
    """Strictly by RFC 5424."""

    def __init__(self, data):
        text = data.decode()
        m = HEADER.match(text)
        if not m:
            raise ValueError(f"no header: {text[:200]!r}")
        self.facility, self.severity = divmod(int(m[1]), 8)
        self.time, self.host, self.app, self.procid, self.msgid = m.groups()[1:]
        self.params = {}
        i = m.end()
        if text[i] == "-":
            i += 1
        else:
            i = self.element(text, i)
        if text[i:i + 1] not in ("", " "):
            raise ValueError(f"what follows the data: {text[i:i + 50]!r}")
        self.text = text[i + 1:]
        self.size = len(data)

    def element(self, text, i):
        name = re.compile(r"\[[!#-<>-\\^-~]{1,32}").match(text, i)
        if not name or "@" not in name[0]:
            raise ValueError(f"no element: {text[i:i + 50]!r}")
        i = name.end()
        while text[i] == " ":
            m = re.compile(r' ([!#-<>-\\^-~]{1,32})="((?:[^"\\\]]|\\["\\\]])*)"').match(text, i)
            if not m:
                raise ValueError(f"no parameter: {text[i:i + 100]!r}")
            if m[1] in self.params:
                raise ValueError(f"{m[1]} twice")
            self.params[m[1]] = re.sub(r"\\(.)", r"\1", m[2])
            i = m.end()
        if text[i] != "]":
            raise ValueError(f"no end of the element: {text[i:i + 50]!r}")
        return i + 1


class Receiver(threading.Thread):
    """Takes messages until it is closed. kind: "udp", "tcp", "dgram" (of this host), "stream"; is_counted: octet counting."""

    def __init__(self, case, kind, is_counted=False, port=0, path=None, rcvbuf=0, is_paused=False):
        super().__init__(daemon=True)
        self.kind, self.is_counted = kind, is_counted
        self.messages, self.torn, self.buf = [], [], b""
        self.connections = 0
        self.on_message = None
        self.go = threading.Event()
        if not is_paused:
            self.go.set()
        local = kind in ("dgram", "stream")
        self.s = socket.socket(socket.AF_UNIX if local else socket.AF_INET,
                               socket.SOCK_STREAM if kind in ("tcp", "stream") else socket.SOCK_DGRAM)
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if rcvbuf:
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.s.bind(path if local else ("127.0.0.1", port))
        if kind in ("tcp", "stream"):
            self.s.listen(8)
        self.port = None if local else self.s.getsockname()[1]
        self.server = f"unix:{path}" if local else f"{kind}://127.0.0.1:{self.port}"
        self.peer = None
        self.stopping = False
        self.stop_r, self.stop_w = os.pipe()
        self.start()
        case.finally_(self.close)

    def wait_readable(self, s):
        return not self.stopping and self.stop_r not in select.select([s, self.stop_r], [], [])[0]

    def run(self):
        if self.kind in ("udp", "dgram"):
            while self.wait_readable(self.s):
                self.add(self.s.recv(1 << 17))
            return
        while self.wait_readable(self.s):
            self.peer, _ = self.s.accept()
            self.connections += 1
            self.buf = b""
            while self.go.wait() and self.wait_readable(self.peer):
                if not self.go.is_set():
                    continue
                try:
                    data = self.peer.recv(4096)
                except ConnectionResetError:
                    data = b""
                if not data:
                    break
                self.buf += data
                self.split()
            if self.buf:
                self.torn.append(self.buf)
            self.unread = struct.unpack("i", fcntl.ioctl(self.peer, termios.FIONREAD, bytes(4)))[0]
            self.peer.close()

    def split(self):
        if not self.is_counted:
            *whole, self.buf = self.buf.split(b"\n")
            for message in whole:
                self.add(message)
            return
        while m := re.match(rb"(\d+) ", self.buf):
            end = m.end() + int(m[1])
            if len(self.buf) < end:
                return
            self.add(self.buf[m.end():end])
            self.buf = self.buf[end:]

    def add(self, message):
        self.messages.append(message)
        if self.on_message:
            self.on_message(message)

    def parsed(self):
        return [Message(m) for m in list(self.messages)]

    def wait_for(self, test, what, seconds=10):
        return h.poll(lambda: next((m for m in self.parsed() if test(m)), None), seconds,
                      lambda: f"{what} at {self.server}; it has {[m[:150] for m in self.messages[-5:]]}")

    def close(self):
        """As when it is killed: what it has not read is gone."""
        if self.stopping:
            return
        self.stopping = True
        os.write(self.stop_w, b"x")
        self.go.set()
        self.join(10)
        self.s.close()
        os.close(self.stop_r)
        os.close(self.stop_w)
