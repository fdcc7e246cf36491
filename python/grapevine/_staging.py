"""Tensors on GPUs, which the peer reads and writes as copies in pinned memory of the host.

Small tensors are gathered on the GPU into buckets, because every copy has a fixed cost; a large one is a bucket of its
own. Copies are made on a separate stream, beside the loop's.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Optional, Sequence

import torch

# Larger tensors are copied by themselves.
_GATHERED_BYTES = 1 << 20
# Size of a bucket of small tensors: enough for the full speed of a bus.
_BUCKET_BYTES = 4 << 20

#: Tensors, some of which may be missing.
Tensors = Sequence[Optional[torch.Tensor]]


class CudaDevice:
    """Copies between one GPU and the host, in parallel with the loop's work on that GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._beside = torch.cuda.Stream(device)
        self._loop = torch.cuda.current_stream(device)

    def note_loop(self) -> None:
        """Notes the stream of the calling thread. Copies are made after the work in that stream."""
        self._loop = torch.cuda.current_stream(self._device)

    def pinned(self, elements: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(elements, dtype=dtype, device="cpu", pin_memory=True)

    @contextlib.contextmanager
    def copying(self) -> Iterator[None]:
        """Copies begun in the block come after the loop's work so far and before its later work."""
        self._beside.wait_stream(self._loop)
        with torch.cuda.stream(self._beside):
            yield
        self._loop.wait_stream(self._beside)

    def copy(self, to: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
        """Begins to copy each source to its place in `to`."""
        # PyTorch 1.13 has no function for many at once.
        many: Optional[Callable[..., None]] = getattr(torch, "_foreach_copy_", None)
        if many is not None and len(to) > 1:
            many(list(to), list(sources))
            return
        for one, source in zip(to, sources):
            one.copy_(source, non_blocking=True)

    def finish(self) -> None:
        """Waits until all copies are made."""
        self._beside.synchronize()

    def later(self, number: torch.Tensor) -> Callable[[], float]:
        """Begins to copy a number to the host. Returns a function that waits for it."""
        host = self.pinned(1, number.dtype)
        host.copy_(number.detach().reshape(1), non_blocking=True)
        is_there = torch.cuda.Event()
        is_there.record(torch.cuda.current_stream(self._device))

        def value() -> float:
            is_there.synchronize()
            return float(host)

        return value


# The kinds of devices whose tensors are staged.
DEVICES: dict[str, Any] = {"cuda": CudaDevice}
_used: dict[torch.device, Any] = {}


def is_staged(tensor: torch.Tensor) -> bool:
    """True if the tensor is not in the host's memory, but can be copied to it and from it."""
    return tensor.device.type in DEVICES


def device_of(tensor: torch.Tensor) -> Any:
    """The object that copies to and from the tensor's device."""
    if tensor.device not in _used:
        _used[tensor.device] = DEVICES[tensor.device.type](tensor.device)
    return _used[tensor.device]


def note_loops() -> None:
    """Notes the streams of the calling thread on all devices."""
    for device in _used.values():
        device.note_loop()


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(tensor.numel())


class _Bucket:
    """Some tensors of one type on one device, side by side in pinned memory."""

    def __init__(self, places: list[int], like: Sequence[torch.Tensor]) -> None:
        self.places = places
        first = like[places[0]]
        self.where = first.device
        self.device = device_of(first)
        self._shapes = [like[place].shape for place in places]
        elements = sum(shape.numel() for shape in self._shapes)
        self._pinned = self.device.pinned(elements, first.dtype)
        self.hosts = self._views(self._pinned)
        self.bytes = elements * first.element_size()

    def _views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        parts = flat.split([shape.numel() for shape in self._shapes])
        return [part.view(shape) for part, shape in zip(parts, self._shapes)]

    def is_direct(self, tensors: Tensors) -> bool:
        """True if the tensors need not be gathered on the GPU."""
        return len(tensors) == 1 and tensors[0] is not None and tensors[0].is_contiguous()

    def copy(self, tensors: Tensors, room: Optional[torch.Tensor], is_out: bool) -> None:
        """Begins a copy to the host or from it. `room` is memory on the GPU to gather in; None for
        a direct copy."""
        if room is None:
            to, source = self._pinned, _flat(tensors[0])  # type: ignore[arg-type]
            self.device.copy(*(([to], [source]) if is_out else ([source], [to])))
            return
        gathered = room[: self.bytes].view(self._pinned.dtype)
        pairs = [(view, one) for view, one in zip(self._views(gathered), tensors) if one is not None]
        views, present = [view for view, _ in pairs], [one for _, one in pairs]
        if is_out:
            self.device.copy(views, present)
            self.device.copy([self._pinned], [gathered])
        else:
            self.device.copy([gathered], [self._pinned])
            self.device.copy(present, views)


class Stage:
    """Holds copies, in the host's pinned memory, of tensors that are on GPUs."""

    def __init__(self, like: Sequence[torch.Tensor]) -> None:
        self._buckets = [_Bucket(places, like) for places in _grouped(like)]
        found: dict[int, torch.Tensor] = {}
        for bucket in self._buckets:
            found.update(zip(bucket.places, bucket.hosts))
        #: The copies, in the order of the tensors.
        self.hosts = [found[place] for place in range(len(like))]
        self._rooms: dict[torch.device, torch.Tensor] = {}
        for bucket in self._buckets:
            # Allocated now, so that a later call does not fail for lack of memory.
            self._room(bucket, [like[place] for place in bucket.places])

    def out(self, tensors: Tensors) -> None:
        """Copies the tensors to the host and waits for the copies. Missing tensors become zeros."""
        self._copy(tensors, True)
        for tensor, host in zip(tensors, self.hosts):
            if tensor is None:
                host.zero_()

    def into(self, tensors: Tensors) -> None:
        """Copies the host's data to the tensors, before the loop's later work on them."""
        self._copy(tensors, False)

    def _room(self, bucket: _Bucket, tensors: Tensors) -> Optional[torch.Tensor]:
        """Where the tensors of a bucket are gathered; None if they need not be."""
        if bucket.is_direct(tensors):
            return None
        room = self._rooms.get(bucket.where)
        if room is None or room.numel() < bucket.bytes:
            room = torch.empty(bucket.bytes, dtype=torch.uint8, device=bucket.where)
            self._rooms[bucket.where] = room
        return room

    def _copy(self, tensors: Tensors, is_out: bool) -> None:
        devices = list(dict.fromkeys(bucket.device for bucket in self._buckets))
        for device in devices:
            with device.copying():
                for bucket in self._buckets:
                    those = [tensors[place] for place in bucket.places]
                    if bucket.device is device and any(one is not None for one in those):
                        bucket.copy(those, self._room(bucket, those), is_out)
        # Also after copies to a GPU, because the peer may soon write to the host's memory again.
        for device in devices:
            device.finish()


def _grouped(tensors: Sequence[torch.Tensor]) -> list[list[int]]:
    """The places of tensors that are copied together: those of one device and type."""
    groups: list[list[int]] = []
    open_groups: dict[Any, tuple[list[int], int]] = {}
    for place, tensor in enumerate(tensors):
        size = tensor.numel() * tensor.element_size()
        if size >= _GATHERED_BYTES:
            groups.append([place])
            continue
        key = (tensor.device, tensor.dtype)
        group, filled = open_groups.get(key, ([], _BUCKET_BYTES))
        if filled + size > _BUCKET_BYTES:
            group, filled = [], 0
            groups.append(group)
        group.append(place)
        open_groups[key] = (group, filled + size)
    return groups


class LateLoss:
    """Losses on a GPU, each reported one step late, so that no step waits for the GPU."""

    def __init__(self) -> None:
        self._last: Optional[Callable[[], float]] = None

    def __call__(self, loss: torch.Tensor) -> float:
        value = device_of(loss).later(loss)
        # The first step has no step before it, so it reports its own loss.
        last, self._last = self._last or value, value
        return last()
