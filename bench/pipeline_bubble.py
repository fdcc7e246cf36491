#!/usr/bin/env python3
# The bubble of real pipelines whose stages cost time and nothing else, against the formulas.
"""Runs a pipeline of real processes for every schedule. Passes through its stages take a stated time and compute
nothing (`timed_stages`), so stages are equal, and more of them fit a machine than it has processors. What passes
between stages is as large as in configs/text-pipeline.toml and really sent.

A step is the time between two runs of the first peer; the median of all but the first few counts. Its bubble is
what is left of it beside a peer's own passes. pipedream and 2bw fill and drain the pipeline once a run: for them
the time of a micro-batch in a steady state is the difference of two lengths of a run.

With --rate each peer is in a network namespace of its own behind a link of that bandwidth (needs root and
iproute2), and the step is compared with the longer of its computing and its transfers.

Example: bench/pipeline_bubble.py --stages 4 --micro-batches 8
         sudo bench/pipeline_bubble.py --schedules 1f1b --micro-batches 32 --pass-ms 6 --rate 1gbit --ahead 1
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

from slow_links import Hosts, await_ends, peers_on

BYTES = 4 * 4 * 128 * 128  # Bytes that pass between two stages.
WARM_UP = 3  # Runs that do not count.
AHEAD = ("1f1b", "zero-bubble", "chimera", "2bw")  # Schedules that hide transfers by being ahead.


def config_text(given, schedule, micro_batches, ahead, runs):
    data = pathlib.Path(__file__).resolve().parent.parent / "configs/text"
    layer = '[[model.layers]]\nkind = "dense"\nunits = 128\nper_position = true\n'
    ahead_line = f"ahead = {ahead}" if schedule in AHEAD else ""
    # Gives 2bw, with its two versions, room to be ahead.
    accumulate_line = f"accumulate = {2 * given.stages}" if schedule == "2bw" else ""
    # Equal estimated work in each stage. Otherwise stages would get unequal numbers of peers.
    ends = [1 + 2 * stage for stage in range(1, given.stages)] + [2 * given.stages]
    return f"""[run]
mode = "pipeline"
peers = {given.stages}
steps = {runs}
[data]
kind = "text"
folder = "{data}"
train_files = ["vineyard.txt"]
context = 128
partition = "shared"
[model]
kind = "layers"
[[model.layers]]
kind = "embedding"
vocabulary = 256
units = 128
{layer * 2 * (given.stages - 1)}
[[model.layers]]
kind = "dense"
units = 256
per_position = true
[train]
batch = 4
[checkpoint]
every_steps = 0
[pipeline]
ends = {ends}
schedule = "{schedule}"
micro_batches = {micro_batches}
copy_every = 0
{ahead_line}
{accumulate_line}
"""


def launched(binary, root, peers, text):
    (root / "config.toml").write_text(text)
    words = [binary, "launch", "-n", str(peers), root / "config.toml", "--folder", root / "run"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, timeout=300)
    return root / "run/peer-0/runs"


def behind_links(binary, root, peers, rate, text):
    with Hosts(peers, rate) as hosts, peers_on(hosts, binary, root, text) as running:
        await_ends(running, 300)
    return root / "peer-0/runs"


def step_seconds(given, schedule, micro_batches, ahead, passes):
    """Times of all runs except the first few."""
    os.environ["PASS_SECONDS"] = ",".join(f"{seconds:.6f}" for seconds in passes)
    binary = str(pathlib.Path(given.binary).resolve())
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        text = config_text(given, schedule, micro_batches, ahead, given.runs + WARM_UP + 1)
        if given.rate:
            lines = behind_links(binary, root, given.stages, given.rate, text).read_text()
        else:
            lines = launched(binary, root, given.stages, text).read_text()
    times = [float(line.split()[1]) for line in lines.splitlines()][WARM_UP:]
    return [after - before for before, after in zip(times, times[1:])]


def bits_per_second(rate):
    number, unit = re.fullmatch(r"([\d.]+)([gmk])bit", rate).groups()
    return float(number) * {"g": 1e9, "m": 1e6, "k": 1e3}[unit]


def spread(values):
    return f"{1000 * min(values):.1f} to {1000 * max(values):.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default="build/release/bench/timed_stages")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--pass-ms", type=float, default=20, help="forward; backward takes twice that")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--schedules", default="gpipe,1f1b,zero-bubble,chimera,pipedream,2bw")
    parser.add_argument("--ahead", default="1", help="one or more, separated by commas")
    parser.add_argument("--rate", help="of every peer's link, as tc says it: 1gbit")
    given = parser.parse_args()
    p, m = given.stages, given.micro_batches
    forward = given.pass_ms / 1000
    both = 3 * forward
    passes = (forward, forward, forward)
    print(f"{p} stages, {m} micro-batches, {given.pass_ms:g} ms forward and {2 * given.pass_ms:g} ms back"
          + (f", links of {given.rate}" if given.rate else ""))
    for schedule in given.schedules.split(","):
        goes_ahead = schedule in AHEAD
        for ahead in map(int, given.ahead.split(",") if goes_ahead else "0"):
            steps = step_seconds(given, schedule, m, ahead, passes)
            step = statistics.median(steps)
            name = f"{schedule:<12} ahead {ahead}"
            if schedule in ("pipedream", "2bw"):
                longer = step_seconds(given, schedule, 2 * m, ahead, passes)
                each = (statistics.median(longer) - step) / m
                print(f"{name}  a micro-batch every {1000 * each:.2f} ms, where the slowest stage takes"
                      f" {1000 * both:.2f} ms: {100 * (each / both - 1):+.1f} %", flush=True)
                continue
            idle = {"gpipe": (p - 1) * both, "1f1b": (p - 1) * both, "zero-bubble": (p - 1) * forward,
                    "chimera": (p - 2) * both / 2}[schedule]
            computing = m * both + idle
            line = f"{name}  step {1000 * step:.1f} ms ({spread(steps)}), computing {1000 * computing:.1f}"
            if given.rate:
                sending = m * 8 * BYTES / bits_per_second(given.rate)
                longer = max(computing, sending)
                line += f", transfers {1000 * sending:.1f}: {100 * (step / longer - 1):+.1f} % of the longer"
            else:
                bubble, measured = idle / computing, 1 - m * both / step
                off = f": {100 * (measured / bubble - 1):+.1f} %" if bubble else ""
                line += f"; bubble {100 * measured:.2f} %, formula {100 * bubble:.2f} %{off}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
