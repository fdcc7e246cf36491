"""The sum of one step's gradient over all peers."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Optional, Sequence

from ._memory import Memory, TensorList

_ARE_CHANGED = (
    "the step's gradient has been summed, and its arrays now hold other values: call vine.step() after each sum, or "
    "give each try of a step arrays of its own, for a module by optimizer.zero_grad(set_to_none=True)"
)


class Reduced(NamedTuple):
    """The result of `Vine.reduce`."""

    #: Samples of all peers in the mean; 0 where gradients are not summed.
    samples: int
    #: The model was replaced by a newer one: compute the gradient again and call `reduce` again.
    again: bool


class StepSum:
    """One step's sum, from the first part of the gradient to the end of the step.

    A loop may begin the step again after an exception, and is then given the same mean.
    """

    def __init__(self) -> None:
        # Lists of arrays that the library reads, and in which it leaves the mean. They may be the loop's.
        self.lists: list[TensorList] = []
        # Arrays that the loop has handed over in parts, also before an exception, unless a sum was interrupted. The
        # mean goes to them.
        self.places: list[Memory] = []
        # The library has the whole gradient.
        self.is_begun = False
        # The versions of PyTorch's tensors when the sum began. Later ones show that the loop has changed the mean.
        self._versions: list[int] = []
        # The result, once it is known.
        self.found: Optional[Reduced] = None
        # The sum has ended within backward, and `reduce` has yet to return the result.
        self.is_ahead = False
        # The loop has the result.
        self.is_told = False
        # The try that gave the gradient may be over, so the loop may have other arrays.
        self.is_repeated = False

    @property
    def arrays(self) -> list[Memory]:
        return [one for given in self.lists for one in given.memory]

    @property
    def names(self) -> set[str]:
        return {one.name for one in self.arrays}

    def _versions_now(self) -> list[int]:
        return [getattr(one.owner, "_version", 0) for one in self.arrays]

    def begin(self, lists: list[TensorList]) -> None:
        """Notes that the library is given the rest of the gradient in these lists."""
        self.lists = self.lists + lists
        self.is_begun, self._versions = True, self._versions_now()

    def check_like(self, places: Sequence[Memory]) -> None:
        """Raises if the mean does not fit these arrays."""
        wanted = {one.name: (one.type, one.elements) for one in self.arrays}
        if {one.name: (one.type, one.elements) for one in places} != wanted:
            raise ValueError(
                "the step's gradient was summed before an exception: give arrays of the same sizes and types again"
            )

    def check_unchanged(self, model: Any) -> None:
        """Raises if the loop may have changed the mean."""
        if model.has_lent(self.arrays) or self._versions != self._versions_now():
            raise ValueError(_ARE_CHANGED)

    def check_apart(self, memory: Sequence[Memory]) -> None:
        """Raises if a new gradient is where the mean was."""
        own = {one.address for one in self.arrays}
        if any(one.address in own for one in memory):
            raise ValueError(_ARE_CHANGED)

    def write_mean(self, places: Sequence[Memory]) -> None:
        """Copies the mean to these arrays, unless they are those that were summed."""
        by_name = {one.name: one for one in self.arrays}
        for place in places:
            mean = by_name[place.name]
            if place.address != mean.address:
                ctypes.memmove(place.address, mean.address, mean.bytes)
