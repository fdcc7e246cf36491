#!/usr/bin/env python3
# Two peers in mode allreduce at the ends of a long link: the share of its bandwidth that their sums get.
"""Trains two peers in lockstep, each in a network namespace of its own, at both ends of a link with a delay.

The link is a program of this folder (long_link.cpp): it passes packets on after a delay and at a given bandwidth. Every
step each peer sends as many bytes as the gradient has, and gets as many, so bytes over time are what the sums get of
the link each way, including the time of computing. Time counts from the last change of generation, at the sixteenth
step, when TCP has found out how much the link holds. Several binaries take turns. Needs root, iproute2 and
/dev/net/tun.

Example: sudo bench/long_links.py --round-trips 2,20,80
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

from slow_links import await_ends, command, events, peers_on

CONFIG = """
[run]
mode = "allreduce"
peers = 2
steps = {steps}
[data]
kind = "generated"
[data.generated]
samples = 2000
test_samples = 100
features = 64
[model]
kind = "mlp"
hidden = [2000, 1000]
[train]
batch = 4
learning_rate = 0.001
[checkpoint]
every_steps = 0
"""
DEVICE = "long0"


class Ends:
    """Two namespaces, 10.79.0.1 and 10.79.0.2, and the link between them; gone when the block ends."""

    count = 2

    def __init__(self, program, round_trip, mbit, seconds, buffers_mib=0, loss=0):
        self.names = [f"gvl{os.getpid()}e{end}" for end in (0, 1)]
        self.link = [program, *self.names, DEVICE, str(round_trip / 2), str(mbit), str(seconds), str(loss)]
        self.buffers_mib = buffers_mib
        self.process = None

    def name(self, end):
        return self.names[end]

    def address(self, end):
        return f"10.79.0.{end + 1}"

    def __enter__(self):
        try:
            for name in self.names:
                command("ip", "netns", "add", name)
            self.process = subprocess.Popen(self.link, stdout=subprocess.PIPE, text=True)
            if not self.process.stdout.readline():
                raise SystemExit("no link: is there a /dev/net/tun?")
            for end, name in enumerate(self.names):
                command("ip", "-n", name, "addr", "add", self.address(end), "peer", self.address(1 - end),
                        "dev", DEVICE)
                command("ip", "-n", name, "link", "set", DEVICE, "txqueuelen", "1000", "up")
                command("ip", "-n", name, "link", "set", "lo", "up")
                for buffers in ("tcp_rmem", "tcp_wmem") if self.buffers_mib else ():
                    command("ip", "netns", "exec", name, "sysctl", "-qw",
                            f"net.ipv4.{buffers}=4096 131072 {self.buffers_mib << 20}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=30)


def train(binary, ends, steps, limit):
    """Megabits a second each way, from the last change of generation on."""
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        with peers_on(ends, binary, root, CONFIG.format(steps=steps)) as peers:
            await_ends(peers, limit)
        told = events(root / "peer-0")
        began = [event for event in told if event["event"] == "generation_began"][-1]
        ended = [event for event in told if event["event"] == "budget_done"][0]
        sums = json.loads((root / "peer-0/result.json").read_text())["allreduce"]
        bits = 8 * sums["reduced_bytes"] / sums["operations"]
        if began["peers"] != 2 or began["step"] > steps / 2:
            raise SystemExit(f"not both took part nearly all the time: {told}")
        return bits * (steps - began["step"]) / (ended["t"] - began["t"]) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", nargs="+", default=["build/release/grapevine"])
    parser.add_argument("--round-trips", default="2,20,80", help="milliseconds")
    parser.add_argument("--mbit", type=float, default=1000)
    parser.add_argument("--buffers", type=int, metavar="MIB",
                        help="to which TCP's buffers may grow at both ends; without it as the system has it")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=int, default=300, help="seconds for one run")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("network namespaces need root: run it with sudo")
    # When told to stop, this program still ends its peers and removes its namespaces.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    binaries = [str(pathlib.Path(binary).resolve()) for binary in arguments.binary]
    control = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    largest = int(pathlib.Path("/proc/sys/net/core/wmem_max").read_text())
    print(f"{arguments.mbit:g} Mbit/s, {control}, buffers that programs choose up to {largest >> 10} KiB;"
          " Mbit/s each way, medians and ranges:")
    with tempfile.TemporaryDirectory() as folder:
        program = folder + "/long_link"
        source = pathlib.Path(__file__).resolve().parent / "long_link.cpp"
        command("g++", "-O2", "-std=c++20", str(source), "-o", program)
        for round_trip in arguments.round_trips.split(","):
            runs = {binary: [] for binary in binaries}
            for repeat in range(arguments.repeats):
                for binary in binaries if repeat % 2 == 0 else reversed(binaries):
                    with Ends(program, float(round_trip), arguments.mbit, arguments.limit,
                              arguments.buffers) as ends:
                        runs[binary].append(train(binary, ends, arguments.steps, arguments.limit))
            for binary, rates in runs.items():
                print(f"  {round_trip:>4} ms round trip  {statistics.median(rates):7.1f}"
                      f"  ({min(rates):.1f} to {max(rates):.1f})  {binary}", flush=True)


if __name__ == "__main__":
    main()
