# SPDX-License-Identifier: MIT
"""Tables, flame graph, post-mortems, gaps; size and speed; a page that the program made."""
import json
import os
import subprocess

import make_story as m
import page_test as h

PROGRAM = os.environ.get("GPUXRAY") or os.path.realpath(os.path.dirname(os.path.realpath(__file__)) +
                                                        "/../../.build/gpuxray")
REMOTE = next((p for p in ("/usr/lib/systemd/systemd-journal-remote",
                           "/lib/systemd/systemd-journal-remote") if os.path.exists(p)), None)


def column(tab, table, name):
    return tab.eval(f"[...document.querySelectorAll('#{table} td[data-name=\"{name}\"]')].map(e => e.textContent)")


@h.test("incidents: sort, filter, unfold")
def incidents(case):
    story = case.story("night")
    tab = case.open(story)
    rules = [x["rule"] for x in story["incidents"]]
    case.equal(column(tab, "incidents", "Rule"), rules, "by time at first")
    head = "#incidents th:nth-child(%d) button"
    tab.click(head % 1)
    case.equal(column(tab, "incidents", "Rule"), rules[::-1], "by time, last first")
    case.equal(tab.eval("document.querySelector('#incidents th').getAttribute('aria-sort')"), "descending",
               "how it is sorted")
    tab.click(head % 2)
    case.equal(column(tab, "incidents", "Rule"), ["gpu-nearly-full", "oom", "leak-process", "idle-memory", "exit-unfreed"],
               "by severity")
    tab.click(head % 6)
    case.equal(column(tab, "incidents", "Rule")[0], "leak-process", "by how long, longest first")
    case.equal(column(tab, "incidents", "Rule")[-1], "exit-unfreed", "what has no length comes last")
    tab.click("#incidents .chip.error input")
    case.check("oom" not in column(tab, "incidents", "Rule"), "errors are shown though unchecked")
    tab.eval("(s => { s.value = 'firing'; s.dispatchEvent(new Event('change')); })(document.querySelector('#incidents select'))")
    case.equal(column(tab, "incidents", "Rule"), ["leak-process"], "only those that still fire")
    tab.click("#incidents .fold")
    text = tab.eval("document.querySelector('#incidents .details').innerText")
    leak = next(x for x in story["incidents"] if x["rule"] == "leak-process")
    for part in (leak["message"], leak["caveat"], "93 %", "3.6 GiB an hour", "27.6 GiB", "5h 3m",
                 "log_losses (/srv/train/metrics.py:27)", leak["documentation"]):
        case.check(part in text, f"{part!r} is not in what is unfolded")
    tab.eval("document.getElementById('search').focus()")
    tab.type("jupyter")
    tab.wait("document.querySelector('#incidents td.none')", what="the filter also filters incidents")


@h.test("a mark's incident is shown though filtered out")
def filtered_mark(case):
    tab = case.open("night")
    h.Plot(tab)
    tab.click("#incidents .chip.critical input")
    tab.eval("scrollTo(0, 0)")
    tab.click("#device-0 .mark.critical")
    case.equal(tab.eval("document.activeElement.querySelector('[data-name=Rule]').textContent"), "gpu-nearly-full",
               "what has the focus")


