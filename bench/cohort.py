#!/usr/bin/env python3
"""Starts a cohort with a tiny model on this machine, kills some of its peers and starts them again.

The cohort is whole when every peer's status counts all as alive. Traffic is what a peer sends and receives on control links,
as its status counts it: while all train, and in a second cohort, of peers that have ended their training and stay for
the last one, which trains on. Load is that of the machine before the start: with fewer free processors times are longer.

Example: bench/cohort.py --peers 64 --killed 16
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

CONFIG = """
[run]
mode = "gossip"
budget = "peer"
steps = {steps}
linger_s = 3600.0
[data]
kind = "generated"
[data.generated]
samples = 2000
test_samples = 100
features = 8
[model]
kind = "mlp"
hidden = [8]
[train]
batch = 16
threads = 1
learning_rate = 0.001
[gossip]
period_steps = 2000
[checkpoint]
every_steps = 0
[metrics]
every_s = 3600.0
"""

ENDLESS = 100_000_000
SHORT = 2000


class Cohort:
    def __init__(self, binary, folder, size, steps=ENDLESS):
        """All peers but the last make `steps` steps."""
        self.binary, self.folder, self.size = binary, folder, size
        self.peers = {}
        folder.mkdir()
        (folder / "run.toml").write_text(CONFIG.format(steps=steps))
        (folder / "last.toml").write_text(CONFIG.format(steps=ENDLESS))
        subprocess.run([binary, "keygen", str(folder / "secret"), "--cohort"], check=True, capture_output=True)

    def start(self, rank):
        config = self.folder / ("last.toml" if rank == self.size - 1 else "run.toml")
        self.peers[rank] = subprocess.Popen(
            [self.binary, "peer", str(config), "--cohort", str(self.folder / "secret"),
             "--rank", str(rank), "--ranks", str(self.size), "--folder", str(self.folder / f"rank-{rank}"),
             "--listen", "127.0.0.1:0", "--quiet"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self, rank):
        self.peers[rank].kill()
        self.peers[rank].wait()

    def end(self):
        for peer in self.peers.values():
            peer.kill()
        for peer in self.peers.values():
            peer.wait()

    def status(self, rank):
        """The peer's report; empty if it gives none."""
        with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(5)
            asked.connect(str(self.folder / f"rank-{rank}" / "status.sock"))
            asked.shutdown(socket.SHUT_WR)
            text = b""
            while piece := asked.recv(1 << 16):
                text += piece
            return json.loads(text)
        return {}

    def whole_after(self, began, limit):
        """Seconds since `began` until every peer knows all, each at the address that it has now. Each peer is asked until it
        does, so asking costs little."""
        addresses, waiting = {}, set(self.peers)
        while waiting:
            if time.monotonic() - began > limit:
                raise SystemExit(f"after {limit} s {len(waiting)} peers do not know all")
            for rank in sorted(waiting):
                told = self.status(rank)
                if rank not in addresses and told.get("self", {}).get("advertised"):
                    addresses[rank] = told["self"]["advertised"]
                alive = {member["address"] for member in told.get("members", []) if member["state"] == "alive"}
                if len(addresses) == self.size and alive == set(addresses.values()):
                    waiting.remove(rank)
            time.sleep(0.1)
        return time.monotonic() - began

    def done_after(self, began, limit):
        """Seconds since `began` until all peers but the last have ended their training."""
        while not all(self.status(rank).get("phase") == "done" for rank in range(self.size - 1)):
            if time.monotonic() - began > limit:
                raise SystemExit(f"after {limit} s some peers still train")
            time.sleep(0.5)
        return time.monotonic() - began

    def control_bytes(self, ranks):
        told = [self.status(rank).get("bytes", {}) for rank in ranks]
        return [each.get("control_sent", 0) + each.get("control_received", 0) for each in told]

    def print_traffic(self, of, ranks, seconds):
        """Prints the bytes that each of these peers sends and receives on control links in a second."""
        before, then = self.control_bytes(ranks), time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - then
        rates = [(b - a) / passed for a, b in zip(before, self.control_bytes(ranks))]
        print(f"  control traffic, {of:12} {statistics.median(rates):7.0f} bytes a second and peer"
              f" ({min(rates):.0f} to {max(rates):.0f})", flush=True)


def run_training(cohort, arguments):
    """A cohort that trains, and of which some peers are killed."""
    began = time.monotonic()
    for rank in range(cohort.size):
        cohort.start(rank)
    print(f"  whole after the start         {cohort.whole_after(began, arguments.limit):6.1f} s", flush=True)
    cohort.print_traffic("training", range(cohort.size), arguments.seconds)
    for rank in range(arguments.killed):
        cohort.kill(rank)
    again = time.monotonic()
    for rank in range(arguments.killed):
        cohort.start(rank)
    print(f"  whole after {arguments.killed} killed and back {cohort.whole_after(again, arguments.limit):7.1f} s",
          flush=True)


def run_idle(cohort, arguments):
    """A cohort whose peers have ended their training, except the last."""
    began = time.monotonic()
    for rank in range(cohort.size):
        cohort.start(rank)
    cohort.whole_after(began, arguments.limit)
    cohort.done_after(began, arguments.limit)
    cohort.print_traffic("idle", range(cohort.size - 1), arguments.seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default="build/release/grapevine")
    parser.add_argument("--peers", type=int, default=64)
    parser.add_argument("--killed", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20, help="for which traffic is measured")
    parser.add_argument("--limit", type=float, default=120, help="seconds until the cohort must be whole")
    arguments = parser.parse_args()
    # When told to stop, this program still ends its peers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    load = os.getloadavg()[0]
    print(f"{arguments.peers} peers on {os.cpu_count()} processors, load {load:.1f}", flush=True)
    binary = str(pathlib.Path(arguments.binary).resolve())
    with tempfile.TemporaryDirectory() as folder:
        for name, steps, run in (("training", ENDLESS, run_training), ("idle", SHORT, run_idle)):
            cohort = Cohort(binary, pathlib.Path(folder) / name, arguments.peers, steps)
            try:
                run(cohort, arguments)
            finally:
                cohort.end()


if __name__ == "__main__":
    main()
