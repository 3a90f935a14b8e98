# SPDX-License-Identifier: MIT
"""A headless Chromium, driven over its debugging pipe; and pictures read back."""
import base64
import contextlib
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import zlib

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless_shell")
START_SECONDS, ANSWER_SECONDS = 20, 15


class BrowserError(Exception):
    pass


def find_browser():
    given = os.environ.get("CHROMIUM")
    return given if given else next((p for p in map(shutil.which, NAMES) if p), None)


class Browser:
    def __init__(self, path):
        self.dir = tempfile.mkdtemp(prefix="gpuxray-page-")
        to_read, self.to = os.pipe()
        self.from_, from_write = os.pipe()

        def plumb():
            # Via high numbers: the ends may lie on 3 and 4 themselves.
            a, b = os.dup2(to_read, 100), os.dup2(from_write, 101)
            os.dup2(a, 3)
            os.dup2(b, 4)

        argv = [path, "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check",
                "--disable-gpu",
                "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", "--user-data-dir=" + self.dir]
        if os.geteuid() == 0:
            argv.append("--no-sandbox")
        self.log = open(self.dir + "/stderr", "wb")
        self.p = subprocess.Popen([*argv, "about:blank"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                  close_fds=False,
                                  preexec_fn=plumb, start_new_session=True,
                                  env={**os.environ, "HOME": self.dir, "TZ": "Europe/Berlin"})
        os.close(to_read)
        os.close(from_write)
        self.buffer, self.id, self.events, self.answers = b"", 0, [], {}
        self.call("Browser.getVersion", seconds=START_SECONDS)

    def send(self, method, params=None, session=None):
        self.id += 1
        message = {"id": self.id, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        return self.id

    def receive(self, seconds):
        """Takes in what comes within that time; False if nothing did."""
        if not select.select([self.from_], [], [], max(0, seconds))[0]:
            return False
        data = os.read(self.from_, 1 << 20)
        if not data:
            raise BrowserError("the browser ended: " + self.stderr())
        *whole, self.buffer = (self.buffer + data).split(b"\0")
        for text in whole:
            m = json.loads(text)
            if "id" in m:
                self.answers[m["id"]] = m
            else:
                self.events.append(m)
        return True

    def call(self, method, params=None, session=None, seconds=ANSWER_SECONDS):
        number, end = self.send(method, params, session), time.monotonic() + seconds
        while number not in self.answers:
            if not self.receive(end - time.monotonic()) and time.monotonic() >= end:
                raise BrowserError(f"{method}: no answer in {seconds} s")
        m = self.answers.pop(number)
        if "error" in m:
            raise BrowserError(f"{method}: {m['error'].get('message')}")
        return m["result"]

    def stderr(self):
        with open(self.dir + "/stderr", errors="replace") as f:
            return f.read()[-2000:]

    def close(self):
        with contextlib.suppress(OSError, BrowserError):
            self.send("Browser.close")
        try:
            self.p.wait(5)
        except subprocess.TimeoutExpired:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.p.pid, signal.SIGKILL)
        self.p.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


class Tab:
    """A page in a window of its own size and colours. A tab may be used again: to start one takes long."""

    def __init__(self, browser):
        self.browser = browser
        self.target = browser.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session = browser.call("Target.attachToTarget", {"targetId": self.target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def look(self, width=1280, height=900, dark=False, phone=False):
        self.size, self.ratio = (width, height), 2 if phone else 1
        self.call("Emulation.setDeviceMetricsOverride",
                  {"width": width, "height": height, "deviceScaleFactor": self.ratio, "mobile": phone})
        self.call("Emulation.setEmulatedMedia",
                  {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                                                              {"name": "prefers-reduced-motion", "value": "reduce"}]})
        self.call("Emulation.setTouchEmulationEnabled", {"enabled": phone})

    def call(self, method, params=None, **more):
        return self.browser.call(method, params, self.session, **more)

    def open(self, path, seconds=ANSWER_SECONDS):
        self.call("Page.navigate", {"url": "about:blank"})
        self.mark, self.url = len(self.browser.events), "file://" + path
        self.call("Page.navigate", {"url": self.url})
        self.wait("performance.getEntriesByName('drawn').length > 0", seconds, "the page is drawn")

    def eval(self, code, **more):
        r = self.call("Runtime.evaluate", {"expression": code, "returnByValue": True, "awaitPromise": True}, **more)
        if "exceptionDetails" in r:
            raise BrowserError(f"{code}: {r['exceptionDetails'].get('exception', {}).get('description')}")
        return r["result"].get("value")

    def wait(self, code, seconds=5, what=""):
        end = time.monotonic() + seconds
        while not self.eval(f"Boolean({code})"):
            if time.monotonic() > end:
                raise BrowserError(f"not in {seconds} s: {what or code}")
            time.sleep(0.02)

    def frame(self):
        """After what is due has been drawn."""
        self.eval("new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f)))")

    def box(self, selector):
        """(x, y, width, height) within the window of what the selector finds, scrolled there first."""
        code = "(() => { const e = document.querySelector(%s); if (!e) return null; e.scrollIntoView({ block: 'center' });" \
               " const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()" % json.dumps(selector)
        got = self.eval(code)
        if not got:
            raise BrowserError(f"nothing is {selector}")
        self.frame()
        return self.eval(code)

    def mouse(self, kind, x, y, button="none", count=0, **more):
        self.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": button, "clickCount": count,
                                               "buttons": 1 if button == "left" else 0, **more})

    def click(self, selector):
        x, y, w, h = self.box(selector)
        self.click_at(x + w / 2, y + h / 2)

    def click_at(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, "left", 1)
        self.mouse("mouseReleased", x, y, "left", 1)
        self.frame()

    def drag(self, x0, y0, x1, y1):
        self.mouse("mouseMoved", x0, y0)
        self.mouse("mousePressed", x0, y0, "left", 1)
        for i in range(1, 6):
            self.mouse("mouseMoved", x0 + (x1 - x0) * i / 5, y0 + (y1 - y0) * i / 5, "left")
        self.mouse("mouseReleased", x1, y1, "left", 1)
        self.frame()

    def touch(self, *steps):
        """Each step: the fingers down then, as (x, y); the last is to be ()."""
        for i, fingers in enumerate(steps):
            kind = "touchStart" if i == 0 or len(fingers) > len(steps[i - 1]) else "touchEnd" if len(fingers) < len(steps[i - 1]) else "touchMove"
            self.call("Input.dispatchTouchEvent",
                      {"type": kind, "touchPoints": [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(fingers)]})
        self.frame()

    def press(self, key, code=None, **more):
        keys = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9}
        text = "\r" if key == "Enter" else key if len(key) == 1 else None
        p = {"key": key, "code": code or key, "windowsVirtualKeyCode": keys.get(key, ord(key[0])), **more}
        self.call("Input.dispatchKeyEvent", {"type": "keyDown", **p, **({"text": text} if text else {})})
        self.call("Input.dispatchKeyEvent", {"type": "keyUp", **p})
        self.frame()

    def type(self, text):
        self.call("Input.insertText", {"text": text})

    def screenshot(self, scale=1):
        x, y = self.eval("[scrollX, scrollY]")
        clip = {"x": x, "y": y, "width": self.size[0], "height": self.size[1], "scale": scale}
        return base64.b64decode(self.call("Page.captureScreenshot", {"format": "png", "clip": clip}, seconds=30)["data"])

    def own_events(self):
        return [e for e in self.browser.events[self.mark:] if e.get("sessionId") == self.session]

    def problems(self):
        """What the page complained of: exceptions, console, policy."""
        self.frame()
        out = []
        for e in self.own_events():
            p = e.get("params", {})
            if e["method"] == "Runtime.exceptionThrown":
                out.append(p["exceptionDetails"].get("exception", {}).get("description") or p["exceptionDetails"]["text"])
            elif e["method"] == "Runtime.consoleAPICalled":
                out.append(p["type"] + ": " + " ".join(str(a.get("value", a.get("description"))) for a in p["args"]))
            elif e["method"] == "Log.entryAdded":
                out.append(p["entry"]["text"])
        return out

    def requests(self):
        """Addresses asked for, the page's own and data within it aside."""
        urls = [e["params"]["request"]["url"] for e in self.own_events() if e["method"] == "Network.requestWillBeSent"]
        return [u for u in urls if u != self.url and not u.startswith("data:")]