@h.test("a failed allocation: what was asked for, and who held what")
def failure(case):
    story = case.story("night")
    f = story["failures"][0]
    tab = case.open(story)
    text = tab.eval("document.querySelector('article.failure').innerText")
    for part in ("python3[4711]", "could not allocate 4 GiB on GPU 0", "cuMemAlloc_v2", "2 CUDA_ERROR_OUT_OF_MEMORY",
                 "3, until Tue 1 Dec 04:12:16", "80 GiB", "79.1 GiB",
                 "31s before", "that moment", "Attention.forward (/srv/train/model.py:41)", "3.1 GiB more than was free"):
        case.check(part in text, f"{part!r} is not told")
    rows = tab.eval("[...document.querySelectorAll('.holders tbody tr')].map(r => [...r.cells].slice(0, 3).map(c => c.textContent))")
    case.equal(rows[0], ["python3[4711] train-llm.service", "58.9 GiB", "74 %"], "who held most")
    case.equal([r[1] for r in rows[2:]], [h.format_bytes(f["other_bytes"]),
                                          h.format_bytes(f["device_bytes"] - f["device_used_bytes"])], "others, and free")
    widths = tab.eval("[...document.querySelectorAll('.holdbar .piece')].map(e => e.getBoundingClientRect().width)")
    share = widths[0] / sum(widths)
    case.check(abs(share - 58.9 / 80) < 0.02, f"the first holder's bar is {share:.3f} of the device")
    asked, free = tab.eval("[document.querySelector('.asked'), document.querySelector('.piece.free')].map(e => e.getBoundingClientRect().left)")
    case.check(abs(asked - free) < 3, f"what was asked for begins at {asked}, what is free at {free}")
    tab.click("article.failure > button")
    case.check("04:07" in tab.eval("document.getElementById('range').textContent"), "it is not shown in the plots")


@h.test("flame graph: widths, peak or last, zoom, search, keys")
def flame(case):
    story = case.story("night")
    tab = case.open(story)
    tab.eval("document.getElementById('sites').scrollIntoView()")
    tab.wait("document.querySelector('.frame')")

    def said():
        return tab.eval("document.querySelector('#sites .said').textContent")

    def frame(name):
        return tab.eval("""(n => { const e = [...document.querySelectorAll(".frame")].find(e => e.node && e.getAttribute("aria-label").startsWith(n));
            return e && [e.getBoundingClientRect().width, e.getAttribute("aria-label")]; })(%s)""" % json.dumps(name))

    case.check(said().startswith(h.format_bytes(sum(p["peak_bytes"] for p in story["processes"]))),
               f"of all at their peaks: {said()}")
    tab.eval("(s => { s.value = '0'; s.dispatchEvent(new Event('change')); })(document.querySelector('#sites select'))")
    case.check(said().startswith("58.9 GiB"), f"of one at its peak: {said()}")
    whole = frame("python3[4711] train-llm.service")[0]
    for want, name in ((0.47, "log_losses"), (0.97, "_start"), (0.03, "other call sites")):
        got = frame(name)
        case.check(got and abs(got[0] / whole - want) < 0.01, f"{name} is {got and got[0] / whole:.3f} wide, not {want}")
    case.check("47 %" in frame("log_losses")[1], f"it is told as {frame('log_losses')[1]}")
    tab.eval("document.querySelector('#sites input[type=search]').focus()")
    tab.type("Adam")
    case.check("Found: 9.4 GiB (16 %)" in said(), f"what was found: {said()}")
    case.check(tab.eval("document.querySelectorAll('.frame.match').length") == 2, "two frames match")
    tab.eval("[...document.querySelectorAll('.frame')].find(e => e.textContent.startsWith('log_losses')).click()")
    tab.frame()
    case.check(abs(frame("log_losses")[0] - whole) < 2, "zoomed in, the frame is not as wide as all")
    case.check(tab.eval("document.activeElement.textContent.startsWith('log_losses')"), "the frame has no focus")
    tab.press("ArrowDown")
    case.check(tab.eval("document.activeElement.textContent.startsWith('at::native::clone')"),
               "an arrow down does not go down")
    tab.press("Escape")
    case.check(abs(frame("log_losses")[0] / whole - 0.47) < 0.01, "zoomed out, the frame is not as wide as before")
    tab.eval("[...document.querySelectorAll('#sites .chip')].find(e => e.textContent.startsWith('Python')).querySelector('input').click()")
    case.check(not frame("cudaMalloc") and frame("log_losses"), "native frames are shown among Python only")
    tab.eval("(s => { s.value = '%d'; s.dispatchEvent(new Event('change')); })(document.querySelector('#sites select'))" %
             next(i for i, p in enumerate(story["processes"]) if p["comm"] == "jupyter"))
    tab.eval("document.querySelector('#sites input[value=last]').click()")
    case.check(said().startswith("Nothing was held then."), f"of one that freed all, at last: {said()}")


