#!/usr/bin/env python3
# The gain of threads without locks: samples/s of one peer with several threads against one.
"""Runs one peer with plain SGD on Fashion-MNIST, with one thread and with several in turn.

Both run endlessly; after a warm-up the peer is asked twice, a window apart, how many samples it has
trained on.

Example: bench/hogwild.py --threads 2 --repeats 5
"""
import argparse
import pathlib
import re
import signal
import statistics
import sys

from gossip_cost import config_text
from launched_peers import samples_per_second


def with_threads(base, threads, period):
    """The base config, but endless, for one peer, and with plain SGD in a number of threads."""
    text = config_text(base, period, 0.0)
    text = re.sub(r"(?m)^(optimizer|momentum)\s*=.*\n", "", text)
    return re.sub(r"(?m)^\[train\].*\n", f'[train]\noptimizer = "sgd"\nthreads = {threads}\n', text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/grapevine")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--config", default="fashion-mlp.toml", help="in configs/")
    parser.add_argument("--period", type=int, default=256, help="steps; threads meet twice in each")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--warm-up", type=float, default=2, help="seconds")
    parser.add_argument("--window", type=float, default=8, help="seconds")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    configs = pathlib.Path(__file__).resolve().parent.parent / "configs"
    base = (configs / arguments.config).read_text()
    ratios = []
    for repeat in range(arguments.repeats):
        # In turn and in changing order, so that a drifting machine favours neither.
        pace = {}
        order = (1, arguments.threads)
        for threads in order if repeat % 2 == 0 else order[::-1]:
            config = with_threads(base, threads, arguments.period)
            pace[threads] = samples_per_second(
                arguments.binary, config, 1, arguments.warm_up, arguments.window)
        ratios.append(pace[arguments.threads] / pace[1])
        print(f"{arguments.threads} threads {pace[arguments.threads]:9.0f} samples/s"
              f"  1 thread {pace[1]:9.0f}  ratio {ratios[-1]:.3f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.3f}  ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
