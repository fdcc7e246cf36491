#!/usr/bin/env python3
# What gossip costs: summed samples/s of peers that exchange against the same peers with gossip off.
"""Runs `grapevine launch` with gossip on and off in turn and prints the ratio pair by pair.

Example: bench/gossip_cost.py --binary build/release/grapevine --repeats 5
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import tempfile


def samples_per_second(binary, config, peers):
    """Sum over the peers of samples trained on, by the time each needed from its first step on."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.toml"
        path.write_text(config)
        subprocess.run(
            [binary, "launch", "-n", str(peers), str(path), "--folder", folder + "/run"],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=900,
        )
        total = 0.0
        for peer in range(peers):
            run = pathlib.Path(folder) / "run" / f"peer-{peer}"
            began = done = None
            for line in (run / "events.jsonl").read_text().splitlines():
                event = json.loads(line)
                if event["event"] == "training_began":
                    began = event["t"]
                elif event["event"] == "budget_done":
                    done = event["t"]
            result = json.loads((run / "result.json").read_text())
            total += result["samples"] / (done - began)
        return total


def config_text(base, steps, period, alpha):
    """The base config with its budget, exchange period and elastic coefficient replaced."""
    text = base
    for section, key, value in (
        ("run", "epochs", None),
        ("run", "steps", steps),
        ("gossip", "period_steps", period),
        ("gossip", "alpha", alpha),
        ("checkpoint", "every_steps", 0),
    ):
        text = re.sub(rf"(?m)^{key}\s*=.*\n", "", text)
        if value is None:
            continue
        if re.search(rf"(?m)^\[{section}\]", text):
            text = re.sub(rf"(?m)^\[{section}\].*\n", f"[{section}]\n{key} = {value}\n", text)
        else:
            text += f"\n[{section}]\n{key} = {value}\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/grapevine")
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=["mlp", "cnn"])
    arguments = parser.parse_args()
    configs = pathlib.Path(__file__).resolve().parent.parent / "configs"
    cases = [("mlp", "fashion-mlp.toml", 6000, 16, 0.95), ("cnn", "fashion-cnn.toml", 120, 4, 0.98)]
    for name, file, steps, period, aim in cases:
        if arguments.only not in (None, name):
            continue
        base = (configs / file).read_text()
        ratios = []
        for _ in range(arguments.repeats):
            on = samples_per_second(
                arguments.binary, config_text(base, steps, period, 0.5), arguments.peers)
            off = samples_per_second(
                arguments.binary, config_text(base, steps, period, 0.0), arguments.peers)
            ratios.append(on / off)
            print(f"{name}: gossip {on:9.0f} samples/s  off {off:9.0f}  ratio {on / off:.4f}",
                  flush=True)
        print(f"{name}: median ratio {statistics.median(ratios):.4f}"
              f"  ({min(ratios):.4f} to {max(ratios):.4f}), aim {aim}")


if __name__ == "__main__":
    main()
