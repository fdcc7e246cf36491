"""Plain arrays as a model."""

from __future__ import annotations

import ctypes
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
        self.state = [memory_of(name, value) for name, value in named_arrays(state)] if state is not None else []
        self.is_staged = False
        # Arrays of ended sums, by their names.
        self._spare: dict[str, Memory] = {}

    def gradient(self, given: Any, kept: Collection[str] = ()) -> Sequence[Memory]:
        """A gradient's arrays with the names of the model's and in their order, as the library takes them."""
        if given is None:
            raise TypeError("reduce(gradient) needs the gradient's arrays, as join() the model's")
        names = [one.name for one in self.mean]
        if not (self._has_names and isinstance(given, Mapping)):
            arrays = [value for _, value in named_arrays(given)]
            if len(arrays) != len(names):
                raise ValueError(f"the model has {len(names)} arrays, and its gradient {len(arrays)}")
            return [memory_of(name, value) for name, value in zip(names, arrays)]
        by_name = dict(named_arrays(given))
        for name in [*names, *by_name]:
            if name not in by_name or name not in names:
                raise ValueError(f"'{name}': either the model or its gradient has no array of this name")
        return [memory_of(name, by_name[name]) for name in names]

    def part(self, given: Any, is_first: bool) -> Sequence[Memory]:
        """Some of a gradient's arrays."""
        return [memory_of(name, value) for name, value in named_arrays(given)]

    def rest(self, given: Collection[str], kept: Collection[str]) -> Sequence[Memory]:
        """Returns nothing, because the loop gives the gradients of all arrays."""
        return []

    def to_sum(self, places: Sequence[Memory]) -> Sequence[Memory]:
        """Copies of a gradient's arrays, because a loop that is interrupted may refill its own before the sum ends."""
        return [self._copy_of(one) for one in places]

    def _copy_of(self, place: Memory) -> Memory:
        spare = self._spare.pop(place.name, None)
        if spare is None or (spare.type, spare.elements) != (place.type, place.elements):
            room = (ctypes.c_char * place.bytes)()
            spare = place._replace(address=ctypes.addressof(room), owner=room)
        ctypes.memmove(spare.address, place.address, place.bytes)
        return spare

    def reuse(self, arrays: Sequence[Memory]) -> None:
        """Keeps the copies of a sum that is over for the next one."""
        self._spare.update((one.name, one) for one in arrays)

    def let_go(self, arrays: Sequence[Memory]) -> None:
        """Does nothing: the library sums copies."""

    def has_lent(self, arrays: Sequence[Memory]) -> bool:
        return False

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
