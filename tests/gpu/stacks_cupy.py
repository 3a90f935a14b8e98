# SPDX-License-Identifier: MIT
"""CuPy: arrays by way of its pool and of its own Python code, and blocks beside the pool."""
import cupy

from stacks_mark import MIB, at, finish

keep = []


def empty(size):
    return cupy.empty(at(size, size, "outer", inner="cupy/", what="cupy.empty"), dtype=cupy.uint8)


def array(size):
    # Compiled code only: this frame is the innermost.
    return cupy.ndarray(at(size, size, what="cupy.ndarray"), dtype=cupy.uint8)


class Buffers:
    def __init__(self):
        self.block = cupy.cuda.Memory(at(24 * MIB + 512, 24 * MIB + 512, what="cupy.cuda.Memory"))
        self.more = [cupy.cuda.alloc(at(n * MIB, n * MIB, what="cupy.cuda.alloc")) for n in (25, 26)]


def main():
    keep.append(empty(22 * MIB))
    keep.append(array(23 * MIB))
    keep.append(Buffers())
    cupy.cuda.runtime.deviceSynchronize()
    finish()
    keep.clear()


main()
