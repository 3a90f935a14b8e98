# SPDX-License-Identifier: MIT
"""What work_rate is in C: pairs of an allocation and a free through ctypes, under a known number of Python frames.

--library PATH --seconds S --warm S (of pairs before they are timed) --frames N (Python frames at the call) --chains N
(that many different stacks of equal length: 4^(frames - 6) exist) --rate N (pairs a second; 0 = as fast as possible)
--live N (blocks held meanwhile) --wait-end (for a line on stdin). Prints a JSON line as work_rate does, then one with
what it holds.
"""
import argparse
import ctypes
import json
import os
import statistics
import sys
import time

BYTES = 4096
BATCH = 64
# <module>, main, measure, one of the three that make pairs, pair; what is left goes to the chain of ways.
FIXED_FRAMES = 5


def must(result):
    if result:
        sys.exit(f"the driver returned {result}")


class Pairs:
    def __init__(self, library, live):
        cuda = ctypes.CDLL(library)
        context = ctypes.c_void_p()
        must(cuda.cuInit(0))
        must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        must(cuda.cuCtxSetCurrent(context))
        self.alloc, self.free = cuda.cuMemAlloc_v2, cuda.cuMemFree_v2
        self.alloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.free.argtypes = [ctypes.c_uint64]
        self.address = ctypes.c_uint64()
        self.pointer = ctypes.addressof(self.address)
        self.count = 0
        self.held = live
        for _ in range(live):
            must(self.alloc(self.pointer, BYTES))

    def pair(self):
        self.alloc(self.pointer, BYTES)
        self.free(self.address)
        self.count += 1


def way_0(pairs, below, chain):
    return WAYS[chain >> 2 * (below - 1) & 3](pairs, below - 1, chain) if below else pairs.pair()


def way_1(pairs, below, chain):
    return WAYS[chain >> 2 * (below - 1) & 3](pairs, below - 1, chain) if below else pairs.pair()


def way_2(pairs, below, chain):
    return WAYS[chain >> 2 * (below - 1) & 3](pairs, below - 1, chain) if below else pairs.pair()


def way_3(pairs, below, chain):
    return WAYS[chain >> 2 * (below - 1) & 3](pairs, below - 1, chain) if below else pairs.pair()


WAYS = (way_0, way_1, way_2, way_3)


def down(pairs, below, samples, end):
    """The same stack for each pair."""
    if below:
        down(pairs, below - 1, samples, end)
        return
    while time.monotonic() < end:
        start = time.perf_counter_ns()
        for _ in range(BATCH):
            pairs.pair()
        samples.append((time.perf_counter_ns() - start) / BATCH)


def by_chains(pairs, below, chains, samples, end):
    """Another stack for each pair, until all have had their turn."""
    chain = 0
    while time.monotonic() < end:
        start = time.perf_counter_ns()
        for _ in range(BATCH):
            way_0(pairs, below, chain)
            chain = chain + 1 if chain + 1 < chains else 0
        samples.append((time.perf_counter_ns() - start) / BATCH)


def at_rate(pairs, below, chains, rate, samples, end):
    begun = time.monotonic()
    chain = made = 0
    while True:
        due = begun + made / rate
        now = time.monotonic()
        if now >= end:
            return
        if due > now:
            time.sleep(due - now)
        start = time.perf_counter_ns()
        way_0(pairs, below, chain)
        samples.append(time.perf_counter_ns() - start)
        made += 1
        chain = chain + 1 if chain + 1 < chains else 0


def measure(pairs, o, seconds):
    samples = []
    end = time.monotonic() + seconds
    if o.rate:
        at_rate(pairs, o.frames - FIXED_FRAMES - 1, o.chains, o.rate, samples, end)
    elif o.chains > 1:
        by_chains(pairs, o.frames - FIXED_FRAMES - 1, o.chains, samples, end)
    else:
        down(pairs, o.frames - FIXED_FRAMES, samples, end)
    return samples


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--library", required=True)
    p.add_argument("--seconds", type=float, default=2)
    p.add_argument("--warm", type=float, default=0)
    p.add_argument("--frames", type=int, default=12)
    p.add_argument("--chains", type=int, default=1)
    p.add_argument("--rate", type=float, default=0)
    p.add_argument("--live", type=int, default=0)
    p.add_argument("--wait-end", action="store_true")
    o = p.parse_args()
    if o.frames <= FIXED_FRAMES or o.chains > 4 ** (o.frames - FIXED_FRAMES - 1):
        sys.exit(f"--chains {o.chains} needs more --frames")
    pairs = Pairs(o.library, o.live)
    measure(pairs, o, o.warm)
    warm = pairs.count
    samples = measure(pairs, o, o.seconds)
    timed = pairs.count - warm
    print(json.dumps({"label": "rate", "pid": os.getpid(), "pairs": timed, "pairs_per_sec": round(timed / o.seconds),
                      "median_ns": statistics.median(samples)}))
    print(json.dumps({"label": "end", "live_bytes": pairs.held * BYTES, "live_count": pairs.held,
                      "alloc_count": pairs.held + pairs.count}), flush=True)
    if o.wait_end:
        sys.stdin.readline()


main()
