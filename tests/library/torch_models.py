"""Small models and data of the tests with PyTorch, equal in every process."""

import torch
from torch import nn

FEATURES = 6
CLASSES = 3
BATCH = 8
CRITERION = nn.CrossEntropyLoss()


class Tied(nn.Module):
    """Two layers with one weight, a frozen layer, and a part that is never used."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(FEATURES, FEATURES)
        self.second = nn.Linear(FEATURES, FEATURES)
        self.second.weight = self.first.weight
        self.frozen = nn.Linear(FEATURES, FEATURES)
        self.frozen.requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(4))
        self.last = nn.Linear(FEATURES, CLASSES)

    def forward(self, x):
        return self.last(torch.tanh(self.frozen(self.second(torch.tanh(self.first(x))))))


class Halves(nn.Module):
    """A layer whose parameters are 16-bit floats. PyTorch on the CPU multiplies none, so it computes with 32 bits."""

    def __init__(self):
        super().__init__()
        layer = nn.Linear(FEATURES, CLASSES).half()
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x):
        return nn.functional.linear(x.float(), self.weight.float(), self.bias.float())


class Branches(nn.Module):
    """Two layers, of which each step uses one."""

    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList(nn.Linear(FEATURES, 8) for _ in range(2))
        self.last = nn.Linear(8, CLASSES)

    def forward(self, x, which):
        return self.last(torch.tanh(self.branches[which % 2](x)))


def forward(model, x, which):
    """The outputs of any model. A model with branches uses branch `which`."""
    inner = getattr(model, "module", model)
    return model(x, which) if isinstance(inner, Branches) else model(x)


def make_model(name):
    torch.manual_seed(3)
    if name == "branches":
        return Branches()
    if name == "mlp":
        return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, CLASSES))
    if name == "batch_norm":
        return nn.Sequential(
            nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES)
        )
    if name == "tied":
        return Tied()
    if name == "bf16":
        return make_model("mlp").to(torch.bfloat16)
    if name == "fp16":
        return Halves()
    if name == "double":
        return make_model("mlp").double()
    if name == "scripted":
        return torch.jit.script(make_model("mlp"))
    raise ValueError(name)


def make_optimizer(name, model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=0.1)
    if name == "momentum":
        return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True)
    if name == "groups":
        return torch.optim.SGD(
            [{"params": parameters[:1], "lr": 0.02}, {"params": parameters[1:]}],
            lr=0.05,
            momentum=0.9,
        )
    if name in ("capturable", "fused"):
        return torch.optim.AdamW(parameters, lr=0.01, **{name: True})
    return {
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "nadam": torch.optim.NAdam,
        "radam": torch.optim.RAdam,
        "adamax": torch.optim.Adamax,
        "rmsprop": torch.optim.RMSprop,
        "adadelta": torch.optim.Adadelta,
        "adagrad": torch.optim.Adagrad,
    }[name](parameters, lr=0.01)


class Scaler:
    """Does what a GradScaler does, which PyTorch enables only with a GPU."""

    def __init__(self):
        self.factor = 1024.0
        self._has_overflowed = None

    def scale(self, loss):
        return loss * self.factor

    def unscale_(self, optimizer):
        if self._has_overflowed is not None:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = [p.grad.div_(self.factor) for p in parameters if p.grad is not None]
        self._has_overflowed = not all(bool(one.isfinite().all()) for one in gradients)

    def step(self, optimizer):
        if self._has_overflowed is None:
            self.unscale_(optimizer)
        return None if self._has_overflowed else optimizer.step()

    def update(self):
        assert self._has_overflowed is not None
        self.factor *= 0.5 if self._has_overflowed else 1.0
        self._has_overflowed = None


def batches(part=0, parts=1, dtype=torch.float32, taught=False):
    """The batches of one of `parts` peers. The peers' batches together are those of one process.

    If they are taught, labels follow from the inputs, so that there is more to learn than these samples.
    """
    random = torch.Generator().manual_seed(7)
    teacher = torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(8))
    found = []
    for _ in range(16):
        x = torch.randn(BATCH * parts, FEATURES, generator=random)
        y = torch.randint(CLASSES, (BATCH * parts,), generator=random)
        if taught:
            y = (x @ teacher).argmax(dim=1)
        found.append((x[part::parts].to(dtype), y[part::parts]))
    return found
