#!/usr/bin/env python3
# Training data that stay in files against the same data in memory: samples/s, and memory of the peer.
"""Writes IDX files of noise and trains one peer on them, in turn from memory and from the files.

Before each run the files are dropped from the system's cache, so the first pass reads the disk. A peer is asked twice,
a window apart, how many samples it has trained on. Its memory is the highest resident set that Linux has seen. If the
data are larger than --memory-mib, the runs in memory train on files of that size. Ends with 1 if a demand is not met.

Examples:
  bench/large_data.py
  bench/large_data.py --mib 8192 --folder /var/tmp
"""
import argparse
import os
import pathlib
import re
import statistics
import struct
import sys
import tempfile
import time

from launched_peers import launched, pace, status

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 1 << 20
SIDE = 28
PIXELS = SIDE * SIDE
PIECE = 10000  # Images that are drawn; the files repeat them.
TEST_IMAGES = 1000
MODELS = {"mlp": 'kind = "mlp"\nhidden = [256, 128]', "linear": 'kind = "linear"'}
CONFIG = """[run]
steps = 100000000
peers = 1
[data]
kind = "idx"
folder = "{folder}"
train_files = ["{name}-images", "{name}-labels"]
test_files = ["test-images", "test-labels"]
mean = 0.5
deviation = 0.3
partition = "leased"
in_memory = {in_memory}
[model]
{model}
[train]
batch = 64
learning_rate = 0.001
[checkpoint]
every_steps = 0
"""


def write_files(folder, name, images):
    """Two IDX files with that many images and labels."""
    pixels, labels = os.urandom(PIXELS * PIECE), bytes(i % 10 for i in range(PIECE))
    with open(folder / f"{name}-images", "wb") as to_images, open(folder / f"{name}-labels", "wb") as to_labels:
        to_images.write(struct.pack(">IIII", 0x803, images, SIDE, SIDE))
        to_labels.write(struct.pack(">II", 0x801, images))
        for begin in range(0, images, PIECE):
            count = min(PIECE, images - begin)
            to_images.write(pixels[:count * PIXELS])
            to_labels.write(labels[:count])
        for file in (to_images, to_labels):
            file.flush()
            os.fsync(file.fileno())


def drop_from_cache(file):
    descriptor = os.open(file, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def highest_mib(pid):
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def measure(arguments, folder, name, model, in_memory):
    """(samples/s, highest resident MiB) of one peer."""
    for part in ("images", "labels"):
        drop_from_cache(folder / f"{name}-{part}")
    config = CONFIG.format(folder=folder, name=name, model=MODELS[model], in_memory=str(in_memory).lower())
    with launched(arguments.binary, config, 1, patience_s=300) as [peer]:
        time.sleep(arguments.warm_up)
        before = status(arguments.binary, peer)
        time.sleep(arguments.window)
        after = status(arguments.binary, peer)
        return pace(before, after), highest_mib(after["self"]["pid"])


class Rows:
    failed = 0

    def row(self, name, figures, demand, holds):
        self.failed += not holds
        print(f"{name:<40} {'  '.join(figures):<32} {demand:<24} {'holds' if holds else 'FAILS'}", flush=True)


def compare(arguments, folder, model, rows):
    small = "part" if arguments.mib > arguments.memory_mib else "all"
    memory, files = [], []
    for _ in range(arguments.repeats):
        memory.append(measure(arguments, folder, small, model, True))
        files.append(measure(arguments, folder, "all", model, False))
    size = min(arguments.mib, arguments.memory_mib)
    rows.row(f"{model}, {size} MiB in memory: samples/s", [f"{pace:.0f}" for pace, _ in memory], "for comparison", True)
    ratios = [there[0] / here[0] for here, there in zip(memory, files)]
    rows.row(f"{model}, {arguments.mib} MiB in files: samples/s", [f"{pace:.0f}" for pace, _ in files],
             "for comparison", True)
    median = statistics.median(ratios)
    rows.row(f"{model}, in files over in memory", [f"{ratio:.3f}" for ratio in ratios], "median at least 0.95",
             median >= 0.95)
    rows.row(f"{model}, in memory: highest MiB", [f"{mib:.0f}" for _, mib in memory], "for comparison", True)
    rows.row(f"{model}, in files: highest MiB", [f"{mib:.0f}" for _, mib in files], f"at most {arguments.bound_mib}",
             max(mib for _, mib in files) <= arguments.bound_mib)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/grapevine"))
    parser.add_argument("--mib", type=int, default=2048, help="size of the data in files")
    parser.add_argument("--memory-mib", type=int, default=2048, help="most that is read into memory, up to 4095")
    parser.add_argument("--bound-mib", type=int, default=1024, help="most memory of a peer that trains from files")
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--warm-up", type=float, default=5)
    parser.add_argument("--window", type=float, default=15)
    parser.add_argument("--folder", help="where the temporary folder with the data is made")
    arguments = parser.parse_args()
    rows = Rows()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = pathlib.Path(name)
        write_files(folder, "test", TEST_IMAGES)
        write_files(folder, "all", arguments.mib * MIB // PIXELS)
        if arguments.mib > arguments.memory_mib:
            write_files(folder, "part", arguments.memory_mib * MIB // PIXELS)
        for model in arguments.models:
            compare(arguments, folder, model, rows)
    return 1 if rows.failed else 0


if __name__ == "__main__":
    sys.exit(main())
