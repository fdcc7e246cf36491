"""State dicts of PyTorch, imported and exported by the program."""

import re
import unittest

import numpy as np

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

from numpy_files_test import FilesTest
from torch import nn
from torch_models import Tied

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def floats(tensors):
    return {name: values.detach().float().numpy() for name, values in tensors.items()}


class Net(nn.Module):
    """Layers of several kinds, with buffers of floats and of integers."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(12, 2)

    def forward(self, x):
        return self.head(self.body(x))


class TorchFilesTest(FilesTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(1)
        self.file = self.folder / "model.pt"

    def saved(self, what):
        torch.save(what, self.file)
        return self.file

    def test_a_state_dict_comes_back_bit_for_bit(self):
        model = Net()
        model(torch.rand(5, 1, 4, 4))  # This pass changes the statistics and the counter of batches.
        expected = {name: values.clone() for name, values in model.state_dict().items()}
        self.assert_equal(self.imported(self.saved(model.state_dict())), floats(expected))
        imported = self.folder / "imported.safetensors"
        for kind, dtype in TYPES.items():
            back = self.folder / f"{kind}.pt"
            self.command("export", imported, "--to", back, "--type", kind)
            tensors = torch.load(back)
            self.assertEqual(list(tensors), list(expected))
            for name, values in tensors.items():
                self.assertEqual(values.dtype, dtype, name)
                self.assertTrue(torch.equal(values, expected[name].to(dtype)), name)
            other = Net()
            other.load_state_dict(tensors)
            self.assertEqual(other.state_dict()["body.1.num_batches_tracked"], 1)
            # What was exported can be imported again.
            rounded = {name: values.to(dtype).float() for name, values in expected.items()}
            self.assert_equal(self.imported(back, "--prefix", ""), floats(rounded))
            self.imported(self.file)

    def test_a_file_of_safetensors_in_two_bytes_has_the_bits_of_pytorch(self):
        values = torch.cat([torch.randn(1000), torch.randn(1000) * 1e-6, torch.zeros(3)])
        self.imported(self.saved({"w": values}))
        for kind, bits in (("f16", torch.float16), ("bf16", torch.bfloat16)):
            half = self.folder / f"{kind}.safetensors"
            self.command("export", self.folder / "imported.safetensors", "--to", half, "--type", kind)
            expected = values.to(bits).view(torch.int16).numpy()
            data = half.read_bytes()[-2 * len(values) :]
            np.testing.assert_array_equal(np.frombuffer(data, np.int16), expected)
            again = self.imported(half)
            np.testing.assert_array_equal(again["w"], values.to(bits).float().numpy())
            self.imported(self.file)

    def test_tensors_of_all_types_and_views_are_imported(self):
        base = torch.arange(24, dtype=torch.float32)
        tensors = {
            "transposed": torch.randn(3, 4).t(),
            "permuted": torch.randn(2, 3, 4).permute(2, 0, 1),
            "channels_last": torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
            "piece": base[5:9],
            "every_second": base[::2],
            "column": base.view(4, 6)[:, 2],
            "parameter": nn.Parameter(torch.randn(3)),
            "scalar": torch.tensor(2.5),
            "none": torch.zeros(0, 3),
            "double": torch.randn(3, dtype=torch.float64),
            "half": torch.randn(3).half(),
            "bfloat": torch.randn(3).bfloat16(),
            "long": torch.tensor([-5, 2**24]),
            "int": torch.tensor([7], dtype=torch.int32),
            "short": torch.tensor([-7], dtype=torch.int16),
            "char": torch.tensor([-128], dtype=torch.int8),
            "byte": torch.tensor([255], dtype=torch.uint8),
            "truth": torch.tensor([True, False]),
        }
        self.assert_equal(self.imported(self.saved(tensors)), floats(tensors))
        tied = Tied().state_dict()
        self.assert_equal(self.imported(self.saved(tied)), floats(tied))

    def test_many_tensors_are_imported(self):
        # More than 256 values are stored in a pickle's memory by other instructions.
        tensors = {f"layer.{i}": torch.full((i % 3, 300), float(i)) for i in range(400)}
        self.assert_equal(self.imported(self.saved(tensors)), floats(tensors))

    def test_a_checkpoint_with_more_than_a_model_gives_its_part(self):
        model = Net()
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.rand(2, 1, 4, 4)).sum().backward()
        optimizer.step()
        self.saved(
            {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "epoch": 3,
                "rate": 0.1,
                "note": "x",
                "large": 1 << 40,
                "history": [1.0, 2.0],
            }
        )
        said = self.command("import", self.file, "--out", self.folder / "all.safetensors")
        self.assertIn("not tensors, and left out:", said)
        found = self.imported(self.file, "--prefix", "model.")
        self.assert_equal(found, floats(model.state_dict()))
        self.assertIn("begins with 'x.'", self.refused("import", self.file, "--prefix", "x."))

    def test_nothing_in_a_file_is_executed(self):
        self.assertIn("torch_files_test.Net", self.refused_global(Net()))
        self.assertIn("torch.nn.modules", self.refused_global(nn.Linear(2, 2)))

        class Hostile:
            def __reduce__(self):
                return (open, (str(made), "w"))

        made = self.folder / "made"
        said = self.refused_global({"w": torch.ones(2), "x": Hostile()})
        self.assertIn("io.open", said)
        self.assertFalse(made.exists())
        torch.save(torch.ones(2), self.file, _use_new_zipfile_serialization=False)
        self.assertIn("before PyTorch 1.6", self.refused("import", self.file))
        torch.save(torch.ones(2), self.file, pickle_protocol=4)
        self.assertIn("protocol 2", self.refused("import", self.file))
        torch.jit.script(nn.Linear(2, 2)).save(str(self.file))
        self.assertIn("__torch__", self.refused("import", self.file))
        self.saved({"w": torch.tensor([float("nan")])})
        self.assertIn("'w' holds values that are not finite", self.refused("import", self.file))
        self.saved({"w": torch.ones(1).expand(1000)})
        self.assertIn("more elements than its storage", self.refused("import", self.file))
        self.saved({"epoch": 3})
        self.assertIn("no tensors", self.refused("import", self.file))

    def refused_global(self, what):
        said = self.refused("import", self.saved(what))
        self.assertIn("torch.save(model.state_dict()", said)
        return said

    def test_a_network_of_pytorch_is_the_same_network_here(self):
        config = self.write(
            "run.toml",
            """
            [run]
            peers = 1
            [data]
            kind = "csv"
            folder = "."
            train_files = ["data.csv"]
            test_files = ["data.csv"]
            csv_targets = 2
            [model]
            kind = "mlp"
            hidden = [16, 8]
            loss = "squared"
            """,
        )
        x, y = torch.randn(40, 6), torch.randn(40, 2)
        np.savetxt(self.folder / "data.csv", torch.cat([x, y], 1).numpy(), delimiter=",")
        model = nn.Sequential(
            nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2)
        )
        self.saved(model.state_dict())
        out = self.folder / "model.safetensors"
        said = self.command("import", self.file, "--config", config, "--out", out)
        self.assertIn("0.weight becomes dense1.weight", said)
        said = self.command("eval", out)
        with torch.no_grad():
            left = ((model(x) - y) ** 2).sum() / ((y - y.mean(0)) ** 2).sum()
        # The program shows four digits.
        self.assertAlmostEqual(float(re.search(r"R2 (\S+)", said)[1]), 1 - float(left), delta=1e-4)

    def test_the_model_of_a_run_is_exported(self):
        config = self.write(
            "run.toml",
            '[run]\nsteps = 20\nlinger_s = 0.0\n[data]\nkind = "generated"\n'
            "[data.generated]\nsamples = 200\ntest_samples = 50\n",
        )
        folder = self.folder / "run"
        self.command("launch", "-n", "2", config, "--folder", folder)
        said = self.command("export", folder, "--to", self.folder / "out.pt")
        self.assertIn("mean.safetensors", said)
        tensors = torch.load(self.folder / "out.pt")
        self.assertEqual(tensors["dense1.weight"].shape, (64, 32))
        said = self.command("export", folder / "peer-0", "--to", self.folder / "peer.pt")
        self.assertIn("final.safetensors", said)


if __name__ == "__main__":
    unittest.main()
