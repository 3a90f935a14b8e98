# SPDX-License-Identifier: MIT
"""A training job whose attention outgrows the GPU: what journal.sh shows."""
import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(width / self.heads)
        return torch.matmul(scores.softmax(-1), v).transpose(1, 2).reshape(batch, length, width)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, 16)

    def forward(self, x):
        return x + self.attention(self.norm(x))


def train_step(model, optimizer, length):
    loss = model(torch.randn(4, length, 1024, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def train():
    model = nn.Sequential(*(Block(1024) for _ in range(4))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for length in (1024, 2048, 4096, 65536):
        print(length, train_step(model, optimizer, length), flush=True)


if __name__ == "__main__":
    train()
