"""A linear regression with PyTorch whose processes torchrun starts; they share the secret of a cohort.

    grapevine keygen cohort --cohort
    torchrun --nproc_per_node 4 examples/torchrun.py examples/run.toml cohort [ALGORITHM]

torchrun says in RANK and WORLD_SIZE which rank a process is, and of how many.
"""

import os
import sys

import grapevine
import torch

FEATURES = 16
BATCH = 32


def main():
    config, cohort = sys.argv[1:3]
    algorithm = sys.argv[3] if len(sys.argv) > 3 else "elastic"
    torch.set_num_threads(1)
    true_weights = torch.linspace(-1, 1, FEATURES).unsqueeze(1)
    torch.manual_seed(int(os.environ["RANK"]))  # Every process draws samples of its own.
    inputs = torch.randn(1000, FEATURES)
    targets = inputs @ true_weights + 0.1 * torch.randn(1000, 1)

    torch.manual_seed(1)  # All peers begin with the same model.
    model = torch.nn.Linear(FEATURES, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    vine = grapevine.join(config, model, optimizer, cohort=cohort, algorithm=algorithm)
    own = torch.utils.data.TensorDataset(inputs, targets)
    loader = torch.utils.data.DataLoader(own, batch_size=BATCH, shuffle=True)
    for x, y in vine.until_over(loader):
        again = True
        while again:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            again = vine.reduce(samples=len(x), loss=loss).again
        optimizer.step()
        vine.step(loss, samples=len(x))
    error = (model.weight.detach().T - true_weights).abs().max().item()
    print(f"largest error of a weight: {error:.4f}")


main()
