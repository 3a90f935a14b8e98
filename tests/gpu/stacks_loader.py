# SPDX-License-Identifier: MIT
"""A DataLoader whose two workers, spawned, take memory of the GPU themselves, beside the main process."""
import torch

from stacks_mark import MIB, at, finish, segment

ITEMS = 4


class Images(torch.utils.data.Dataset):
    """What a worker decodes stays on the GPU, so that each item is a call of the driver."""

    def __init__(self):
        self.kept = []

    def __len__(self):
        return ITEMS

    def decode(self, size):
        return torch.empty(at(size, segment(size), what="worker"), dtype=torch.uint8, device="cuda")

    def __getitem__(self, i):
        self.kept.append(self.decode((30 + 4 * i) * MIB))
        return torch.tensor(i)


def main():
    loader = torch.utils.data.DataLoader(Images(), batch_size=1, num_workers=2, multiprocessing_context="spawn",
                                         persistent_workers=True)
    kept = []
    seen = 0
    for batch in loader:
        size = (60 + 4 * seen) * MIB
        kept.append(torch.empty(at(size, segment(size), what="main"), dtype=torch.uint8, device="cuda"))
        seen += len(batch)
    if seen != ITEMS:
        raise SystemExit(f"{seen} items, not {ITEMS}")
    torch.cuda.synchronize()
    finish()
    del kept, loader


if __name__ == "__main__":
    main()
