# SPDX-License-Identifier: MIT
"""stack_cost.c from Python: pairs of cuMemAllocAsync and cuMemFreeAsync by ctypes, below N Python frames.

Usage: stack_cost_python.py FRAMES [SECONDS]. Prints "python FRAMES NS", NS the median over batches.
"""
import ctypes
import statistics
import sys
import time

BATCH = 200
BYTES = 4096
RELEASE_THRESHOLD = 4  # CU_MEMPOOL_ATTR_RELEASE_THRESHOLD

cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuMemAllocAsync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
cuda.cuMemFreeAsync.argtypes = [ctypes.c_uint64, ctypes.c_void_p]
address = ctypes.c_uint64()


def must(result, what):
    if result:
        sys.exit(f"{what}: {result}")


def open_device():
    context, pool, keep = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64(2**64 - 1)
    must(cuda.cuInit(0), "cuInit")
    must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
    must(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    must(cuda.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0), "cuDeviceGetDefaultMemPool")
    must(cuda.cuMemPoolSetAttribute(pool, RELEASE_THRESHOLD, ctypes.byref(keep)), "cuMemPoolSetAttribute")


def pairs(seconds):
    samples = []
    pointer = ctypes.addressof(address)
    alloc, free = cuda.cuMemAllocAsync, cuda.cuMemFreeAsync
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.perf_counter_ns()
        for _ in range(BATCH):
            failed = alloc(pointer, BYTES, None) or free(address, None)
            if failed:
                must(failed, "a pair")
        samples.append((time.perf_counter_ns() - start) / BATCH)
    return samples


def down(frames, seconds):
    return down(frames - 1, seconds) if frames else pairs(seconds)


def main():
    frames = int(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.5
    open_device()
    pairs(0.1)  # the first ones fill the pool
    samples = down(frames - 4, seconds)  # <module>, main, pairs, and one more of down's own
    must(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    print(f"python {frames} {statistics.median(samples):.1f}")


main()
