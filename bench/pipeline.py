#!/usr/bin/env python3
# The gain of two stages on two cores over one process on one core, and how busy they are.
"""Trains the transformer of configs/text-pipeline.toml as one stage by one peer on one core and as two
stages by two peers on a core each, in turn, and compares their steady pace.

Both run endlessly; after a warm-up the first peer is asked twice, a window apart and right after a step, how many steps
it has made. All threads of a peer are pinned to its core. Other programs disturb the measurement. So it also shows for
how much of the time a thread of a peer could have run but did not; its own two threads disturb each other, too.

Example: bench/pipeline.py --binary build/release/grapevine --repeats 5 --schedule zero-bubble
"""
import argparse
import os
import pathlib
import re
import statistics
import time

from launched_peers import launched, status


def pin(process, core):
    """Pins all threads of a process to one core."""
    for task in os.listdir(f"/proc/{process}/task"):
        os.sched_setaffinity(int(task), {core})


def after_step(binary, folder):
    """A peer's status just after its next step, so that there are whole steps between two calls."""
    before = status(binary, folder)["step"]
    while True:
        said = status(binary, folder)
        if said["step"] != before:
            return said
        time.sleep(0.01)


def delayed_s(process):
    """Time in which threads of a process were ready to run but did not run."""
    total = 0
    for task in os.listdir(f"/proc/{process}/task"):
        total += int(pathlib.Path(f"/proc/{process}/task/{task}/schedstat").read_text().split()[1])
    return total / 1e9


def config_text(base, stages, schedule, micro_batches, folder):
    """The base config, endless, with one chain of a number of stages whose replicas need not agree."""
    text = base
    for key, value in (
        ("steps", 10**9),
        ("stages", stages),
        ("schedule", None),
        ("micro_batches", micro_batches),
        ("folder", f'"{folder}"'),
    ):
        if value is not None:
            text = re.sub(rf"(?m)^{key}\s*=.*$", f"{key} = {value}", text)
    text = re.sub(r'(?ms)(\[pipeline\].*?)^schedule\s*=.*?$', rf'\1schedule = "{schedule}"', text)
    text = re.sub(r"(?m)^(consensus|mix_every)\s*=.*\n", "", text)
    return text + "\n[checkpoint]\nevery_steps = 0\n"


def windows_per_second(binary, config, peers, batch, warm_up, window, start=launched):
    """Samples that a run takes, times runs in a second; the part of time each peer waits; and the greatest part of
    the time in which a peer was kept from its core. `start` starts the peers."""
    with start(binary, config, peers) as folders:
        pids = [status(binary, peer)["self"]["pid"] for peer in folders]
        for number, pid in enumerate(pids):
            pin(pid, number % 2)
        time.sleep(warm_up)
        first = after_step(binary, folders[0])
        before = [status(binary, peer) for peer in folders]
        delays = [-delayed_s(pid) for pid in pids]
        time.sleep(window)
        delays = [delay + delayed_s(pid) for delay, pid in zip(delays, pids)]
        after = [status(binary, peer) for peer in folders]
        last = after_step(binary, folders[0])
    pace = batch * (last["step"] - first["step"]) / (last["uptime_s"] - first["uptime_s"])
    waits = []
    for a, b in zip(before, after):
        computing = b["pipeline"]["computing_s"] - a["pipeline"]["computing_s"]
        waits.append(1 - computing / (b["uptime_s"] - a["uptime_s"]))
    return pace, waits, max(delays) / window


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--binary", default="build/release/grapevine")
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--warm-up", type=float, default=3)
    arguments.add_argument("--window", type=float, default=6)
    arguments.add_argument("--schedule", default="1f1b")
    arguments.add_argument("--micro-batches", type=int, default=8)
    given = arguments.parse_args()
    configs = pathlib.Path(__file__).resolve().parent.parent / "configs"
    base = (configs / "text-pipeline.toml").read_text()
    batch = int(re.search(r"(?m)^batch\s*=\s*(\d+)", base).group(1)) * given.micro_batches
    ratios = []
    for repeat in range(given.repeats):
        paces = {}
        order = [1, 2] if repeat % 2 == 0 else [2, 1]
        for stages in order:
            text = config_text(base, stages, given.schedule, given.micro_batches, configs / "text")
            paces[stages] = windows_per_second(
                given.binary, text, stages, batch, given.warm_up, given.window
            )
        ratios.append(paces[2][0] / paces[1][0])
        waits = ", ".join(f"{100 * part:.0f} %" for part in paces[2][1])
        kept = max(paces[1][2], paces[2][2])
        print(
            f"one stage {paces[1][0]:7.1f}  two stages {paces[2][0]:7.1f} windows/s  "
            f"ratio {ratios[-1]:.2f}  (the two wait {waits}; kept from a core {100 * kept:.0f} %)",
            flush=True,
        )
    print(
        f"{given.schedule}, {given.micro_batches} micro-batches: two stages on two cores make "
        f"{statistics.median(ratios):.2f} times what one makes on one "
        f"({min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    main()
