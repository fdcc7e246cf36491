"""PyTorch: modules as models, schedules by the swarm's progress, and loops without a call.

Works with PyTorch 1.13 and later.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any, Callable, Collection, Iterable, Iterator, Optional, Sequence

import torch

from . import _library as c
from ._arrays import named_arrays
from ._memory import Memory, is_torch, memory_of, number_of
from ._optimizer import StepWatch, replace_step, scaled_rates
from ._overlap import Buckets, Overlap, comm_hook
from ._staging import LateLoss, Stage, is_staged, note_loops
from ._vine import Vine

__all__ = ["ModuleModel", "attached", "comm_hook", "scheduler"]

_log = logging.getLogger("grapevine")

# Optimisers whose state can be made before the first step, by a step with a gradient of zeros.
_KNOWN_OPTIMIZERS = ("SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adadelta")
# The values in a fresh state of entries that such a step changes.
_FRESH_VALUES = {"step": 0.0, "mu_product": 1.0}


def _prepare_state(optimizer: torch.optim.Optimizer) -> None:
    """Makes the optimiser's state as it is before the first step, so that its memory is known."""
    kind = type(optimizer)
    is_known = kind.__module__.startswith("torch.optim.") and kind.__name__ in _KNOWN_OPTIMIZERS
    groups = optimizer.param_groups
    # Zero divided by zero would be NaN.
    if not is_known or optimizer.state or any(group.get("eps") == 0 for group in groups):
        return
    # The first step with dampening is not like the others.
    if any(group.get("dampening", 0) != 0 for group in groups):
        return
    parameters = [p for group in groups for p in group["params"] if p.requires_grad]
    gradients = [p.grad for p in parameters]
    decays = [group["weight_decay"] for group in groups]
    try:
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        for group in groups:
            # A rate of 0 would also work, but a capturable optimiser divides by the rate.
            group["weight_decay"] = 0.0
        optimizer.step()
    finally:
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        for group, decay in zip(groups, decays):
            group["weight_decay"] = decay
    for state in optimizer.state.values():
        for name, value in state.items():
            if torch.is_tensor(value):
                value.fill_(_FRESH_VALUES.get(name, 0.0))
            elif name in _FRESH_VALUES:
                state[name] = type(value)(_FRESH_VALUES[name])


def _state_of(optimizer: torch.optim.Optimizer) -> list[tuple[str, torch.Tensor]]:
    found = []
    at = 0
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            for name, value in sorted(optimizer.state.get(parameter, {}).items()):
                if torch.is_tensor(value) and value.numel() > 0:
                    found.append((f"optimizer.{at}.{name}", value))
            at += 1
    return found


def _named_alike(named: Iterable[tuple[str, torch.Tensor]]) -> list[tuple[str, Any]]:
    """Names as they were before torch.compile(), so that each peer may compile or not."""
    return [(name.replace("_orig_mod.", ""), tensor) for name, tensor in named]


class _Part:
    """Tensors of one role. Those on GPUs are staged."""

    def __init__(self, named: Sequence[tuple[str, Any]]) -> None:
        self._staged = [tensor for _, tensor in named if is_torch(tensor) and is_staged(tensor)]
        self._stage = Stage(self._staged)
        hosts = iter(self._stage.hosts)
        self.is_staged = bool(self._staged)
        self.memory = [
            memory_of(name, next(hosts) if is_torch(one) and is_staged(one) else one)
            for name, one in named
        ]

    def copy(self, direction: int) -> None:
        tensors = [tensor.detach() for tensor in self._staged]
        if direction == c.COPY_OUT:
            self._stage.out(tensors)
        else:
            self._stage.into(tensors)


