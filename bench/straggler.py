#!/usr/bin/python3
# The cost of one slow peer: time to an accuracy with one of four at a quarter of the pace, over that without.
"""Trains Fashion-MNIST with four real processes, in turn with all of them alike and with the last one four times
slower, and says how long each run took until its mean model had the accuracy on the whole test set; PyTorch's
DistributedDataParallel over Gloo does the same.

Steps take a stated time, most of which is slept (`paced_peers`, and the same in PyTorch), so four processes do not use
two processors fully, and a slow peer does not make others faster by leaving a processor idle. While peers train, their
models are read from their files and judged, by the same code for all.

Needs a build with -DGRAPEVINE_BENCH=ON, Debian's python3-torch with libopenblas0-pthread, and Fashion-MNIST.
Example: bench/straggler.py --repeats 5
"""
import argparse
import gzip
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy
import torch

from versus_pytorch import model_of

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
PEERS = 4
BATCH = 64
WARM_UP = 100  # Steps in which the learning rate rises.
SLOWER = 4
SMOOTH = 4  # Looks whose mean counts: single ones go up and down by a few tenths of a percent.
CONFIG = """[run]
{mode}
seed = {seed}
peers = 4
steps = 1000000
[data]
kind = "idx"
folder = "/usr/share/datasets/fashion-mnist"
mean = 0.2860
deviation = 0.3530
[model]
kind = "mlp"
hidden = [256, 128]
[train]
batch = 64
optimizer = "nesterov"
momentum = 0.9
learning_rate = {rate}
schedule = "constant"
warmup_steps = 100
[checkpoint]
every_steps = {every}
{more}
"""
# Settings common to all are above; DDP's steps are those of 256 samples, and four times as long.
WAYS = {
    "gossip": ('mode = "gossip"', 0.02, "[gossip]\nperiod_steps = 16\n"),
    "gossip, 4 steps": ('mode = "gossip"', 0.04, "[gossip]\nperiod_steps = 4\n"),
    "ad_psgd": ('algorithm = "ad_psgd"', 0.02, ""),
    "async": ('algorithm = "async"', 0.02, "[mixing]\nperiod_steps = 4\n"),
    "d_psgd": ('algorithm = "d_psgd"', 0.02, "[mixing]\nperiod_steps = 4\n"),
    "ddp": ("", 0.08, ""),
}


def images(part):
    pixels = numpy.frombuffer(gzip.open(DATA / f"{part}-images-idx3-ubyte.gz").read(), numpy.uint8, offset=16)
    labels = numpy.frombuffer(gzip.open(DATA / f"{part}-labels-idx1-ubyte.gz").read(), numpy.uint8, offset=8)
    inputs = (pixels.reshape(-1, 784).astype(numpy.float32) / 255 - 0.2860) / 0.3530
    return torch.from_numpy(inputs), torch.from_numpy(labels.astype(numpy.int64))


class Judge:
    """Accuracy on all test images of the mean of some models, each a list of tensors in the model's order."""

    def __init__(self):
        torch.set_num_threads(1)
        self.inputs, self.labels = images("t10k")
        self.model = model_of("mlp")

    def accuracy(self, models):
        with torch.no_grad():
            for parameter, *tensors in zip(self.model.parameters(), *models):
                parameter.copy_(sum(tensors) / len(tensors))
            return (self.model(self.inputs).argmax(1) == self.labels).float().mean().item()


def read_safetensors(path):
    """The tensors of a checkpoint, by the order of layers."""
    bytes_ = path.read_bytes()
    header_end = 8 + int.from_bytes(bytes_[:8], "little")
    header = json.loads(bytes_[8:header_end])
    header.pop("__metadata__", None)
    tensors = []
    for _, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = (header_end + offset for offset in entry["data_offsets"])
        values = numpy.frombuffer(bytes_[begin:end], numpy.float32).reshape(entry["shape"])
        tensors.append(torch.from_numpy(values.copy()))
    return tensors


