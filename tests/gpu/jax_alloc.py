# SPDX-License-Identifier: MIT
"""JAX: with its growing pool, or --platform: every array is a driver call."""
import os
import sys

PLATFORM = "--platform" in sys.argv
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
if PLATFORM:
    os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"

import jax  # noqa: E402: reads the environment when it is loaded
import jax.numpy as jnp  # noqa: E402

from program import report  # noqa: E402

ASK = 300 << 30
MIB = 1 << 20
WHY = "XLA keeps some buffers of its own beside its arrays"
FUNCTIONS = ["cuMemAlloc_v2", "cuMemCreate", "cuMemAllocAsync", "cuMemAllocFromPoolAsync"]


def pool_bytes():
    stats = jax.devices()[0].memory_stats() or {}
    return stats.get("pool_bytes")


def main():
    keep = [jnp.zeros((i + 1) * MIB, dtype=jnp.float32) for i in range(8)]
    del keep[1:3]
    for a in keep:
        a.block_until_ready()
    try:
        jnp.zeros(ASK // 4, dtype=jnp.float32).block_until_ready()
        sys.exit("300 GiB were not refused")
    except Exception as e:  # its class moved between versions
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
    live = None if PLATFORM else pool_bytes()
    tolerance, why = 16 * MIB, WHY
    if live is None:
        live, tolerance = sum(a.nbytes for a in keep), 64 * MIB
    # Its pool refuses what is over its own limit without a call of the driver.
    report("jax_platform" if PLATFORM else "jax_alloc", live, None, None, [1 if PLATFORM else 0, 200], None, FUNCTIONS,
           tolerance, why)
    del keep


main()
