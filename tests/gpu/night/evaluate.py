# SPDX-License-Identifier: MIT
"""One of many short jobs."""
import sys
import time

import torch


def evaluate(gib, seconds):
    batch = torch.ones(gib << 28, dtype=torch.float32, device="cuda")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        (batch * 0.5).sum().item()
        time.sleep(0.2)


if __name__ == "__main__":
    evaluate(int(sys.argv[1]), float(sys.argv[2]))
