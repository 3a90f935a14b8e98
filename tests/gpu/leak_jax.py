# SPDX-License-Identifier: MIT
"""JAX: leak_jax.py NAME tune|held, started by leaks.py. In the held set each array is a call of the driver."""
import os
import sys

if sys.argv[2:3] == ["held"]:
    os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"
# Its compiler starts a thread for each core that it may use, and others are at work here.
CORES = sorted(os.sched_getaffinity(0))
FIRST = os.getpid() % len(CORES)
os.sched_setaffinity(0, {CORES[FIRST], CORES[(FIRST + 1) % len(CORES)]})

import jax  # noqa: E402: reads the environment when it is loaded
import jax.numpy as jnp  # noqa: E402

import leak_run  # noqa: E402


def load(run):
    jnp.zeros(1).block_until_ready()
    return SCENARIOS, own


GRANULE = 2 << 20  # the driver gives whole ones of these


def own(run):
    stats = jax.devices()[0].memory_stats() or {}
    live = stats.get("pool_bytes")
    if run.held or live is None:
        # Several arrays may be of the same buffer.
        buffers = {a.unsafe_buffer_pointer(): a.nbytes for a in jax.live_arrays()}
        live = sum((size + GRANULE - 1) // GRANULE * GRANULE for size in buffers.values())
    run.live("device", live)


def loss_of(weights, x):
    for w in weights:
        x = jnp.tanh(x @ w)
    return jnp.mean(x * x)


@jax.jit
def train_step(weights, x):
    gradients = jax.grad(loss_of)(weights, x)
    return [w - 0.01 * g for w, g in zip(weights, gradients)]


def make_weights(run, count, side):
    keys = jax.random.split(jax.random.PRNGKey(3 if run.held else 4), count)
    return [jax.random.normal(k, (side, side)) * 0.03 for k in keys]


def train(run):
    """Compiled once for each of a few shapes."""
    weights = make_weights(run, 3 if run.held else 6, 1024)
    for step in run.steps(2.0 if run.held else 0.4):
        weights = train_step(weights, jnp.ones((128 * (1 + step % (2 if run.held else 3)), 1024)))
        jax.block_until_ready(weights)
    return weights


def make_step(number):
    """A function anew each time, with a table of its own: compiled again, and kept by whoever keeps it."""
    table = jnp.full((1024, 1200), float(number))
    return jax.jit(lambda x: x * table + number)


class Plan:
    """Compiled for one temperature. There are as many as there are numbers."""
    known = {}

    @classmethod
    def compile(cls, temperature):
        if temperature not in cls.known:
            scale = jnp.linspace(0.0, temperature, 700000)
            cls.known[temperature] = jax.jit(lambda x: jnp.cumsum(jnp.exp(-x / (1.0 + scale))))
        return cls.known[temperature]


def rejit(run):
    steps = []
    if run.held:
        x = jnp.ones(700000)
        for step in run.steps(2.2):
            leaking = run.leaking(60)
            Plan.compile(1.0 + step * 0.01 if leaking else 1.0)(x).block_until_ready()
            if leaking:
                run.lost(700000 * 4)
        return x
    x = jnp.ones((1024, 1200))
    fixed = make_step(0)
    for step in run.steps(1.6):
        if not run.leaking(50):
            fixed(x).block_until_ready()
            continue
        steps.append(make_step(step))
        steps[-1](x).block_until_ready()
        run.lost(1024 * 1200 * 4)
    return steps, x


SCENARIOS = {"jax-train": train, "jax-rejit": rejit}

if __name__ == "__main__":
    leak_run.main(load)