class ModuleModel:
    """A module's parameters and buffers. Float buffers are averaged, integer ones copied."""

    def __init__(
        self, module: torch.nn.Module, optimizer: Optional[torch.optim.Optimizer], state: Any
    ) -> None:
        self._module = module
        self._parameters = [
            (name, one) for name, one in _named_alike(module.named_parameters()) if one.numel() > 0
        ]
        self._optimizer = optimizer
        # A buffer that is not saved with the module is a cache, which may be replaced.
        self._saved = {name for name, _ in _named_alike(module.state_dict().items())}
        if not self._parameters:
            raise ValueError("the module has no parameters")
        for _, parameter in self._parameters:
            if not is_staged(parameter) and not parameter.is_contiguous():
                parameter.data = parameter.data.contiguous()
        buffers = self._buffers()
        self._averaged = [(n, b) for n, b in buffers if b.is_floating_point()]
        for name, buffer in self._averaged:
            if not bool(_is_finite(buffer)):
                raise ValueError(
                    f"buffer '{name}': it is not finite, so it cannot be averaged; a constant such as a mask is "
                    "registered with persistent=False"
                )
        # Forward passes change buffers at any time. The peer has copies, as of the last step.
        self._copies = [
            (n, b if is_staged(b) else b.detach().clone().contiguous()) for n, b in self._averaged
        ]
        # Sums have copies of their own, because the mean is needed again if a loop repeats a step.
        self._summed = [
            (n, b if is_staged(b) else b.detach().clone(memory_format=torch.contiguous_format))
            for n, b in self._averaged
        ]
        model = _Part(self._parameters + self._copies)
        self.mean = model.memory[: len(self._parameters)]
        self.buffers = model.memory[len(self._parameters) :]
        kept = [(n, b) for n, b in buffers if b.dtype == torch.int64]
        self._watched = {n for n, _ in self._parameters + self._averaged + kept} & self._saved
        if optimizer is not None:
            _prepare_state(optimizer)
            kept += _state_of(optimizer)
        other = _Part(kept + (named_arrays(state) if state is not None else []))
        self.state = other.memory
        self.is_staged = model.is_staged or other.is_staged
        self._parts = {c.MEAN: model, c.STATE: other}
        note_loops()
        self._places = self._addresses()
        # The warning about state that was made later has been given.
        self._has_warned = False
        # A peer that begins with further parameters in its optimiser, of a module that does not join, keeps them to
        # itself. Parameters that are made later are likelier a mistake.
        self._known = {*module.parameters(), *(parameter for _, parameter in self._optimized())}
        self._gradients: Optional[Stage] = None
        self._late_loss = LateLoss()
        self._zeros: dict[str, torch.Tensor] = {}
        # Parameters without a gradient, and where their mean will be.
        self._without: dict[str, tuple[torch.nn.Parameter, torch.Tensor]] = {}
        #: The names of parameters, and the buckets that DistributedDataParallel hands over.
        self.names = {parameter: name for name, parameter in self._parameters}
        self.buckets = Buckets()

    def copy(self, role: int, direction: int) -> None:
        """Copies the model or the state from GPUs to the memory that the peer sees, or back."""
        self._parts[role].copy(direction)

    def gradient(self, given: Any, kept: Collection[str] = ()) -> Sequence[Memory]:
        """The gradients themselves, and copies of the buffers, which are averaged too.

        What the package has for an array that is `kept` keeps its values: the library uses it, or has left the mean
        there.
        """
        if given is not None:
            raise TypeError("reduce() takes the gradients of the module's parameters itself")
        for name, parameter in self._parameters:
            if parameter.grad is not None and parameter.grad.is_sparse:
                raise ValueError(f"'{name}': its gradient is sparse; use a layer with a dense one")
        # Gradients on a GPU are not summed in parts.
        staged = iter(self._staged_gradients(is_kept=len(kept) > 0))
        memory = []
        self._without = {}
        for name, parameter in self._parameters:
            gradient = parameter.grad
            if is_staged(parameter):
                host = next(staged)
            elif gradient is None:
                host = self._zeros.setdefault(name, torch.zeros_like(parameter.data))
                if name not in kept:
                    host.zero_()
            else:
                host = parameter.grad = gradient.contiguous()
            if gradient is None:
                self._without[name] = (parameter, host)
            memory.append(memory_of(name, host))
        self._copy_buffers(kept)
        return memory + [
            memory_of(name, next(staged) if is_staged(copy) else copy) for name, copy in self._summed
        ]

    def _copy_buffers(self, kept: Collection[str]) -> None:
        """Copies buffers for the sum."""
        with torch.no_grad():
            for (name, buffer), (_, copy) in zip(self._averaged, self._summed):
                if copy is not buffer and name not in kept:
                    copy.copy_(buffer)

    def _staged_gradients(self, is_kept: bool) -> Sequence[torch.Tensor]:
        """Copies gradients and buffers that are on GPUs to the host."""
        if not self.is_staged:
            return ()
        note_loops()
        if self._gradients is None:
            tensors = [parameter.detach() for _, parameter in self._parameters]
            tensors += [buffer for _, buffer in self._averaged]
            self._gradients = Stage([tensor for tensor in tensors if is_staged(tensor)])
        if not is_kept:
            self._gradients.out(self._on_gpus())
        return self._gradients.hosts

    def _on_gpus(self) -> list[Optional[torch.Tensor]]:
        gradients = [parameter.grad for _, parameter in self._parameters if is_staged(parameter)]
        return gradients + [buffer for _, buffer in self._averaged if is_staged(buffer)]

    def part(self, given: Any, is_first: bool) -> Sequence[Memory]:
        """Gradients of some parameters by their names. Buffers are as they are when backward begins."""
        if self.is_staged:
            raise ValueError(
                "gradients on a GPU are summed after backward: call reduce(), and leave out "
                "reduce_begin() and comm_hook"
            )
        memory = [memory_of(name, gradient) for name, gradient in named_arrays(given)]
        if is_first:
            self._copy_buffers(())
            memory += [memory_of(name, copy) for name, copy in self._summed]
        return memory

    def rest(self, given: Collection[str], kept: Collection[str]) -> Sequence[Memory]:
        """The gradients that were not given in parts."""
        rest = [memory for memory in self.gradient(None, kept) if memory.name not in given]
        self._without = {name: one for name, one in self._without.items() if name not in given}
        return rest

    def to_sum(self, places: Sequence[Memory]) -> Sequence[Memory]:
        """The gradients' own memory."""
        return places

    def reuse(self, arrays: Sequence[Memory]) -> None:
        """Does nothing: the arrays are the module's."""

    def let_go(self, arrays: Sequence[Memory]) -> None:
        """Removes the gradients that have this memory, so that backward makes others."""
        for parameter in self._lent(arrays):
            parameter.grad = None

    def has_lent(self, arrays: Sequence[Memory]) -> bool:
        """True if some of these arrays are gradients at present."""
        return len(self._lent(arrays)) > 0

    def _lent(self, arrays: Sequence[Memory]) -> list[torch.nn.Parameter]:
        addresses = {one.address for one in arrays}
        present = [(p, p.grad) for _, p in self._parameters if p.grad is not None]
        return [p for p, gradient in present if not gradient.is_sparse and gradient.data_ptr() in addresses]

    def give(self) -> None:
        """Copies the buffers for the peer."""
        if self.is_staged:
            note_loops()
        for (_, buffer), (_, copy) in zip(self._averaged, self._copies):
            if copy is not buffer:
                copy.copy_(buffer)

    def take(self) -> None:
        """Takes over the buffers that the peer may have changed."""
        with torch.no_grad():
            for (_, buffer), (_, copy) in zip(self._averaged, self._copies):
                if copy is not buffer:
                    buffer.copy_(copy)

    def took(self, is_over: bool, again: bool) -> None:
        """A parameter without a gradient gets the mean, unless no other peer had one either.

        At the end there is no mean, and no gradient may change the final model any more.
        """
        if is_over:
            self.buckets.forget()
            for _, parameter in self._parameters:
                parameter.grad = None
            return
        if again:
            # The buffers are those of the new model, and there is no mean.
            self.buckets.forget()
            return
        if self._gradients is not None:
            self._gradients.into(self._on_gpus())
        with torch.no_grad():
            for (_, buffer), (_, copy) in zip(self._averaged, self._summed):
                if copy is not buffer:
                    buffer.copy_(copy)
        self.buckets.take_over()
        for parameter, mean in self._without.values():
            if parameter.requires_grad and bool(mean.any()):
                parameter.grad = mean.to(parameter.device, copy=True)

    def loss(self, loss: Any) -> float:
        if torch.is_tensor(loss) and is_staged(loss):
            return self._late_loss(loss)
        return number_of(loss)

    def check(self) -> None:
        """Raises if a tensor has moved, was replaced or is new: the peer would not train with it."""
        now = self._addresses()
        for name, address in self._places.items():
            if now.get(name, address) != address:
                raise RuntimeError(
                    f"'{name}' was given other memory after join(); change tensors in "
                    "place, and move, convert or load them before the module joins"
                )
        parameters = _named_alike(self._module.named_parameters()) + self._optimized()
        for name, parameter in parameters:
            if parameter not in self._known:
                raise RuntimeError(
                    f"'{name}' was made after join(), so no peer averages it; make all "
                    "parameters before the module joins, or leave and join again"
                )
        late = [name for name in now if name not in self._places]
        if late and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "the optimiser's state has grown since join(), first by '%s' (new tensors: %d). What was made later is "
                "neither in checkpoints nor sent to newcomers: leave and join again, or give join() state=(get, set). "
                "It is said once.",
                late[0],
                len(late),
            )

    def _optimized(self) -> list[tuple[str, Any]]:
        """The parameters of the optimiser, each named by its place."""
        groups = [] if self._optimizer is None else self._optimizer.param_groups
        parameters = [parameter for group in groups for parameter in group["params"]]
        return [(f"optimizer.{at}", parameter) for at, parameter in enumerate(parameters)]

    def _buffers(self) -> list[tuple[str, Any]]:
        buffers = _named_alike(self._module.named_buffers())
        return [(n, b) for n, b in buffers if b.numel() > 0 and n in self._saved]

    def _addresses(self) -> dict[str, int]:
        """Addresses of the tensors that may not move, as they are now."""
        tensors = _named_alike(self._module.named_parameters()) + self._buffers()
        tensors = [(name, tensor) for name, tensor in tensors if name in self._watched]
        if self._optimizer is not None:
            tensors += _state_of(self._optimizer)
        return {name: tensor.data_ptr() for name, tensor in tensors}

    def watch(self, factor: Callable[[], float]) -> Optional[StepWatch]:
        """Begins to watch the optimiser's steps."""
        return None if self._optimizer is None else StepWatch(self._optimizer, factor)

    def unscale(self, scaler: Any, is_summed: bool) -> bool:
        """Divides the gradients by the scaler's scale, unless the loop has.

        Returns True if they have overflowed. They are then removed, or become zeros where peers sum them: then all make
        the same step, and one without gradients would leave out what momentum and weight decay do.
        """
        if self._optimizer is None:
            raise TypeError("reduce(scaler=...) needs the module's optimizer in join()")
        try:
            scaler.unscale_(self._optimizer)
        except RuntimeError as error:
            # The loop may have done it, to clip gradients.
            if "already been called" not in str(error):
                raise
        parameters = dict.fromkeys(p for _, p in self._parameters + self._optimized())
        found = [_is_finite(p.grad) for p in parameters if p.grad is not None]
        # One copy from the GPU for all gradients.
        if not found or bool(torch.stack([one.to(found[0].device) for one in found]).all()):
            return False
        for parameter in parameters:
            if is_summed and parameter.grad is not None:
                parameter.grad.zero_()
            else:
                parameter.grad = None
        return True

    def learning_rate(self) -> Optional[float]:
        return None if self._optimizer is None else float(self._optimizer.param_groups[0]["lr"])


