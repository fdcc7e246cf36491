#!/usr/bin/env python3
# The cost of gossip: summed samples/s of peers that exchange against the same peers with gossip off.
"""Runs `grapevine launch` with gossip on and off in turn and compares their steady pace.

Both run endlessly; after a warm-up each peer is asked twice, a window apart, how many samples it has
trained on. (Timing whole runs would flatter whichever has peers of unequal pace: the last ones to
finish have the machine to themselves.)

Example: bench/gossip_cost.py --binary build/release/grapevine --repeats 5
"""
import argparse
import pathlib
import signal
import statistics
import sys

from launched_peers import samples_per_second, with_settings

CASES = [("mlp", "fashion-mlp.toml", 16, 0.95), ("cnn", "fashion-cnn.toml", 4, 0.98)]


def config_text(base, period, alpha):
    """The base config, endless, with its exchange period and elastic coefficient replaced."""
    return with_settings(base, [
        ("run", "epochs", None), ("run", "steps", 10**9), ("gossip", "period_steps", period),
        ("gossip", "alpha", alpha), ("checkpoint", "every_steps", 0)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/grapevine")
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--warm-up", type=float, default=3, help="seconds")
    parser.add_argument("--window", type=float, default=15, help="seconds")
    parser.add_argument("--only", choices=[case[0] for case in CASES])
    arguments = parser.parse_args()
    # When told to stop, this program still ends the peers that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    configs = pathlib.Path(__file__).resolve().parent.parent / "configs"
    for name, file, period, aim in CASES:
        if arguments.only not in (None, name):
            continue
        base = (configs / file).read_text()
        ratios = []
        for repeat in range(arguments.repeats):
            # In turn and in changing order, so that a drifting machine favours neither.
            pace = {}
            for alpha in (0.5, 0.0) if repeat % 2 == 0 else (0.0, 0.5):
                pace[alpha] = samples_per_second(
                    arguments.binary, config_text(base, period, alpha), arguments.peers,
                    arguments.warm_up, arguments.window)
            ratios.append(pace[0.5] / pace[0.0])
            print(f"{name}: gossip {pace[0.5]:9.0f} samples/s  off {pace[0.0]:9.0f}"
                  f"  ratio {ratios[-1]:.4f}", flush=True)
        print(f"{name}: median ratio {statistics.median(ratios):.4f}"
              f"  ({min(ratios):.4f} to {max(ratios):.4f}), aim {aim}")


if __name__ == "__main__":
    main()
