"""A peer for tests whose gradients are summed while backward still computes others.

    python3 torch_overlap_peer.py MODEL OPTIMIZER ddp|attached [--passes N] [--kill-at STEP]

Each step is N backward passes over the same batch, each with an N-th of its loss. Prints its model as
JSON at the end, and how many parts it has handed over during backward.
"""

import argparse
import contextlib
import json
import os
import signal

import grapevine
import grapevine._overlap
import grapevine.torch
import torch
from torch_models import CRITERION, batches, forward, make_model, make_optimizer


def distributed(module):
    """The module in a DistributedDataParallel whose group is this process alone."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    # All buckets have few parameters, including the first one.
    torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 256
    return torch.nn.parallel.DistributedDataParallel(
        module, bucket_cap_mb=0.00025, find_unused_parameters=True
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("optimizer")
    parser.add_argument("how", choices=["ddp", "attached"])
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--kill-at", type=int, default=-1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    part, parts = map(int, json.loads(os.environ["GRAPEVINE_PEER"])["shard"].split("/"))
    model = make_model(arguments.model)
    optimizer = make_optimizer(arguments.optimizer, model)
    vine = grapevine.join(None, model, optimizer)
    trained = distributed(model) if arguments.how == "ddp" else model
    # Each parameter is a part of its own.
    grapevine._overlap._PART_BYTES = 1
    given = 0
    own_begin = vine.reduce_begin

    def reduce_begin(part):
        nonlocal given
        own_begin(part)
        given += 1
        if given % 2 == 0 and vine.steps == arguments.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    vine.reduce_begin = reduce_begin

    def backward(x, y):
        optimizer.zero_grad()
        for at in range(arguments.passes):
            is_last = at == arguments.passes - 1
            alone = arguments.how == "ddp" and not is_last
            with trained.no_sync() if alone else contextlib.nullcontext():
                loss = CRITERION(forward(trained, x, vine.steps + part), y) / arguments.passes
                loss.backward()

    def train():
        for x, y in vine.until_over(batches(part, parts)):
            backward(x, y)
            if arguments.how == "attached":
                optimizer.step()
                continue
            while vine.reduce().again:
                backward(x, y)
            optimizer.step()
            vine.step()

    if arguments.how == "attached":
        with grapevine.torch.attached(vine, optimizer):
            train()
    else:
        trained.register_comm_hook(vine, grapevine.torch.comm_hook)
        train()
    vine.leave()
    state = {name: value.tolist() for name, value in model.state_dict().items()}
    print(json.dumps({"x": state, "given": given}))


main()