def newest(folder):
    """The last checkpoint in a folder, or None."""
    files = [file for file in folder.glob("step-*.safetensors") if not file.name.endswith(".optimizer.safetensors")]
    return max(files, default=None)


class Grapevine:
    """Four peers that are launched and write checkpoints."""

    def __init__(self, given, way, steps, seed, root):
        mode, rate, more = WAYS[way]
        every = max(1, round(given.look / given.step_s))
        (root / "config.toml").write_text(CONFIG.format(mode=mode, seed=seed, rate=rate, more=more, every=every))
        self.run = root / "run"
        self.process = subprocess.Popen(
            [given.binary, "launch", "-n", str(PEERS), root / "config.toml", "--folder", self.run],
            stdout=subprocess.DEVNULL,
            env=dict(os.environ, STEP_SECONDS=",".join(f"{step:.6f}" for step in steps)))

    def began(self):
        files = [self.run / f"peer-{peer}/began" for peer in range(PEERS)]
        return min(float(file.read_text()) for file in files) if all(file.exists() for file in files) else None

    def stamp(self):
        """The first peer's newest checkpoint: another file whenever it has saved."""
        return newest(self.run / "peer-0/checkpoints")

    def models(self):
        """The newest models of all peers that have saved one; empty if a peer deletes its file while it is read."""
        found = []
        for peer in range(PEERS):
            try:
                file = newest(self.run / f"peer-{peer}/checkpoints")
                if file:
                    found.append(read_safetensors(file))
            except FileNotFoundError:
                return []
        return found

    def end(self):
        """Ends the run. Returns the run's own report on its mean model."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)
        return json.loads((self.run / "summary.json").read_text()).get("mean_accuracy")


class Ddp:
    """Four ranks of PyTorch, the first of which writes models."""

    def __init__(self, given, way, steps, seed, root):
        self.root = root
        every = max(1, round(given.look / given.ddp_step_s))
        self.ranks = [
            subprocess.Popen([sys.executable, __file__, "--rank", str(rank), str(seed), str(steps[rank]),
                              str(WAYS[way][1]), str(every), str(root)],
                             env=dict(os.environ, GLOO_SOCKET_IFNAME="lo"))
            for rank in range(PEERS)
        ]
        self.process = self.ranks[0]

    def began(self):
        file = self.root / "began"
        return float(file.read_text()) if file.exists() else None

    def stamp(self):
        file = self.root / "model"
        return file.stat().st_mtime if file.exists() else None

    def models(self):
        file = self.root / "model"
        return [torch.load(file)] if file.exists() else []

    def end(self):
        for rank in self.ranks:
            rank.kill()
        for rank in self.ranks:
            rank.wait()
        return None


def train_rank(rank, seed, step_s, rate, every, root):
    """One rank of DDP on its own quarter of the images, until it is killed."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    torch.distributed.init_process_group("gloo", f"file://{root}/meeting", rank=rank, world_size=PEERS)
    inputs, labels = images("train")
    mine = torch.randperm(len(labels))[rank::PEERS]
    model = torch.nn.parallel.DistributedDataParallel(model_of("mlp"))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, nesterov=True)
    loss_of = torch.nn.CrossEntropyLoss()

    def gradient(batch):
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(inputs[batch]), labels[batch]).backward()

    # Time of a step by itself, without the sum; the sleep is shorter by this.
    with model.no_sync():
        gradient(mine[:BATCH])
        began = time.perf_counter()
        for _ in range(20):
            gradient(mine[:BATCH])
        needed = (time.perf_counter() - began) / 20
    torch.distributed.barrier()
    if rank == 0:
        written(root / "began", lambda file: file.write_text(f"{time.time():.6f}"))
    step = 0
    while True:
        order = mine[torch.randperm(len(mine))]
        for begin in range(0, len(order) - BATCH + 1, BATCH):
            time.sleep(max(0.0, step_s - needed))
            for group in optimizer.param_groups:
                group["lr"] = rate * min(1.0, (step + 1) / WARM_UP)
            gradient(order[begin:begin + BATCH])
            optimizer.step()
            step += 1
            if rank == 0 and step % every == 0:
                model_now = [parameter.detach().clone() for parameter in model.parameters()]
                written(root / "model", lambda file: torch.save(model_now, file))


