# SPDX-License-Identifier: MIT
"""PyTorch with expandable segments: physical memory in pieces, mapped into one large range of addresses."""
import os
import sys

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

import torch  # noqa: E402: reads the environment when it is loaded

from program import report  # noqa: E402

MIB = 1 << 20


def main():
    keep = [torch.empty((i + 1) * 7 * MIB, dtype=torch.uint8, device="cuda") for i in range(8)]
    keep += [torch.empty(1000, device="cuda") for _ in range(100)]
    del keep[2:6]
    torch.cuda.empty_cache()  # gives whole pieces back
    keep.append(torch.empty(90 * MIB, dtype=torch.uint8, device="cuda"))
    # More than there is, less than the addresses that are reserved (9/8 of the device): piece after piece is created until
    # the driver refuses one.
    ask = torch.cuda.get_device_properties(0).total_memory // 100 * 104
    try:
        torch.empty(ask, dtype=torch.uint8, device="cuda")
        sys.exit("more than the device has was not refused")
    except torch.cuda.OutOfMemoryError:
        pass
    torch.cuda.synchronize()
    reserved = torch.cuda.memory_stats()["reserved_bytes.all.current"]
    report("torch_expandable", reserved, None, 0, [1, 8], None, ["cuMemCreate"])
    del keep


main()
