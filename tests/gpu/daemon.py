# SPDX-License-Identifier: MIT
"""Starts and asks `gpuxray run`, for the tests on a real GPU. Paths are relative to the root of the repository."""
import json
import os
import signal
import subprocess
import time

GPUXRAY = os.environ.get("GPUXRAY", "./gpuxray")
WORK = os.environ.get("WORK") or "/tmp/gpuxray-gpu"  # everything that is written on the way
OUT = os.environ.get("OUT") or WORK                  # the few files worth keeping


def records(path):
    """Records of the JSON sink written so far; a line that is not JSON is one with the key "broken"."""
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            lines = f.read().split("\n")
    except OSError:
        return []
    found = []
    for line in lines[:-1]:  # the last one is empty, or not finished
        try:
            found.append(json.loads(line))
        except ValueError:
            found.append({"broken": line})
    return found


class Daemon:
    def __init__(self, name, *options):
        self.options = options
        os.makedirs(WORK, exist_ok=True)
        self.records_path = f"{WORK}/{name}.jsonl"
        self.log_path = f"{WORK}/{name}.log"
        # A path of our own: no daemon that runs already is asked, and none that we start is left without an address.
        self.env = dict(os.environ, GPUXRAY_SOCKET=f"/tmp/gpuxray-test-{os.getpid()}.sock")
        self.process = None

    def start(self, wait_s=30):
        with open(self.records_path, "wb") as out, open(self.log_path, "ab") as err:
            self.process = subprocess.Popen(
                [GPUXRAY, "run", "--config", "/dev/null", "--rules", "tests/gpu/rules.conf", "--sink", "json",
                 *self.options],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=self.env)
        end = time.monotonic() + wait_s
        while time.monotonic() < end and self.process.poll() is None:
            if self.status() is not None:
                return True
            time.sleep(0.1)
        print(f"the daemon did not answer within {wait_s} s; its words:")
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            print(f.read()[-3000:])
        return False

    def status(self):
        try:
            r = subprocess.run([GPUXRAY, "status", "--json"], env=self.env, capture_output=True, timeout=10)
            return json.loads(r.stdout) if r.returncode == 0 else None
        except (subprocess.TimeoutExpired, ValueError, OSError):
            return None

    def process_of(self, pid):
        for p in (self.status() or {}).get("processes", []):
            if p.get("pid") == pid:
                return p
        return None

    def stop(self):
        """Its exit status; None when it had to be killed."""
        if not self.process:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
