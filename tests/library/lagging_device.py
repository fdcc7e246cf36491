"""Treats tensors on the CPU as if they were on a GPU, so that staging is tested without one."""

import contextlib

import torch
from grapevine import _staging


class LaggingDevice:
    """Copies nothing until it is waited for, and then everything, in the order of the calls."""

    #: The number of copies made.
    made = 0

    def __init__(self, device):
        self._begun = []
        self._is_open = False

    def note_loop(self):
        pass

    def pinned(self, elements, dtype):
        # Memory that is read before anything is copied to it is not a number.
        nothing = float("nan") if dtype.is_floating_point else -1
        return torch.full((elements,), nothing, dtype=dtype)

    @contextlib.contextmanager
    def copying(self):
        self._is_open = True
        yield
        self._is_open = False

    def copy(self, to, sources):
        assert self._is_open and len(to) == len(sources)
        self._begun += zip(to, sources)

    def finish(self):
        with torch.no_grad():
            for one, source in self._begun:
                one.copy_(source)
        LaggingDevice.made += len(self._begun)
        self._begun = []

    def later(self, number):
        value = float(number)
        return lambda: value


def install():
    """Makes all modules that join from now on staged."""
    _staging.DEVICES["cpu"] = LaggingDevice


def remove():
    del _staging.DEVICES["cpu"]
    _staging._used.clear()
