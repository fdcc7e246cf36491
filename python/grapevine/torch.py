"""PyTorch: modules as models, schedules by the swarm's progress, and loops without a call.

Works with PyTorch 1.13 and later.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Optional, Sequence

import torch

from ._memory import Memory, memory_of
from ._vine import Vine, _named

# Optimisers whose state can be made before the first step, by a step with a gradient and a rate of 0.
_KNOWN_OPTIMIZERS = ("SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adadelta")
# What such a step leaves in a state and a fresh state has not.
_FRESH_VALUES = {"step": 0.0, "mu_product": 1.0}


def _prepare_state(optimizer: torch.optim.Optimizer) -> None:
    """Makes the optimiser's state as it is before the first step, so that its memory is known."""
    kind = type(optimizer)
    is_known = kind.__module__.startswith("torch.optim.") and kind.__name__ in _KNOWN_OPTIMIZERS
    groups = optimizer.param_groups
    # Zero over zero would be no number.
    if not is_known or optimizer.state or any(group.get("eps") == 0 for group in groups):
        return
    # The first step with dampening is not like the others.
    if any(group.get("dampening", 0) != 0 for group in groups):
        return
    parameters = [p for group in groups for p in group["params"] if p.requires_grad]
    gradients = [p.grad for p in parameters]
    rates = [group["lr"] for group in groups]
    try:
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        for group in groups:
            group["lr"] = 0.0
        optimizer.step()
    finally:
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        for group, rate in zip(groups, rates):
            group["lr"] = rate
    for state in optimizer.state.values():
        for name, value in state.items():
            if torch.is_tensor(value):
                value.fill_(_FRESH_VALUES.get(name, 0.0))
            elif name in _FRESH_VALUES:
                state[name] = type(value)(_FRESH_VALUES[name])


def _state_memory(optimizer: torch.optim.Optimizer) -> list[Memory]:
    memory = []
    at = 0
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            for name, value in sorted(optimizer.state.get(parameter, {}).items()):
                if torch.is_tensor(value) and value.numel() > 0:
                    memory.append(memory_of(f"optimizer.{at}.{name}", value))
            at += 1
    return memory


class ModuleModel:
    """A module's parameters and buffers. Float buffers are averaged, integer ones copied."""

    def __init__(
        self, module: torch.nn.Module, optimizer: Optional[torch.optim.Optimizer], state: Any
    ) -> None:
        self._parameters = list(module.named_parameters())
        self._optimizer = optimizer
        if not self._parameters:
            raise ValueError("the module has no parameters")
        for _, parameter in self._parameters:
            if not parameter.is_contiguous():
                parameter.data = parameter.data.contiguous()
        buffers = [(n, b) for n, b in module.named_buffers() if b.numel() > 0]
        self._averaged = [(n, b) for n, b in buffers if b.is_floating_point()]
        # Forward passes change buffers at any time. The peer has copies, as of the last step.
        self._copies = [(n, b.detach().clone().contiguous()) for n, b in self._averaged]
        copied = [memory_of(n, b) for n, b in buffers if b.dtype == torch.int64]
        self.mean = [memory_of(name, parameter.data) for name, parameter in self._parameters]
        self.buffers = [memory_of(name, copy) for name, copy in self._copies]
        self.state = copied
        if optimizer is not None:
            _prepare_state(optimizer)
            self.state = copied + _state_memory(optimizer)
        if state:
            self.state = self.state + [memory_of(name, value) for name, value in _named(state)]
        self._zeros: dict[str, torch.Tensor] = {}
        self._without: list[tuple[torch.nn.Parameter, torch.Tensor]] = []

    def gradient(self, given: Any) -> Sequence[Memory]:
        """The gradients, and in place of those of buffers the buffers, which are averaged too."""
        if given is not None:
            raise TypeError("reduce() takes the gradients of the module's parameters itself")
        memory = []
        self._without = []
        for name, parameter in self._parameters:
            gradient = parameter.grad
            if gradient is None:
                gradient = self._zeros.setdefault(name, torch.zeros_like(parameter.data)).zero_()
                self._without.append((parameter, gradient))
            elif gradient.is_sparse:
                raise ValueError(f"'{name}': its gradient is sparse; use a layer with a dense one")
            elif not gradient.is_contiguous():
                parameter.grad = gradient = gradient.contiguous()
            memory.append(memory_of(name, gradient))
        return memory + [memory_of(name, buffer) for name, buffer in self._averaged]

    def give(self) -> None:
        """Copies the buffers for the peer."""
        for (_, buffer), (_, copy) in zip(self._averaged, self._copies):
            copy.copy_(buffer)

    def take(self) -> None:
        """Takes over the buffers that the peer may have changed."""
        with torch.no_grad():
            for (_, buffer), (_, copy) in zip(self._averaged, self._copies):
                buffer.copy_(copy)

    def took(self, is_over: bool) -> None:
        """A parameter without a gradient gets the mean, unless no other peer had one either.

        At the end there is no mean, and no gradient may change the final model any more.
        """
        if is_over:
            for _, parameter in self._parameters:
                parameter.grad = None
            return
        for parameter, gradient in self._without:
            if parameter.requires_grad and bool(gradient.any()):
                parameter.grad = gradient.clone()

    def check(self) -> None:
        """Raises if a tensor has moved, because the peer would no longer train with it."""
        now = {f"{name}": parameter.data_ptr() for name, parameter in self._parameters}
        if self._optimizer is not None:
            now.update((one.name, one.address) for one in _state_memory(self._optimizer))
        for memory in list(self.mean) + list(self.state):
            if now.get(memory.name, memory.address) != memory.address:
                raise RuntimeError(
                    f"'{memory.name}' was given other memory after join(); change tensors in "
                    "place, and move, convert or load them before the module joins"
                )

    def learning_rate(self) -> Optional[float]:
        return None if self._optimizer is None else float(self._optimizer.param_groups[0]["lr"])


def scheduler(
    optimizer: torch.optim.Optimizer, vine: Vine, factor: Callable[[float], float]
) -> torch.optim.lr_scheduler.LambdaLR:
    """A schedule by the swarm's progress: the rate is the first one times `factor(progress)`.

    Call its `step()` after each optimiser step, as that of any other scheduler.
    """
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: factor(vine.progress))


@contextlib.contextmanager
def attached(vine: Vine, optimizer: torch.optim.Optimizer, samples: int = 1) -> Iterator[Vine]:
    """Makes every `optimizer.step()` a step of the peer, so that the loop needs no other call.

    Where the model was replaced while gradients were summed, that step of the optimiser is left
    out. The loop should end once `vine.is_over`.
    """
    own_step = optimizer.step

    def step(*arguments: Any, **named: Any) -> Any:
        if arguments or named:
            raise TypeError("an attached optimizer.step() takes no closure: its gradient is summed")
        if vine.is_over or vine.reduce(samples=samples).again or vine.is_over:
            return None
        result = own_step()
        vine.step(0.0, samples)
        return result

    optimizer.step = step  # type: ignore[method-assign]
    try:
        yield vine
    finally:
        optimizer.step = own_step  # type: ignore[method-assign]
