"""Plain arrays as a model."""

from __future__ import annotations

from typing import Any, Callable, Collection, Mapping, Optional, Sequence

from ._memory import Memory, memory_of, number_of


def named_arrays(tensors: Any) -> list[tuple[str, Any]]:
    """Names and arrays from a mapping, a sequence, or a single array."""
    if isinstance(tensors, Mapping):
        return [(str(name), value) for name, value in tensors.items()]
    if isinstance(tensors, (list, tuple)):
        return [(str(at), value) for at, value in enumerate(tensors)]
    return [("0", tensors)]


class ArrayModel:
    """A model of arrays, whose gradients the loop gives to `reduce`."""

    def __init__(self, tensors: Any, state: Any) -> None:
        self.mean = [memory_of(name, value) for name, value in named_arrays(tensors)]
        self._has_names = isinstance(tensors, Mapping)
        self.buffers: list[Memory] = []
        self.state = [memory_of(name, value) for name, value in named_arrays(state)] if state else []
        self.is_staged = False

    def gradient(self, given: Any) -> Sequence[Memory]:
        """A gradient's arrays in the order of the model's, because the library compares no names."""
        if given is None:
            raise TypeError("reduce(gradient) needs the gradient's arrays, as join() the model's")
        if not (self._has_names and isinstance(given, Mapping)):
            return self.part(given, False)
        arrays = dict(named_arrays(given))
        names = [one.name for one in self.mean]
        for name in [*names, *arrays]:
            if name not in arrays or name not in names:
                raise ValueError(f"'{name}': either the model or its gradient has no array of this name")
        return [memory_of(name, arrays[name]) for name in names]

    def part(self, given: Any, is_first: bool) -> Sequence[Memory]:
        """Some of a gradient's arrays."""
        return [memory_of(name, value) for name, value in named_arrays(given)]

    def rest(self, given: Collection[str]) -> Sequence[Memory]:
        """Returns nothing, because the loop gives the gradients of all arrays."""
        return []

    def give(self) -> None:
        """Does nothing: the peer uses the arrays themselves."""

    def take(self) -> None:
        """Does nothing, for the same reason."""

    def took(self, is_over: bool, again: bool) -> None:
        """Does nothing: the mean is already in the gradient's own arrays."""

    def loss(self, loss: Any) -> float:
        return number_of(loss)

    def check(self) -> None:
        """Arrays keep their memory."""

    def learning_rate(self) -> Optional[float]:
        return None

    def watch(self, factor: Callable[[], float]) -> None:
        """Arrays have no optimiser."""

    def unscale(self, scaler: Any, is_summed: bool) -> bool:
        raise TypeError("reduce(scaler=...) needs a torch.nn.Module and its optimizer in join()")
