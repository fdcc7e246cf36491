#!/usr/bin/env python3
# Two builds side by side: the ratio of their speeds, in interleaved pairs, with its 95 % interval.
"""Measures two checkouts in turn, in changing order, so that a drifting machine favours neither.

Each checkout has been built with `cmake --preset release -DGRAPEVINE_BENCH=ON`, and its own configs are
used. A ratio above 1 means that the new build is faster (for memory: that it takes less). The interval
is that of the median, by the order of the pairs alone: of 15 pairs it goes from the fourth to the
twelfth. The verdict is "slower" if the lower end is below --bound.

Example: bench/pairs.py --old ../grapevine-before --new . --pairs 15
"""
import argparse
import json
import math
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile

import memory
import simulator
from launched_peers import samples_per_second, with_settings

ENDLESS = [("run", "epochs", None), ("run", "steps", 10**9), ("checkpoint", "every_steps", 0)]
KIB, MIB = 1 << 10, 1 << 20


class Build:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.binary = str(self.folder / "build/release/grapevine")
        self.training_speed = str(self.folder / "build/release/bench/training_speed")
        for program in (self.binary, self.training_speed):
            if not pathlib.Path(program).exists():
                sys.exit(f"{program} is missing: build with cmake --preset release -DGRAPEVINE_BENCH=ON")

    def config(self, *names):
        """The first of these configs that the checkout has: older checkouts have other names."""
        return next(path for path in (self.folder / "configs" / name for name in names) if path.exists())


def training(model):
    """Samples a second of one thread."""
    def measure(build, seconds):
        said = subprocess.run([build.training_speed, model, str(seconds)], capture_output=True,
                              text=True, check=True).stdout
        return {f"training {model}": float(re.search(r"samples_per_second ([0-9.]+)", said)[1])}
    return measure


def swarm(name, peers, *configs):
    """Samples a second of peers that train together."""
    def measure(build, seconds):
        text = with_settings(build.config(*configs).read_text(), ENDLESS)
        return {name: samples_per_second(build.binary, text, peers, 2, 3 * seconds)}
    return measure


def sums(lane, peers):
    """All-reduces a second, by size: the median of one run."""
    def measure(build, seconds):
        sizes = {64 * KIB: "64 KiB", MIB: "1 MiB", 16 * MIB: "16 MiB"}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "rows.json"
            subprocess.run([build.binary, "bench", "allreduce", "--lane", lane, "-n", str(peers), "--sizes",
                            ",".join(map(str, sizes)), "--json", str(file)],
                           stdout=subprocess.DEVNULL, check=True, timeout=120)
            rows = json.loads(file.read_text())["rows"]
        return {f"all-reduce {lane} {peers} peers {sizes[row['bytes']]}": 1 / statistics.median(row["seconds"])
                for row in rows}
    return measure


def simulated_events(build, seconds):
    """Events a second of virtual peers that compute nothing."""
    name, text = simulator.CASES[0]
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "case.toml"
        config.write_text(text)
        return {"simulator events": simulator.run(build.binary, config)[1]}


def memory_of_a_peer(build, seconds):
    """The inverse of the highest resident memory of a peer that trains by gossip."""
    return {"memory of a peer": 1 / memory.measure(build.binary, build.config("fashion-mlp.toml"))[1]}


MEASURES = {
    "training": [training(model) for model in ("mlp", "lenet", "cnn", "transformer")],
    "gossip": [swarm("gossip, 2 peers", 2, "fashion-mlp.toml")],
    "lockstep": [swarm("lockstep, 2 peers", 2, "fashion-allreduce.toml", "fashion-ring.toml")],
    "allreduce": [sums(lane, peers) for lane in ("plain", "auto") for peers in (2, 4)],
    "simulator": [simulated_events],
    "memory": [memory_of_a_peer],
}


def interval(ratios):
    """The 95 % interval of the median: the innermost pair of ranks that misses it in less than 5 %
    of all draws, or the extremes if there are too few."""
    ratios = sorted(ratios)
    count, missed, rank = len(ratios), 0.0, 0
    while rank < (count - 1) // 2:
        missed += math.comb(count, rank) / 2**count
        if 2 * missed >= 0.05:
            break
        rank += 1
    rank = max(rank - 1, 0)
    return ratios[rank], ratios[count - 1 - rank]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--old", required=True, help="the folder of a built checkout")
    parser.add_argument("--new", default=".", help="the folder of the other")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=2, help="of a single measurement, about")
    parser.add_argument("--bound", type=float, default=0.97, help="for the lower end of the interval")
    parser.add_argument("--only", choices=MEASURES, nargs="+", default=list(MEASURES))
    arguments = parser.parse_args()
    # When told to stop, this program still ends the peers that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    old, new = Build(arguments.old), Build(arguments.new)
    slower = False
    print(f"{'':32}  {'new / old':>9}  {'95 % interval':>16}")
    for measure in (measure for group in arguments.only for measure in MEASURES[group]):
        ratios = {}
        for pair in range(arguments.pairs):
            figures = {}
            for build in (old, new) if pair % 2 == 0 else (new, old):
                figures[build] = measure(build, arguments.seconds)
            for name in figures[new]:
                ratios.setdefault(name, []).append(figures[new][name] / figures[old][name])
        for name, of_pairs in ratios.items():
            low, high = interval(of_pairs)
            verdict = "" if low >= arguments.bound else "  slower"
            slower = slower or verdict != ""
            print(f"{name:32}  {statistics.median(of_pairs):9.3f}  {low:7.3f} to {high:.3f}{verdict}", flush=True)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
