"""A peer for tests that hands its gradient over in parts, without NumPy.

    python3 parts_peer.py [--kill-at STEP] [--leave-at STEP] [--until VALUE]

Peer p pulls every number of its arrays towards 2^p - 1, so that no other set of peers has the mean of peers 0 to 2.
Each peer gives its arrays in an order of its own, which changes from step to step. Prints its model as JSON at the end.

With --until, a model that has reached that value stays as it is. Its peer makes the file `arrived`, and goes on until
there is a file `over` beside the peers' folders.
"""

import argparse
import array
import json
import os
import random
import signal
from pathlib import Path

import grapevine

LENGTHS = {"first": 100, "second": 300, "third": 57}
RATE = 0.25


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kill-at", type=int, default=-1)
    parser.add_argument("--leave-at", type=int, default=-1)
    parser.add_argument("--until", type=float)
    arguments = parser.parse_args()
    given = json.loads(os.environ["GRAPEVINE_PEER"])
    folder = Path(given["folder"])
    part = int(given["shard"].split("/")[0])
    pull = 2**part - 1
    orders = random.Random(part)

    model = {name: array.array("f", [0.0] * length) for name, length in LENGTHS.items()}
    vine = grapevine.join(None, model)

    def has_arrived():
        if arguments.until is None:
            return False
        x = [value for values in model.values() for value in values]
        return all(abs(value - arguments.until) < 1e-5 for value in x)

    def backward():
        gradient = {}
        pulls = 0 if has_arrived() else 1
        for name in orders.sample(sorted(LENGTHS), len(LENGTHS)):
            slopes = [pulls * (value - pull) for value in model[name]]
            gradient[name] = array.array("f", slopes)
            vine.reduce_begin({name: gradient[name]})
            if len(gradient) == 2 and vine.steps == arguments.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if len(gradient) == 2 and vine.steps == arguments.leave_at:
                vine.leave()
                break
        return gradient

    while not vine.is_over and not (folder.parent / "over").exists():
        gradient = backward()
        while vine.reduce_end(loss=1.0).again:
            gradient = backward()
        if vine.is_over:
            break
        for name, values in model.items():
            for k, slope in enumerate(gradient[name]):
                values[k] -= RATE * slope
        vine.step(1.0)
        if has_arrived():
            (folder / "arrived").touch()
    vine.leave()
    x = [value for values in model.values() for value in values]
    print(json.dumps({"x": x, "steps": vine.steps}))


main()
