# SPDX-License-Identifier: MIT
"""PyTorch, training, healthy and not: leak_torch.py NAME tune|held, started by leaks.py."""
import functools

import torch
from torch.utils.checkpoint import checkpoint

import leak_run
from leak_run import MIB

DEVICE = "cuda"


def load(run):
    torch.manual_seed(1 if run.held else 2)
    torch.set_num_threads(1)
    total = torch.cuda.get_device_properties(0).total_memory
    # A surprise must not reach the other programs.
    torch.cuda.set_per_process_memory_fraction(min(1.0, (run.budget + 1024 * MIB) / total))
    torch.zeros(1, device=DEVICE)
    torch.cuda.synchronize()
    run.counted = made
    return SCENARIOS, own


def own(run):
    torch.cuda.synchronize()
    run.live("framework", torch.cuda.memory_stats().get("requested_bytes.all.current", 0))
    run.live("device", torch.cuda.memory_reserved())


def made():
    return torch.cuda.memory_stats().get("allocation.all.allocated", 0)


def allocated():
    return torch.cuda.memory_allocated()


class Block(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Net(torch.nn.Module):
    def __init__(self, inputs, width, depth, outputs):
        super().__init__()
        sizes = [inputs] + [width] * depth
        self.blocks = torch.nn.ModuleList(Block(a, b) for a, b in zip(sizes, sizes[1:]))
        self.head = torch.nn.Linear(width, outputs)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Decoder(torch.nn.Module):
    """A small transformer over tokens."""

    def __init__(self, width, layers, words=4000, longest=2048):
        super().__init__()
        self.words, self.longest = words, longest
        self.token = torch.nn.Embedding(words, width)
        self.place = torch.nn.Embedding(longest, width)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True) for _ in range(layers))
        self.head = torch.nn.Linear(width, 512)

    def forward(self, tokens):
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def train_step(net, optimizer, x, clip=0.0):
    loss = net(x).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    if clip:
        torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
    optimizer.step()
    return loss


def mlp(width=1024, depth=4, outputs=1024):
    net = Net(512, width, depth, outputs).to(DEVICE)
    return net, torch.optim.AdamW(net.parameters())


def rows(count, columns=512):
    return torch.randn(count, columns, device=DEVICE)


def tokens(batch, length, net):
    return torch.randint(0, net.words, (batch, length), device=DEVICE)


def train(run):
    """Real steps, nothing kept but a number of each loss."""
    losses = []
    if run.held:
        net = Decoder(256, 4).to(DEVICE)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 100)
        for step in run.steps(0.4):
            losses.append(train_step(net, optimizer, tokens(8, 192 + 64 * (step % 3), net), clip=1.0).item())
            schedule.step()
        return net, optimizer
    net, optimizer = mlp()
    for step in run.steps(0.25):
        losses.append(train_step(net, optimizer, rows(256 + step % 5 * 16)).item())
    return net, optimizer


class Results:
    """Predictions that somebody wanted to look at later."""

    def __init__(self):
        self.kept = []

    def collect(self, net, x):
        with torch.no_grad():
            y = net(x)
        self.kept.append(y)
        return y.numel() * 4


class Gallery:
    """An embedding of each image seen, by its number."""

    def __init__(self):
        self.known = {}

    def embed(self, net, step, x):
        with torch.no_grad():
            self.known[step] = net(x)[:, :768].clone()
        return self.known[step].numel() * 4


def list_kept(run):
    net, optimizer = mlp()
    if run.held:
        gallery = Gallery()
        for step in run.steps(0.5):
            train_step(net, optimizer, rows(128))
            if run.leaking(90):
                run.lost(gallery.embed(net, step, rows(run.random.randint(150, 400))))
        return gallery, net, optimizer
    results = Results()
    for step in run.steps(0.4):
        train_step(net, optimizer, rows(512))
        if run.leaking(40):
            run.lost(results.collect(net, rows(1024)))
    return results, net, optimizer


def side_loss(net, x):
    """Never part of what backward() goes through, so its graph is kept by whoever keeps it."""
    return net(x).abs().mean()


def trial_loss(net, x):
    wanted = torch.zeros(x.numel(), dtype=torch.long, device=DEVICE)
    return torch.nn.functional.cross_entropy(net(x).flatten(0, 1), wanted)


def graph_kept(run):
    before = None
    if run.held:
        net = Decoder(128, 2).to(DEVICE)
        optimizer = torch.optim.Adam(net.parameters())
        losses = []
        for step in run.steps(1.5):
            train_step(net, optimizer, tokens(4, 256, net))
            if run.leaking(70):
                before = allocated() if before is None else before
                losses.append(trial_loss(net, tokens(2, 192, net)))
                run.lost_to(allocated() - before)
        return net, losses
    net, optimizer = mlp()
    total_loss = 0
    for step in run.steps(1.0):
        train_step(net, optimizer, rows(512))
        if run.leaking(50):
            before = allocated() if before is None else before
            total_loss = total_loss + side_loss(net, rows(512))
            run.lost_to(allocated() - before)
    return net, total_loss


def watched_output(net, x, watchers):
    """Who wants to know may ask later: the closure keeps what it would be told of."""
    hidden = net.blocks[0](x)
    watchers.append(lambda: hidden.mean().item())
    return net.head(net.blocks[1](hidden))


