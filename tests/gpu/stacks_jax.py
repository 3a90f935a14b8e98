# SPDX-License-Identifier: MIT
"""JAX: stacks_jax.py platform|pool. Every array is a driver call, or a pool grows."""
import os
import sys

MODE = sys.argv[1]
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
if MODE == "platform":
    os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"

import jax  # noqa: E402: reads the environment when it is loaded
import jax.numpy as jnp  # noqa: E402

from stacks_mark import MIB, at, finish  # noqa: E402

keep = []


def size_of(mib):
    """The pool takes what it likes from the driver; elsewhere an array is a call of just its size."""
    return mib * MIB if MODE == "platform" else None


# XLA may allocate on a thread of its own, where there is no Python: such a record is right without any.
def zeros(mib):
    return jnp.zeros(at(mib * MIB // 4, size_of(mib), "outer", threads=True, what="zeros"), dtype=jnp.float32)


def load(mib):
    keep.append(zeros(mib))
    keep[-1].block_until_ready()


def double(x, mib):
    return jnp.add(x, at(x, size_of(mib), "outer", threads=True, what="add"))


class Model:
    def forward(self, mib):
        keep.append(double(keep[-1], mib))
        keep[-1].block_until_ready()


def main():
    # The pool doubles what it takes each time: each of these is more than it has left.
    load(100)
    load(200)
    load(600)
    if MODE == "platform":
        Model().forward(600)
    jax.block_until_ready(keep)
    finish()
    keep.clear()


main()
