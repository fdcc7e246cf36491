#!/usr/bin/env python3
# Two machines, one command each: from `create` to the first exchange of the machine that joins by the ticket.
"""Runs the two commands of README's "Three machines" and measures the time to the second peer's first exchange.

Time counts from the start of `grapevine create` to the line `exchange_committed` in the second peer's log. The second
command starts as soon as the ticket is printed, so people's time is left out. With --round-trips other than 0 each peer is
in a network namespace of its own, at both ends of a link of packets with a delay, a bandwidth and losses (long_link.cpp);
that needs root, iproute2 and /dev/net/tun. Data that a config names must be there.

Example: sudo bench/first_exchange.py --round-trips 0,80 --config configs/fashion-mlp.toml
         sudo bench/first_exchange.py --round-trips 80 --mbit 10 --loss 1
"""
import argparse
import contextlib
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from long_links import Ends
from slow_links import command

# The model of configs/fashion-mlp.toml on data that need no files, without an end.
CONFIG = """
[run]
steps = 100000000
[data]
kind = "generated"
[data.generated]
samples = 4000
test_samples = 500
features = 784
[model]
kind = "mlp"
hidden = [256, 128]
[train]
batch = 64
learning_rate = 0.02
[gossip]
period_steps = 16
"""


def await_result(read, limit, peers, root):
    """The first result of `read` that is not empty. Ends the program after too long, or if a peer ends."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        if found := read():
            return found
        for end, peer in enumerate(peers):
            if peer.poll() is not None:
                raise SystemExit(f"a peer ended early, with {peer.returncode}:\n" + (root / f"out-{end}").read_text())
        time.sleep(0.005)
    raise SystemExit(f"no exchange within {limit} s")


def first_exchange(binary, config, ends, limit):
    """Seconds from `create` to the ticket, and to the second peer's first exchange."""
    with tempfile.TemporaryDirectory() as root, contextlib.ExitStack() as stack:
        root = pathlib.Path(root)
        peers = []
        (root / "run.toml").write_text(CONFIG)

        def start(end, *words):
            prefix = ["ip", "netns", "exec", ends.names[end]] if ends else []
            out = stack.enter_context((root / f"out-{end}").open("wb"))
            peer = subprocess.Popen([*prefix, binary, *words], stdout=out, stderr=subprocess.STDOUT)
            peers.append(peer)
            stack.callback(peer.wait)
            stack.callback(peer.kill)

        def ticket():
            found = re.search(r"gv1_[\w-]+(?=\n)", (root / "out-0").read_text())
            return found and found[0]

        def exchanged():
            log = root / "second/events.jsonl"
            return log.exists() and '"exchange_committed"' in log.read_text()

        where = [f"{ends.address(end)}:7000" if ends else "127.0.0.1:0" for end in (0, 1)]
        began = time.monotonic()
        start(0, "create", config or str(root / "run.toml"), "--listen", where[0], "--name", "first", "--folder", str(root / "first"))
        word = await_result(ticket, limit, peers, root)
        printed = time.monotonic() - began
        start(1, "join", word, "--listen", where[1], "--name", "second", "--folder", str(root / "second"))
        await_result(exchanged, limit, peers, root)
        return printed, time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default="build/release/grapevine")
    parser.add_argument("--config", help="without it the same model on generated data")
    parser.add_argument("--round-trips", default="0", help="milliseconds; 0: one host, without namespaces")
    parser.add_argument("--mbit", type=float, default=1000)
    parser.add_argument("--loss", type=float, default=0, help="percent of all packets")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit", type=int, default=60, help="seconds for one run")
    arguments = parser.parse_args()
    # When told to stop, this program still ends its peers and removes its namespaces.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    binary = str(pathlib.Path(arguments.binary).resolve())
    round_trips = [float(each) for each in arguments.round_trips.split(",")]
    if any(round_trips) and os.geteuid() != 0:
        raise SystemExit("network namespaces need root: run it with sudo")
    print(f"seconds from `create`, medians and ranges; load {os.getloadavg()[0]:.1f}:")
    with tempfile.TemporaryDirectory() as folder:
        program = folder + "/long_link"
        if any(round_trips):
            source = pathlib.Path(__file__).resolve().parent / "long_link.cpp"
            command("g++", "-O2", "-std=c++20", str(source), "-o", program)
        for round_trip in round_trips:
            runs = []
            for _ in range(arguments.repeats):
                link = Ends(program, round_trip, arguments.mbit, 2 * arguments.limit, loss=arguments.loss)
                with link if round_trip else contextlib.nullcontext() as ends:
                    runs.append(first_exchange(binary, arguments.config, ends, arguments.limit))
            name = (f"{round_trip:g} ms, {arguments.mbit:g} Mbit/s, {arguments.loss:g} % loss" if round_trip
                    else "one host")
            for what, times in zip(("ticket", "first exchange"), zip(*runs)):
                print(f"  {name:30} {what:15} {statistics.median(times):6.2f}"
                      f"  ({min(times):.2f} to {max(times):.2f})", flush=True)


if __name__ == "__main__":
    main()
