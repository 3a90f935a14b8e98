# SPDX-License-Identifier: MIT
"""PyTorch's own caching allocator: the driver sees its segments. --matmul adds libraries that take memory of their own."""
import sys

import torch

from program import report

ASK = 1 << 40
MIB = 1 << 20


def train_steps(keep):
    weight = torch.zeros(3 * MIB, device="cuda", requires_grad=True)
    for step in range(20):
        loss = (torch.sin(weight) * (step + 1)).sum()
        loss.backward()
        keep.append(torch.full((300000,), float(step), device="cuda"))
        weight.grad = None
    return weight


def main():
    matmul = "--matmul" in sys.argv
    keep = []
    weight = train_steps(keep)
    if matmul:
        a = torch.ones(2048, 2048, device="cuda", dtype=torch.float16)
        keep.append(a @ a)
    pinned = torch.empty(32 * MIB, dtype=torch.uint8, pin_memory=True)
    try:
        torch.empty(ASK, dtype=torch.uint8, device="cuda")
        sys.exit("1 TiB was not refused")
    except torch.cuda.OutOfMemoryError:
        pass
    torch.cuda.synchronize()
    reserved = torch.cuda.memory_stats()["reserved_bytes.all.current"]
    report("torch_matmul" if matmul else "torch_native", reserved, pinned.nbytes, 0, [1, 4], ASK, ["cuMemAlloc_v2"],
           96 * MIB if matmul else 0, "cuBLAS takes memory beside PyTorch's allocator" if matmul else "")
    del keep, weight, pinned


main()
