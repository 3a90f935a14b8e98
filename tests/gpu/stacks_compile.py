# SPDX-License-Identifier: MIT
"""torch.compile: buffers that generated code takes, and an operator of our own called from generated code."""
import os
import sys

os.environ["TORCHINDUCTOR_CACHE_DIR"] = (os.environ.get("WORK") or "/tmp") + "/inductor"
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import torch  # noqa: E402: reads the environment when it is loaded

import stacks_mark  # noqa: E402
from stacks_mark import MIB, at, finish, give_up, segment  # noqa: E402

SIZE, OWN_SIZE = 66 * MIB, 78 * MIB
OWN_FILE = os.path.basename(__file__)


@torch.library.custom_op("gpuxray_test::take", mutates_args=())
def take(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(at(OWN_SIZE // 4, segment(OWN_SIZE), what="operator"), device="cuda")


@take.register_fake
def _(x):
    return x.new_empty(OWN_SIZE // 4)


def pointwise(x):
    return torch.sin(x) * 2 + torch.cos(x)


def with_operator(x):
    return take(torch.sin(x)) * 3


def run(compiled, x, **mark):
    """The first call compiles. The second one is marked: nothing but what the code itself needs is allocated then."""
    stacks_mark.armed = False
    compiled(x)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    stacks_mark.armed = True
    return compiled(at(x, segment(SIZE), "outer", inner="/inductor/|" + OWN_FILE, **mark))


def main():
    x = torch.ones(SIZE // 4, device="cuda")
    try:
        kept = [run(torch.compile(pointwise), x, what="buffer of generated code")]
    except Exception as e:  # no compiler, no headers of Python: many classes
        give_up(f"{type(e).__name__}: {e}")
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    try:
        kept.append(run(torch.compile(with_operator), x, what="buffer before the operator"))
    except Exception as e:
        print(f"the operator of our own: {type(e).__name__}: {e}", file=sys.stderr)
    torch.cuda.synchronize()
    finish()
    del kept


main()
