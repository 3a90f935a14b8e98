#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Made-up stories as `gpuxray report --format json` tells them: make_story.py NAME prints one, with PAGE within that page.

The night: two devices, a training that leaks until an allocation fails at 03:12, an inference server, a notebook, short
evaluations, a restart of the daemon, lost events. The others are for size (week, large, huge) and for what a page must bear
(empty, point, hostile). All are the same each time.
"""
import bisect
import json
import math
import random
import sys

MIB, GIB = 1 << 20, 1 << 30
SEC = 10**6
MIN, HOUR = 60 * SEC, 3600 * SEC
FROM = 1796061600 * SEC  # 2026-11-30 18:00 UTC
UNTIL = FROM + 14 * HOUR
POINTS = 1024


def at(text):
    """"03:12:07" of the night, in UTC."""
    h, m, s = (int(x) for x in (text + ":00").split(":")[:3])
    return FROM + ((h - 18) % 24) * HOUR + m * MIN + s * SEC


def name_of(p):
    """A process as the page calls it."""
    return f"{p['comm']}[{p['pid']}]" + (f" {p['unit'][:24]}" if p["unit"] else "")


class Teller:
    def __init__(self, seed, begin=FROM, until=UNTIL):
        self.random = random.Random(seed)
        self.story = {"version": "0.1.0", "from_usec": begin, "until_usec": until, "records": 0, "hosts": [], "devices": [],
                      "processes": [],
                      "incidents": [], "failures": [], "stacks": {}, "gaps": [], "left_out": []}

    def host(self, name):
        self.story["hosts"].append({"name": name, "machine_id": f"{self.random.getrandbits(128):032x}"})
        return len(self.story["hosts"]) - 1

    def device(self, host, index, total=80 * GIB):
        uuid = "GPU-%08x-%04x-4%03x-8%03x-%012x" % tuple(self.random.getrandbits(n) for n in (32, 16, 12, 12, 48))
        self.story["devices"].append({"host": host, "uuid": uuid, "index": index, "total_bytes": total, "peak_bytes": 0,
                                      "peak_usec": None, "used": []})
        return len(self.story["devices"]) - 1

    def stack(self, *frames, info=None):
        """Frames innermost first."""
        sid = f"{self.random.getrandbits(64):016x}"
        self.story["stacks"][sid] = {"frames": list(frames), "info": info}
        return sid

    def points(self, begin, end, level, every=MIN, jitter=0.04):
        """level(usec): bytes. A point where it moved by 5 %, and each hour."""
        out, last, low, high = [], None, None, None
        t = begin
        while t <= end and len(out) < POINTS:
            v = max(0, int(level(t)))
            low = v if low is None else min(low, v)
            high = v if high is None else max(high, int(v * (1 + jitter * self.random.random())))
            if last is None or abs(v - last[3]) > 0.05 * max(last[3], 1) or t - last[0] >= HOUR:
                last = [t, low, high, v]
                out.append(last)
                low = high = v
            t += every
        return out

    def process(self, host, pid, comm, held, begin, end=None, **more):
        """held: {device number or None: points}"""
        peak = max((p for points in held.values() for p in points), key=lambda p: p[2])
        p = {"host": host, "pid": pid, "start_time": pid * 100, "comm": comm, "exe": None, "cmdline": None, "user": None,
             "unit": None,
             "container": None, "pod": None, "slurm_job": None, "tag": None, "first_usec": begin,
             "last_usec": end or self.story["until_usec"] - MIN, "end_usec": end, "ended": end is not None, "cut": False,
             "peak_bytes": peak[2], "peak_usec": peak[0], "live_bytes": sum(points[-1][3] for points in held.values()),
             "host_bytes": 0, "managed_bytes": 0, "driver_bytes": None, "alloc_count": len(held) * 5000, "free_count": 4800,
             "fail_count": 0, "allocated_bytes": peak[2] * 40, "lost_events": 0, "exact": True, "held": [],
             "peak_stack": None,
             "sites": [], "incidents": 0}
        for d, points in held.items():
            top = max(points, key=lambda q: q[2])
            p["held"].append({"device": d, "peak_bytes": top[2], "peak_usec": top[0], "points": points})
        p.update(more)
        self.story["processes"].append(p)
        return p

    def sites(self, p, shares):
        """shares: [(stack, share of the peak)]"""
        p["sites"] = [{"stack": s, "bytes": int(p["peak_bytes"] * x), "last_bytes": int(p["live_bytes"] * x),
                       "peak_bytes": int(p["peak_bytes"] * x)} for s, x in shares]
        p["peak_stack"] = shares[0][0]

    def incident(self, host, process, device, rule, severity, begin, message, **more):
        x = {"id": f"{self.random.getrandbits(128):032x}", "host": host, "rule": rule, "event": "live_bytes",
             "severity": severity,
             "scope": "process", "subject": f"{process['comm']}[{process['pid']}]" if process else "GPU 0",
             "process": process,
             "device": device, "state": "resolved", "begin_usec": begin, "last_usec": begin + 10 * MIN, "end_usec": begin +
             10 * MIN,
             "before": False, "duration_sec": 600, "value": None, "limit": None, "peak_value": None, "value_unit": None,
             "growth_bytes_per_hour": None, "full_in_sec": None, "leaked_bytes": None, "confidence": None, "caveat": None,
             "message": message, "documentation": None, "stack": None, "records": 2}
        x.update(more)
        self.story["incidents"].append(x)
        return x

    def gap(self, kind, host, begin, end, text, count=None):
        self.story["gaps"].append({"kind": kind, "host": host, "from_usec": begin, "until_usec": end, "count": count,
                                   "text": text})

    def finish(self):
        s = self.story
        s["processes"].sort(key=lambda p: -p["peak_bytes"])
        number = {id(p): i for i, p in enumerate(s["processes"])}
        for x in s["incidents"] + s["failures"]:
            p = x["process"]
            x["process"] = number[id(p)] if p else None
            if p and "rule" in x:
                p["incidents"] += 1
            for h in x.get("holders", []):
                h["process"] = number[id(h["process"])]
        for key, when in (("incidents", "begin_usec"), ("failures", "usec"), ("gaps", "from_usec")):
            s[key].sort(key=lambda x: x[when])
        for i, d in enumerate(s["devices"]):
            d["peak_bytes"], d["peak_usec"] = self.device_peak(i)
            if d["total_bytes"]:
                d["used"] = self.used(i, d["total_bytes"])
        s["records"] = sum(len(h["points"]) for p in s["processes"] for h in p["held"]) + sum(x["records"] for x in s["incidents"]) + 40
        return s

    def device_peak(self, number):
        """Of the points' live values: the highest sum at one moment."""
        changes = []
        for p in self.story["processes"]:
            for h in p["held"]:
                if h["device"] == number:
                    before = 0
                    for t, _, _, live in h["points"]:
                        changes.append((t, live - before))
                        before = live
                    if p["end_usec"]:
                        changes.append((p["end_usec"], -before))
        total = best = 0
        when = None
        changes.sort()
        for i, (t, change) in enumerate(changes):
            total += change
            if total > best and (i + 1 == len(changes) or changes[i + 1][0] != t):
                best, when = total, t
        return best, when

    def used(self, number, total):
        s, out = self.story, []
        step = max(5 * MIN, (s["until_usec"] - s["from_usec"]) // 400)
        for t in range(s["from_usec"], s["until_usec"], step):
            live = min(total, 600 * MIB + sum(value_at(p, h,
                                                       t) for p in s["processes"] for h in p["held"] if h["device"] == number))
            out.append([t, live, live, live])
        return out


def value_at(process, held, t):
    """What a process holds at a moment, as its points tell: a value stands until the next point."""
    end = process["end_usec"]
    if t < held["points"][0][0] or (end and t >= end):
        return 0
    return held["points"][bisect.bisect_right(held["points"], t, key=lambda p: p[0]) - 1][3]


NATIVE = ["cuMemAlloc_v2+0x0 (libcuda.so.580.159.04)", "libcudart.so.13+0x41b5e", "cudaMalloc+0x1f3 (libcudart.so.13)",
          "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::alloc_block+0xcb (libc10_cuda.so)",
          "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc+0x548 (libc10_cuda.so)",
          "at::detail::empty_generic+0x5cc (libtorch_cpu.so)", "at::detail::empty_cuda+0xe7 (libtorch_cuda.so)"]
MODULE = ["Module._call_impl (torch/nn/modules/module.py:1790)",
          "Module._wrapped_call_impl (torch/nn/modules/module.py:1779)"]
START = ["<module> (/srv/train/train.py:214)", "_PyEval_EvalFrameDefault+0x52f2 (python3.11)",
         "Py_RunMain+0x26a (python3.11)",
         "__libc_start_main+0x85 (libc.so.6)", "_start+0x21 (python3.11)"]


def training_stacks(t):
    forward = [*MODULE, "Block.forward (/srv/train/model.py:88)", *MODULE, "Transformer.forward (/srv/train/model.py:131)",
               "step (/srv/train/train.py:96)",
               "main (/srv/train/train.py:180)", *START]
    return {"attention": t.stack(*NATIVE, "at::native::bmm_out_cuda+0x1a (libtorch_cuda.so)",
                                 "Attention.forward (/srv/train/model.py:41)", *forward),
            "mlp": t.stack(*NATIVE, "at::native::addmm_out_cuda+0x9c (libtorch_cuda.so)",
                           "Mlp.forward (/srv/train/model.py:63)", *forward),
            "losses": t.stack(*NATIVE, "at::native::clone+0x71 (libtorch_cpu.so)", "log_losses (/srv/train/metrics.py:27)",
                              "step (/srv/train/train.py:101)",
                              "main (/srv/train/train.py:180)", *START),
            "weights": t.stack(*NATIVE, "Module.to (torch/nn/modules/module.py:1355)", "load (/srv/train/train.py:31)",
                               "main (/srv/train/train.py:160)",
                               *START),
            "optimizer": t.stack(*NATIVE, "Adam._init_group (torch/optim/adam.py:174)",
                                 "Adam.step (torch/optim/adam.py:231)", "step (/srv/train/train.py:99)",
                                 "main (/srv/train/train.py:180)", *START)}


def night():
    t = Teller(7)
    h = t.host("gpu01")
    gpu0, gpu1 = t.device(h, 0), t.device(h, 1)
    rnd = t.random
    oom = at("03:12:07")

    def leak(u):
        if u < at("19:30"):
            return 31 * GIB * min(1, (u - at("19:04")) / (4 * MIN) + 0.1)
        return min(58.5, 31 + 27.6 * (u - at("19:30")) / (oom - at("19:30"))) * GIB

    train = t.process(h, 4711, "python3", {gpu0: [*t.points(at("19:04"), oom - MIN, leak),
                                                  [oom, int(58.4 * GIB), int(58.9 * GIB), int(58.9 * GIB)]]},
                      at("19:04"), oom + 40 * SEC, user="alice", unit="train-llm.service", exe="/usr/bin/python3.11",
                      cmdline="python3 train.py --config llm-7b.yaml --resume", fail_count=3, live_bytes=int(58.9 * GIB),
                      driver_bytes=int(59.4 * GIB))
    stacks = training_stacks(t)
    t.sites(train, [(stacks["losses"], 0.47), (stacks["weights"], 0.22), (stacks["optimizer"], 0.16),
                    (stacks["attention"], 0.08), (stacks["mlp"], 0.04)])
    serve = t.process(h, 1207, "vllm", {gpu0: t.points(FROM, UNTIL - MIN,
                                                       lambda u: (16.2 + 2.4 * math.sin(u / HOUR * 1.1) +
                                                                  (1.5 if rnd.random() < 0.02 else 0)) * GIB)},
                      FROM, user="serve", unit="inference.service", exe="/opt/vllm/bin/python3", container="vllm-7f9c",
                      cmdline="vllm serve llama-8b --port 8000", driver_bytes=int(19 * GIB))
    kv = t.stack(*NATIVE, "CacheEngine._allocate (vllm/worker/cache_engine.py:81)",
                 "Worker.initialize_cache (vllm/worker/worker.py:301)",
                 "LLMEngine.__init__ (vllm/engine/llm_engine.py:267)", *START[1:])
    wt = t.stack(*NATIVE, "load_weights (vllm/model_executor/models/llama.py:560)",
                 "LLMEngine.__init__ (vllm/engine/llm_engine.py:251)", *START[1:])
    t.sites(serve, [(wt, 0.82), (kv, 0.13)])
    notebook = t.process(h, 2290, "jupyter", {gpu1: t.points(at("18:20"), at("23:40"),
                                                             lambda u: 6.5 * GIB * (1 + int((u - at("18:20")) / (50 * MIN)) %
                                                                     4))},
                         at("18:20"), at("23:41"), user="bob", unit="jupyter@bob.service", exe="/usr/bin/python3.11",
                         cmdline="python3 -m ipykernel_launcher -f kernel.json", live_bytes=0)
    nb = t.stack(*NATIVE, "<cell line: 3> (/tmp/ipykernel_2290/310.py:3)",
                 "run_code (IPython/core/interactiveshell.py:3577)", *START[1:])
    t.sites(notebook, [(nb, 0.93)])

    def wave(u):
        return (38 + 9 * math.sin(u / (25 * MIN))) * GIB

    pair = t.process(h, 5120, "torchrun", {gpu1: t.points(at("00:30"), at("06:10"), wave),
                                           gpu0: t.points(at("04:05"), at("06:10"), lambda u: wave(u) * 0.6)},
                     at("00:30"), at("06:11"), user="alice", unit="sweep.service", slurm_job="88123",
                     cmdline="torchrun --nproc 2 sweep.py")
    t.sites(pair, [(stacks["attention"], 0.5), (stacks["mlp"], 0.3), (stacks["weights"], 0.1)])
    for i, clock in enumerate(("21:02", "01:47", "05:31")):
        a = at(clock)
        p = t.process(h, 6000 + i, "eval", {gpu1: t.points(a, a + 11 * MIN, lambda u: 9.2 * GIB, every=30 * SEC)}, a, a +
                      12 * MIN, user="alice",
                      unit="eval.service", cmdline=f"eval --checkpoint {i}", live_bytes=0)
        t.sites(p, [(stacks["weights"], 0.9)])

    run = "https://runbooks.example.org/gpu/"
    t.incident(h, train, gpu0, "leak-process", "warning", at("22:12"),
               "python3[4711] keeps 46 % more GPU memory each epoch, 3.6 GiB an hour (rule leak-process)",
               event="leak", state="firing", end_usec=None, last_usec=at("03:10"), duration_sec=17880,
               growth_bytes_per_hour=int(3.6 * GIB),
               full_in_sec=18200, leaked_bytes=int(27.6 * GIB), confidence=0.93, value=int(3.6 * GIB),
               peak_value=int(3.9 * GIB),
               value_unit="bytes", stack=stacks["losses"], documentation=run + "leak", records=11,
               caveat="Most of the growth is in one call site; a growing cache looks the same.")
    t.incident(h, train, gpu0, "gpu-nearly-full", "critical", at("02:41"),
               "GPU 0 is 95 % full, 76.1 of 80 GiB (rule gpu-nearly-full)", scope="device",
               subject="GPU 0", value=int(76.1 * GIB), limit=76 * GIB, peak_value=int(79.3 * GIB), value_unit="bytes",
               end_usec=at("03:13"),
               last_usec=at("03:13"), duration_sec=1920, documentation=run + "full")
    t.incident(h, train, gpu0, "oom", "error", oom,
               "python3[4711] could not allocate 4 GiB on GPU 0: cuMemAlloc_v2 returned 2 CUDA_ERROR_OUT_OF_MEMORY, "
               "it holds 58.9 GiB (rule oom)", event="alloc_failure", state="resolved", end_usec=at("03:14"), last_usec=oom,
               duration_sec=113,
               value=3, limit=1, value_unit="calls", stack=stacks["attention"], documentation=run + "oom")
    t.incident(h, notebook, gpu1, "idle-memory", "notice", at("21:30"),
               "jupyter[2290] holds 26 GiB and has not allocated for 2h (rule idle-memory)",
               value=26 * GIB, limit=20 * GIB, value_unit="bytes")
    t.incident(h, train, gpu0, "exit-unfreed", "info", oom + 40 * SEC,
               "python3[4711] ended and had not freed 58.9 GiB (rule exit-unfreed)", event="exit",
               state="single", end_usec=None, duration_sec=None, value=int(58.9 * GIB), value_unit="bytes", id=None,
               records=1)
    holders = [(train, int(58.9 * GIB), oom), (serve, int(17.4 * GIB), oom - 31 * SEC)]
    used = int(79.1 * GIB)
    t.story["failures"].append({
        "usec": oom, "last_usec": oom + 9 * SEC, "count": 3, "host": h, "process": train, "device": gpu0, "bytes": 4 * GIB,
                                "function": "cuMemAlloc_v2",
        "error": "2 CUDA_ERROR_OUT_OF_MEMORY",
                                "message": "python3[4711] could not allocate 4 GiB on GPU 0: cuMemAlloc_v2 returned 2 CUDA_ERROR_OUT_OF_MEMORY, "
        "it holds 58.9 GiB (rule oom)", "stack": stacks["attention"], "live_bytes": int(58.9 * GIB),
                                "device_bytes": 80 * GIB, "device_used_bytes": used,
        "holders": [{"process": p, "bytes": b, "as_of_usec": u} for p, b, u in holders], "holders_left_out": 0,
                                "other_bytes": used - sum(b for _, b, _ in holders)})
    t.gap("down", h, at("00:02"), at("00:19"), "gpuxray was not running for 17m")
    t.gap("lost", h, at("05:40"), at("05:41"), "1204 events were lost between kernel and daemon", 1204)
    t.story["left_out"] = [{"what": "sites", "count": 12}]
    return t.finish()


def week(processes=50, incidents=300, devices=2, days=7, points=POINTS, seed=11):
    until = FROM + days * 24 * HOUR
    t = Teller(seed, FROM, until)
    h = t.host("gpu01")
    gpus = [t.device(h, i) for i in range(devices)]
    rnd = t.random
    stacks = [t.stack(*NATIVE, *(f"layer{rnd.randrange(6)}.call{j} (/srv/app/part{rnd.randrange(9)}.py:{rnd.randrange(400)})"
                                 for j in range(6)), *START)
              for _ in range(60)]
    all_ = []
    for i in range(processes):
        begin = FROM + rnd.randrange(int((until - FROM) * 0.6))
        end = min(until - HOUR, begin + rnd.randrange(2 * HOUR, until - FROM))
        size = rnd.uniform(0.2, 70 / processes * 4) * GIB
        held = {}
        for g in rnd.sample(gpus, min(len(gpus), 2)):
            at_, out, level = begin, [], size
            for _ in range(points):
                level = max(size * 0.1, min(size, level * rnd.uniform(0.85, 1.17)))
                out.append([at_, int(level * 0.9), int(level * 1.05), int(level)])
                at_ += (end - begin) // (points + 1)
            held[g] = out
        p = t.process(h, 1000 + i, rnd.choice(("python3", "vllm", "torchrun", "tritonserver", "ffmpeg")), held, begin, end
                      if rnd.random() < 0.7 else None,
                      user=rnd.choice(("alice", "bob", "carol")), unit=f"job-{i % 17}.service")
        t.sites(p, [(s, 0.9 / 8) for s in rnd.sample(stacks, 8)])
        all_.append(p)
    for i in range(incidents):
        p = rnd.choice(all_)
        t.incident(h, p, rnd.choice(gpus), rnd.choice(("quota", "leak-process", "burst")),
                   rnd.choice(("critical", "error", "warning", "notice", "info")),
                   rnd.randrange(p["first_usec"], p["last_usec"]),
                   f"{p['comm']}[{p['pid']}] did what it should not, number {i}", value=i * MIB,
                   limit=100 * MIB, value_unit="bytes")
    return t.finish()


def empty():
    return Teller(1).story


def point():
    t = Teller(2)
    h = t.host("gpu01")
    t.device(h, None, None)
    t.process(h, 5, "once", {0: [[at("20:00"), 0, 3 * GIB, GIB]]}, at("20:00"))
    t.process(h, 6, "nameless", {None: [[at("21:00"), GIB, GIB, GIB]]}, at("21:00"))
    return t.finish()


EVIL = ["</script><script>window.pwned=1</script>", "<img src=x onerror=window.pwned=1>", "<!--<script>",
        "\u202eevil\u2066 \u05d0\u05d1\u05d2 \u0645\u0631\u062d\u0628\u0627",
        "\"'`${window.pwned=1}&lt;b&gt;&amp;", "x" * 4096, "\u2028\u2029\u0000\u0007", "__proto__",
        "javascript:window.pwned=1", "@story@ %s \\u003c \\"]


def hostile():
    t = Teller(3)
    hosts = [t.host(EVIL[0]), t.host(EVIL[3] + EVIL[5])]
    gpus = [t.device(h, None, 16 * GIB) for h in hosts]
    for h, g in zip(hosts, gpus):
        t.story["devices"][g]["uuid"] = EVIL[h]
    for i, bad in enumerate(EVIL):
        sid = t.stack(bad, EVIL[1], "[25 more frames]", bad + " (a.py:1)", info=bad)
        p = t.process(hosts[i % 2], 100 + i, bad,
                      {gpus[i % 2]: t.points(at("19:00"), at("07:00"), lambda u: (1 + i / 10) * GIB)}, at("19:00"), exe=bad,
                      cmdline=bad, user=bad, unit=bad, container=bad, pod=bad, slurm_job=bad, tag=bad)
        t.sites(p, [(sid, 0.5), ("__proto__", 0.2), ("constructor", 0.1)])
        t.incident(hosts[i % 2], p, gpus[i % 2], bad, bad if i % 2 else "error", at("20:00") + i * HOUR, bad, event=bad,
                   scope=bad, subject=bad, caveat=bad,
                   documentation=bad if i % 2 == 0 else "https://example.org/" + bad, stack=sid, state=bad
                   if i == 4 else "firing", value_unit=bad, value=1.5)
        t.story["failures"].append({
            "usec": at("03:00") + i * MIN, "last_usec": None, "count": 1, "host": hosts[i % 2], "process": p,
                                    "device": gpus[i % 2], "bytes": 2**53, "function": bad,
            "error": bad, "message": bad, "stack": sid, "live_bytes": GIB, "device_bytes": 16 * GIB,
                                    "device_used_bytes": None,
            "holders": [{"process": p, "bytes": GIB, "as_of_usec": at("03:00")}], "holders_left_out": 3,
                                    "other_bytes": None})
        t.gap("down" if i else bad, hosts[i % 2], at("01:00") + i * MIN, at("01:01") + i * MIN, bad)
    t.story["left_out"] = [{"what": bad, "count": 1} for bad in EVIL]
    return t.finish()


STORIES = {"night": night, "week": week, "empty": empty, "point": point, "hostile": hostile,
           "large": lambda: week(processes=500, incidents=20000, devices=8, points=120, seed=13),
           "huge": lambda: week(processes=500, incidents=20000, devices=8, points=POINTS, seed=17)}


def embed(page, story):
    """As the program puts a story into the page."""
    text = json.dumps(story, ensure_ascii=False, separators=(",", ":"))
    for c in "<>&\u2028\u2029":
        text = text.replace(c, "\\u%04x" % ord(c))
    return page.replace("@story@", text, 1)


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in STORIES:
        sys.exit("usage: make_story.py " + "|".join(STORIES) + " [PAGE]")
    story = STORIES[sys.argv[1]]()
    if len(sys.argv) > 2:
        with open(sys.argv[2], encoding="utf-8") as f:
            print(embed(f.read(), story), end="")
    else:
        json.dump(story, sys.stdout)


if __name__ == "__main__":
    main()
