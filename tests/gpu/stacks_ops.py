# SPDX-License-Identifier: MIT
"""Many operators of PyTorch from many places, each tensor a driver call: 40 lines at 50 depths are 2,000 stacks.

First each line is marked at five depths, with sizes of its own; then all of them run for --seconds, small, so that the
daemon's own check of what it knows again has something to check.
"""
import os
import sys
import time

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"

import torch  # noqa: E402: reads the environment when it is loaded

from stacks_mark import MIB, at, finish  # noqa: E402

OPERATORS = """abs neg sin cos tan asin acos atan sinh cosh tanh asinh exp expm1 exp2 log log1p log2 log10 sqrt rsqrt
square reciprocal sigmoid relu erf erfc erfinv floor ceil round trunc frac sign sgn logit deg2rad rad2deg nan_to_num
selu""".split()
DEPTHS = 50
MARKED_DEPTHS = (0, 3, 7, 20, 40)
SIZES = iter(range(10 * MIB + 4096, 1 << 40, 4096))

LINES = ["def all_operators(x, at):"]
LINES += [f"    torch.{name}(at(x))" for name in OPERATORS]
names = {"torch": torch}
exec(compile("\n".join(LINES) + "\n", "<operators>", "exec"), names)
all_operators = names["all_operators"]


def one(x, name, size):
    return getattr(torch, name)(at(x, size, what=name))


def mark_one(large, name, depth):
    if depth:
        return mark_one(large, name, depth - 1)
    size = next(SIZES)
    return one(large[:size // 4], name, size)


def down(x, depth):
    if depth:
        return down(x, depth - 1)
    return all_operators(x, lambda value: value)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 15
    large = torch.rand(16 * MIB // 4, device="cuda")
    for name in OPERATORS:
        for depth in MARKED_DEPTHS:
            mark_one(large, name, depth)
    torch.cuda.synchronize()
    x = torch.rand(1000, device="cuda")
    end = time.monotonic() + seconds
    calls = 0
    while time.monotonic() < end:
        for depth in range(DEPTHS):
            down(x, depth)
            calls += len(OPERATORS)
        torch.cuda.synchronize()
    finish(operator_calls=calls, distinct=DEPTHS * len(OPERATORS))


main()
