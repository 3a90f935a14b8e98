# SPDX-License-Identifier: MIT
"""A notebook that was left open: a table on the GPU, and nobody there."""
import sys
import time

import torch


def load_table(gib):
    return torch.zeros(gib << 28, dtype=torch.float32, device="cuda")


if __name__ == "__main__":
    table = load_table(22)
    time.sleep(float(sys.argv[1]))
