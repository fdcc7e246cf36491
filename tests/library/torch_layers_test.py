"""Models written as lists of layers, and GPT-2, compared with PyTorch: the same outputs, and the same parameters after
a step."""

import math
import struct
import unittest

import numpy as np

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

from numpy_files_test import FilesTest, read_safetensors
from torch import nn
from torch.nn import functional

CONTEXT = 6
VOCABULARY = 256
WINDOWS = 4
TEXT = f"""
[run]
peers = 1
steps = 1
[data]
kind = "text"
folder = "."
train_files = ["text.bin"]
test_files = ["text.bin"]
context = {CONTEXT}
[model]
%s
[train]
batch = {WINDOWS}
optimizer = "sgd"
learning_rate = 0.5
"""
IMAGES = 8
IMAGE = f"""
[run]
mode = "allreduce"
peers = 1
steps = 1
[data]
kind = "idx"
folder = "."
train_files = ["images", "labels"]
test_files = ["images", "labels"]
mean = 0.5
deviation = 0.25
[model]
%s
[train]
batch = {IMAGES}
optimizer = "sgd"
learning_rate = 0.5
"""
LSTM = """kind = "layers"
layers = [
  { kind = "embedding", vocabulary = 256, units = 5 }, { kind = "lstm", units = 7 }, { kind = "lstm", units = 4 },
  { kind = "dense", units = 256, per_position = true },
]"""
ATTENTION = """kind = "layers"
layers = [
  { kind = "embedding", vocabulary = 256, units = 8 }, { kind = "attention", heads = 2 },
  { kind = "layer_norm", per_position = true }, { kind = "dense", units = 256, per_position = true },
]"""
CONVOLUTIONS = """kind = "layers"
layers = [
  { kind = "conv2d", units = 4, kernel = 3, padding = 1 }, { kind = "batch_norm" }, { kind = "relu" },
  { kind = "concat", layers = [
    { kind = "conv2d", units = 2, kernel = 1 },
    { kind = "stack", layers = [
      { kind = "max_pool", kernel = 3, stride = 1, padding = 1 }, { kind = "conv2d", units = 4, kernel = 1 } ] } ] },
  { kind = "group_norm", groups = 2 },
  { kind = "residual", layers = [{ kind = "conv2d", units = 8, kernel = 3, stride = 2, padding = 1 },
    { kind = "batch_norm" }], shortcut = [{ kind = "conv2d", units = 8, kernel = 1, stride = 2 }] },
  { kind = "tanh" }, { kind = "dense", units = 3 },
]"""


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(VOCABULARY, 5))
        self.positions = nn.Parameter(torch.randn(CONTEXT, 5))
        self.first = nn.LSTM(5, 7, batch_first=True)
        self.second = nn.LSTM(7, 4, batch_first=True)
        self.last = nn.Linear(4, VOCABULARY)

    def forward(self, ids):
        x = self.tokens[ids] + self.positions
        return self.last(self.second(self.first(x)[0])[0])

    def ours(self):
        tensors = {"embedding1.tokens": self.tokens, "embedding1.positions": self.positions}
        for number, layer in enumerate((self.first, self.second), 1):
            tensors[f"lstm{number}.input_gates"] = layer.weight_ih_l0
            tensors[f"lstm{number}.state_gates"] = layer.weight_hh_l0
            # Our LSTM has one bias in place of two. Its gradient is that of either.
            tensors[f"lstm{number}.gate_biases"] = layer.bias_ih_l0
        return {**tensors, "dense1.weight": self.last.weight, "dense1.bias": self.last.bias}


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(VOCABULARY, 8))
        self.positions = nn.Parameter(torch.randn(CONTEXT, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.last = nn.Linear(8, VOCABULARY)

    def forward(self, ids):
        x = self.tokens[ids] + self.positions
        later = torch.full((CONTEXT, CONTEXT), float("-inf")).triu(1)
        return self.last(self.norm(self.attention(x, x, x, attn_mask=later)[0]))

    def ours(self):
        return {
            "embedding1.tokens": self.tokens,
            "embedding1.positions": self.positions,
            "attention1.qkv.weight": self.attention.in_proj_weight,
            "attention1.qkv.bias": self.attention.in_proj_bias,
            "attention1.out.weight": self.attention.out_proj.weight,
            "attention1.out.bias": self.attention.out_proj.bias,
            "norm1.gain": self.norm.weight,
            "norm1.bias": self.norm.bias,
            "dense1.weight": self.last.weight,
            "dense1.bias": self.last.bias,
        }


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        sides = (1, 4, 3), (4, 2, 1), (4, 4, 1), (6, 8, 3), (6, 8, 1)
        self.conv = nn.ModuleList(nn.Conv2d(i, o, k, padding=k // 2) for i, o, k in sides)
        self.conv[3].stride = self.conv[4].stride = (2, 2)
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.GroupNorm(2, 6), nn.BatchNorm2d(8)])
        for norm in self.norms:
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)
        for norm in (self.norms[0], self.norms[2]):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
        self.last = nn.Linear(8 * 9, 3)

    def forward(self, x):
        x = functional.relu(self.norms[0](self.conv[0](x)))
        pooled = functional.max_pool2d(x, 3, 1, 1)
        x = self.norms[1](torch.cat([self.conv[1](x), self.conv[2](pooled)], 1))
        x = self.norms[2](self.conv[3](x)) + self.conv[4](x)
        return self.last(torch.tanh(x).flatten(1))

    def ours(self):
        tensors = {}
        for number, conv in enumerate(self.conv, 1):
            tensors[f"conv{number}.weight"], tensors[f"conv{number}.bias"] = conv.weight, conv.bias
        for number, norm in enumerate(self.norms, 1):
            tensors[f"norm{number}.gain"], tensors[f"norm{number}.bias"] = norm.weight, norm.bias
            if number != 2:
                tensors[f"norm{number}.mean"] = norm.running_mean
                tensors[f"norm{number}.square"] = norm.running_var + norm.running_mean**2
        return {**tensors, "dense1.weight": self.last.weight, "dense1.bias": self.last.bias}


class Gpt2(nn.Module):
    """GPT-2 with the names of Hugging Face's transformers, and activation_function = "gelu"."""

    def __init__(self, positions, blocks=2, width=8, heads=2):
        super().__init__()
        self.heads, self.blocks = heads, blocks
        shapes = {"wte.weight": (VOCABULARY, width), "wpe.weight": (positions, width)}
        for block in range(blocks):
            for name, *sides in (
                ("attn.c_attn", width, 3 * width),
                ("attn.c_proj", width, width),
                ("mlp.c_fc", width, 4 * width),
                ("mlp.c_proj", 4 * width, width),
            ):
                shapes[f"h.{block}.{name}.weight"] = sides  # Stored as (inputs, outputs).
                shapes[f"h.{block}.{name}.bias"] = sides[1:]
            for norm in ("ln_1", "ln_2"):
                shapes[f"h.{block}.{norm}.weight"] = shapes[f"h.{block}.{norm}.bias"] = (width,)
        shapes["ln_f.weight"] = shapes["ln_f.bias"] = (width,)
        self.tensors = {name: torch.randn(*shape) * 0.5 for name, shape in shapes.items()}

    def state(self, prefix="transformer."):
        masks = {f"{prefix}h.{i}.attn.bias": torch.ones(1, 1, 4, 4).tril() for i in range(self.blocks)}
        return {**{prefix + name: values for name, values in self.tensors.items()}, **masks}

    def forward(self, ids):
        t = self.tensors
        x = t["wte.weight"][ids] + t["wpe.weight"][: ids.shape[1]]

        def norm(x, name):
            return functional.layer_norm(x, x.shape[-1:], t[name + ".weight"], t[name + ".bias"])

        def product(x, name):
            return x @ t[name + ".weight"] + t[name + ".bias"]

        for block in range(self.blocks):
            h = f"h.{block}."
            parts = product(norm(x, h + "ln_1"), h + "attn.c_attn").chunk(3, -1)
            q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
            later = torch.full(scores.shape[-2:], float("-inf")).triu(1)
            mixed = torch.softmax(scores + later, -1) @ v
            x = x + product(mixed.transpose(1, 2).flatten(2), h + "attn.c_proj")
            inner = functional.gelu(product(norm(x, h + "ln_2"), h + "mlp.c_fc"))
            x = x + product(inner, h + "mlp.c_proj")
        return norm(x, "ln_f") @ t["wte.weight"].t()


GPT2 = 'kind = "transformer"\nblocks = 2\nwidth = 8\nheads = 2\ntied = %s'


class TorchLayersTest(FilesTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(1)
        text = np.random.default_rng(2).integers(0, 256, WINDOWS * CONTEXT + 1).astype(np.uint8)
        (self.folder / "text.bin").write_bytes(text.tobytes())
        self.ids = torch.from_numpy(text[:-1].astype(np.int64)).view(WINDOWS, CONTEXT)
        self.next = torch.from_numpy(text[1:].astype(np.int64)).view(WINDOWS, CONTEXT)
        pixels = np.random.default_rng(3).integers(0, 256, (IMAGES, 6, 6)).astype(np.uint8)
        labels = np.arange(IMAGES, dtype=np.uint8) % 3
        head = struct.pack(">IIII", 0x803, *pixels.shape)
        (self.folder / "images").write_bytes(head + pixels.tobytes())
        (self.folder / "labels").write_bytes(struct.pack(">II", 0x801, IMAGES) + labels.tobytes())
        self.pixels = (torch.from_numpy(pixels).float()[:, None] / 255 - 0.5) / 0.25
        self.labels = torch.from_numpy(labels.astype(np.int64))

    def config(self, text, model):
        return self.write("config.toml", text % model)

    def save(self, state):
        file = self.folder / "model.pt"
        torch.save({name: values.detach().clone() for name, values in state.items()}, file)
        return file

    def outputs(self, config, state, *more):
        """The outputs of the program for all test samples."""
        model = self.folder / "model.safetensors"
        self.command("import", self.save(state), "--config", config, "--out", model, *more)
        out = self.folder / "outputs.npy"
        self.command("eval", model, "--config", config, "--outputs", out)
        return np.load(out)

    def stepped(self, config, state):
        """The parameters after one step on all samples."""
        run = self.folder / "run"
        model = self.folder / "model.safetensors"
        self.command("import", self.save(state), "--config", config, "--out", model, "--start", run / "peer-0")
        self.command("launch", "-n", 1, config, "--folder", run, "--resume")
        after = self.folder / "after.safetensors"
        self.command("export", run / "peer-0", "--to", after)
        return read_safetensors(after)[0]

    def compare(self, text, layers, model, inputs, labels):
        config = self.config(text, layers)
        model.eval()
        found = self.outputs(config, model.ours())
        expected = model(inputs).detach().numpy().reshape(found.shape)
        # Allows for sums of up to a hundred floats in another order, and for exponentials with an
        # error of 2e-7.
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)
        before = {name: values.detach().clone() for name, values in model.ours().items()}
        model.train()
        functional.cross_entropy(model(inputs).flatten(0, -2), labels.flatten()).backward()
        with torch.no_grad():
            for values in model.parameters():
                values -= 0.5 * values.grad
        after = self.stepped(config, before)
        return before, after

    def assert_stepped(self, after, model):
        expected = model.ours()
        self.assertEqual(set(after), set(expected))
        for name, values in expected.items():
            if name.endswith((".mean", ".square")):
                continue
            np.testing.assert_allclose(
                after[name], values.detach().numpy(), rtol=1e-4, atol=2e-5, err_msg=name
            )

    def test_lstms_are_those_of_pytorch(self):
        model = Recurrent()
        for layer in (model.first, model.second):
            nn.init.zeros_(layer.bias_hh_l0)
            layer.bias_hh_l0.requires_grad_(False)
            layer.bias_hh_l0.grad = torch.zeros_like(layer.bias_hh_l0)
        _, after = self.compare(TEXT, LSTM, model, self.ids, self.next)
        self.assert_stepped(after, model)

    def test_attention_and_layer_norm_are_those_of_pytorch(self):
        model = Attending()
        _, after = self.compare(TEXT, ATTENTION, model, self.ids, self.next)
        self.assert_stepped(after, model)

    def test_batch_norm_and_branches_are_those_of_pytorch(self):
        model = Convolutions()
        before, after = self.compare(IMAGE, CONVOLUTIONS, model, self.pixels, self.labels)
        self.assert_stepped(after, model)
        values = functional.conv2d(self.pixels, before["conv1.weight"], before["conv1.bias"], padding=1)
        for name, batch in (("mean", values), ("square", values**2)):
            expected = 0.9 * before[f"norm1.{name}"] + 0.1 * batch.mean((0, 2, 3))
            np.testing.assert_allclose(after[f"norm1.{name}"], expected.numpy(), rtol=1e-4, atol=1e-5)
        # PyTorch divides the sum of squares by the number of values, 288, less one.
        mean = model.norms[0].running_mean
        variance = 0.9 * (before["norm1.square"] - before["norm1.mean"] ** 2)
        variance += 0.1 * values.var((0, 2, 3), unbiased=True)
        np.testing.assert_allclose(after["norm1.mean"], mean.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(model.norms[0].running_var.numpy(), variance.numpy(), rtol=1e-4)

    def test_a_state_dict_with_a_batch_norm_has_the_same_outputs(self):
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)
        )
        for _ in range(20):
            model(self.pixels + 3)  # The statistics become those of inputs with a mean.
        model.eval()
        layers = """kind = "layers"
layers = [{ kind = "conv2d", units = 4, kernel = 3, padding = 1 }, { kind = "batch_norm" }, { kind = "relu" },
  { kind = "dense", units = 3 }]"""
        found = self.outputs(self.config(IMAGE, layers), model.state_dict())
        np.testing.assert_allclose(found, model(self.pixels).detach().numpy(), rtol=1e-4, atol=1e-4)

    def test_a_gpt2_has_the_same_logits_and_comes_back(self):
        model = Gpt2(CONTEXT + 3)  # Later positions are not needed.
        expected = model(self.ids).flatten(1).numpy()
        for tied in ("true", "false"):
            config = self.config(TEXT, GPT2 % tied)
            for prefix in ("transformer.", ""):
                found = self.outputs(config, model.state(prefix))
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-4)
        # Without a config all positions are kept.
        imported = self.folder / "imported.safetensors"
        self.command("import", self.save(model.state()), "--out", imported)
        back = self.folder / "back.pt"
        self.command("export", imported, "--to", back, "--naming", "gpt2")
        state = torch.load(back)
        torch.testing.assert_close(state.pop("lm_head.weight"), model.tensors["wte.weight"], rtol=0, atol=0)
        self.assertEqual(set(state), {"transformer." + name for name in model.tensors})
        for name, values in model.tensors.items():
            self.assertTrue(torch.equal(state["transformer." + name], values), name)

    def test_a_gpt2_that_does_not_fit_is_refused(self):
        model = Gpt2(CONTEXT)
        config = self.config(TEXT, GPT2 % "true")
        out = self.folder / "out.safetensors"

        def why(change):
            state = model.state()
            change(state)
            return self.refused("import", self.save(state), "--config", config, "--out", out)

        self.assertIn("h.1.mlp.c_fc.bias", why(lambda s: s.pop("transformer.h.1.mlp.c_fc.bias")))
        self.assertIn("none of GPT-2's", why(lambda s: s.update(extra=torch.ones(1))))
        self.assertIn(
            "tied", why(lambda s: s.update({"lm_head.weight": torch.ones(VOCABULARY, 8)}))
        )
        shorter = Gpt2(CONTEXT - 1).state()
        self.assertIn("5 positions", why(lambda s: s.update(shorter)))

    def test_biases_of_the_outputs_are_kept_and_told_of(self):
        config = self.config(TEXT, GPT2 % "true")
        state = {**Gpt2(CONTEXT).state(), "lm_head.bias": torch.randn(VOCABULARY)}
        expected = self.outputs(config, state)
        back = self.folder / "back.pt"
        said = self.command(
            "export", self.folder / "model.safetensors", "--to", back, "--naming", "gpt2"
        )
        self.assertIn("lm_head.bias", said)
        np.testing.assert_array_equal(self.outputs(config, torch.load(back)), expected)
        other = self.folder / "other.safetensors"
        self.command("import", self.save({"dense1.weight": torch.ones(2, 2)}), "--out", other)
        self.assertIn("embedding1.tokens", self.refused("export", other, "--to", back, "--naming", "gpt2"))


if __name__ == "__main__":
    unittest.main()
