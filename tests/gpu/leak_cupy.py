# SPDX-License-Identifier: MIT
"""CuPy: leak_cupy.py NAME tune|held, started by leaks.py."""
import cupy

import leak_run
from leak_run import MIB


def load(run):
    cupy.get_default_memory_pool().set_limit(size=run.budget + 1024 * MIB)
    cupy.zeros(1)
    cupy.cuda.runtime.deviceSynchronize()
    return SCENARIOS, own


def own(run):
    cupy.cuda.runtime.deviceSynchronize()
    run.live("device", cupy.get_default_memory_pool().total_bytes())


def filled(size):
    """No kernel of its own, so nothing is compiled."""
    a = cupy.empty(size, dtype=cupy.uint8)
    a.data.memset(1, a.nbytes)
    return a


def plateau(run):
    """A bounded population: the pool grows until it has a block for whatever may be asked."""
    population = [None] * (90 if run.held else 48)
    for step in run.steps(0.3 if run.held else 0.4):
        # The held set fills its places slowly, as users come.
        places = len(population) if not run.held else max(4, int(len(population) * min(1.0, run.share() * 2)))
        place = run.random.randrange(places)
        population[place] = None
        if run.held:
            size = int(min(30, run.random.lognormvariate(1.3, 0.9)) * MIB) + 512
        else:
            size = run.random.choice((1, 2, 3, 5, 8, 13, 21, 34)) * MIB + run.random.randrange(4) * 65536
        population[place] = filled(size)
    return population


def plans(run):
    """A plan with its workspace for each shape, up to the bound of the cache."""
    cache = cupy.fft.config.get_plan_cache()
    cache.set_size(40 if run.held else 64)
    # Lengths with large prime factors want workspaces of several times the data.
    for step in run.steps(2.5 if run.held else 3.0):
        if run.held:
            side = 257 + 2 * run.random.randrange(300)
            x = cupy.zeros((side, side), dtype=cupy.complex64)
            cupy.fft.fft2(x)
        else:
            x = cupy.zeros((4, 65537 + 1001 * run.random.randrange(150)), dtype=cupy.complex64)
            cupy.fft.fft(x)
        del x
    return cache


def score(batch):
    result = filled(6 * MIB + batch % 7 * 65536)
    return result


class Search:
    """Candidates beside the best one are never looked at again."""

    def __init__(self):
        self.best, self.candidates = None, []

    def step(self, size):
        candidate = filled(size)
        self.candidates.append(candidate)
        self.best = candidate
        return candidate.nbytes


def kept(run):
    results, search = [], Search()
    for step in run.steps(0.9 if run.held else 1.1):
        filled(3 * MIB)
        if not run.held:
            result = score(step)
            if run.leaking(40):
                results.append(result)
                run.lost(result.nbytes)
            continue
        leaking = run.leaking(95)
        size = int(run.random.uniform(0.8, 3.2) * MIB)
        if not leaking:
            search.candidates.clear()
        size = search.step(size)
        if leaking:
            run.lost(size)
        if run.every("emptied", 30):
            cupy.get_default_memory_pool().free_all_blocks()
    return results, search


SCENARIOS = {"cupy-plateau": plateau, "cupy-plans": plans, "cupy-kept": kept}

if __name__ == "__main__":
    leak_run.main(load)
