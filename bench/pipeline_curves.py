#!/usr/bin/env python3
# Throughput of virtual pipelines against a slow peer, and against peers that are killed.
"""Runs `grapevine sim` on pipelines of virtual peers that compute nothing but time, behind links of 1 Gbit/s and
1 ms, 20 ms forward through a stage and 40 ms back, 262 kB from stage to stage.

The first table has one peer slower than the others, and counts the second half of a run: speeds are measured while
peers work and used from the next ballot on. In the second, peers drawn at random are killed a number of times a minute
and come back 5 s later with nothing. Beside each figure stands its ratio to the figure with nothing wrong.

Example: bench/pipeline_curves.py --seconds 600 --seeds 3
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import tempfile

PASS_S = 0.02
STAGES = 4
MICRO_BATCHES = 32


KINDS = ((4, "1f1b", "fixed"), (4, "zero-bubble", "fixed"), (8, "1f1b", "fixed"), (8, "1f1b", "throughput"))


def world(peers, schedule, router, more, seconds):
    return f"""[run]
mode = "pipeline"
peers = {peers}
[pipeline]
stages = {STAGES}
schedule = "{schedule}"
micro_batches = {MICRO_BATCHES}
router = "{router}"
[scenario]
work = "time"
dimension = 65536
step_s = {3 * STAGES * PASS_S}
step_jitter = 0.05
until_s = {seconds}
[[scenario.link]]
bandwidth_mbit = 1000
latency_s = 0.001
{more}
"""


def runs(binary, text, seed):
    """Number of runs that the pipeline made."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "world.toml"
        config.write_text(text)
        said = subprocess.run([binary, "sim", config, "--seed", str(seed), "--folder", pathlib.Path(folder) / "run"],
                              check=True, capture_output=True, text=True, timeout=600).stdout
    return int(re.search(r"(?m)^runs +(\d+) in", said)[1])


def pace(given, text, since=0.0):
    """Micro-batches a second, including pauses: the median over seeds."""
    made = []
    for seed in range(1, given.seeds + 1):
        before = runs(given.binary, text(since), seed) if since else 0
        made.append(MICRO_BATCHES * (runs(given.binary, text(given.seconds), seed) - before) / (given.seconds - since))
    return statistics.median(made)


def table(given, head, values, rule, since):
    """A row for each kind of pipeline, a column for each value, which `rule` makes a piece of a config of."""
    print(f"{'peers, schedule, router':<28}" + "".join(f"{head.format(value):>16}" for value in values))
    for peers, schedule, router in KINDS:
        row, alike = "", None
        for value in values:
            now = pace(given, lambda seconds: world(peers, schedule, router, rule(value), seconds), since)
            alike = alike or now
            row += f"{now:9.2f} {100 * now / alike:4.0f} %"
        print(f"{f'{peers}, {schedule}, {router}':<28}{row}", flush=True)


def slow(speed):
    return f'[[scenario.speed]]\npeers = "1"\nfactor = {speed}\n'


def kills(a_minute):
    if a_minute == 0:
        return ""
    return f'[[scenario.fault]]\nkind = "kill"\nat_s = 5\nfor_s = 5\nevery_s = {60 / a_minute}\npeers = "any 1"\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default="build/release/grapevine")
    parser.add_argument("--seconds", type=float, default=600, help="virtual ones of each run")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    table(given, "speed {:g}", (1, 0.8, 0.5, 0.25, 0.1), slow, given.seconds / 2)
    print()
    table(given, "{:g} a minute", (0, 1, 2, 4, 8), kills, 0)


if __name__ == "__main__":
    main()
