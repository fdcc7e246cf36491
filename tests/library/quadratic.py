"""A peer for tests: its own loop, without NumPy, minimises a quadratic of which it sees one part.

Peer i of n sees the coordinates k with k mod n = i. So no peer alone finds the optimum, which is 1
at even and -0.5 at odd coordinates. Prints its model as JSON at the end.

    python3 quadratic.py CONFIG [--start VALUE] [--step-s SECONDS] [--fail-at STEP] [--cohort FILE]
                         [--ticket NUMBER] [--create FOLDER] [--listen HOST:PORT] [--state]

With --ticket, CONFIG is a ticket, and the program is peer NUMBER of two. With --create it begins a swarm as peer 0, and
prints a ticket first. With --state its state is the number of its steps and its own, as text.
"""

import argparse
import array
import json
import os
import time

import grapevine

DIMENSION = 24
RATE = 0.3


def optimum(k):
    return 1.0 if k % 2 == 0 else -0.5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--start", type=float, default=0.0)
    parser.add_argument("--step-s", type=float, default=0.0)
    parser.add_argument("--fail-at", type=int, default=0)
    parser.add_argument("--cohort")
    parser.add_argument("--ticket", type=int)
    parser.add_argument("--create")
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--state", action="store_true")
    arguments = parser.parse_args()
    join = grapevine.join
    if arguments.create is not None:
        part, parts = 0, 2
        given = {"listen": arguments.listen, "name": "first", "folder": arguments.create}
        given["show"] = lambda ticket: print(ticket, flush=True)
        join = grapevine.create
    elif arguments.ticket is not None:
        part, parts = arguments.ticket, 2
        given = {"listen": "127.0.0.1:0", "name": f"peer-{part}", "folder": f"peer-{part}"}
    elif arguments.cohort:
        part, parts = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        given = {"cohort": arguments.cohort, "listen": "127.0.0.1:0"}
    else:
        part, parts = map(int, json.loads(os.environ["GRAPEVINE_PEER"])["shard"].split("/"))
        given = {}

    taken, steps = [], 0
    if arguments.state:
        given["state"] = (lambda: b"%d steps of peer %d" % (steps, part), taken.append)
    x = array.array("f", [arguments.start] * DIMENSION)
    gradient = array.array("f", [0.0] * DIMENSION)
    vine = join(arguments.config, {"x": x}, **given)

    def slope():
        loss = 0.0
        for k in range(DIMENSION):
            gradient[k] = x[k] - optimum(k) if k % parts == part else 0.0
            loss += 0.5 * gradient[k] ** 2
        return loss

    while not vine.is_over:
        loss = slope()
        while vine.reduce({"x": gradient}, loss=loss).again:
            loss = slope()
        if vine.is_over:
            break
        for k in range(DIMENSION):
            x[k] -= RATE * vine.factor * gradient[k]
        if arguments.step_s:
            time.sleep(arguments.step_s)
        steps += 1
        vine.step(loss)
        if arguments.fail_at and vine.steps >= arguments.fail_at:
            raise RuntimeError("the user's loop has a mistake")
    vine.leave()
    print(json.dumps({"x": list(x), "steps": vine.steps}))


main()