@h.test("processes: sorted, unfolded, with a plot for each device")
def processes(case):
    story = case.story("night")
    tab = case.open(story)
    case.equal(column(tab, "processes", "Process"), [m.name_of(p) for p in story["processes"]],
               "by what they held at most")
    number = next(i for i, p in enumerate(story["processes"]) if p["comm"] == "torchrun")
    tab.click(f"#process-{number} .fold")
    tab.wait("document.querySelectorAll('#processes figure').length === 2", what="a plot for each device")
    p = story["processes"][number]
    text = tab.eval("document.querySelector('#processes .details').innerText")
    for part in (p["cmdline"], "sweep.service", "88123", "alice", h.format_bytes(p["peak_bytes"]), "Tue 1 Dec 07:11:00",
                 "exact"):
        case.check(part in text, f"{part!r} is not told")
    tab.frame()
    case.picture(tab, "process")
    sparks = tab.eval("""[...document.querySelectorAll("#processes .spark canvas")].map(c => { const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 200; return n; })""")
    case.check(len(sparks) == 7 and all(n > 60 for n in sparks), f"pixels of the small plots: {sparks}")


@h.test("what the report does not know")
def gaps(case):
    tab = case.open("night")
    items = tab.eval("[...document.querySelectorAll('.gaps li')].map(e => e.textContent)")
    case.check(len(items) == 3, f"{len(items)} items")
    case.check("not running" in items[0] and "01:02:00 \u2013 01:19:00 (17m)" in items[0], f"the first: {items[0]}")
    case.check("1204 events were lost" in items[1], f"the second: {items[1]}")
    case.check("12 sites" in items[2], f"what was left out: {items[2]}")
    tab.click(".gaps button")
    case.check("00:57" in tab.eval("document.getElementById('range').textContent"), "a gap is not shown in the plots")


@h.test("500 processes and 20,000 incidents")
def large(case):
    story = m.week(processes=500, incidents=20000, devices=8, points=24, seed=13)
    tab = case.open(story, seconds=30)
    plot = h.Plot(tab)
    case.check(tab.eval("document.querySelectorAll('*').length") < 12000, "the page has too many elements")
    case.equal(tab.eval("document.querySelectorAll('#incidents tr.main').length"), 50, "rows at once")
    tab.click("#incidents .pager button:last-child")
    case.check("of 20,000" in tab.eval("document.querySelector('#incidents .pager').textContent") and
               tab.eval("document.querySelector('#incidents .pager').textContent").find("19,951") > 0, "the last page")
    tab.click("#device-0 .mark")
    case.check(tab.eval("document.activeElement.id.startsWith('incident-')"), "a mark does not lead to its row")
    others = len([1 for p in story["processes"] for x in p["held"] if x["device"] == 0]) - 11
    case.check(f"others ({others})" in plot.reading(), f"the others: {list(plot.reading())}")
    last = tab.eval("[...document.querySelectorAll('#device-0 select option')].pop().value")
    tab.eval(f"(s => {{ s.value = '{last}'; s.dispatchEvent(new Event('change')); }})(document.querySelector('#device-0 select'))")
    tab.frame()
    case.equal(tab.eval("document.querySelector('#device-0 .row[aria-pressed=true] .name').textContent"),
               m.name_of(story["processes"][int(last)]), "one of the others, picked")
    case.picture(tab, "large")


