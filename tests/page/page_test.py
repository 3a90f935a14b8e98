# SPDX-License-Identifier: MIT
"""What tests of the page share."""
import json
import os
import re

import browser

MIB, GIB = 1 << 20, 1 << 30
LEFT, RIGHT = 58, 8  # of a plot within its element: scale and margin

tests = []


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def test(name):
    def add(fn):
        tests.append((name, fn))
        return fn
    return add


class World:
    def __init__(self, chromium, page, folder, stories):
        self.browser, self.page, self.folder, self.stories = chromium, page, folder, stories
        self.made, self.tab, self.pages = {}, browser.Tab(chromium), 0

    def story(self, name):
        if name not in self.made:
            self.made[name] = self.stories.STORIES[name]()
        return self.made[name]


class Case:
    """One test. It has one page open at a time."""

    def __init__(self, world, name, problems):
        self.world, self.name, self.problems, self.is_open = world, name, problems, False

    def story(self, name):
        return self.world.story(name)

    def open(self, story, seconds=15, **look):
        """The tab with this story: the name of one, or one itself."""
        story = self.story(story) if isinstance(story, str) else story
        return self.open_html(self.world.stories.embed(self.world.page, story), seconds, **look)

    def open_html(self, html, seconds=15, **look):
        self.world.pages += 1
        path = f"{self.world.folder}/page{self.world.pages}.html"
        with open(path, "w", encoding="utf-8") as f:
            f.write(html)
        self.close()
        tab, self.is_open = self.world.tab, True
        tab.look(**look)
        tab.open(path, seconds)
        return tab

    def check(self, good, text):
        """Notes a failure and goes on."""
        if not good:
            self.problems.append(text)
        return good

    def equal(self, got, want, what):
        return self.check(got == want, f"{what}: {got!r}, not {want!r}")

    def picture(self, tab, name):
        """What is to be seen has to be a picture of something: many colours, none of them nearly everywhere."""
        folder = os.environ.get("SCREENSHOTS")
        if folder:
            os.makedirs(folder, exist_ok=True)
            with open(f"{folder}/{name}.png", "wb") as f:
                f.write(tab.screenshot())
        colours = browser.png_colours(tab.screenshot(scale=0.25 / tab.ratio))
        most = max(colours.values()) / sum(colours.values())
        self.check(len(colours) > 40 and most < 0.93, f"picture {name}: {len(colours)} colours, one of them {most:.0%}")
        return colours

    def close(self):
        """Whatever the page did, it has to have done in peace."""
        if not self.is_open:
            return
        self.is_open = False
        self.problems += [f"the page complained: {p}" for p in self.world.tab.problems()]
        self.problems += [f"the page asked the network for {u}" for u in self.world.tab.requests()]


def format_bytes(n):
    units, i, v = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 0, n
    while v >= 1024:
        v, i = v / 1024, i + 1
    return (str(n) if i == 0 else re.sub(r"\.0$", "", f"{v:.1f}")) + " " + units[i]


class Plot:
    """A device's plot in a tab, pointed at by time."""

    def __init__(self, tab, device=0):
        self.tab, self.root = tab, f"#device-{device}"
        tab.wait(f"document.querySelector('{self.root} .row')", what="the plot is drawn")

    def range(self):
        return self.tab.eval("document.getElementById('range').textContent")

    def x_of(self, t, view):
        x, _, w, _ = self.tab.box(self.root + " .stage")
        return x + LEFT + (t - view[0]) / (view[1] - view[0]) * (w - LEFT - RIGHT)

    def point(self, t, view, height=0.9):
        x, (_, y, _, h) = self.x_of(t, view), self.tab.box(self.root + " .stage")
        self.tab.mouse("mouseMoved", x, y + h * height)
        self.tab.frame()
        self.tab.frame()

    def drag(self, t0, t1, view):
        _, y, _, h = self.tab.box(self.root + " .stage")
        self.tab.drag(self.x_of(t0, view), y + h / 2, self.x_of(t1, view), y + h / 2)

    def reading(self):
        """{ "when", "total", name: value } as told beside the plot."""
        return json.loads(self.tab.eval("""(() => {
            const root = document.querySelector(%s), out = {};
            out.when = root.querySelector(".when b").textContent;
            out.total = root.querySelector(".when .total").textContent;
            for (const r of root.querySelectorAll(".row")) out[r.querySelector(".name").textContent] = r.querySelector(".value").textContent;
            out.near = root.querySelector(".near").textContent;
            return JSON.stringify(out); })()""" % json.dumps(self.root)))
