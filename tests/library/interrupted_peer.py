"""A peer for tests, whose loop Ctrl-C interrupts while it waits for a sum, and which then begins the step again.

Two peers minimise a quadratic in lockstep, each of which sees one half of it. At every fourth step peer 1 waits until
peer 0 has been interrupted. Prints its model and the number of interruptions as JSON at the end.

    python3 interrupted_peer.py CONFIG
"""

import array
import json
import os
import signal
import sys
import time
from pathlib import Path

import grapevine

DIMENSION = 8

part = int(json.loads(os.environ["GRAPEVINE_PEER"])["shard"].split("/")[0])
x = array.array("f", [0.0] * DIMENSION)
gradient = array.array("f", [0.0] * DIMENSION)
vine = grapevine.join(sys.argv[1], {"x": x})
interruptions = 0


def interrupted_at(step):
    return Path(sys.argv[1]).parent / f"interrupted-{step}"


def interrupt(*_):
    raise KeyboardInterrupt


def train():
    """The loop of a notebook's cell."""
    while not vine.is_over:
        for k in range(DIMENSION):
            gradient[k] = x[k] - 1 if k % 2 == part else 0.0
        mark = interrupted_at(vine.steps)
        if vine.steps % 4 == 3:
            while part == 1 and not mark.exists():
                time.sleep(0.01)
            if part == 0 and not mark.exists():
                signal.setitimer(signal.ITIMER_REAL, 0.1)
        while vine.reduce({"x": gradient}, loss=1.0).again:
            pass
        if vine.is_over:
            break
        for k in range(DIMENSION):
            x[k] -= 0.5 * gradient[k]
        vine.step(1.0)


signal.signal(signal.SIGALRM, interrupt)
while not vine.is_over:
    try:
        train()
    except KeyboardInterrupt:
        interruptions += 1
        interrupted_at(vine.steps).touch()
vine.leave()
print(json.dumps({"x": list(x), "steps": vine.steps, "interruptions": interruptions}))
