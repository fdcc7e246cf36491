#!/usr/bin/python3
"""Lockstep in a program's own PyTorch loop, in turn with DistributedDataParallel over Gloo.

    bench/own_lockstep.py [--grapevine BINARY] [--library FILE] [--peers N] [--models NAME,...]
                          [--seconds S] [--rounds R]

Each process trains on one thread with batches of 32. In turn: the processes alone, which do not wait
for each other; DDP over Gloo; `vine.reduce()` after backward; `attached()`, which sums during
backward; and DDP with `comm_hook`. All make the same number of steps. It prints the steps a second of
a process, as medians of the rounds with the smallest and the largest, and their ratio to DDP (wanted:
at least 1, and 1.3 where DDP reaches less than 0.7 of the processes alone).
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from own_programs import environment, parser, results

BATCH = 32
WARM_UP = 5
CONTENDERS = ["alone", "ddp", "reduce", "attached", "hook"]


def task_of(name):
    """A model, the shape of its inputs, and its number of classes."""
    from torch import nn

    if name == "mlp":
        layers = [nn.Flatten(), nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(2048, 10)), (1, 28, 28), 10
    if name == "cnn":
        layers = [nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
        layers += [nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, 10)), (1, 28, 28), 10
    if name == "gpt":
        block = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
        layers = [nn.TransformerEncoder(block, 4), nn.Flatten(), nn.Linear(32 * 256, 64)]
        return nn.Sequential(*layers), (32, 256), 64
    sys.exit(f"there is no model '{name}': mlp, cnn, gpt")


def distributed(model, rank, ranks, meeting):
    import torch

    method = f"file://{meeting}"
    torch.distributed.init_process_group("gloo", init_method=method, rank=rank, world_size=ranks)
    return torch.nn.parallel.DistributedDataParallel(model)


def train(contender, name, steps, rank, ranks, meeting):
    """One process. Prints the seconds of its steps after the first few."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model, shape, classes = task_of(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    x, y = torch.randn(BATCH, *shape), torch.randint(0, classes, (BATCH,))
    trained, vine, extra = model, None, contextlib.nullcontext()
    if contender in ("reduce", "attached", "hook"):
        import grapevine
        import grapevine.torch

        vine = grapevine.join(None, model, optimizer)
    if contender == "ddp":
        trained = distributed(model, rank, ranks, meeting)
    if contender == "hook":
        trained = distributed(model, 0, 1, f"{meeting}-{os.getpid()}")
        trained.register_comm_hook(vine, grapevine.torch.comm_hook)
    if contender == "attached":
        extra = grapevine.torch.attached(vine, optimizer)
    with extra:
        for step in range(steps + WARM_UP):
            if step == WARM_UP:
                began = time.perf_counter()
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(trained(x), y)
            loss.backward()
            if contender in ("reduce", "hook"):
                vine.reduce()
            optimizer.step()
            if contender in ("reduce", "hook"):
                vine.step()
    print("RESULT " + json.dumps(time.perf_counter() - began), flush=True)
    if vine is not None:
        vine.leave()


def rate(arguments, contender, name, steps, folder):
    """The steps a second of the slowest process."""
    meeting = folder / "meeting"
    variables = environment(arguments.library)
    words = [sys.executable, __file__, "--train", contender, "--models", name, "--steps", str(steps)]
    words += ["--peers", str(arguments.peers), "--meeting", str(meeting)]
    if contender in ("alone", "ddp"):
        processes = [
            subprocess.Popen(words + ["--rank", str(n)], env=variables, stdout=subprocess.PIPE, text=True)
            for n in range(arguments.peers)
        ]
        outputs = [process.communicate()[0] for process in processes]
    else:
        config = folder / "run.toml"
        config.write_text(f'[run]\nmode = "allreduce"\nsteps = {steps + WARM_UP}\nlinger_s = 0.0\n')
        launch = [arguments.grapevine, "launch", "-n", str(arguments.peers), config]
        launch += ["--folder", folder / "run"]
        subprocess.run([*launch, "--", *words], env=variables, stdout=subprocess.DEVNULL, check=True)
        logs = [folder / "run" / f"peer-{n}" / "output.log" for n in range(arguments.peers)]
        outputs = [log.read_text() for log in logs]
    return steps / max(results(outputs, arguments.peers))


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def main():
    options = parser()
    options.add_argument("--peers", type=int, default=2)
    options.add_argument("--models", default="mlp,cnn,gpt")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--train", choices=CONTENDERS, help=argparse.SUPPRESS)
    options.add_argument("--steps", type=int, default=20, help=argparse.SUPPRESS)
    options.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    options.add_argument("--meeting", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.train:
        what = (arguments.train, arguments.models, arguments.steps)
        train(*what, arguments.rank, arguments.peers, arguments.meeting)
        return
    print(f"{'model':<6} {'contender':<10} {'steps/s':<26} to alone  to DDP")
    for name in arguments.models.split(","):
        rates = {contender: [] for contender in CONTENDERS}
        steps = 20
        for turn in range(arguments.rounds + 1):
            for contender in CONTENDERS if turn > 0 else ["alone"]:
                with tempfile.TemporaryDirectory() as folder:
                    rates[contender].append(rate(arguments, contender, name, steps, Path(folder)))
            if turn == 0:
                steps = max(20, round(arguments.seconds * rates["alone"].pop()))
        medians = {contender: statistics.median(values) for contender, values in rates.items()}
        for contender, values in rates.items():
            to_alone = medians[contender] / medians["alone"]
            to_ddp = medians[contender] / medians["ddp"]
            print(f"{name:<6} {contender:<10} {spread(values):<26} {to_alone:8.2f}  {to_ddp:6.2f}")


main()
