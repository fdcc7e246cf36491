"""Means of arrays without a model and without a master."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Optional

from . import _library as c
from ._memory import Memory, memory_of, tensor_of
from ._peer import Peer, begin_to_join

# A patience: as long as the options of joining say.
_AS_JOINED = -1.0

_HAS_ENDED = "this peer has ended before the mean was made"


class Mean:
    """A mean that is under way. The array may not be used before it is done."""

    def __init__(self, collective: Collective, call: int, array: Any, memory: Memory) -> None:
        self._collective = collective
        self._call = call
        self._array = array
        self._memory = memory
        self._info = c.Info(size=ctypes.sizeof(c.Info))
        self._is_done = False
        self._problem: Optional[Exception] = None

    def done(self) -> bool:
        """True if `wait` would return at once."""
        return self._poll(0.0)

    def wait(self) -> Any:
        """Waits until the array is the mean, and returns it.

        Raises Missed if the others have made the call without this peer, and another Problem if the
        peer has ended. The array is then unchanged.
        """
        while not self._poll(_AS_JOINED):
            pass
        if self._problem is not None:
            raise self._problem
        return self._array

    @property
    def call(self) -> int:
        """Once it is done, the number of this mean, counted from 1 and equal on all peers."""
        return int(self._info.steps)

    @property
    def peers(self) -> int:
        """Peers in the mean, once it is done; 0 if all their weights are 0."""
        return int(self._info.samples)

    def _poll(self, patience_s: float) -> bool:
        if self._is_done:
            return True
        if self._collective._has_left:
            self._end(c.Failed("this peer has left before the mean was made; join again"))
            return True
        if self._collective._is_waiting():
            return False
        result = c.library().gv_mean_end(
            self._collective._handle, self._call, patience_s, ctypes.byref(self._info)
        )
        try:
            if c.checked(result) == c.PENDING:
                return False
        except c.Problem as problem:
            self._end(problem)
            return True
        is_over = result == c.OVER
        self._end(c.Failed(_HAS_ENDED) if is_over else None)
        return True

    def _end(self, problem: Optional[Exception]) -> None:
        self._problem = problem
        self._is_done = True
        self._collective._ended(self)


class Collective(Peer):
    """One peer without a model. Made by `join(mode="collective")`; used by one thread at a time.

    The n-th mean of each peer is made with the n-th of the others, and a newcomer's first with
    their next. Also a context manager, which leaves at the end of its block.
    """

    def __init__(self, handle: ctypes.c_void_p) -> None:
        super().__init__(handle)
        # Arrays must stay where they are until their means are done.
        self._open: set[Mean] = set()
        # The array of a call of `mean`, from its beginning to its end, also if Ctrl-C ends the wait.
        self._waiting: Optional[Memory] = None

    def mean(self, array: Any, weight: float = 1.0) -> Any:
        """Replaces the array by its weighted mean over all peers, and returns it.

        `array` is a NumPy array, a PyTorch tensor on the CPU, or anything with the buffer protocol,
        of 16, 32 or 64-bit floats, which travel as 32-bit ones. It must have the same length on all
        peers; otherwise all of them leave, and Refused names the peer that differs. All peers get
        identical bits; a peer that dies meanwhile is left out.
        """
        self._waiting = memory = self._next(array)
        result = c.library().gv_mean(
            self._handle, ctypes.byref(tensor_of(memory)), weight, ctypes.byref(self._info)
        )
        while result == c.PENDING:
            result = c.library().gv_wait(self._handle, ctypes.byref(self._info))
        self._waiting = None
        if c.checked(result) == c.OVER:
            raise c.Failed(_HAS_ENDED)
        return array

    def mean_async(self, array: Any, weight: float = 1.0) -> Mean:
        """Begins a mean like that of `mean`, and returns at once. Several may be under way.

        Only after Ctrl-C in `mean` it first waits for that call, whose turn is before this one's.
        """
        memory = self._next(array)
        call = ctypes.c_uint64()
        result = c.library().gv_mean_begin(
            self._handle, ctypes.byref(tensor_of(memory)), weight, ctypes.byref(call)
        )
        c.checked(result)
        mean = Mean(self, call.value, array, memory)
        self._open.add(mean)
        return mean

    @property
    def calls(self) -> int:
        """Number of means that the swarm had made by this peer's last one, or when it joined."""
        return int(self._info.steps)

    def _next(self, array: Any) -> Memory:
        """The memory of the array of a call that may now begin."""
        while self._is_waiting():
            pass
        if self._has_left:
            raise ValueError("this peer has left; join again")
        return memory_of("array", array)

    def _is_waiting(self) -> bool:
        """Waits a moment for a call of `mean` that Ctrl-C has interrupted, and returns True if it has not ended.

        Nothing asks for the result of such a call.
        """
        if self._waiting is not None:
            if c.library().gv_wait(self._handle, ctypes.byref(self._info)) != c.PENDING:
                self._waiting = None
        return self._waiting is not None

    def _ended(self, mean: Mean) -> None:
        self._open.discard(mean)
        self._info.steps = max(self._info.steps, mean._info.steps)

    def _free(self) -> None:
        super()._free()
        self._open.clear()
        self._waiting = None

    @classmethod
    def _join(
        cls, options: c.Options, begun: Optional[Callable[[Peer], None]] = None
    ) -> Collective:
        handle = ctypes.c_void_p()
        collective = None
        try:
            join = c.library().gv_join_collective
            begin_to_join(options, lambda: join(ctypes.byref(options), ctypes.byref(handle)))
            collective = cls(handle)
            if begun is not None:
                begun(collective)
            # Called even without a wait, to learn how many calls the others have made.
            result = c.PENDING
            while c.checked(result) == c.PENDING:
                result = c.library().gv_wait(handle, ctypes.byref(collective._info))
            return collective
        except BaseException:
            if collective is not None:
                collective._leave_quietly()
            elif handle:
                c.library().gv_free(handle)
            raise
