# SPDX-License-Identifier: MIT
"""The programs of leaks.py: what each is called, whether it leaks, what it may take, and where the culprit stands."""
from dataclasses import dataclass, field

MIB = 1 << 20


@dataclass(frozen=True)
class Scenario:
    family: str       # of the label; programs of the same kind share it
    program: str      # file in this folder without .py, or a built program
    leak: bool
    budget_mib: int   # what it may take of the device beside its context; what it loses stays below
    site: str = ""    # pattern of the frame of the culprit, in our stacks
    site_held: str = ""  # where the other set has another
    class_: str = "device"  # of what is lost: device, host, driver (no allocation call shows it)
    # What libraries take beside what the program itself can count. PyTorch 2.11 with CUDA 13 holds 128 MiB of cuBLAS's
    # workspaces outside its allocator after the first product of matrices, and a little for what is loaded lazily.
    outside_mib: int = 200
    env: dict = field(default_factory=dict)

    @property
    def budget(self):
        return self.budget_mib * MIB

    def pattern(self, part):
        return self.site_held if part == "held" and self.site_held else self.site


def conf(value):
    return {"PYTORCH_CUDA_ALLOC_CONF": value}


UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
# A share of the device for its pool, which doubles as it grows.
JAX = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.04"}

# The sum of all budgets and of 0.6 GiB of context each must stay below the device: leaks.py checks it.
SCENARIOS = {
    # Training.
    "torch-train": Scenario("train", "leak_torch", False, 2000),
    "torch-list": Scenario("list-kept", "leak_torch", True, 6000, r"^Results\.collect\b", r"^Gallery\.embed\b"),
    "torch-graph": Scenario("graph-kept", "leak_torch", True, 7000, r"^side_loss\b", r"^trial_loss\b"),
    "torch-hooks": Scenario("hook-kept", "leak_torch", True, 4000, r"^Block\.forward\b", r"^watched_output\b"),
    "torch-eval": Scenario("eval-kept", "leak_torch", True, 3800, r"^evaluate\b", r"^Judge\.run\b"),
    "torch-lengths": Scenario("lengths", "leak_torch", False, 4000),
    "torch-autotune": Scenario("autotune", "leak_torch", False, 5000),
    "torch-accumulate": Scenario("accumulate", "leak_torch", False, 3000),
    "torch-lazy-optimizer": Scenario("lazy-state", "leak_torch", False, 4000),
    "torch-loader": Scenario("loader", "leak_loader", False, 1200),
    "torch-loader-pinned": Scenario("pinned-kept", "leak_loader", True, 1500, r"pin_memory", r"^stage\b", "host"),
    # Models that come and go.
    "torch-swap": Scenario("swap", "leak_models", False, 2500),
    "torch-swap-rest": Scenario("swap-rest", "leak_models", True, 4000, r"^position_table\b", r"^Adapter\.__init__"),
    "torch-reload": Scenario("reload-kept", "leak_models", True, 5000, r"^load_version\b", r"^Server\.refresh\b"),
    # Ways to allocate.
    "torch-fragments": Scenario("fragments", "leak_memory", False, 5500),
    "torch-expandable": Scenario("expandable", "leak_memory", False, 2500, env=conf("expandable_segments:True")),
    "torch-expandable-kept": Scenario("expandable-kept", "leak_memory", True, 4500, r"^remember\b", r"^Trace\.add\b",
                                      env=conf("expandable_segments:True")),
    "torch-async": Scenario("async", "leak_memory", False, 1500, env=conf("backend:cudaMallocAsync")),
    "torch-async-kept": Scenario("async-kept", "leak_memory", True, 3000, r"^remember\b", r"^Trace\.add\b",
                                 env=conf("backend:cudaMallocAsync")),
    "torch-uncached": Scenario("uncached", "leak_memory", False, 1500, env=UNCACHED),
    "torch-uncached-kept": Scenario("uncached-kept", "leak_memory", True, 2500, r"^remember\b", r"^Trace\.add\b",
                                    env=UNCACHED),
    # Serving.
    "serve-blocks": Scenario("kv-blocks", "leak_serving", False, 4000),
    "serve-requests": Scenario("request-cache", "leak_serving", True, 4500, r"^Cache\.lookup\b", r"^Sessions\.open\b"),
    # JAX.
    "jax-train": Scenario("jax", "leak_jax", False, 2500, env=JAX),
    "jax-rejit": Scenario("rejit", "leak_jax", True, 4000, r"^(make_step|rejit)\b", r"^Plan\.compile\b", env=JAX),
    # CuPy.
    "cupy-plateau": Scenario("pool-plateau", "leak_cupy", False, 2500),
    "cupy-plans": Scenario("plan-cache", "leak_cupy", False, 3000, outside_mib=500),  # tables of cuFFT
    "cupy-kept": Scenario("cupy-kept", "leak_cupy", True, 4000, r"^score\b", r"^Search\.step\b"),
    # Bare CUDA.
    "cuda-churn": Scenario("churn", "leak_cuda", False, 1500),
    "cuda-forgotten": Scenario("forgotten-path", "leak_cuda", True, 3000, r"^decode_request\b", r"^grow_canvas\b"),
    "cuda-driver-only": Scenario("driver-only", "leak_driver", True, 4000, class_="driver"),
}