@h.test("a week of 50 processes is drawn within a second")
def week(case):
    story = case.story("week")
    times = []
    for _ in range(3):  # once it is not busy with something else
        tab = case.open(story)
        times.append(tab.eval("performance.getEntriesByName('drawn')[0].startTime"))
        if times[-1] < 1000:
            break
    case.check(min(times) < 1000, f"drawn after {[round(x) for x in times]} ms")
    h.Plot(tab)
    case.picture(tab, "week")
    print(f"# drawn after {[round(x) for x in times]} ms")


def entry(when, **fields):
    out = [f"__REALTIME_TIMESTAMP={when}", "_BOOT_ID=" + "b" * 32, "_MACHINE_ID=" + "a" * 32, "_HOSTNAME=gpu01", "_PID=99",
           "SYSLOG_IDENTIFIER=gpuxray", "PRIORITY=6"]
    fields = {"MESSAGE": "x", "GPUXRAY_TIME_USEC": when,
              **{k if k == "MESSAGE" else "GPUXRAY_" + k: v for k, v in fields.items()}}
    return "\n".join(out + [f"{k}={v}" for k, v in fields.items()]) + "\n\n"


@h.test("a page that the program made of a journal")
def made(case):
    if not REMOTE:
        raise h.Skip("no systemd-journal-remote is installed")
    if not os.path.exists(PROGRAM):
        raise h.Skip(f"{PROGRAM} is not there")
    journal = case.world.folder + "/made.journal"
    who = {"SCOPE": "process", "PID": 4711, "START_TIME": 7, "COMM": "</script><b>x", "USER": "alice", "UID": 1000,
           "UNIT": "train.service", "DEVICE": "GPU-1", "DEVICE_INDEX": 0,
           "DEVICE_BYTES": 80 * m.GIB, "DEVICE_USED_BYTES": 70 * m.GIB}
    text = entry(m.FROM, EVENT="start", VERSION="0.1.0", HEALTH_SEC=60)
    for i, gib in enumerate((4, 30, 61)):
        text += entry(m.FROM + (i + 1) * m.MIN, EVENT="sample", BYTES=gib * m.GIB, LOW_BYTES=gib * m.GIB,
                      HIGH_BYTES=(gib + 1) * m.GIB, WINDOW_SEC=60, LIVE_BYTES=gib * m.GIB,
                      LIVE_COUNT=5, PEAK_BYTES=gib * m.GIB, TOP_SITES=f"00000000000000aa {gib * m.GIB // 2} 3", EXACT=1,
                      **who)
    text += entry(m.FROM + 5 * m.MIN, EVENT="site", STACK_ID="00000000000000aa", FUNCTION="cuMemAlloc_v2",
                  STACK="cuMemAlloc_v2+0x0 (libcuda.so.1)", PID=4711)
    r = subprocess.run([REMOTE, "-o", journal, "-"], input=text, text=True, capture_output=True, timeout=30)
    if r.returncode or not os.path.exists(journal):
        raise h.Failure(f"systemd-journal-remote: {r.stderr}")
    r = subprocess.run([PROGRAM, "report", "--format", "html", "--file", journal, "--since", f"@{m.FROM // m.SEC}",
                        "--until", f"@{m.FROM // m.SEC + 600}"],
                       capture_output=True, timeout=60)
    if r.returncode:
        raise h.Failure(f"report: exit status {r.returncode}: {r.stderr.decode(errors='replace')}")
    html = r.stdout.decode()
    head, foot = case.world.page.split("@story@")
    case.check(html.startswith(head) and html.endswith(foot), "the page is not the one that was tested")
    case.equal(html.count("</script>"), 2, "ends of scripts")
    tab = case.open_html(html)
    plot = h.Plot(tab)
    plot.point(m.FROM + 150 * m.SEC, (m.FROM, m.FROM + 600 * m.SEC))
    got = plot.reading()
    case.equal((got["total"], got.get("</script><b>x[4711] train.service")), ("30 GiB", "30 GiB"), "held after the second sample")
    case.equal(tab.eval("document.querySelectorAll('b b').length"), 0, "elements that came in")
    case.picture(tab, "made")
