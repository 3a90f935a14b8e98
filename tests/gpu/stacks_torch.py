# SPDX-License-Identifier: MIT
"""PyTorch, eager: stacks_torch.py eager|expandable|graphs|async|oom. Sizes are chosen so that each names its line."""
import os
import sys
import threading

MODE = sys.argv[1]
if MODE in ("expandable", "async"):
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = {"expandable": "expandable_segments:True",
                                             "async": "backend:cudaMallocAsync"}[MODE]

import torch  # noqa: E402: reads the environment when it is loaded

import stacks_mark  # noqa: E402
from stacks_mark import MIB, at, expect, finish, frames_of, quiet, segment  # noqa: E402

BATCH = 8192  # rows: a column of floats more is 32 KiB more
PIECE = 20 * MIB  # what expandable segments grow by
keep = []


def take(size):
    """One block of a size nobody else asks for."""
    return torch.empty(at(size, size), dtype=torch.uint8, device="cuda")


class Layer(torch.nn.Module):
    def __init__(self, inputs, outputs, inner=None):
        super().__init__()
        self.inner = inner
        self.outputs = outputs
        self.weight = torch.nn.Parameter(torch.empty(outputs, inputs, device="cuda").normal_(std=0.01))


class Inner(Layer):
    def forward(self, x):
        return torch.nn.functional.linear(at(x, segment(BATCH * self.outputs * 4), what="forward, inner"), self.weight)


class Middle(Layer):
    def forward(self, x):
        x = self.inner(x)
        return torch.nn.functional.linear(at(x, segment(BATCH * self.outputs * 4), what="forward, middle"), self.weight)


class Outer(Layer):
    def forward(self, x):
        x = self.inner(x)
        return torch.nn.functional.linear(at(x, segment(BATCH * self.outputs * 4), what="forward, outer"), self.weight)


def train_step(model, x, lone, pair, optimizer):
    """
    lone is a parameter larger than all else but what is made of it, so that its gradient and the optimizer's state fit
    in no block that has become free.
    """
    count = lone.numel() * 4
    hooked = []

    def hook(grad):
        # On a thread of autograd: this frame is the only one there.
        keep.append(torch.empty(at(93 * MIB, segment(93 * MIB), what="hook"), dtype=torch.uint8, device="cuda"))
        hooked.append(threading.get_native_id())

    h = model(x)
    y = lone * at(pair, segment(2 * count), what="forward, broadcast")
    y.register_hook(hook)
    keep.extend([h, y])
    loss = h.mean() + y.mean()
    loss.backward()
    torch.cuda.synchronize()
    # C++ on a thread that Python did not start: native frames, and no Python ones.
    for size, what in ((2 * count, "backward, broadcast"), (count, "backward, sum")):
        expect(segment(size), [], "native", tid=hooked[0], what=what, function="torch::autograd")
    torch.cuda.empty_cache()
    optimizer.step(*at((), segment(count), "outer", inner="torch/optim/", what="optimizer state"))


def eager():
    x = torch.empty(BATCH, 2048, device="cuda").normal_()
    model = Outer(2560, 2816, Middle(2304, 2560, Inner(2048, 2304))).cuda()
    lone = torch.nn.Parameter(torch.empty(240 * MIB // 4, device="cuda").normal_()[:210 * MIB // 4])
    pair = torch.tensor([[1.0], [2.0]], device="cuda")
    optimizer = torch.optim.Adam(list(model.parameters()) + [lone])
    torch.cuda.empty_cache()
    train_step(model, x, lone, pair, optimizer)
    return model, optimizer, x


def expandable():
    def load_shard(pieces):
        size = pieces * PIECE
        return torch.empty(at(size, PIECE, pieces=pieces), dtype=torch.uint8, device="cuda")

    def load_model():
        keep.extend(load_shard(n) for n in (2, 3))
        keep.append(torch.empty(at(80 * MIB, PIECE, pieces=4), dtype=torch.uint8, device="cuda"))

    load_model()


def graphs():
    x = torch.ones(32 * MIB // 4, device="cuda")
    tail = torch.ones(4 * MIB // 4, device="cuda")

    def step():
        a = torch.sin(at(x, segment(32 * MIB), what="captured, pointwise"))
        return a, torch.cat(at([a, tail], segment(36 * MIB), what="captured, cat"))

    stacks_mark.armed = False
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    stacks_mark.armed = True
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        keep.append(step())
    torch.cuda.synchronize()
    quiet()
    for _ in range(50):
        graph.replay()
    torch.cuda.synchronize()
    return graph


class Shapes:
    """Ways to be called. Every tensor of this allocator is a call of the driver, of exactly its size."""

    @staticmethod
    def static():
        keep.append(take(11 * MIB + 512))

    @property
    def value(self):
        keep.append(take(12 * MIB + 512))
        return 1

    def __enter__(self):
        keep.append(take(13 * MIB + 512))
        return self

    def __exit__(self, *args):
        keep.append(take(14 * MIB + 512))


def generated():
    for i in range(2):
        yield take((15 + i) * MIB + 512)


def größe(n):
    return größe(n - 1) if n else take(18 * MIB + 512)


def asynchronous():
    with Shapes() as shapes:
        shapes.static()
        shapes.value
    keep.extend(generated())
    keep.extend(map(lambda n: take(n * MIB + 512), [17]))
    keep.append(größe(30))
    thread = threading.Thread(target=lambda: keep.append(take(19 * MIB + 512)))
    thread.start()
    thread.join()
    names = {"take": take, "keep": keep}
    code = compile("def made():\n\n    keep.append(take(20 << 20))\nmade()", "<made>", "exec")
    keep.append(code)  # else its name would be gone with it
    exec(code, names)
    keep.append(
        torch.cat([
            torch.empty(at(21 * MIB + 512, 21 * MIB + 512), dtype=torch.uint8, device="cuda"),
            torch.empty(at(22 * MIB + 512, 22 * MIB + 512), dtype=torch.uint8, device="cuda"),
        ]))
    return names


def out_of_memory():
    def gather(size):
        return torch.empty(at(size, size, event="alloc_failure"), dtype=torch.uint8, device="cuda")

    def evaluate():
        try:
            gather(1 << 40)
        except torch.cuda.OutOfMemoryError:
            return
        sys.exit("1 TiB was not refused")

    evaluate()


def main():
    torch.zeros(1, device="cuda")
    modes = {"eager": eager, "expandable": expandable, "graphs": graphs, "async": asynchronous, "oom": out_of_memory}
    held = modes[MODE]()
    torch.cuda.synchronize()
    finish()
    del held


main()
