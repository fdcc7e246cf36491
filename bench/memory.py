#!/usr/bin/env python3
# Memory of a peer while it trains by gossip, against six times its parameters plus activations plus 64 MiB.
"""Launches 4 peers per model and reads their resident memory, now and highest, from /proc.

Example: bench/memory.py --binary build/release/grapevine
"""
import argparse
import json
import pathlib
import re
import subprocess
import tempfile
import time

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
    """The largest resident memory of four peers, sampled once they exchange."""
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        process = subprocess.Popen([binary, "launch", "-n", "4", str(config), "--folder", str(run)],
                                   stdout=subprocess.DEVNULL)
        try:
            now = high = 0
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.5)
                for peer in range(4):
                    status = subprocess.run([binary, "status", "--json", str(run / f"peer-{peer}")],
                                            capture_output=True, text=True)
                    if status.returncode != 0:
                        continue
                    report = json.loads(status.stdout)
                    if report["exchanges"]["committed"] < 10:
                        continue
                    rss, hwm = resident(report["self"]["pid"])
                    now, high = max(now, rss), max(high, hwm)
                if now and time.monotonic() > deadline - 50:
                    break
            return now, high
        finally:
            process.terminate()
            process.wait(timeout=60)


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
