"""Files of NumPy, imported and exported by the program."""

import json
import struct
import unittest

import numpy as np
from support import BINARY, FolderTest, run

CONFIG = """
[run]
peers = 1
[data]
kind = "generated"
[data.generated]
features = 4
classes = 3
samples = 30
test_samples = 30
[model]
kind = "mlp"
hidden = [5]
"""


def read_safetensors(file):
    """The tensors of a file by name, and their types, by the format's own rules."""
    data = file.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    kinds = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
    tensors, types = {}, {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + length + begin : 8 + length + end], kinds[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
        types[name] = entry["dtype"]
    return tensors, types


class FilesTest(FolderTest):
    """Commands on files in a folder of the test."""

    def command(self, *words):
        done = run(BINARY, *map(str, words))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def refused(self, *words):
        """The message, of one line, with which the program refuses a file."""
        done = run(BINARY, *map(str, words))
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        return done.stderr

    def imported(self, file, *more):
        out = self.folder / "imported.safetensors"
        self.command("import", file, "--out", out, *more)
        return read_safetensors(out)[0]

    def assert_equal(self, found, expected):
        self.assertEqual(set(found), set(expected))
        for name, values in expected.items():
            self.assertEqual(found[name].shape, values.shape, name)
            np.testing.assert_array_equal(found[name], values.astype(np.float32), name)


class NumPyFilesTest(FilesTest):
    def test_arrays_of_all_types_and_orders_are_imported(self):
        draw = np.random.default_rng(1)
        arrays = {
            "layer.weight": draw.normal(size=(4, 3)).astype(np.float32),
            "columns": np.asfortranarray(draw.normal(size=(4, 3, 2)).astype(np.float32)),
            "double": draw.normal(size=5),
            "half": draw.normal(size=5).astype(np.float16),
            "scalar": np.float32(3),
            "none": np.zeros((0, 4), np.float32),
            "bytes": np.arange(256, dtype=np.uint8),
            "whole": np.array([-(2**24), 2**24], np.int64),
            "short": np.array([-5], np.int16),
            "truth": np.array([True, False]),
        }
        arrays = {name: np.asarray(values) for name, values in arrays.items()}
        for save in (np.savez, np.savez_compressed):
            save(self.folder / "model.npz", **arrays)
            self.assert_equal(self.imported(self.folder / "model.npz"), arrays)
        np.save(self.folder / "one.npy", arrays["columns"])
        self.assert_equal(self.imported(self.folder / "one.npy"), {"one": arrays["columns"]})

    def test_all_halves_are_read_as_numpy_reads_them(self):
        halves = np.arange(65536, dtype=np.uint16).view(np.float16)
        finite = halves[np.isfinite(halves)]
        np.savez(self.folder / "model.npz", halves=finite)
        found = self.imported(self.folder / "model.npz")["halves"]
        np.testing.assert_array_equal(found.view(np.uint32), finite.astype(np.float32).view(np.uint32))

    def test_floats_are_rounded_to_halves_as_numpy_rounds_them(self):
        halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
        middles = (halves[1:] + halves[:-1]) / 2  # Ties are rounded to even.
        near = [np.nextafter(middles, np.float32(0)), np.nextafter(middles, np.float32(1e9))]
        values = np.concatenate([halves, middles, *near])
        np.savez(self.folder / "model.npz", values=np.concatenate([values, -values]))
        self.imported(self.folder / "model.npz")
        out = self.folder / "halves.npz"
        self.command("export", self.folder / "imported.safetensors", "--to", out, "--type", "f16")
        expected = np.concatenate([values, -values]).astype(np.float16)
        found = np.load(out)["values"]
        self.assertEqual(found.dtype, np.float16)
        np.testing.assert_array_equal(found.view(np.uint16), expected.view(np.uint16))

    def test_exported_files_are_what_numpy_expects(self):
        arrays = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.float32(2)}
        np.savez(self.folder / "model.npz", **arrays)
        self.imported(self.folder / "model.npz")
        model = self.folder / "imported.safetensors"
        for kind, dtype in (("f32", np.float32), ("f16", np.float16)):
            self.command("export", model, "--to", self.folder / "back.npz", "--type", kind)
            with np.load(self.folder / "back.npz", allow_pickle=False) as back:
                self.assertEqual(sorted(back), sorted(arrays))
                for name, values in arrays.items():
                    self.assertEqual(back[name].dtype, dtype)
                    self.assertEqual(back[name].shape, np.shape(values))
                    np.testing.assert_array_equal(back[name], values)
        self.assertIn("write a .npz", self.refused("export", model, "--to", self.folder / "a.npy"))
        self.assertIn(
            "no bf16", self.refused("export", model, "--to", self.folder / "a.npz", "--type", "bf16")
        )
        np.savez(self.folder / "one.npz", w=arrays["a.weight"])
        self.imported(self.folder / "one.npz")
        self.command("export", model, "--to", self.folder / "w.npy")
        np.testing.assert_array_equal(np.load(self.folder / "w.npy"), arrays["a.weight"])

    def test_arrays_become_the_model_of_a_config_by_their_order(self):
        config = self.write("run.toml", CONFIG)
        draw = np.random.default_rng(2)
        arrays = {
            "fc1.weight": draw.normal(size=(5, 4)).astype(np.float32),
            "fc1.bias": draw.normal(size=5).astype(np.float32),
            "fc2.weight": draw.normal(size=(3, 5)).astype(np.float32),
            "fc2.bias": draw.normal(size=3).astype(np.float32),
        }
        np.savez(self.folder / "model.npz", **arrays)
        out = self.folder / "model.safetensors"
        said = self.command("import", self.folder / "model.npz", "--config", config, "--out", out)
        self.assertIn("fc1.weight becomes dense1.weight", said)
        tensors, _ = read_safetensors(out)
        names = ["dense1.weight", "dense1.bias", "dense2.weight", "dense2.bias"]
        self.assert_equal(tensors, dict(zip(names, arrays.values())))
        self.assertIn("accuracy", self.command("eval", out))
        # A file of half the size still holds a model.
        half = self.folder / "half.safetensors"
        self.command("export", out, "--to", half, "--type", "bf16")
        self.assertLess(half.stat().st_size, out.stat().st_size)
        self.assertIn("accuracy", self.command("eval", half))
        # Transposed weights do not fit the model.
        arrays["fc1.weight"] = arrays["fc1.weight"].T
        np.savez(self.folder / "model.npz", **arrays)
        said = self.refused("import", self.folder / "model.npz", "--config", config, "--out", out)
        self.assertIn("'fc1.weight' (4, 5)", said)
        self.assertIn("--prefix", said)

    def test_peers_begin_with_an_imported_model(self):
        # The steps are so small that the model stays where it began.
        steps = "[train]\noptimizer = \"sgd\"\nlearning_rate = 1e-9\nbatch = 4\n"
        for mode in ("gossip", "allreduce", "mixing"):
            with self.subTest(mode):
                folder = self.folder / mode
                begin = f'[run]\nmode = "{mode}"\nsteps = 2\nlinger_s = 0.0\npeers = 2'
                config = self.write("run.toml", CONFIG.replace("[run]\npeers = 1", begin) + steps)
                draw = np.random.default_rng(3)
                shapes = [(5, 4), (5,), (3, 5), (3,)]
                arrays = [draw.normal(size=shape).astype(np.float32) for shape in shapes]
                np.savez(self.folder / "model.npz", *arrays)
                words = [
                    "import", self.folder / "model.npz", "--config", config,
                    "--out", self.folder / "model.safetensors",
                    "--start", folder / "peer-0", folder / "peer-1",
                ]  # fmt: skip
                self.command(*words)
                self.command("launch", "-n", "2", config, "--folder", folder, "--resume")
                found, _ = read_safetensors(folder / "peer-1" / "final.safetensors")
                for name, values in zip(
                    ["dense1.weight", "dense1.bias", "dense2.weight", "dense2.bias"], arrays
                ):
                    np.testing.assert_allclose(found[name], values, atol=1e-5)
                self.assertIn("has checkpoints already", self.command_that_fails(*words))

    def command_that_fails(self, *words):
        done = run(BINARY, *map(str, words))
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        return done.stderr

    def test_files_that_would_run_something_or_do_not_fit_are_refused(self):
        np.savez(self.folder / "model.npz", objects=np.array([{}], dtype=object))
        self.assertIn("type '|O'", self.refused("import", self.folder / "model.npz"))
        np.savez(self.folder / "model.npz", swapped=np.array([1], ">f4"))
        self.assertIn("type '>f4'", self.refused("import", self.folder / "model.npz"))
        np.savez(self.folder / "model.npz", w=np.array([np.nan], np.float32))
        self.assertIn("not finite", self.refused("import", self.folder / "model.npz"))
        np.savez(self.folder / "model.npz", w=np.array([2**24 + 1]))
        self.assertIn("cannot hold", self.refused("import", self.folder / "model.npz"))
        np.savez_compressed(self.folder / "model.npz", w=np.zeros(2**27, np.uint8), v=np.zeros(2**28, np.uint8))
        self.assertIn("far more than its size", self.refused("import", self.folder / "model.npz"))
        self.assertIn("cannot be opened", self.refused("import", self.folder / "none.npz"))
        self.assertIn("name that ends in", self.refused("import", self.folder / "model.onnx"))
        self.assertIn("no model in it", self.refused("export", self.folder, "--to", "x.pt"))


if __name__ == "__main__":
    unittest.main()