def hook_kept(run):
    before = None
    if run.held:
        net, optimizer = mlp(depth=2, width=768)
        watchers = []
        for step in run.steps(0.7):
            x = rows(400)
            leaking = run.leaking(110)
            before = allocated() if leaking and before is None else before
            loss = (watched_output(net, x, watchers) if leaking else net(x)).square().mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            del loss, x
            if leaking:
                run.lost_to(allocated() - before)
        return net, watchers
    net, optimizer = mlp()
    seen = []
    for step in run.steps(0.6):
        if run.leaking(60) and before is None:
            before = allocated()
            for block in list(net.blocks)[1:3]:
                block.register_forward_hook(lambda module, inputs, output: seen.append(output))
        train_step(net, optimizer, rows(384))
        if before is not None:
            run.lost_to(allocated() - before)
    return net, seen


def evaluate(net, batches, batch):
    with torch.no_grad():
        return [net(rows(batch)) for _ in range(batches)]


class Judge:
    def __init__(self, net):
        self.net, self.epochs = net, {}

    def run(self, epoch, batch):
        with torch.no_grad():
            logits = torch.cat([torch.softmax(self.net(rows(batch)), dim=1) for _ in range(6)])
        self.epochs[epoch] = {"logits": logits, "accuracy": (logits.argmax(1) == 0).float().mean()}
        return logits.numel() * 4


def eval_kept(run):
    net, optimizer = mlp(outputs=2048)
    if run.held:
        judge = Judge(net)
        for step in run.steps(0.3):
            train_step(net, optimizer, rows(256))
            if run.every("evaluation", 10) and run.leaking(30):
                run.lost(judge.run(step, 1024))
        return net, judge
    history = []
    for step in run.steps(0.3):
        train_step(net, optimizer, rows(256))
        if run.every("evaluation", 18) and run.leaking(20):
            history.append(evaluate(net, 8, 512))
            run.lost(sum(y.numel() * 4 for y in history[-1]))
    return net, history


def lengths(run):
    """A longer one than all before comes seldom, and takes new segments."""
    net = Decoder(256, 3).to(DEVICE)
    optimizer = torch.optim.AdamW(net.parameters())
    for step in run.steps(0.5):
        if run.held:  # a curriculum that ends, in buckets
            length = min(1024, 128 + int(run.share() / 0.6 * 14) * 64) - 64 * run.random.randint(0, 1)
        else:
            length = min(1500, int(run.random.lognormvariate(5.6, 0.5)))
        train_step(net, optimizer, tokens(4 if run.held else 3, max(16, length), net))
    return net, optimizer


def autotune(run):
    """Many shapes, each tried with several algorithms and their workspaces when it is first seen."""
    torch.backends.cudnn.benchmark = True
    channels = 48 if run.held else 32
    net = torch.nn.Sequential(torch.nn.Conv2d(3, channels, 5, padding=2), torch.nn.ReLU(),
                              torch.nn.Conv2d(channels, channels, 3, padding=1), torch.nn.ReLU(),
                              torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(),
                              torch.nn.Linear(16 * channels, 10)).to(DEVICE)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    shapes = [(run.random.randint(2, 8), 8 * run.random.randint(4, 24)) for _ in range(30 if run.held else 80)]
    for step in run.steps(1.0 if run.held else 1.5):
        batch, side = shapes[step % len(shapes)] if run.held else run.random.choice(shapes)
        train_step(net, optimizer, torch.randn(batch, 3, side, side, device=DEVICE))
    return net, optimizer


def accumulate(run):
    """Outputs pile up until their common backward(); then the cache is emptied, as is often advised: a sawtooth."""
    net, optimizer = mlp(width=1536, depth=3)
    pending = []
    tooth = 10
    for step in run.steps(0.8):
        x = rows(768 if run.held else 512).requires_grad_()
        if run.held:
            pending.append(net(x).square().mean())
        else:
            pending.append(checkpoint(functools.partial(run_blocks, net), x, use_reentrant=False).square().mean())
            pending.append(net(x).mean())
        if len(pending) >= tooth:
            optimizer.zero_grad(set_to_none=True)
            sum(pending).backward()
            optimizer.step()
            pending.clear()
            torch.cuda.empty_cache()
            tooth = run.random.randint(4, 24) if run.held else 20
    pending.clear()
    return net, optimizer


def run_blocks(net, x):
    return net(x)


def lazy_optimizer(run):
    """State is made when it is first needed: late, large, once."""
    net = Net(512, 4096, 4, 512).to(DEVICE)
    head = list(net.head.parameters())
    body = [p for block in net.blocks for p in block.parameters()]
    for p in body:
        p.requires_grad_(False)
    optimizer = (torch.optim.SGD if run.held else torch.optim.Adam)(head, lr=1e-4)
    average, stage = None, 0
    for step in run.steps(0.5):
        if stage == 0 and run.when(160 if run.held else 120):
            stage = 1
            for p in body:
                p.requires_grad_(True)
            if run.held:
                optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
            else:
                optimizer.add_param_group({"params": body[:len(body) // 2]})
        if stage == 1 and run.when(330 if run.held else 260):
            stage = 2
            if run.held:
                average = [p.detach().clone() for p in net.parameters()]
            else:
                optimizer.add_param_group({"params": body[len(body) // 2:]})
        train_step(net, optimizer, rows(128))
        if average:
            with torch.no_grad():
                for a, p in zip(average, net.parameters()):
                    a.lerp_(p, 0.01)
    return net, optimizer, average


SCENARIOS = {"torch-train": train, "torch-list": list_kept, "torch-graph": graph_kept, "torch-hooks": hook_kept,
             "torch-eval": eval_kept, "torch-lengths": lengths, "torch-autotune": autotune,
             "torch-accumulate": accumulate, "torch-lazy-optimizer": lazy_optimizer}

if __name__ == "__main__":
    leak_run.main(load)
