"""Peers with a built-in model and peers with the same model in PyTorch, in one swarm."""

import json
import random
import re
import struct
import subprocess
import sys
import unittest

from forked_peers import ForkedPeers
from support import BINARY, HERE, WATCHFUL, FolderTest, environment, eventually, run

try:
    import torch  # noqa: F401
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

PEER = str(HERE / "torch_mixed_peer.py")
FEATURES = 4

# Two peers of each kind. The rate is a power of two, so a product with it is exact. It then does
# not matter that PyTorch multiplies and adds with one rounding and the built-in optimiser with two.
TOGETHER = """
[run]
mode = "{mode}"
steps = {steps}
peers = 4
wait_for_peers = 4
linger_s = 20.0
wait_max_s = 60.0
[data]
kind = "csv"
folder = "."
train_files = ["samples.csv"]
test_files = ["samples.csv"]
[model]
kind = "mlp"
hidden = [8]
[train]
batch = 16
optimizer = "momentum"
momentum = 0.9
learning_rate = 0.03125
schedule = "constant"
warmup_steps = 0
{more}
""" + WATCHFUL

WAYS = {
    "gossip": ("gossip", "[gossip]\nperiod_steps = 4\n"),
    "lockstep": ("allreduce", '[allreduce]\nshares = "equal"\n'),
    "local steps": ("allreduce", '[allreduce]\nshares = "equal"\nperiod = 8\n'),
    "mixing": ("mixing", ""),
}


def samples():
    """Points around a corner for each of three labels."""
    draw = random.Random(5)
    lines = []
    for number in range(1200):
        label = number % 3
        point = [draw.gauss(2.0 if k == label else 0.0, 0.6) for k in range(FEATURES)]
        lines.append(",".join([f"{value:.4f}" for value in point] + [str(label)]))
    return "\n".join(lines) + "\n"


def names_of(path):
    """The names and shapes in a safetensors file."""
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
    return {name: one["shape"] for name, one in header.items() if name != "__metadata__"}


class MixedPeers(ForkedPeers):
    """Even peers are `grapevine peer`, and odd ones train with PyTorch."""

    def start(self, number, *more, resume=False):
        if number % 2 == 1:
            super().start(number, *more, resume=resume)
            return
        join = ["--join", self.address] if self.address else []
        folder = self.folder(number)
        self.processes[number] = subprocess.Popen(
            [BINARY, "peer", self.config, "--key", str(folder / "key"), *join,
             "--authorized", self.authorized, "--name", f"peer-{number}", "--folder", str(folder),
             "--listen", "127.0.0.1:0", "--shard", f"{number}/{self.number}"],
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        if self.address is None:
            eventually(lambda: self.status(number))
            self.address = f"peer-{number}@{self.status(number)['self']['advertised']}"


class MixedTest(FolderTest):
    def test_a_built_in_model_and_pytorch_train_together(self):
        for way, (mode, more) in WAYS.items():
            with self.subTest(way):
                self.setUp()
                self.write("samples.csv", samples())
                # In gossip the peers share one budget, which is long enough for those that start late.
                steps = 2000 if way == "gossip" else 200
                config = TOGETHER.format(mode=mode, steps=steps, more=more)
                swarm = MixedPeers(self, 4, config, PEER)
                swarm.start_all()
                right = []
                for number in range(4):
                    code, out, err = swarm.end(number)
                    self.assertEqual(code, 0, out + err)
                    if number % 2 == 1:
                        right.append(json.loads(out)["accuracy"])
                files = [swarm.folder(number) / "final.safetensors" for number in range(4)]
                self.assertEqual(len({file.read_bytes() for file in files}), 1)
                self.assertEqual(
                    names_of(files[0]),
                    {"dense1.weight": [8, FEATURES], "dense1.bias": [8], "dense2.weight": [3, 8],
                     "dense2.bias": [3]},
                )  # fmt: skip
                # The common model tells the corners apart, both in PyTorch and in the built-in
                # network.
                said = run(BINARY, "eval", str(files[0]), "--config", swarm.config).stdout
                built_in = float(re.search(r"accuracy +([\d.]+) %", said)[1]) / 100
                self.assertGreater(min(*right), 0.9)
                self.assertAlmostEqual(built_in, right[0], delta=0.01)
                for number in range(4):
                    events = (swarm.folder(number) / "events.jsonl").read_text()
                    self.assertNotIn("models_differ", events)

    def test_settings_and_layouts_that_differ_are_named(self):
        for more, hidden, text in (
            ("", "8", "allreduce.shares differs"),
            (WAYS["lockstep"][1], "9", "layout of the model differs: tensors 4, numbers 75"),
        ):
            with self.subTest(text):
                self.setUp()
                self.write("samples.csv", samples())
                config = TOGETHER.format(mode="allreduce", steps=200, more=more)
                swarm = MixedPeers(self, 2, config.replace("peers = 4", "peers = 2"), PEER)
                swarm.start(0)
                swarm.start(1, "--hidden", hidden)
                code, _, err = swarm.end(1)
                self.assertNotEqual(code, 0)
                self.assertIn(text, err)


if __name__ == "__main__":
    unittest.main()
