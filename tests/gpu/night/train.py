# SPDX-License-Identifier: MIT
"""A training job that, once warm, keeps the activations of each step for a plot that nobody draws."""
import sys
import time

import torch
from torch import nn

WARM_STEPS = 150


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Monitor:
    def __init__(self):
        self.kept = []

    def remember(self, activations):
        self.kept.append(torch.stack(activations))


def train_step(blocks, optimizer, monitor):
    x, activations = torch.randn(2048, 2048, device="cuda"), []
    for block in blocks:
        x = block(x)
        activations.append(x.detach())
    x.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if monitor:
        monitor.remember(activations)


def train(seconds, pause):
    blocks = nn.ModuleList(Block(2048) for _ in range(12)).cuda()
    optimizer = torch.optim.SGD(blocks.parameters(), lr=0.001)
    monitor, end, step = Monitor(), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        train_step(blocks, optimizer, monitor if step > WARM_STEPS else None)
        step += 1
        time.sleep(pause)


if __name__ == "__main__":
    train(float(sys.argv[1]), float(sys.argv[2]))
