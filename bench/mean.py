#!/usr/bin/env python3
"""How long means of arrays take from Python, by their size.

    bench/mean.py [--grapevine BINARY] [--library FILE] [--peers N] [--sizes BYTES,...] [--rounds R]
                  [--lane auto|tls|plain]

In turn: `vine.mean(array)` in N processes, `grapevine bench allreduce` on the same lanes, and
torch.distributed's all_reduce on Gloo (over TCP; left out where PyTorch is not installed). All
average float vectors in place, back to back; a call takes as long as its slowest process. Prints
the medians of the rounds in microseconds with the smallest and the largest, and the ratios to
`mean` (wanted: at most 1.1 times the bench, and 1.3 times as fast as Gloo from 1 MiB).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = "/usr/bin/python3"
SIZES = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
UNMEASURED = "-"

COMMON = """
import array, json, os, sys, time
sizes = json.loads(os.environ["MEAN_SIZES"])
def calls_of(size):
    return max(8, min(500, (256 << 20) // size))
def timed(call, size):
    for _ in range(3):
        call()
    times = []
    for _ in range(calls_of(size)):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return times
"""

MEAN = (
    COMMON
    + """
import grapevine
vine = grapevine.join(None, mode="collective", **json.loads(os.environ["MEAN_SETTINGS"]))
results = {}
for size in sizes:
    x = array.array("f", bytes(size))
    results[size] = timed(lambda: vine.mean(x), size)
vine.leave()
print("RESULT " + json.dumps(results))
"""
)

GLOO = (
    COMMON
    + """
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]),
                        world_size=int(sys.argv[3]))
results = {}
for size in sizes:
    x = torch.zeros(size // 4)
    def call():
        dist.all_reduce(x)
        x.div_(dist.get_world_size())
    results[size] = timed(call, size)
dist.destroy_process_group()
print("RESULT " + json.dumps(results))
"""
)


def medians(outputs):
    """For each size the median over the calls of the slowest process, in microseconds."""
    found = [line[7:] for text in outputs for line in text.splitlines() if line.startswith("RESULT ")]
    if len(found) != len(outputs):
        sys.exit("a process did not end:\n" + "\n".join(outputs))
    ranks = [json.loads(one) for one in found]
    return {
        int(size): 1e6 * statistics.median(max(times) for times in zip(*(r[size] for r in ranks)))
        for size in ranks[0]
    }


def run_mean(arguments, environment, folder):
    words = [arguments.grapevine, "launch", "-n", str(arguments.peers)]
    words += ["--folder", folder / "run", "--", PYTHON, "-c", MEAN]
    subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, check=True)
    peers = range(arguments.peers)
    return medians([(folder / "run" / f"peer-{n}" / "output.log").read_text() for n in peers])


def run_bench(arguments, folder):
    sizes = ",".join(f"{size}B" for size in arguments.sizes)
    words = [arguments.grapevine, "bench", "allreduce", "-n", str(arguments.peers), "--sizes", sizes]
    words += ["--lane", arguments.lane, "--json", folder / "rows.json"]
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    rows = json.loads((folder / "rows.json").read_text())["rows"]
    return {row["bytes"]: 1e6 * statistics.median(row["seconds"]) for row in rows}


def run_gloo(arguments, environment, folder):
    words = [PYTHON, "-c", GLOO, str(folder / "store")]
    processes = [
        subprocess.Popen(
            [*words, str(rank), str(arguments.peers)],
            env=environment, stdout=subprocess.PIPE, text=True,
        )
        for rank in range(arguments.peers)
    ]  # fmt: skip
    return medians([process.communicate()[0] for process in processes])


def spread(values):
    if not values:
        return UNMEASURED
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def ratio(ours, theirs):
    return f"{statistics.median(theirs) / statistics.median(ours):.2f}" if theirs else UNMEASURED


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--grapevine", default=str(ROOT / "build/release/grapevine"))
    parser.add_argument("--library", default=str(ROOT / "build/release/libgrapevine.so.0"))
    parser.add_argument("--peers", type=int, default=2)
    parser.add_argument("--sizes", type=lambda text: [int(one) for one in text.split(",")], default=SIZES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lane", default="auto", choices=["auto", "tls", "plain"])
    arguments = parser.parse_args()
    settings = {"network__lane": arguments.lane, "network__trusted": arguments.lane == "plain"}
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "GRAPEVINE_LIBRARY": arguments.library,
        "MEAN_SIZES": json.dumps(arguments.sizes),
        "MEAN_SETTINGS": json.dumps(settings),
    }
    has_torch = subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0
    ours, bench, gloo = ({size: [] for size in arguments.sizes} for _ in range(3))
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            runs = [(ours, run_mean(arguments, environment, folder)), (bench, run_bench(arguments, folder))]
            if has_torch:
                runs.append((gloo, run_gloo(arguments, environment, folder)))
        for table, found in runs:
            for size in arguments.sizes:
                table[size].append(found[size])
    print(f"{arguments.peers} peers, lane {arguments.lane}, microseconds")
    print(f"{'bytes':>10}  {'mean()':>26}  {'bench allreduce':>26}  {'gloo':>26}  mean/bench  gloo/mean")
    for size in arguments.sizes:
        print(
            f"{size:>10}  {spread(ours[size]):>26}  {spread(bench[size]):>26}  {spread(gloo[size]):>26}"
            f"  {ratio(bench[size], ours[size]):>10}  {ratio(ours[size], gloo[size]):>9}"
        )


main()
