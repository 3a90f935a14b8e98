# SPDX-License-Identifier: MIT
"""A small training loop for cost measurements: on each line of stdin ("SECONDS") it trains so long and prints steps/s."""
import sys
import time

import torch


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 512),
                                torch.nn.GELU(), torch.nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(256, 512, device="cuda")
    y = torch.randint(0, 10, (256,), device="cuda")

    def step():
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    for _ in range(50):
        step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    for line in sys.stdin:
        seconds = float(line)
        start = time.perf_counter()
        count = 0
        while time.perf_counter() - start < seconds:
            for _ in range(10):
                step()
            count += 10
        torch.cuda.synchronize()
        print(f"{count / (time.perf_counter() - start):.2f}", flush=True)


main()
