"""A linear regression with NumPy: each peer has samples of its own, and all find the same weights.

    grapevine launch -n 4 examples/run.toml -- python3 examples/regression.py [ALGORITHM]
"""

import sys

import grapevine
import numpy as np

FEATURES = 16
RATE = 0.05
BATCH = 32


def main():
    algorithm = sys.argv[1] if len(sys.argv) > 1 else "elastic"
    true_weights = np.linspace(-1, 1, FEATURES, dtype=np.float32)
    random = np.random.default_rng()  # Every process draws samples of its own.
    inputs = random.normal(size=(1000, FEATURES)).astype(np.float32)
    targets = inputs @ true_weights + 0.1 * random.normal(size=1000).astype(np.float32)

    weights = np.zeros(FEATURES, dtype=np.float32)
    vine = grapevine.join(None, {"weights": weights}, algorithm=algorithm)
    while not vine.is_over:
        chosen = random.integers(0, len(inputs), BATCH)
        again = True
        while again:
            error = inputs[chosen] @ weights - targets[chosen]
            gradient = (inputs[chosen].T @ error / BATCH).astype(np.float32)
            loss = 0.5 * float(error @ error) / BATCH
            again = vine.reduce({"weights": gradient}, samples=BATCH, loss=loss).again
        if vine.is_over:
            break
        weights -= RATE * vine.factor * gradient
        vine.step(loss, samples=BATCH)
    print(f"largest error of a weight: {np.abs(weights - true_weights).max():.4f}")


main()
