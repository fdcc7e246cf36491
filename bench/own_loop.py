#!/usr/bin/env python3
"""What being a peer costs a program's own loop: two processes train dense networks with NumPy.

    bench/own_loop.py [--grapevine BINARY] [--library FILE] [--seconds S] [--parameters M,...]
                      [--turns N] [--batch SAMPLES] [--device DEVICE]

With a device, such as `cuda`, they train with PyTorch there, and each step waits for its end.
For each size in millions of parameters, the same loop runs alone twice at once (the unsynchronised
sum), then as two peers by gossip with an exchange every 16 steps, in turns. It prints the steps a
second of both, their ratio (wanted: at least 0.95), and the part of a step that `vine.step` takes
(wanted: below 2 %), as medians of the turns with the smallest and the largest.
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from own_programs import environment, parser, results

NUMPY = """
import numpy as np
random = np.random.default_rng(1)
weights = [random.normal(0, width ** -0.5, (width, width)).astype(np.float32) for _ in range(layers)]
x0 = random.normal(size=(BATCH, width)).astype(np.float32)
joined = [weights]
def step():
    inputs = [x0]
    for w in weights:
        inputs.append(np.maximum(inputs[-1] @ w, 0))
    d = inputs[-1] - 0.5
    for at in range(layers - 1, -1, -1):
        d = d * (inputs[at + 1] > 0)
        gradient = inputs[at].T @ d
        d = d @ weights[at].T
        weights[at] -= 1e-6 * gradient
"""

PYTORCH = """
import torch
torch.manual_seed(1)
parts = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
model = torch.nn.Sequential(*parts).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
x0 = torch.randn(BATCH, width, device=DEVICE)
joined = [model, optimizer]
def step():
    optimizer.zero_grad()
    (model(x0) - 0.5).square().mean().backward()
    optimizer.step()
    if DEVICE != "cpu":
        torch.cuda.synchronize()
"""

LOOP = """
vine = None
if joins:
    import grapevine
    vine = grapevine.join(None, *joined, run__steps=1000000000, gossip__period_steps=16)
for _ in range(3):
    step()
steps, inside, began = 0, 0.0, time.perf_counter()
while time.perf_counter() - began < seconds:
    step()
    steps += 1
    if vine is not None:
        before = time.perf_counter()
        vine.step(0.0, BATCH)
        inside += time.perf_counter() - before
wall = time.perf_counter() - began
exchanges = vine.status.get("exchanges", {}).get("committed", 0) if vine is not None else 0
if vine is not None:
    vine.leave()
print("RESULT " + json.dumps({"rate": steps / wall, "inside": inside / wall, "exchanges": exchanges}))
"""


def program(device, batch):
    """The loop's text, for NumPy or for a device of PyTorch."""
    given = f"""
import json, sys, time
BATCH, DEVICE = {batch}, {device!r}
width, layers, seconds, joins = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "1"
"""
    return given + (PYTORCH if device else NUMPY) + LOOP


def alone(words, library):
    processes = [
        subprocess.Popen(words + ["0"], env=environment(library), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    return results([process.communicate()[0] for process in processes], 2)


def together(binary, words, library, folder):
    config = folder / "run.toml"
    config.write_text("[run]\nsteps = 1000000000\nlinger_s = 0.0\n")
    subprocess.run(
        [binary, "launch", "-n", "2", config, "--folder", folder / "run", "--", *words, "1"],
        env=environment(library), stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    return results([(folder / "run" / f"peer-{n}" / "output.log").read_text() for n in (0, 1)], 2)


def spread(values, form):
    return f"{form % statistics.median(values)} ({form % min(values)} to {form % max(values)})"


def main():
    options = parser()
    options.add_argument("--parameters", default="0.2,10")
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--device")
    arguments = options.parse_args()
    print("parameters  alone steps/s   ratio by gossip              inside vine.step             exchanges")
    for millions in map(float, arguments.parameters.split(",")):
        layers = 2
        width = round((millions * 1e6 / layers) ** 0.5)
        text = program(arguments.device, arguments.batch)
        words = [sys.executable, "-c", text, str(width), str(layers), str(arguments.seconds)]
        rates, ratios, inside, exchanges = [], [], [], []
        for _ in range(arguments.turns):
            apart = sum(one["rate"] for one in alone(words, arguments.library))
            with tempfile.TemporaryDirectory() as folder:
                peers = together(arguments.grapevine, words, arguments.library, Path(folder))
            rates.append(apart)
            ratios.append(sum(one["rate"] for one in peers) / apart)
            inside += [100 * one["inside"] for one in peers]
            exchanges += [one["exchanges"] for one in peers]
        print(
            f"{millions:8.1f} M  {statistics.median(rates):11.1f}   {spread(ratios, '%.3f'):<27}"
            f"  {spread(inside, '%.2f %%'):<27}  {statistics.median(exchanges):.0f}"
        )


main()
