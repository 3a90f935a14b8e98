# SPDX-License-Identifier: MIT
"""A PyTorch program that knows its tensors: what the caching allocator was asked for and has not got back."""
import gc
import json
import os
import sys

import torch

MIB = 1 << 20


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)])

    def forward(self, x):
        return self.layers(x)


def train(steps, kept):
    net = Net().cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    for step in range(steps):
        x = torch.randn(64 + step % 7, 512, device="cuda")
        loss = net(x).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            kept.append(torch.full((1000 + step,), 1.0, device="cuda"))
    return net, optimizer


def say(label):
    gc.collect()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    print(json.dumps({"label": label, "pid": os.getpid(), "requested": stats["requested_bytes.all.current"],
                      "tensors": stats["allocation.all.current"], "allocated": stats["allocation.all.allocated"],
                      "reserved": stats["reserved_bytes.all.current"]}), flush=True)
    sys.stdin.readline()


def main():
    kept = []
    net, optimizer = train(200, kept)
    say("trained")
    for size in (1, 511, 513, 3 * MIB + 5):
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    say("odd sizes")
    caught = 0
    for _ in range(3):
        try:
            torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError:
            caught += 1
    assert caught == 3
    kept.append(torch.empty(MIB, dtype=torch.uint8, device="cuda"))
    say("after three exceptions")
    kept.clear()
    del net, optimizer
    torch.cuda.empty_cache()
    say("all given back")


main()
