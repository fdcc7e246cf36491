"""A peer for tests: trains a module of PyTorch on data that all peers draw from one seed.

    python3 torch_peer.py MODEL OPTIMIZER [--attached] [--step-s SECONDS] [--overflow-every STEPS] [--scaler]
                          [--settings JSON] [--device DEVICE] [--pause-until FILE] [--taught]

With --scaler it scales the loss, and leaves overflows to `reduce` and the scaler. With --pause-until it makes 20 steps
and then waits for the file, but not for ever. On the device `lagging`, tensors on the CPU are staged as if they were on
a GPU. Prints the final model as JSON, and the numbers of its steps.
"""

import argparse
import json
import os
import pathlib
import time

import grapevine
import grapevine.torch
import lagging_device
import torch
from support import eventually
from torch_models import CRITERION, Scaler, batches, make_model, make_optimizer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("optimizer")
    parser.add_argument("--attached", action="store_true")
    parser.add_argument("--step-s", type=float, default=0.0)
    parser.add_argument("--overflow-every", type=int, default=0)
    parser.add_argument("--scaler", action="store_true")
    parser.add_argument("--settings", type=json.loads, default={})
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pause-until", type=pathlib.Path)
    parser.add_argument("--taught", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    part, parts = map(int, json.loads(os.environ["GRAPEVINE_PEER"])["shard"].split("/"))
    device = arguments.device
    if device == "lagging":
        lagging_device.install()
        device = "cpu"
    model = make_model(arguments.model).to(device)
    optimizer = make_optimizer(arguments.optimizer, model)
    vine = grapevine.join(None, model, optimizer, **arguments.settings)
    scaler = Scaler() if arguments.scaler else None

    def backward(x, y):
        optimizer.zero_grad()
        loss = CRITERION(model(x.to(device)), y.to(device))
        (scaler.scale(loss) if scaler else loss).backward()
        if arguments.overflow_every and vine.steps % arguments.overflow_every == part:
            optimizer.param_groups[0]["params"][0].grad[0] = float("inf")
        if scaler:
            return loss
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        if not all(bool(gradient.isfinite().all()) for gradient in gradients):
            optimizer.zero_grad(set_to_none=True)
        return loss

    def train():
        dtype = next(model.parameters()).dtype
        for x, y in vine.until_over(batches(part, parts, dtype, arguments.taught)):
            time.sleep(arguments.step_s)
            if vine.steps >= 20 and arguments.pause_until:
                eventually(arguments.pause_until.exists)
            loss = backward(x, y)
            if arguments.attached:
                optimizer.step()
                continue
            while vine.reduce(loss=loss, scaler=scaler).again:
                loss = backward(x, y)
            if scaler:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            vine.step(loss)

    if arguments.attached:
        with grapevine.torch.attached(vine, optimizer):
            train()
    else:
        train()
    vine.leave()
    state = {name: value.tolist() for name, value in model.state_dict().items()}
    print(json.dumps({"x": state, "steps": vine.steps, "skipped": vine.skipped_steps}))


main()
