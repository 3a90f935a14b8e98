# SPDX-License-Identifier: MIT
"""An inference server: weights, and a cache of requests that follows the load."""
import math
import sys
import time

import torch

GIB = 1 << 30


def load_weights(gib):
    return [torch.empty(GIB, dtype=torch.uint8, device="cuda") for _ in range(gib)]


def admit(cache, bytes_wanted):
    while len(cache) * GIB // 2 < bytes_wanted:
        cache.append(torch.empty(GIB // 2, dtype=torch.uint8, device="cuda"))
    del cache[max(1, bytes_wanted * 2 // GIB):]


def serve(seconds):
    weights = load_weights(24)
    cache, start = [], time.monotonic()
    while (t := time.monotonic() - start) < seconds:
        admit(cache, int((8 + 6 * math.sin(t / 25)) * GIB))
        torch.cuda.empty_cache()
        time.sleep(1)
    return weights


if __name__ == "__main__":
    serve(float(sys.argv[1]))
