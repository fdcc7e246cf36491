#!/usr/bin/python3
# One peer's training throughput against PyTorch's, side by side on one thread each.
"""Alternates between training_speed and the same models in PyTorch, prints medians and the ratio.

Needs Debian's python3-torch with OpenBLAS: apt-get install python3-torch libopenblas0-pthread
Example: bench/versus_pytorch.py --binary build/release/bench/training_speed
"""
import argparse
import os
import statistics
import subprocess
import time

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import torch
from torch import nn

AIMS = {"mlp": 1.4, "lenet": 2.0, "cnn": 1.6, "transformer": 1.3}
BATCHES = {"mlp": 64, "lenet": 64, "cnn": 64, "transformer": 16}
CONTEXT = 128


class Block(nn.Module):
    """GPT-2's: x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.register_buffer("hidden", torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1))

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (part.view(b, t, self.heads, w // self.heads).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(w, 2))
        scores = (q @ k.transpose(2, 3)) * (w // self.heads) ** -0.5
        shares = scores.masked_fill(self.hidden, float("-inf")).softmax(3)
        x = x + self.out((shares @ v).transpose(1, 2).reshape(b, t, w))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """4 blocks, width 128, 4 heads, bytes in and out with one table."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, 128), nn.Embedding(CONTEXT, 128)
        self.blocks = nn.Sequential(*(Block(128, 4) for _ in range(4)))
        self.norm, self.out = nn.LayerNorm(128), nn.Linear(128, 256)
        self.out.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight
        return self.out(self.norm(self.blocks(x))).view(-1, 256)


def model_of(name):
    """The model that training_speed trains under this name."""
    if name == "transformer":
        return Transformer()
    if name == "mlp":
        return nn.Sequential(
            nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
            nn.Linear(128, 10))
    if name == "lenet":
        return nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84),
            nn.ReLU(), nn.Linear(84, 10))
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 14 * 14, 128), nn.ReLU(), nn.Linear(128, 10))


def pytorch_rates(name, seconds):
    """Samples a second over blocks of about a tenth of a second, data already in memory."""
    torch.manual_seed(1)
    model = model_of(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, nesterov=True)
    loss_of = nn.CrossEntropyLoss()
    batch = BATCHES[name]
    if name == "transformer":
        inputs = torch.randint(0, 256, (100 * batch, CONTEXT))
        labels = torch.randint(0, 256, (100 * batch, CONTEXT))
    else:
        inputs = torch.randn(100 * batch, 1, 28, 28)
        labels = torch.randint(0, 10, (100 * batch,))

    def steps(count, first):
        for step in range(first, first + count):
            at = step % 100 * batch
            optimizer.zero_grad(set_to_none=True)
            loss_of(model(inputs[at:at + batch]), labels[at:at + batch].flatten()).backward()
            optimizer.step()

    steps(3, 0)
    began = time.perf_counter()
    steps(5, 3)
    block = max(1, int(0.1 / ((time.perf_counter() - began) / 5)))
    rates = []
    end = time.perf_counter() + seconds
    done = 8
    while time.perf_counter() < end:
        began = time.perf_counter()
        steps(block, done)
        rates.append(block * batch / (time.perf_counter() - began))
        done += block
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bench/training_speed")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", choices=list(AIMS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, one thread; "
          f"{arguments.repeats} rounds of {arguments.seconds:g} s each in turn")
    for name, aim in AIMS.items():
        if arguments.only not in (None, name):
            continue
        ours, theirs, ratios = [], [], []
        for _ in range(arguments.repeats):
            theirs.append(statistics.median(pytorch_rates(name, arguments.seconds)))
            output = subprocess.run([arguments.binary, name, str(arguments.seconds)], check=True,
                                    capture_output=True, text=True).stdout
            ours.append(float(output.split()[1]))
            ratios.append(ours[-1] / theirs[-1])
        print(f"{name:11} batch {BATCHES[name]}  grapevine {statistics.median(ours):9.0f}  pytorch {statistics.median(theirs):9.0f}"
              f"  ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), "
              f"aim {aim}", flush=True)


if __name__ == "__main__":
    main()
