"""A peer for tests: the network that [model] of the config describes, written in PyTorch.

    python3 torch_mixed_peer.py [--hidden UNITS]

Trains on its part of samples.csv beside the config, and prints the accuracy on all of it.
"""

import argparse
import json
import os
from collections import OrderedDict
from pathlib import Path

import grapevine
import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, default=8)
    hidden = parser.parse_args().hidden
    torch.set_num_threads(1)
    given = json.loads(os.environ["GRAPEVINE_PEER"])
    part, parts = map(int, given["shard"].split("/"))
    lines = (Path(given["config"]).parent / "samples.csv").read_text().splitlines()
    rows = torch.tensor([[float(word) for word in line.split(",")] for line in lines])
    points, labels = rows[:, :-1], rows[:, -1].long()
    own = torch.utils.data.TensorDataset(points[part::parts], labels[part::parts])
    loader = torch.utils.data.DataLoader(own, batch_size=16, shuffle=True, drop_last=True)

    # Each peer begins with a model of its own.
    layers = OrderedDict(
        dense1=nn.Linear(points.shape[1], hidden), relu=nn.ReLU(), dense2=nn.Linear(hidden, 3)
    )
    model = nn.Sequential(layers)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03125, momentum=0.9)
    vine = grapevine.join(None, model, optimizer)
    for x, y in vine.until_over(loader):
        again = True
        while again:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            again = vine.reduce(samples=len(x), loss=loss).again
        optimizer.step()
        vine.step(loss, samples=len(x))
    vine.leave()
    with torch.no_grad():
        right = (model(points).argmax(1) == labels).float().mean().item()
    print(json.dumps({"accuracy": right}))


main()
