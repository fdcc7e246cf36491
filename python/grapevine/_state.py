"""State of a program beyond its arrays: the bytes that a pair of functions gets and sets."""

from __future__ import annotations

import ctypes
import logging
import struct
import zlib
from typing import Any, Callable, Optional

from . import _library as c
from ._memory import Memory

_log = logging.getLogger("grapevine")

_MOST_BYTES = 1 << 24
_WORD = 8
# The number of bytes, and their CRC-32.
_HEAD = struct.Struct("<II")


class GivenState:
    """The bytes of one pair (get, set), in memory that travels and is saved as other state.

    The memory has a fixed size, because peers in lockstep have equally much state. The peer's thread calls `copy`; the
    loop's thread calls `hand_over`, and so `set`.
    """

    def __init__(
        self, name: str, get: Callable[[], bytes], set: Callable[[bytes], Any], room: int
    ) -> None:
        self._get, self._set, self._room = get, set, room
        words = (_HEAD.size + room + _WORD - 1) // _WORD
        self._memory = (ctypes.c_int64 * words)()
        self.memory = Memory(name, ctypes.addressof(self._memory), (words,), c.I64, self._memory)
        # Bytes that the loop has not been given yet.
        self._arrived: Optional[bytes] = None
        # What cannot be shared is refused before the peer begins.
        self._read()

    def copy(self, direction: int) -> None:
        if direction == c.COPY_OUT:
            # Until the loop is given newer bytes, those of `get` are outdated.
            if self._arrived is None:
                self._read()
        else:
            self._take()

    def hand_over(self) -> None:
        """Gives the loop bytes that have come from another peer or from a checkpoint."""
        arrived, self._arrived = self._arrived, None
        if arrived is not None:
            self._set(arrived)

    def _read(self) -> None:
        given = self._get()
        if not isinstance(given, (bytes, bytearray)):
            raise TypeError(f"state=(get, set): get() returned a {type(given).__name__}, not bytes")
        if len(given) > self._room:
            raise ValueError(
                f"state=(get, set): get() returned {len(given)} bytes, and state_bytes is "
                f"{self._room}; give join() a larger state_bytes, equal on all peers"
            )
        whole = _HEAD.pack(len(given), zlib.crc32(given)) + given
        ctypes.memmove(self._memory, whole.ljust(ctypes.sizeof(self._memory), b"\0"), ctypes.sizeof(self._memory))

    def _take(self) -> None:
        """Keeps what was written to the memory, unless it cannot be what a peer gave.

        A switch to another mode may average the state of all peers, which leaves no meaningful bytes.
        """
        whole = bytes(self._memory)
        size, checksum = _HEAD.unpack_from(whole)
        given = whole[_HEAD.size :][:size]
        if size <= self._room and zlib.crc32(given) == checksum:
            self._arrived = given
        else:
            self._arrived = None  # The next copy is of what get() returns, not of the damaged bytes.
            _log.warning("state=(get, set): damaged bytes came with a model and were not passed to set()")


def split_state(state: Any, room: int) -> tuple[Any, list[GivenState]]:
    """Separates the arrays in join()'s `state` from pairs of functions."""
    if not 0 < room <= _MOST_BYTES:
        raise ValueError(f"state_bytes must be from 1 to {_MOST_BYTES}")
    if _is_pair(state):
        return None, [GivenState("state", *state, room)]
    if not isinstance(state, dict):
        return state, []
    pairs = {name: value for name, value in state.items() if _is_pair(value)}
    arrays = {name: value for name, value in state.items() if name not in pairs}
    return arrays, [GivenState(str(name), *pair, room) for name, pair in pairs.items()]


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(callable(one) for one in value)


class Copies:
    """Brings a model's tensors and a program's state to memory that the peer sees, and back.

    The peer's thread calls it.
    """

    def __init__(self, model: Any, given: list[GivenState]) -> None:
        #: The exception of a copy that has failed.
        self.problem: Optional[BaseException] = None
        self._given = given

        def copy(_: Any, role: int, direction: int) -> int:
            try:
                if model.is_staged:
                    model.copy(role, direction)
                for one in given if role == c.STATE else ():
                    one.copy(direction)
            except BaseException as problem:  # No exception may reach the library.
                self.problem = problem
                return 1
            return 0

        self.function = c.Copy(copy) if model.is_staged or given else c.Copy()

    def hand_over(self) -> None:
        """Gives the loop state that has come for it."""
        for one in self._given:
            one.hand_over()
