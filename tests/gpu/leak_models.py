# SPDX-License-Identifier: MIT
"""PyTorch, models that are swapped and loaded anew: leak_models.py NAME tune|held, started by leaks.py."""
import gc

import torch

import leak_run
import leak_torch
from leak_torch import DEVICE, Net, rows


def load(run):
    leak_torch.load(run)
    return SCENARIOS, leak_torch.own


def make(width, depth):
    """As loaded from a file: made on the host, then moved."""
    return Net(512, width, depth, 512).to(DEVICE).eval()


def serve(net, count):
    with torch.no_grad():
        return float(net(rows(count)).mean())


def drop():
    gc.collect()
    torch.cuda.empty_cache()


def swap(run):
    """The model before is gone before the next one comes."""
    sizes = [(1536, 9), (2560, 6), (1024, 12)] if run.held else [(2048, 8), (2048, 6)]
    net, turn = None, 0
    for _ in run.steps(0.6):
        if net is None or run.every("swap", 7 + run.random.random() * 8 if run.held else 12):
            net = None
            drop()
            net = make(*sizes[turn % len(sizes)])
            turn += 1
        serve(net, 300)
    return net


def position_table(registry, turn):
    """Registered with each model, for ever."""
    registry[turn] = torch.full((3000, 2048), float(turn), device=DEVICE)
    return registry[turn].numel() * 4


class Adapter:
    """Small pieces beside a model. Those of models long gone are still on the list of all adapters."""
    everyone = []

    def __init__(self, width):
        self.pieces = [torch.zeros(width, 512, device=DEVICE) for _ in range(6)]
        Adapter.everyone.append(self)

    def count(self):
        return sum(p.numel() * 4 for p in self.pieces)


def swap_rest(run):
    net, turn, registry, adapter = None, 0, {}, None
    for _ in run.steps(0.6):
        if net is None or run.every("swap", 6 + run.random.random() * 5 if run.held else 9):
            net = None
            if not run.held and not run.leaking(60):
                registry.clear()
            if run.held and not run.leaking(75):
                Adapter.everyone.clear()
            # What the swaps before have left is lost; what belongs to the model at hand is not.
            run.lost_to(sum(t.numel() * 4 for t in registry.values()) + sum(a.count() for a in Adapter.everyone))
            drop()
            net = make(1800, 7) if run.held else make(2048, 8)
            if run.held:
                adapter = Adapter(1800 + turn % 3 * 200)
            else:
                position_table(registry, turn)
            turn += 1
        serve(net, 256)
    return net, registry, adapter


def load_version(versions, number):
    """The newest is used; nobody asks for the others again."""
    versions[number] = make(1536, 18)
    return versions[number]


class Server:
    """Its handlers are closures over the model of their time, and never unsubscribed."""

    def __init__(self):
        self.handlers = []
        self.net = None

    def refresh(self, keep):
        if not keep:
            self.handlers.clear()
        self.net = net = make(1024, 14)
        self.handlers.append(lambda x: net(x))


def bytes_of(net):
    return sum(p.numel() * 4 for p in net.parameters())


def reload_kept(run):
    versions, server, number = {}, Server(), 0
    for _ in run.steps(0.5):
        if number == 0 or run.every("reload", 8 if run.held else 20):
            keep = run.leaking(55 if run.held else 70)
            old = server.net if run.held else versions.get(number - 1)
            if run.held:
                server.refresh(keep)
                net = server.net
            else:
                if not keep:
                    versions.clear()
                net = load_version(versions, number)
            if keep and old is not None:
                run.lost(bytes_of(old))
            number += 1
            del old
        serve(net, 256)
    return versions, server


SCENARIOS = {"torch-swap": swap, "torch-swap-rest": swap_rest, "torch-reload": reload_kept}

if __name__ == "__main__":
    leak_run.main(load)
