#!/usr/bin/env python3
# Memory of a peer while it trains by gossip, against six times its parameters plus activations plus 64 MiB.
"""Launches 4 peers per model and reads their resident memory, now and highest, from /proc.

Example: bench/memory.py --binary build/release/grapevine
"""
import argparse
import pathlib
import re
import time

from launched_peers import launched, status

MIB = 1 << 20
# Bytes of parameters and of activations with their gradients at batch 64, from the layers' shapes.
MODELS = {
    "fashion-mlp.toml": (235146, 2 * 64 * (784 + 256 + 128 + 10)),
    "fashion-lenet.toml": (61706, 2 * 64 * (784 + 6 * 784 + 6 * 196 + 16 * 100 + 400 + 120 + 84 + 10)),
    "fashion-cnn.toml": (1625866, 2 * 64 * (784 + 32 * 784 + 64 * 784 + 2 * 64 * 196 + 128 + 10)),
}


def resident(pid):
    """(VmRSS, VmHWM) in bytes."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return tuple(int(re.search(rf"{key}:\s+(\d+)", text)[1]) * 1024 for key in ("VmRSS", "VmHWM"))


def measure(binary, config):
    """The largest resident memory of four peers in ten seconds, sampled once they exchange."""
    now = high = 0
    with launched(binary, config.read_text(), 4) as folders:
        began = time.monotonic()
        while time.monotonic() < began + (10 if now else 60):
            time.sleep(0.5)
            for report in filter(None, [status(binary, peer) for peer in folders]):
                if report["exchanges"]["committed"] < 10:
                    continue
                rss, hwm = resident(report["self"]["pid"])
                now, high = max(now, rss), max(high, hwm)
    return now, high


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/grapevine")
    arguments = parser.parse_args()
    configs = pathlib.Path(__file__).resolve().parent.parent / "configs"
    for name, (parameters, activations) in MODELS.items():
        now, high = measure(arguments.binary, configs / name)
        bound = 6 * 4 * parameters + 4 * activations + 64 * MIB
        print(f"{name:20} resident {now / MIB:6.1f} MiB, highest {high / MIB:6.1f}, "
              f"bound {bound / MIB:6.1f}", flush=True)


if __name__ == "__main__":
    main()