def written(path, write):
    """Writes a file so that no reader sees half of it."""
    part = path.with_suffix(".part")
    write(part)
    part.rename(path)


def seconds_to(given, judge, way, slow, seed):
    """Seconds until the mean model has the accuracy, averaged over a few looks and interpolated between two of them,
    and what the run says of its mean model at its end."""
    step = given.ddp_step_s if way == "ddp" else given.step_s
    steps = [step] * (PEERS - 1) + [SLOWER * step if slow else step]
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        run = (Ddp if way == "ddp" else Grapevine)(given, way, steps, seed, pathlib.Path(folder))
        said = None
        try:
            began, before, reached, seen, stamp = None, (0.0, 0.1), None, [], None
            give_up = time.monotonic() + given.patience
            while reached is None:
                if time.monotonic() > give_up or run.process.poll() is not None:
                    raise SystemExit(f"{way} did not come to {given.accuracy:.0%}")
                time.sleep(given.look)
                began = began or run.began()
                now = time.time()
                # Equal numbers of models count for runs with few steps in that time and for those
                # with many.
                last, stamp = stamp, run.stamp() if began else None
                models = run.models() if stamp and stamp != last else []
                if not models:
                    continue
                seen = [*seen[1 - SMOOTH:], judge.accuracy(models)]
                accuracy = statistics.mean(seen)
                at = now - began
                if accuracy >= given.accuracy:
                    part = (given.accuracy - before[1]) / max(accuracy - before[1], 1e-9)
                    reached = before[0] + min(1.0, max(0.0, part)) * (at - before[0])
                before = (at, accuracy)
        finally:
            said = run.end()
        return reached, said


def spread(values):
    return f"{statistics.median(values):6.2f} ({min(values):.2f} to {max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default="build/release/bench/paced_peers")
    parser.add_argument("--ways", default=";".join(WAYS), help="separated by semicolons")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--accuracy", type=float, default=0.88)
    parser.add_argument("--step-s", type=float, default=0.010, help="of a peer's step")
    parser.add_argument("--ddp-step-s", type=float, default=0.040, help="of PyTorch, whose sums cost more")
    parser.add_argument("--look", type=float, default=0.25, help="seconds between two looks at the models")
    parser.add_argument("--patience", type=float, default=600, help="seconds of one run at most")
    parser.add_argument("--folder", default="/dev/shm", help="where runs write, better not a disk")
    given = parser.parse_args()
    given.binary = str(pathlib.Path(given.binary).resolve())
    # When told to stop, this program still ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    judge = Judge()
    times = {(way, slow): [] for way in given.ways.split(";") for slow in (False, True)}
    for repeat in range(given.repeats):
        for way in given.ways.split(";"):
            # In changing order, so that a drifting machine favours neither.
            for slow in (False, True) if repeat % 2 == 0 else (True, False):
                took, said = seconds_to(given, judge, way, slow, 1 + repeat)
                times[way, slow].append(took)
                print(f"{way:20} {'one slow' if slow else 'all alike'}  {took:7.2f} s"
                      + (f"  at its end {100 * said:.2f} %" if said else "")
                      + f"  load {os.getloadavg()[0]:.1f}", flush=True)
    print(f"\nseconds to {100 * given.accuracy:g} %, median of {given.repeats} (range)")
    for way in given.ways.split(";"):
        alike, slow = times[way, False], times[way, True]
        ratios = [b / a for a, b in zip(alike, slow)]
        print(f"{way:20} all alike {spread(alike)}  one slow {spread(slow)}  factor {spread(ratios)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank, seed, step_s, rate, every, root = sys.argv[2:]
        train_rank(int(rank), int(seed), float(step_s), float(rate), int(every), pathlib.Path(root))
    else:
        main()
