# SPDX-License-Identifier: MIT
"""What is to be seen: sizes, colours, text, what the page is made of."""
import re

import page_test as h

CONTRAST = """(() => {
    const lum = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgba = text => { probe.clearRect(0, 0, 1, 1); probe.fillStyle = "#000"; probe.fillStyle = text; probe.fillRect(0, 0, 1, 1);
        const d = probe.getImageData(0, 0, 1, 1).data; return [[d[0], d[1], d[2]], d[3] / 255]; };
    const over = (a, alpha, b) => a.map((v, i) => v * alpha + b[i] * (1 - alpha));
    const ground = e => { if (!e) return [255, 255, 255]; const [c, a] = rgba(getComputedStyle(e).backgroundColor);
        return a >= 1 ? c : a <= 0 ? ground(e.parentElement) : over(c, a, ground(e.parentElement)); };
    const bad = new Map(), small = new Set();
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const e = walk.currentNode.parentElement, s = getComputedStyle(e);
        if (!walk.currentNode.textContent.trim() || e.closest("script, style, noscript, :disabled") || !e.getClientRects().length || s.visibility === "hidden" ||
            e.closest("option")) continue;
        if (parseFloat(s.fontSize) < 11) small.add(e.className || e.tagName);
        let opacity = 1;
        for (let p = e; p; p = p.parentElement) opacity *= parseFloat(getComputedStyle(p).opacity);
        const back = ground(e), [c, a] = rgba(s.color), front = over(c, a * opacity, back);
        const [x, y] = [lum(front), lum(back)].sort((p, q) => q - p), ratio = (x + 0.05) / (y + 0.05);
        if (ratio < 4.5) bad.set(e.tagName + "." + e.className + " " + walk.currentNode.textContent.trim().slice(0, 30), ratio.toFixed(2));
    }
    return [[...bad].slice(0, 10), [...small]]; })()"""


