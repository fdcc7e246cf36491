#!/usr/bin/env python3
# The gain of a group of peers on two cores over one peer on one core, for layers shared in each way.
"""Trains a model by one peer on one core, and by a group that shares its layers on two cores, in turn, and
compares their steady pace, as pipeline.py does for stages. The window should begin after the second copying
point (pipeline.copy_every), because until then members allocate memory for copies of their neighbours' slices. It
should last from one copying point to the next.

  dense    two dense layers of 4096 x 4096, by hidden units
  block    a transformer block of width 512, by heads and hidden units
  images   configs/large-images.toml, by rows of images of 512 x 512

With --rate the group's members are in network namespaces of their own, behind links of this rate (tc tbf), which
needs root and iproute2.

Example: bench/groups.py --binary build/release/grapevine --only images --members 4 --repeats 5
"""
import argparse
import functools
import pathlib
import re
import statistics

from launched_peers import behind_links, launched, with_settings
from pipeline import windows_per_second

CONFIGS = pathlib.Path(__file__).resolve().parent.parent / "configs"

DENSE = """
[run]
mode = "pipeline"
[data]
partition = "shared"
[data.generated]
features = 4096
samples = 4096
test_samples = 64
[model]
kind = "mlp"
hidden = [4096, 4096]
[train]
batch = 128
[pipeline]
stages = 1
micro_batches = 4
"""

BLOCK = f"""
[run]
mode = "pipeline"
[data]
kind = "text"
folder = "{CONFIGS / 'text'}"
train_files = ["vineyard.txt"]
context = 128
partition = "shared"
[model]
kind = "transformer"
blocks = 1
width = 512
heads = 8
tied = false
[train]
batch = 4
optimizer = "adamw"
learning_rate = 0.001
[pipeline]
stages = 1
micro_batches = 4
"""


def cases():
    return {"dense": DENSE, "block": BLOCK, "images": (CONFIGS / "large-images.toml").read_text()}


def number(text, key):
    return int(re.search(rf"(?m)^{key}\s*=\s*(\d+)", text).group(1))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--binary", default="build/release/grapevine")
    arguments.add_argument("--only", choices=cases(), action="append")
    arguments.add_argument("--members", type=int, default=2)
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--warm-up", type=float, default=20)
    arguments.add_argument("--window", type=float, default=14)
    arguments.add_argument("--rate", help="of the links between members, as tc says it; default: one host")
    given = arguments.parse_args()
    start_group = functools.partial(behind_links, rate=given.rate) if given.rate else launched
    for name in given.only or cases():
        text = with_settings(
            cases()[name],
            [("run", "steps", 10**9), ("run", "peers", given.members),
             ("pipeline", "group", given.members), ("checkpoint", "every_steps", 0)],
        )
        batch = number(text, "batch") * number(text, "micro_batches")
        ratios = []
        for repeat in range(given.repeats):
            paces = {}
            for members in (1, given.members) if repeat % 2 == 0 else (given.members, 1):
                paces[members] = windows_per_second(
                    given.binary, text, members, batch, given.warm_up, given.window,
                    start_group if members > 1 else launched
                )
            one, group = paces[1][0], paces[given.members][0]
            ratios.append(group / one)
            kept = max(paces[1][2], paces[given.members][2])
            print(f"{name}: one peer {one:8.1f}  {given.members} members {group:8.1f} samples/s  "
                  f"ratio {ratios[-1]:.2f}  (kept from a core {100 * kept:.0f} %)", flush=True)
        print(f"{name}: {given.members} members on two cores make {statistics.median(ratios):.2f} times "
              f"what one peer makes on one ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
