# SPDX-License-Identifier: MIT
"""An inference server's caches under varying load: leak_serving.py NAME tune|held, started by leaks.py."""
import math

import torch

import leak_run
import leak_torch
from leak_run import MIB
from leak_torch import DEVICE, Net, rows


def load(run):
    leak_torch.load(run)
    return SCENARIOS, leak_torch.own


class Blocks:
    """Keys and values in blocks. The pool grows with the load up to a limit, and gives nothing back."""

    def __init__(self, size, limit):
        self.size, self.limit = size, limit
        self.free, self.count = [], 0

    def take(self):
        if self.free:
            return self.free.pop()
        if self.count >= self.limit:
            return None
        return self.grow()

    def grow(self):
        self.count += 1
        return torch.zeros(self.size // 2, dtype=torch.float16, device=DEVICE)

    def give(self, blocks):
        self.free.extend(blocks)


def load_of(run):
    """Sequences at the same time, of 1: a day's rise and fall, bursts in the held set."""
    t = run.share()
    day = 0.5 - 0.5 * math.cos(2 * math.pi * t * (1.3 if run.held else 2.2))
    burst = 0.35 if run.held and int(t * 40) % 9 == 4 else 0.0
    return min(1.0, 0.12 + day * (0.35 + 0.4 * min(1.0, t * 1.6)) + burst)


def blocks(run):
    pool = Blocks((12 if run.held else 24) * MIB, 220 if run.held else 120)
    net = Net(512, 1024, 2, 1024).to(DEVICE)
    running = []  # (step of its end, blocks)
    most = 30 if run.held else 36
    for step in run.steps(0.5):
        for end, taken in [r for r in running if r[0] <= step]:
            pool.give(taken)
        running = [r for r in running if r[0] > step]
        while len(running) < most * load_of(run):
            taken = [b for b in (pool.take() for _ in range(run.random.randint(1, 7))) if b is not None]
            if not taken:
                break
            running.append((step + run.random.randint(4, 40), taken))
        with torch.no_grad():
            net(rows(8 * max(1, len(running))))
    return pool, running, net


class Cache:
    """By request, though no request comes twice."""

    def __init__(self):
        self.entries, self.bytes = {}, 0

    def lookup(self, key, length):
        if key not in self.entries:
            self.entries[key] = torch.zeros(2, length, 1024, dtype=torch.float16, device=DEVICE)
            self.bytes += self.entries[key].numel() * 2
        return self.entries[key]


class Sessions:
    """Sessions are closed by clients; those that only go away stay open."""

    def __init__(self):
        self.opened, self.bytes = {}, 0

    def open(self, key, length):
        self.opened[key] = [torch.zeros(length, 512, device=DEVICE) for _ in range(2)]
        return self.opened[key]

    def close(self, key):
        self.opened.pop(key, None)


def requests(run):
    net = Net(512, 1024, 2, 1024).to(DEVICE)
    cache, sessions, number, lost = Cache(), Sessions(), 0, 0
    recent = []
    for step in run.steps(0.5):
        arrivals = sum(run.random.random() < load_of(run) for _ in range(4))
        for _ in range(arrivals):
            number += 1
            length = int(min(2000, 60 + run.random.expovariate(1 / 350)))
            if not run.held:
                leaking = run.leaking(30)
                entry = cache.lookup(number, length)
                if leaking:
                    lost += entry.numel() * 2
                else:
                    recent.append(number)
                    for old in recent[:-20]:
                        cache.entries.pop(old)
                    recent = recent[-20:]
            else:
                leaking = run.leaking(100)
                taken = sessions.open(number, length)
                if leaking and run.random.random() < 0.25:
                    lost += sum(t.numel() * 4 for t in taken)
                else:
                    recent.append((step + run.random.randint(2, 20), number))
                del taken
        if run.held:
            for end, key in recent:
                if end <= step:
                    sessions.close(key)
            recent = [r for r in recent if r[0] > step]
        if lost:
            run.lost_to(lost)
        with torch.no_grad():
            net(rows(16 * (1 + arrivals)))
    return cache, sessions, net


SCENARIOS = {"serve-blocks": blocks, "serve-requests": requests}

if __name__ == "__main__":
    leak_run.main(load)