def _is_finite(gradient: torch.Tensor) -> torch.Tensor:
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    return values.isfinite().all()


def scheduler(
    optimizer: torch.optim.Optimizer, vine: Vine, factor: Callable[[float], float]
) -> torch.optim.lr_scheduler.LambdaLR:
    """A schedule by the swarm's progress: the rate is the first one times `factor(progress)`.

    Call its `step()` after each optimiser step, as with any other scheduler. The rates in the optimiser are without
    `vine.factor`, by which each step is multiplied apart from the schedule.
    """
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: factor(vine.progress))


@contextlib.contextmanager
def attached(
    vine: Vine, optimizer: torch.optim.Optimizer, samples: int = 1, overlap: bool = True
) -> Iterator[Vine]:
    """Makes every `optimizer.step()` a step of the peer, so that the loop needs no other call.

    If the model is replaced while gradients are summed, that step of the optimiser is left out. The
    loop should end once `vine.is_over`. Each step's learning rate is multiplied by `vine.factor`. A step
    that a gradient scaler leaves out does not count as a step of the peer, which makes its next
    one a batch later.

    With `overlap`, gradients are summed while backward computes others, from the second step on,
    unless the step before has changed them after backward, as clipping does. A loop that does so
    only in some steps, or that drops gradients without a step, sets it to False.
    """
    own_step = optimizer.step
    # Plain tensors have no parameters to watch, and gradients on a GPU are summed after backward.
    is_watched = overlap and isinstance(vine._model, ModuleModel) and not vine._model.is_staged
    watch = Overlap(vine) if is_watched else None

    def step(_: torch.optim.Optimizer, *arguments: Any, **named: Any) -> Any:
        if arguments or named:
            raise TypeError("an attached optimizer.step() takes no closure: its gradient is summed")
        if watch is not None:
            watch.before_step()
        if vine.is_over or vine.reduce(samples=samples).again or vine.is_over:
            return None
        # The steps of an optimiser that has joined are scaled already.
        is_scaled = vine._watch is not None and vine._watch.optimizer is optimizer
        with scaled_rates(optimizer, 1.0 if is_scaled else vine.factor):
            result = own_step()
        vine.step(0.0, samples)
        return result

    replace_step(optimizer, step)
    try:
        yield vine
    finally:
        optimizer.step = own_step  # type: ignore[method-assign]
        if watch is not None:
            watch.remove()
        # A loop that ends within a step may begin it again, and clear its gradients in place.
        vine._model.let_go(vine._sum.arrays)