@h.test("the page without a story is small, whole and locked")
def page_itself(case):
    page = case.world.page
    case.check(len(page.encode()) < 80 * 1024, f"{len(page.encode())} bytes, 80 KiB at most")
    case.check("@js@" not in page and "@css@" not in page and page.count("@story@") == 1, "a place was not filled in")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    case.check(policy.startswith("default-src 'none';") and "unsafe" not in policy and "http" not in policy,
               f"the policy is {policy}")
    case.equal(re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page), [], "what the page refers to")
    case.equal(re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|fetch\(|XMLHttpRequest|WebSocket", page), [],
               "what the script must not use")


def look(case, dark, phone):
    size = {"width": 390, "height": 844} if phone else {"width": 1280, "height": 900}
    tab = case.open("night", dark=dark, phone=phone, **size)
    h.Plot(tab)
    tab.eval("document.getElementById('devices').scrollIntoView()")
    tab.frame()
    name = f"night-{'phone' if phone else 'desktop'}-{'dark' if dark else 'light'}"
    colours = case.picture(tab, name)
    ground = max(colours, key=colours.get)
    case.check((sum(ground) < 200) == dark, f"most of it is {tuple(ground)}")
    case.equal(tab.eval("document.documentElement.scrollWidth"), size["width"], "width of the page")
    # The colours of processes are on the canvas, so it has been drawn.
    blue = bytes((0x3d, 0x9b, 0xe0)) if dark else bytes((0x00, 0x68, 0xa8))
    case.check(colours.get(blue, 0) > 50, f"the first process's colour is seen {colours.get(blue, 0)} times")
    tab.click("#process-0 .fold")
    tab.click("#incident-1 .fold")
    tab.eval("document.getElementById('sites').scrollIntoView()")
    tab.wait("document.querySelector('.frame')")
    bad, small = tab.eval(CONTRAST)
    case.equal(bad, [], "text with too little contrast")
    case.equal(small, [], "text that is too small")
    case.picture(tab, name + "-sites")
    for part in ("failures", "incidents", "processes"):
        tab.eval(f"document.getElementById('{part}').scrollIntoView()")
        tab.frame()
        case.picture(tab, f"{name}-{part}")
    case.equal(tab.eval("document.documentElement.scrollWidth"), size["width"], "width of the page with all unfolded")
    return tab


@h.test("desktop, light")
def desktop_light(case):
    tab = look(case, dark=False, phone=False)
    case.equal(tab.eval("document.title"), "GPU memory report, Mon 30 Nov 19:00, gpu01", "title")
    stretch = tab.eval("document.getElementById('stretch').textContent")
    case.check("Mon 30 Nov 19:00" in stretch and "Europe/Berlin (UTC+01:00)" in stretch and "gpu01" in stretch,
               f"the stretch is told as {stretch!r}")
    case.equal(tab.eval("[...document.querySelectorAll('#tiles li')].map(e => e.textContent)"),
               ["2 devices", "7 processes", "3 failed allocations", "5 incidents", "2 gaps"], "counts")


@h.test("desktop, dark by the system, and light by the button")
def desktop_dark(case):
    tab = look(case, dark=True, phone=False)
    case.equal(tab.eval("getComputedStyle(document.body).backgroundColor"), "rgb(15, 20, 25)", "dark ground")
    tab.click("#theme")
    case.equal(tab.eval("getComputedStyle(document.body).backgroundColor"), "rgb(243, 245, 248)", "light ground")
    colours = case.picture(tab, "night-desktop-dark-to-light")
    case.check(sum(max(colours, key=colours.get)) > 600, "most of it is not light")


@h.test("phone, light")
def phone_light(case):
    look(case, dark=False, phone=True)


@h.test("phone, dark")
def phone_dark(case):
    look(case, dark=True, phone=True)


@h.test("times in UTC and in local time")
def zones(case):
    tab = case.open("night")
    tab.click("#zone")
    stretch = tab.eval("document.getElementById('stretch').textContent")
    case.check("Mon 30 Nov 18:00" in stretch and "UTC" in stretch and "Berlin" not in stretch, f"in UTC: {stretch!r}")
    case.check("03:12:07" in tab.eval("document.querySelector('article.failure h3').textContent"),
               "the failure is not told in UTC")
    tab.click("#zone")
    case.check("04:12:07" in tab.eval("document.querySelector('article.failure h3').textContent"),
               "the failure is not told in local time")


@h.test("on paper it is light, and whole")
def paper(case):
    tab = case.open("night", dark=True)
    tab.eval("addEventListener('beforeprint', () => { window.onPaper = document.documentElement.dataset.theme; })")
    size = len(tab.call("Page.printToPDF", {"printBackground": True}, seconds=30)["data"]) * 3 // 4
    case.equal(tab.eval("window.onPaper"), "light", "colours on paper")
    case.check(size > 30000, f"the paper has {size} bytes")
    case.check(tab.eval("document.querySelectorAll('.device .stage').length") == 2, "not all plots were drawn for paper")
    case.check(tab.eval("document.querySelectorAll('.frame').length > 20"), "the flame graph was not drawn for paper")
    case.equal(tab.eval("document.documentElement.dataset.theme"), "dark", "colours afterwards")


@h.test("hostile text is text")
def hostile(case):
    story = case.story("hostile")
    for phone in (False, True):
        tab = case.open(story, phone=phone, **({"width": 390, "height": 844} if phone else {}))
        # All of it: every row unfolded, every lazy part drawn.
        tab.eval("document.querySelectorAll('.fold').forEach(b => b.click())")
        for part in ("devices", "sites", "gaps"):
            tab.eval(f"document.getElementById('{part}').scrollIntoView()")
            tab.frame()
        tab.wait("document.querySelectorAll('.frame').length > 5")
        case.equal(tab.eval("typeof window.pwned"), "undefined", "what a name ran")
        case.equal(tab.eval("document.querySelectorAll('script').length"), 2, "scripts")
        case.equal(tab.eval("document.querySelectorAll('img, iframe, object, embed, form, base, svg, video, b b').length"),
                   0, "elements that came in")
        case.equal(tab.eval("document.title"), "GPU memory report, Mon 30 Nov 19:00", "title")
        case.equal(tab.eval("[...document.querySelectorAll('main a')].filter(a => !/^https:/.test(a.href) || !/noreferrer/.test(a.rel)).map(a => a.href)"), [],
                   "links that are none")
        case.check(tab.eval("document.querySelectorAll('main a').length") == 5, "the good links are not there")
        case.equal(tab.eval("[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(n => /^on|^style$|^srcdoc/.test(n) && n !== 'style')"), [],
                   "handlers in attributes")
        text = tab.eval("document.body.innerText")
        for bad in ("</script><script>window.pwned=1</script>", "<img src=x onerror=window.pwned=1>", "<!--<script>",
                    "__proto__", "@story@ %s \\u003c \\"):
            case.check(bad in text, f"{bad!r} is not shown as it is")
        case.check("\u202e" not in text and "\u2066" not in text, "a turn of direction went through")
        case.equal(tab.eval("document.documentElement.scrollWidth"), 390 if phone else 1280, "width of the page")
        case.picture(tab, "hostile-" + ("phone" if phone else "desktop"))


@h.test("every control has a name")
def names(case):
    tab = case.open("night")
    h.Plot(tab)
    tab.click("#process-0 .fold")
    tab.click("#incident-1 .fold")
    tab.eval("document.getElementById('sites').scrollIntoView()")
    tab.wait("document.querySelector('.frame')")
    tab.call("Accessibility.enable")
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    roles = {}
    for n in nodes:
        role, name = n.get("role", {}).get("value"), n.get("name", {}).get("value")
        if n.get("ignored") or role not in ("button", "link", "slider", "searchbox", "textbox", "combobox", "checkbox",
                                            "radio", "table", "img", "image", "heading", "region"):
            continue
        roles[role] = roles.get(role, 0) + 1
        case.check(name and name.strip(), f"a {role} has no name: {n.get('properties')}")
    for role in ("button", "link", "slider", "searchbox", "combobox", "checkbox", "radio", "table", "image", "heading"):
        case.check(roles.get(role), f"no {role} was found")


@h.test("nothing, one point, and a device without a name")
def little(case):
    tab = case.open("empty")
    text = tab.eval("document.body.innerText")
    case.check("No memory was seen on any device" in text and "No gap was found" in text and
               "No incident was recorded" in text, f"of nothing it says {text[:400]!r}")
    tab = case.open("point")
    plot = h.Plot(tab)
    case.equal(plot.reading()["once[5]"], "3 GiB", "most of one point")
    tab.eval("document.getElementById('device-1').scrollIntoView()")
    case.equal(h.Plot(tab, 1).reading()["nameless[6]"], "1 GiB", "memory on a device without a name")
    case.picture(tab, "point")
