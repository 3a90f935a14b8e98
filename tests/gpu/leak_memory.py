# SPDX-License-Identifier: MIT
"""PyTorch's ways to allocate: leak_memory.py NAME tune|held, started by leaks.py with the environment of each way."""
import gc
import os

import torch

import leak_run
import leak_torch
from leak_run import MIB
from leak_torch import DEVICE, rows

UNCACHED = "PYTORCH_NO_CUDA_MEMORY_CACHING" in os.environ
EACH_IS_A_CALL = UNCACHED or "cudaMallocAsync" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")


def load(run):
    leak_torch.load(run)
    return SCENARIOS, own


def own(run):
    """Where each tensor is a call of the driver, what tensors hold; else what the cache has reserved."""
    torch.cuda.synchronize()
    if UNCACHED:  # nobody counts
        run.live("device", tensors())
    else:
        run.live("device", torch.cuda.memory_allocated() if EACH_IS_A_CALL else torch.cuda.memory_reserved())


def tensors():
    found = {}
    for t in gc.get_objects():
        if isinstance(t, torch.Tensor) and t.is_cuda:
            found[t.data_ptr()] = t.numel() * t.element_size()
    return sum(found.values())


def fragments(run):
    """A bounded population of random sizes: most are short-lived, a fifth stays long."""
    limit = (1400 if run.held else 1000) * MIB
    blocks = []
    stream = torch.cuda.Stream() if run.held else None
    for step in run.steps(0.25):
        size = int(min(48, max(0.06, run.random.lognormvariate(0.7 if run.held else 1.2, 1.3))) * MIB)
        while blocks and sum(b.numel() for b, _ in blocks) + size > limit:
            blocks.pop(0)
        life = (run.random.paretovariate(0.9) * 8 if run.held else run.random.choice((6, 10, 20, 40, 400)))
        with torch.cuda.stream(stream if stream and step % 3 == 0 else None):
            blocks.append((torch.empty(size, dtype=torch.uint8, device=DEVICE), step + life))
        blocks = [b for b in blocks if b[1] > step]
    return blocks


def tiny_step(weight, x):
    """By hand, so that it makes few tensors."""
    y = torch.mm(x, weight)
    gradient = torch.mm(x.t(), y)
    weight.add_(gradient, alpha=-1e-6)
    return y


def remember(kept, y, columns):
    kept.append(y[:, :columns].clone())
    return kept[-1].numel() * 4


class Trace:
    """The state of some steps, for a plot that is never drawn."""

    def __init__(self):
        self.items = {}

    def add(self, step, y):
        self.items[step] = (y.abs(), torch.full((64,), float(step), device=DEVICE))
        return y.numel() * 4 + 256


def loop(run, leak_after=None):
    """Steps of one kind for all ways; leak_after: seconds, None = healthy."""
    weight = torch.randn(512, 1024 if run.held else 512, device=DEVICE)
    trace, kept = Trace(), []
    # Where each tensor is a call, fewer steps: they would fill the recording.
    period = (1.6 if run.held else 1.3) if EACH_IS_A_CALL else (0.7 if run.held else 0.5)
    for step in run.steps(period):
        y = tiny_step(weight, rows(900 + 100 * (step % 3) if run.held else 2048))
        if leak_after is None or not run.leaking(leak_after):
            continue
        if not run.held:
            run.lost(remember(kept, y, 512))
        elif step % 2:
            run.lost(trace.add(step, y))
    return weight, trace, kept


def clean(run):
    if EACH_IS_A_CALL:
        return loop(run)
    # Batches of changing size, so that pieces come and go.
    net, optimizer = leak_torch.mlp(depth=5 if run.held else 3)
    for step in run.steps(0.4):
        leak_torch.train_step(net, optimizer, rows(run.random.randint(100, 3000) if run.held else 256 + step % 7 * 256))
        if run.held and run.every("emptied", 40):
            torch.cuda.empty_cache()
    return net, optimizer


def kept(run):
    return loop(run, 85 if run.held else 35)


SCENARIOS = {"torch-fragments": fragments, "torch-expandable": clean, "torch-expandable-kept": kept,
             "torch-async": clean, "torch-async-kept": kept, "torch-uncached": clean, "torch-uncached-kept": kept}

if __name__ == "__main__":
    leak_run.main(load)
