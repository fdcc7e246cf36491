#!/usr/bin/env python3
"""How fast virtual peers are: virtual seconds and events for each second of a processor, peak memory.

Each case is one run of `grapevine sim` in its own process; several repeats, median and spread.
"""

import argparse
import pathlib
import re
import resource
import statistics
import subprocess
import tempfile

CASES = [
    ("16 peers, nothing computed, 2000 s", """
[run]
steps = 1000000000
[gossip]
period_steps = 100
[scenario]
peers = 16
work = "time"
step_s = 0.01
until_s = 2000
"""),
    ("16 peers, membership alone, 20000 s", """
[run]
steps = 1000000000
[gossip]
alpha = 0.0
period_steps = 1000000
[scenario]
peers = 16
work = "time"
step_s = 10.0
until_s = 20000
"""),
    ("1000 peers that all know each other, 20 s", """
[run]
steps = 1000000000
[gossip]
period_steps = 100
[scenario]
peers = 1000
work = "time"
step_s = 0.01
until_s = 20
"""),
    ("10000 peers, 16 neighbours, models of 1000", None),
]


def processor_seconds():
    """What the children that have ended have used, in the program and in the kernel."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(binary, config):
    """(virtual seconds a processor second, events a processor second, peak MiB) of one run."""
    with tempfile.TemporaryDirectory() as folder:
        before = processor_seconds()
        timed = subprocess.run(
            ["/usr/bin/time", "-f", "%M", binary, "sim", str(config), "--folder", folder],
            capture_output=True, text=True, check=True)
        busy = processor_seconds() - before
    virtual = float(re.search(r"virtual time +([0-9.]+) s", timed.stdout)[1])
    events = int(re.search(r"events +([0-9]+)", timed.stdout)[1])
    return virtual / busy, events / busy, int(timed.stderr.split()[-1]) / 1024


def ratio(value):
    """34000, 7.7 or 0.52: decimals where they matter."""
    return f"{value:.{2 if value < 1 else 1 if value < 10 else 0}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/grapevine")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    configs = pathlib.Path(__file__).resolve().parent.parent / "configs"
    for name, text in CASES:
        with tempfile.TemporaryDirectory() as folder:
            config = configs / "swarm-10000.toml"
            if text is not None:
                config = pathlib.Path(folder) / "case.toml"
                config.write_text(text)
            figures = [run(arguments.binary, config) for _ in range(arguments.repeats)]
        pace, events, memory = (sorted(column) for column in zip(*figures))
        print(f"{name}: {ratio(statistics.median(pace))} times real"
              f" ({ratio(pace[0])} to {ratio(pace[-1])}),"
              f" {statistics.median(events) / 1e6:.2f} million events a processor second"
              f" ({events[0] / 1e6:.2f} to {events[-1] / 1e6:.2f}), {memory[-1]:.0f} MiB",
              flush=True)


if __name__ == "__main__":
    main()
