"""A peer in this process, with or without a model: its handle, its status and its end."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import sys
from types import TracebackType
from typing import Any, Callable, Optional, Type, TypeVar

from . import _library as c

_Self = TypeVar("_Self", bound="Peer")


class Peer:
    """Owns a handle of the C interface.

    Also a context manager, which leaves at the end of its block.
    """

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._handle = handle
        self._info = c.Info(size=ctypes.sizeof(c.Info), factor=1.0)
        self._is_over = False
        self._has_left = False
        self._pid = os.getpid()
        _all.add(self)

    def leave(self) -> None:
        """Leaves the swarm: saves, tells the others, and ends. Called again, it does nothing.

        If the peer has failed, or failed to save, it raises the reason, and the peer ends as well.
        """
        if self._has_left or os.getpid() != self._pid:
            return
        self._is_over = True
        try:
            while c.checked(c.library().gv_leave(self._handle)) == c.PENDING:
                pass
        except c.Problem:
            self._free()
            raise
        self._free()

    def invite(self, uses: int = 1, valid_s: float = 3600.0, may_invite: bool = True) -> str:
        """Makes a ticket with which `uses` other programs or machines may join within `valid_s`.

        This peer must have begun its swarm by `create` or joined it by a ticket, and must listen.
        With `may_invite`, those that join by the ticket may invite others.
        """
        ticket = self._ticket(uses, valid_s, may_invite)
        if ticket is None:
            raise c.Failed("this peer has not answered in time: ask again")
        return ticket

    def _ticket(self, uses: int, valid_s: float, may_invite: bool) -> Optional[str]:
        """A ticket, or None if this peer does not answer yet."""
        if self._has_left:
            raise ValueError("this peer has left; another one can invite")
        text = ctypes.create_string_buffer(c.TICKET_BYTES)
        result = c.library().gv_invite(
            self._handle, uses, valid_s, int(may_invite), text, c.TICKET_BYTES
        )
        if c.checked(result) == c.OVER:
            raise c.Failed("this peer has ended; another one can invite")
        return None if result == c.PENDING else text.value.decode()

    def _free(self) -> None:
        self._has_left = True
        handle, self._handle = self._handle, ctypes.c_void_p()
        c.library().gv_free(handle)
        _all.discard(self)

    def _leave_quietly(self) -> None:
        """Leaves while an error is under way, which must not be hidden by another."""
        with contextlib.suppress(c.Problem):
            self.leave()

    @property
    def is_over(self) -> bool:
        """True once training is over, or this peer has left.

        If the budget is the swarm's, the model is then the common final one.
        """
        return self._is_over

    @property
    def status(self) -> dict[str, Any]:
        """The peer's status, as `grapevine status --json` prints it.

        Empty as long as the peer does not answer, and once it has ended.
        """
        if self._has_left:
            return {}
        size = ctypes.c_size_t(1 << 16)
        while True:
            text = ctypes.create_string_buffer(size.value)
            room = size.value
            result = c.library().gv_status_json(self._handle, text, ctypes.byref(size))
            if result == c.WRONG_ARGUMENT and size.value > room:
                continue
            if c.checked(result) != c.OK:
                return {}
            return json.loads(text.value)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if error is None:
            self.leave()
        else:
            self._leave_quietly()


def begin_to_join(options: c.Options, join: Callable[[], int]) -> None:
    """Calls the function of the library that joins, and raises its problem.

    While the peer that has made the ticket does not answer, it says so once and calls again, until the ticket expires.
    """
    has_said = False
    while True:
        try:
            c.checked(join())
            return
        except c.Unreachable as late:
            if options.ticket is None:
                raise
            if not has_said:
                print(f"grapevine: {late}", file=sys.stderr, flush=True)
            has_said = True


# Peers that have not left yet. They leave when the interpreter ends.
_all: set[Peer] = set()


@atexit.register
def _leave_all() -> None:
    for vine in list(_all):
        try:
            vine.leave()
        except Exception as problem:  # The interpreter ends; the others must leave, too.
            print(f"grapevine: {problem}", file=sys.stderr)
