# SPDX-License-Identifier: MIT
"""PyTorch on the driver's stream-ordered allocator: every tensor is a driver call."""
import os
import sys

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"

import torch  # noqa: E402: reads the environment when it is loaded

from program import report  # noqa: E402

ASK = 1 << 40
MIB = 1 << 20


def main():
    keep = [torch.empty((i + 1) * 3 * MIB + 100 * i, dtype=torch.uint8, device="cuda") for i in range(10)]
    for _ in range(1000):
        torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")
    del keep[3:7]
    try:
        torch.empty(ASK, dtype=torch.uint8, device="cuda")
        sys.exit("1 TiB was not refused")
    except torch.cuda.OutOfMemoryError:
        pass
    torch.cuda.synchronize()
    live = sum(t.untyped_storage().nbytes() for t in keep)
    report("torch_async", live, None, 0, [1, 4], ASK, ["cuMemAllocAsync", "cuMemAllocAsync_ptsz",
                                                      "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync_ptsz"])
    del keep


main()
