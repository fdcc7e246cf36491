"""A peer for tests that hands its gradient over in parts, without NumPy.

    python3 parts_peer.py [--kill-at STEP] [--leave-at STEP] [--step-s SECONDS]

Peer p pulls every number of its arrays towards p. Each peer gives the arrays in another order, which
differs from step to step. Prints its model as JSON at the end.
"""

import argparse
import array
import json
import os
import random
import signal
import time

import grapevine

LENGTHS = {"first": 100, "second": 300, "third": 57}
RATE = 0.25


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kill-at", type=int, default=-1)
    parser.add_argument("--leave-at", type=int, default=-1)
    parser.add_argument("--step-s", type=float, default=0.0)
    arguments = parser.parse_args()
    part = int(json.loads(os.environ["GRAPEVINE_PEER"])["shard"].split("/")[0])
    orders = random.Random(part)

    model = {name: array.array("f", [0.0] * length) for name, length in LENGTHS.items()}
    vine = grapevine.join(None, model)

    def backward():
        gradient = {}
        for name in orders.sample(sorted(LENGTHS), len(LENGTHS)):
            gradient[name] = array.array("f", [value - part for value in model[name]])
            vine.reduce_begin({name: gradient[name]})
            if len(gradient) == 2 and vine.steps == arguments.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if len(gradient) == 2 and vine.steps == arguments.leave_at:
                vine.leave()
                break
        return gradient

    while not vine.is_over:
        gradient = backward()
        while vine.reduce_end(loss=1.0).again:
            gradient = backward()
        if vine.is_over:
            break
        for name, values in model.items():
            for k, slope in enumerate(gradient[name]):
                values[k] -= RATE * slope
        time.sleep(arguments.step_s)
        vine.step(1.0)
    vine.leave()
    x = [value for values in model.values() for value in values]
    print(json.dumps({"x": x, "steps": vine.steps}))


main()
