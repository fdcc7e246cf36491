"""A peer for tests whose loop takes leased batches from a sampler. Prints the indices as JSON.

    python3 sampler_peer.py CONFIG SAMPLES BATCH
"""

import array
import json
import sys

import grapevine


def main():
    samples, batch = int(sys.argv[2]), int(sys.argv[3])
    x = array.array("f", [0.0])
    gradient = array.array("f", [0.0])
    vine = grapevine.join(sys.argv[1], x, all_samples=samples)
    seen = []
    for indices in vine.until_over(vine.sampler(samples, batch)):
        gradient[0] = x[0] - sum(indices) / (batch * samples)
        if vine.reduce(gradient, samples=batch).again or vine.is_over:
            continue
        x[0] -= 0.1 * gradient[0]
        seen.append(indices)
        vine.step(samples=batch)
    vine.leave()
    print(json.dumps({"x": list(x), "seen": seen}))


main()
