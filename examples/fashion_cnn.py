"""A small convolutional network on Fashion-MNIST with PyTorch, trained by several peers.

    grapevine launch -n 4 examples/run.toml -- python3 examples/fashion_cnn.py [ALGORITHM]

ALGORITHM is a name from `grapevine algorithms`: elastic (gossip), all_reduce, diloco and others.
"""

import gzip
import json
import os
import sys

import grapevine
import grapevine.torch
import numpy as np
import torch
from torch import nn

FOLDER = "/usr/share/datasets/fashion-mnist"
BATCH = 32


def load(part):
    with gzip.open(f"{FOLDER}/{part}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(f"{FOLDER}/{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return torch.from_numpy(images.copy()).float() / 255, torch.from_numpy(labels.copy()).long()


def network():
    torch.manual_seed(1)  # All peers begin with the same model.
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(2, 16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 7 * 7, 10),
    )  # fmt: skip


def main():
    torch.set_num_threads(1)
    algorithm = sys.argv[1] if len(sys.argv) > 1 else "elastic"
    part, parts = map(int, json.loads(os.environ["GRAPEVINE_PEER"])["shard"].split("/"))
    images, labels = load("train")
    own = torch.utils.data.TensorDataset(images[part::parts], labels[part::parts])
    loader = torch.utils.data.DataLoader(own, batch_size=BATCH, shuffle=True)

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    vine = grapevine.join(None, model, optimizer, algorithm=algorithm)
    schedule = grapevine.torch.scheduler(optimizer, vine, lambda progress: 1 - 0.9 * progress)
    for x, y in vine.until_over(loader):
        again = True
        while again:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            again = vine.reduce(samples=len(x), loss=loss).again
        optimizer.step()
        schedule.step()
        vine.step(loss, samples=len(x))

    model.eval()
    images, labels = load("t10k")
    with torch.no_grad():
        right = torch.cat([model(some).argmax(1) for some in images.split(500)]) == labels
    accuracy = right.float().mean().item()
    print(f"accuracy {100 * accuracy:.2f} % on the test images after {vine.steps} steps")


main()
