# SPDX-License-Identifier: MIT
"""Plots: what they say of a moment, zooming, marks."""
import re

import make_story as m
import page_test as h

WHOLE = (m.FROM, m.UNTIL)


def held(story, device, t):
    """{ name: bytes } on a device at a moment, by the data."""
    return {m.name_of(p): m.value_at(p, x, t) for p in story["processes"] for x in p["held"] if x["device"] == device}


def named(story, *comms):
    return {m.name_of(p) for p in story["processes"] if p["comm"] in comms}


def quiet_moments(story, device, room):
    """Moments about which nothing changes for so long."""
    changes = sorted({q[0] for p in story["processes"] for x in p["held"] if x["device"] == device for q in x["points"]} |
                     {p["end_usec"] for p in story["processes"] if p["end_usec"]} | {story["from_usec"],
                             story["until_usec"]})
    return [(a + b) // 2 for a, b in zip(changes, changes[1:]) if b - a > 2 * room]


@h.test("pointing at a moment tells what was held then")
def hover(case):
    story = case.story("night")
    tab = case.open(story)
    for device in (0, 1):
        plot = h.Plot(tab, device)
        moments = quiet_moments(story, device, 3 * m.MIN)
        case.check(len(moments) > 5, f"only {len(moments)} moments to look at")
        for t in moments[::max(1, len(moments) // 4)]:
            plot.point(t, WHOLE)
            want, got = held(story, device, t), plot.reading()
            case.equal(got["total"], h.format_bytes(sum(want.values())), f"total on {device} at {t}")
            for name, v in want.items():
                case.equal(got[name], h.format_bytes(v), f"{name} on {device} at {t}")
    tab.mouse("mouseMoved", 5, 5)
    tab.frame()
    case.equal(h.Plot(tab, 0).reading()["total"], h.format_bytes(story["devices"][0]["peak_bytes"]),
               "most, when nothing is pointed at")


@h.test("the moment told is the one on the clock, with the nearest mark and the driver's figure")
def moment(case):
    story = case.story("night")
    tab = case.open(story)
    plot = h.Plot(tab)
    plot.drag(m.at("02:50"), m.at("03:30"), WHOLE)
    plot.drag(m.at("03:11"), m.at("03:14"), (m.at("02:50"), m.at("03:30")))
    plot.point(m.at("03:12:07") + m.SEC // 2, (m.at("03:11"), m.at("03:14")))
    got = plot.reading()
    case.check(got["when"].startswith("Tue 1 Dec 04:12:0"), f"the moment is {got['when']}")
    case.equal(got[named(story, "python3").pop()], "58.9 GiB", "at the failure")
    case.check("llocat" in got["near"] and got["near"].endswith(("that moment)", "1s before)", "1s after)")),
               f"the nearest mark is told as {got['near']!r}")
    used = [q[3] for q in story["devices"][0]["used"] if q[0] <= m.at("03:12:07")][-1]
    case.equal(got["in use, as the driver says"], h.format_bytes(used), "driver's figure")
    case.picture(tab, "moment")


@h.test("no peak is lost however narrow")
def peaks(case):
    t = m.Teller(5, m.FROM, m.FROM + 7 * 24 * m.HOUR)
    host = t.host("gpu01")
    gpu = t.device(host, 0)
    spike = m.FROM + 50 * m.HOUR + 7 * m.MIN
    band = m.FROM + 100 * m.HOUR
    points = [[m.FROM, m.GIB, m.GIB, m.GIB], [spike, m.GIB, 60 * m.GIB, 60 * m.GIB],
              [spike + m.SEC, m.GIB, 60 * m.GIB, m.GIB],
              [band - m.HOUR, m.GIB, m.GIB, m.GIB], [band, m.GIB, 44 * m.GIB, m.GIB], [band + m.HOUR, m.GIB, m.GIB, m.GIB]]
    t.process(host, 9, "spiky", {gpu: points}, m.FROM)
    story = t.finish()
    tab = case.open(story)
    plot, view = h.Plot(tab), (story["from_usec"], story["until_usec"])
    plot.point(spike, view)
    case.equal(plot.reading()["total"], "60 GiB", "a second's peak in a week")
    plot.point(band - m.HOUR // 2, view)
    got = plot.reading()
    case.equal((got["total"], got["pale: at most, between samples"]), ("1 GiB", "44 GiB"),
               "what it may have been between two samples")


@h.test("zoom by drag, in all plots, and back")
def zoom(case):
    tab = case.open("night")
    plot = h.Plot(tab)
    case.check(tab.eval("document.getElementById('reset').disabled"), "there is nothing to reset at first")
    before = plot.range()
    plot.drag(m.at("02:00"), m.at("04:00"), WHOLE)
    got = plot.range()
    case.check(re.match(r"Tue 1 Dec 0(2:59|3:00):\d\d \u2013 0(4:59|5:00):\d\d$", got),
               f"after a drag from 03:00 to 05:00: {got}")
    plot.point(m.at("03:00"), (m.at("02:00"), m.at("04:00")))
    case.check(plot.reading()["when"].startswith(("Tue 1 Dec 03:59", "Tue 1 Dec 04:00")),
               f"in its middle: {plot.reading()['when']}")
    h.Plot(tab, 1).point(m.at("03:00"), (m.at("02:00"), m.at("04:00")))
    case.check(h.Plot(tab, 1).reading()["when"].startswith(("Tue 1 Dec 03:59", "Tue 1 Dec 04:00")),
               "the other plot has another view")
    tab.click("#reset")
    case.equal(plot.range(), before, "after the reset")
    x, y, w, height = tab.box("#overview .stage")
    tab.drag(x + w / 4, y + height / 2, x + w / 2, y + height / 2)
    middle = plot.range()
    case.check(re.match(r"Mon 30 Nov 22:(29|30):\d\d \u2013 Tue 1 Dec 0(1:59|2:00):\d\d$", middle),
               f"after a drag in the overview: {middle}")
    tab.drag(x + w * 0.375, y + height / 2, x + w * 0.475, y + height / 2)
    case.check(plot.range() != middle, "the window did not move")
    tab.click("#reset")
    x, y, w, height = tab.box("#device-0 .stage")
    tab.mouse("mouseWheel", x + w / 2, y + 100, deltaX=0, deltaY=-300, modifiers=2)
    tab.frame()
    case.check(plot.range() != before, "Ctrl and wheel did not zoom")
    tab.call("Input.dispatchMouseEvent", {"type": "mousePressed", "x": x + w / 2, "y": y + 20, "button": "left",
                                          "clickCount": 2})
    tab.call("Input.dispatchMouseEvent", {"type": "mouseReleased", "x": x + w / 2, "y": y + 20, "button": "left",
                                          "clickCount": 2})
    tab.frame()
    case.equal(plot.range(), before, "after a double click")


@h.test("fingers: pinch zooms, one finger moves")
def fingers(case):
    tab = case.open("night", width=390, height=844, phone=True)
    plot = h.Plot(tab)
    before = plot.range()
    x, y, w, height = tab.box("#device-0 .stage")
    mid, line = x + w / 2, y + height / 2
    tab.touch([(mid - 20, line), (mid + 20, line)], [(mid - 50, line), (mid + 50, line)],
              [(mid - 90, line), (mid + 90, line)], [])
    zoomed = plot.range()
    case.check(zoomed != before, "a pinch did not zoom")
    tab.touch([(mid + 60, line)], [(mid + 20, line)], [(mid - 60, line)], [])
    case.check(plot.range() not in (zoomed, before), "a finger did not move what is in view")
    tab.touch([(mid, line)], [])
    case.check(plot.reading()["when"] != "Most in this report", "a tap tells nothing")
    case.equal(tab.eval("document.documentElement.scrollWidth"), 390, "width of the page")


@h.test("a mark opens what it is about")
def marks(case):
    story = case.story("night")
    tab = case.open(story)
    h.Plot(tab)
    number = next(i for i, x in enumerate(story["incidents"]) if x["severity"] == "critical")
    tab.click("#device-0 .mark.critical")
    case.equal(tab.eval(f"document.querySelector('#incident-{number} .fold').getAttribute('aria-expanded')"), "true",
               "its row is unfolded")
    case.check(tab.eval(f"""(() => {{ const b = document.getElementById("incident-{number}").getBoundingClientRect();
        return b.top > 0 && b.bottom < innerHeight; }})()"""), "its row is not in sight")
    case.equal(tab.eval("document.activeElement.id"), f"incident-{number}", "what has the focus")
    case.equal(tab.eval(f"document.querySelector('#incident-{number} + tr a').href"),
               "https://runbooks.example.org/gpu/full", "its runbook")
    tab.click("#device-0 .mark.failure")
    case.equal(tab.eval("document.activeElement.id"), "failure-0", "what has the focus after a failure's mark")


@h.test("with keys alone")
def keys(case):
    tab = case.open("night")
    plot = h.Plot(tab)
    tab.eval("document.getElementById('search').focus()")
    seen = []
    for _ in range(12):
        tab.press("Tab")
        seen.append(tab.eval("document.activeElement.getAttribute('role') + ' ' + (document.activeElement.getAttribute('aria-label') || document.activeElement.id)"))
        if seen[-1].startswith("slider Memory on GPU 0"):
            break
    case.check(seen[-1].startswith("slider Memory on GPU 0"), f"the plot is not reached: {seen}")
    case.check(tab.eval("parseFloat(getComputedStyle(document.activeElement).outlineWidth) >= 2"),
               "the focus is not to be seen")
    tab.press("ArrowRight")
    first = tab.eval("document.activeElement.getAttribute('aria-valuetext')")
    tab.press("ArrowRight")
    case.check(tab.eval("document.activeElement.getAttribute('aria-valuetext')") != first,
               f"an arrow does not move from {first}")
    before = plot.range()
    tab.press("+", "Equal")
    case.check(plot.range() != before, "plus does not zoom")
    tab.press("0", "Digit0")
    case.equal(plot.range(), before, "0 shows all again")
    tab.press("n", "KeyN")
    tab.press("Enter")
    case.check(tab.eval("/^(incident|failure)-/.test(document.activeElement.id)"),
               f"Enter opened nothing: {tab.eval('document.activeElement.outerHTML')[:200]}")


@h.test("a process that is picked is shown everywhere")
def pick(case):
    story = case.story("night")
    tab = case.open(story)
    plot = h.Plot(tab)
    plot.point(m.at("23:00"), WHOLE, height=0.85)
    x, (_, y, _, height) = plot.x_of(m.at("23:00"), WHOLE), tab.box("#device-0 .stage")
    tab.click_at(x, y + height * 0.85)
    name = m.name_of(story["processes"][0])
    case.equal(tab.eval("document.querySelector('.row[aria-pressed=true] .name').textContent"), name, "picked in the list")
    case.check(tab.eval("document.getElementById('process-0').classList.contains('picked')"),
               "its row among the processes is not marked")
    case.equal(tab.eval("document.querySelectorAll('#incidents tr.picked').length"),
               sum(x["process"] == 0 for x in story["incidents"]), "incidents marked")
    case.check(name in tab.eval("document.getElementById('clear').textContent"), "what is picked is not told above")
    tab.eval("document.getElementById('sites').scrollIntoView()")
    tab.wait("document.querySelector('.frame')")
    case.equal(tab.eval("document.querySelector('.frame').textContent"), name, "flame graph of it")
    case.picture(tab, "picked")
    tab.click("#clear")
    case.equal(tab.eval("document.querySelectorAll('.row[aria-pressed=true]').length"), 0, "picked after clearing")


@h.test("a filter: by process, unit, user, host")
def search(case):
    story = case.story("night")
    tab = case.open(story)
    plot = h.Plot(tab)
    for text, want in (("user:alice", named(story, "python3", "torchrun", "eval")), ("unit:inference", named(story, "vllm")),
                       ("host:gpu01 jup", named(story, "jupyter")), ("4711", named(story, "python3")), ("user:inference", set())):
        tab.eval("document.getElementById('search').value = ''; document.getElementById('search').focus()")
        tab.type(text)
        tab.wait("[...document.querySelectorAll('#processes tr.main .process')].map(e => e.textContent).sort().join() === " +
                 repr(",".join(sorted(want))),
                 what=f"{text!r} leaves {sorted(want)}")
        case.check(tab.eval("document.getElementById('clear').textContent").startswith(f"{len(want)} process"),
                   "how many match is not told")
    tab.eval("document.getElementById('search').value = ''; document.getElementById('search').focus()")
    tab.type("vllm")
    tab.wait("document.getElementById('clear').textContent.startsWith('1 ')")
    t = quiet_moments(story, 0, 3 * m.MIN)[8]
    plot.point(t, WHOLE)
    want, got = held(story, 0, t), plot.reading()
    case.equal(got["total"], h.format_bytes(sum(want.values())), "the total stays what it is")
    case.equal(got["others (2)"], h.format_bytes(sum(want.values()) - want[named(story, "vllm").pop()]), "what the filter left out")
    tab.click("#clear")
    case.equal(tab.eval("document.querySelectorAll('#processes tr.main').length"), 7, "processes after clearing")
