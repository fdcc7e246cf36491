#!/usr/bin/env python3
# The cost of gossip: summed samples/s of peers that exchange against the same peers with gossip off.
"""Runs `grapevine launch` with gossip on and off in turn and compares their steady pace.

Both run endlessly; after a warm-up each peer is asked twice, a window apart, how many samples it has
trained on. (Timing whole runs would flatter whichever has peers of unequal pace: the last ones to
finish have the machine to themselves.)

Example: bench/gossip_cost.py --binary build/release/grapevine --repeats 5
"""
import argparse
import json
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

CASES = [("mlp", "fashion-mlp.toml", 16, 0.95), ("cnn", "fashion-cnn.toml", 4, 0.98)]


def status(binary, peer):
    """What a peer says of itself, or None before it can be asked."""
    answer = subprocess.run([binary, "status", str(peer), "--json"], capture_output=True, timeout=20)
    return json.loads(answer.stdout) if answer.returncode == 0 else None


def samples_per_second(binary, config, peers, warm_up, window):
    """Sum over the peers of samples trained on in the window, by each peer's own clock."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.toml"
        path.write_text(config)
        run = pathlib.Path(folder) / "run"
        swarm = subprocess.Popen(
            [binary, "launch", "-n", str(peers), str(path), "--folder", str(run)],
            stdout=subprocess.DEVNULL,
        )
        try:
            folders = [run / f"peer-{peer}" for peer in range(peers)]
            give_up = time.monotonic() + 60
            while True:
                said = [status(binary, peer) for peer in folders]
                if all(s and s["phase"] == "training" for s in said):
                    break
                if time.monotonic() > give_up or swarm.poll() is not None:
                    raise SystemExit("the peers did not start training")
                time.sleep(0.2)
            time.sleep(warm_up)
            before = [status(binary, peer) for peer in folders]
            time.sleep(window)
            after = [status(binary, peer) for peer in folders]
        finally:
            swarm.send_signal(signal.SIGINT)
            swarm.wait(timeout=60)
        return sum(
            (b["samples"] - a["samples"]) / (b["uptime_s"] - a["uptime_s"])
            for a, b in zip(before, after)
        )


def with_settings(text, settings):
    """A config with these (section, key, value) in place of its own; None takes the key away."""
    for section, key, value in settings:
        text = re.sub(rf"(?m)^{key}\s*=.*\n", "", text)
        if value is None:
            continue
        if re.search(rf"(?m)^\[{section}\]", text):
            text = re.sub(rf"(?m)^\[{section}\].*\n", f"[{section}]\n{key} = {value}\n", text)
        else:
            text += f"\n[{section}]\n{key} = {value}\n"
    return text


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
    # Told to stop, it still ends the peers it started.
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
