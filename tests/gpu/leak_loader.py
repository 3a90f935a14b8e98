# SPDX-License-Identifier: MIT
"""PyTorch's DataLoader with pinned memory: leak_loader.py NAME tune|held, started by leaks.py."""
import torch

import leak_run
import leak_torch

COLUMNS = 512


class Rows(torch.utils.data.Dataset):
    """Samples of a few KiB. As many as anybody could want."""

    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        return torch.full((2, COLUMNS), float(i % 97))


def loader(workers, batch):
    return iter(torch.utils.data.DataLoader(Rows(), batch_size=batch, num_workers=workers, pin_memory=True,
                                            persistent_workers=workers > 0))


def step_on(net, optimizer, batch):
    leak_torch.train_step(net, optimizer, batch.to(leak_torch.DEVICE, non_blocking=True).flatten(0, 1))


def load(run):
    leak_torch.load(run)
    return SCENARIOS, own_device


def own_device(run):
    torch.cuda.synchronize()
    run.live("device", torch.cuda.memory_reserved())


def clean(run):
    net, optimizer = leak_torch.mlp(depth=2)
    batches = loader(0 if run.held else 2, 192 if run.held else 384)
    for _ in run.steps(0.8):
        step_on(net, optimizer, next(batches))
    return net, batches


def stage(batches, kept):
    """Batches on their way to the device; nobody takes them off the list."""
    batch = next(batches)
    kept.append(batch)
    return batch


def pinned_kept(run):
    net, optimizer = leak_torch.mlp(depth=2)
    kept = []
    if run.held:
        batches = loader(0, 200)  # 0.8 MiB, pinned as 1 MiB
        for _ in run.steps(1.0):
            if run.leaking(80):
                batch = stage(batches, kept)
                run.lost(batch.numel() * 4)
            else:
                batch = next(batches)
            step_on(net, optimizer, batch)
        return net, kept
    batches = loader(2, 500)  # pinned by a thread of the loader
    for _ in run.steps(1.2):
        batch = next(batches)
        step_on(net, optimizer, batch)
        if run.leaking(45):
            kept.append(batch)
            run.lost(batch.numel() * 4)
    return net, kept


SCENARIOS = {"torch-loader": clean, "torch-loader-pinned": pinned_kept}

if __name__ == "__main__":
    leak_run.main(load)
