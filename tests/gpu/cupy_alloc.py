# SPDX-License-Identifier: MIT
"""CuPy's memory pool, a pinned block and managed memory beside it."""
import sys

import cupy

from program import report

ASK = 1 << 40
MIB = 1 << 20


def main():
    pool = cupy.get_default_memory_pool()
    keep = [cupy.empty((i + 1) * 5 * MIB + 77, dtype=cupy.uint8) for i in range(8)]
    del keep[1:4]
    pool.free_all_blocks()
    keep.append(cupy.empty(13 * MIB, dtype=cupy.uint8))
    pinned = cupy.cuda.PinnedMemory(32 * MIB)
    managed = cupy.cuda.ManagedMemory(24 * MIB)
    try:
        cupy.empty(ASK, dtype=cupy.uint8)
        sys.exit("1 TiB was not refused")
    except cupy.cuda.memory.OutOfMemoryError:
        pass
    cupy.cuda.runtime.deviceSynchronize()
    report("cupy_alloc", pool.total_bytes(), 32 * MIB, 24 * MIB, [1, 6], ASK, ["cuMemAlloc_v2"])
    del keep, pinned, managed


main()
