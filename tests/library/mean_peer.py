"""A peer for tests that averages arrays and has no model. Prints what it got as JSON at the end.

    python3 mean_peer.py CONFIG --calls LENGTH[:WEIGHT],... [--repeat N] [--together] [--pause-s S]
                         [--kind array|numpy|torch]

Number i of the array that peer p gives to call k of the swarm is (p + 1) * (i % 7 + k).
"""

import argparse
import array
import hashlib
import json
import os
import time

import grapevine


def of_numpy():
    import numpy

    return lambda values: numpy.array(values, numpy.float32), lambda x: x.tobytes()


def of_torch():
    import torch

    return lambda values: torch.tensor(values, dtype=torch.float32), lambda x: x.numpy().tobytes()


def of_array():
    return lambda values: array.array("f", values), lambda x: x.tobytes()


# How to make an array of each kind, and its bytes.
MAKERS = {"array": of_array, "numpy": of_numpy, "torch": of_torch}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--calls", required=True)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--pause-s", type=float, default=0.0)
    parser.add_argument("--kind", default="array")
    arguments = parser.parse_args()
    make, bytes_of = MAKERS[arguments.kind]()
    part = int(json.loads(os.environ["GRAPEVINE_PEER"])["shard"].split("/")[0])

    vine = grapevine.join(arguments.config, mode="collective")
    results, missed, under_way, problem = [], 0, [], None

    def end(mean):
        nonlocal missed
        try:
            x = mean.wait()
        except grapevine.Missed:
            missed += 1
            return
        digest = hashlib.sha256(bytes_of(x)).hexdigest()
        first = [float(value) for value in x[:8]]
        results.append({"call": mean.call, "peers": mean.peers, "x": first, "all": digest})

    try:
        for word in arguments.calls.split(",") * arguments.repeat:
            length, _, weight = word.partition(":")
            k = vine.calls + len(under_way)
            x = make([(part + 1) * (i % 7 + k) for i in range(int(length))])
            under_way.append(vine.mean_async(x, float(weight or 1)))
            while under_way and not arguments.together:
                end(under_way.pop(0))
            time.sleep(arguments.pause_s)
        while under_way:
            end(under_way.pop(0))
    except grapevine.Problem as error:
        problem = [type(error).__name__, str(error)]
    vine._leave_quietly()
    print(json.dumps({"results": results, "missed": missed, "problem": problem}))


main()
