"""A peer's order of samples in a data set, which continues exactly after a restart."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Iterator

from . import _library as c

if TYPE_CHECKING:
    from ._vine import Vine


class Sampler:
    """Batches of indices: this peer's part of a data set, in an order of its own in each epoch.

    Made by `Vine.sampler`. Iterating over it gives the batches from the present position to the end
    of the epoch, as lists of indices: it can be the `batch_sampler` of a torch DataLoader, even of
    one with workers. The position after each step goes into checkpoints.

    With leased data (`data.partition = "leased"`) the swarm deals the batches: each goes to one
    peer, as fast as that peer trains. Iterating then ends only when training does, and each batch
    must be asked for after the step before it, so the loader must have no workers.
    """

    def __init__(self, vine: Vine, samples: int, batch: int) -> None:
        if samples <= 0 or batch <= 0:
            raise ValueError("sampler(): the data set and a batch have at least one sample")
        self._vine = vine
        self._samples = samples
        self._batch = batch
        info = self._indices(0, [])
        self._part = int(info.part)
        self._is_leased = bool(info.is_leased)
        if self._is_leased and batch != info.batch:
            raise ValueError(
                f"sampler(batch={batch}): leased data are dealt in batches of train.batch, which "
                f"is {info.batch}; give both the same"
            )
        #: Samples that this peer has trained on, over all epochs.
        self.position = int(info.position)

    def __len__(self) -> int:
        """Batches of an epoch."""
        if self._is_leased:
            raise TypeError("with leased data the number of this peer's batches is not known")
        return -(-self._part // self._batch)

    def __iter__(self) -> Iterator[list[int]]:
        return self._leased() if self._is_leased else self._epoch()

    def _epoch(self) -> Iterator[list[int]]:
        # Batches that the loop has, but has not trained on yet, are not given again.
        at = self._after(self.position, self._vine._given)
        end = at - at % self._part + self._part
        while at < end:
            batch = [0] * min(self._batch, end - at)
            self._indices(at, batch)
            at += len(batch)
            yield batch

    def _leased(self) -> Iterator[list[int]]:
        asked_in = -1
        while not self._vine.is_over:
            if self._vine._turn == asked_in:
                raise RuntimeError(
                    "with leased data the next batch is known after the step with this one; use a "
                    "loader without workers (num_workers=0), and one batch for each step"
                )
            asked_in = self._vine._turn
            batch = [0] * self._batch
            self._indices(int(self._vine._info.position), batch)
            yield batch

    def _after(self, position: int, batches: int) -> int:
        """The position after some batches. The last batch of an epoch may be short."""
        per_epoch = -(-self._part // self._batch)
        epoch, within = divmod(position, self._part)
        # After a restart with another batch size, an epoch continues at the same sample.
        first = -(-(self._part - within) // self._batch) if within else per_epoch
        if batches < first:
            return position + batches * self._batch
        epochs, rest = divmod(batches - first, per_epoch)
        return (epoch + 1 + epochs) * self._part + rest * self._batch

    def _after_step(self, batches: int) -> int:
        """The position after a step with these batches."""
        return self.position if self._is_leased else self._after(self.position, batches)

    def _indices(self, position: int, batch: list[int]) -> c.Info:
        info = c.Info(size=ctypes.sizeof(c.Info))
        indices = (ctypes.c_uint64 * len(batch))()
        result = c.library().gv_indices(
            self._vine._handle, self._samples, position, indices, len(batch), ctypes.byref(info)
        )
        c.checked(result)
        batch[:] = indices
        return info