def png_rows(png):
    """(width, height, bytes a pixel, rows) of an 8-bit RGB or RGBA picture."""
    if png[:8] != b"\x89PNG\r\n\x1a\n":
        raise BrowserError("no PNG")
    at, data = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", png[at + 8:at + 18])
        elif kind == b"IDAT":
            data += png[at + 8:at + 8 + size]
        at += size + 12
    if depth != 8 or colour not in (2, 6):
        raise BrowserError(f"PNG of depth {depth}, colour type {colour}")
    step = 3 if colour == 2 else 4
    raw, stride, rows, before = zlib.decompress(data), width * step, [], bytes(width * step)
    for y in range(height):
        start = y * (stride + 1)
        before = unfilter(raw[start], raw[start + 1:start + 1 + stride], before, step)
        rows.append(before)
    return width, height, step, rows


def unfilter(kind, line, before, step):
    if kind == 0:
        return line
    out = bytearray(line)
    if kind == 2:
        return bytes((a + b) & 255 for a, b in zip(line, before))
    for i in range(len(out)):
        left = out[i - step] if i >= step else 0
        if kind == 1:
            add = left
        elif kind == 3:
            add = (left + before[i]) >> 1
        else:
            corner = before[i - step] if i >= step else 0
            p = left + before[i] - corner
            a, b, c = abs(p - left), abs(p - before[i]), abs(p - corner)
            add = left if a <= b and a <= c else before[i] if b <= c else corner
        out[i] = (out[i] + add) & 255
    return bytes(out)


def png_colours(png):
    """Colours and how often they are seen."""
    width, _, step, rows = png_rows(png)
    counts = {}
    for row in rows:
        for x in range(width):
            c = row[x * step:x * step + 3]
            counts[c] = counts.get(c, 0) + 1
    return counts
