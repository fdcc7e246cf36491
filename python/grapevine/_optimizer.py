"""Watches the steps of a PyTorch optimiser, and makes each as long as the peer's data deserve."""

from __future__ import annotations

import contextlib
import copy
import functools
from types import MethodType
from typing import Any, Callable, Iterator


@contextlib.contextmanager
def scaled_rates(optimizer: Any, factor: float) -> Iterator[None]:
    """Multiplies all learning rates by the factor. Afterwards they are the same objects as before."""
    groups = optimizer.param_groups
    rates = [group["lr"] for group in groups] if factor != 1 else []
    try:
        for group, rate in zip(groups, rates):
            group["lr"] = rate * factor
        yield
    finally:
        for group, rate in zip(groups, rates):
            group["lr"] = rate


def replace_step(optimizer: Any, step: Callable[..., Any]) -> MethodType:
    """Makes `optimizer.step` this function, which calls what it was before, and returns the method."""
    own = optimizer.step
    # Schedulers mark a method that they have wrapped, and scalers look at its signature.
    functools.update_wrapper(step, own)
    step.__wrapped__ = getattr(own, "__func__", own)  # type: ignore[attr-defined]
    # A method, because a scheduler that is made later binds the function that it finds.
    method = MethodType(step, optimizer)
    optimizer.step = method
    return method


class StepWatch:
    """Replaces `optimizer.step` by a method that counts its calls and multiplies the rates by `factor()`.

    A gradient scaler leaves a step out by not calling the method. Hooks of the optimiser would do the same, but
    PyTorch 1.13 has none.
    """

    def __init__(self, optimizer: Any, factor: Callable[[], float]) -> None:
        self.optimizer = optimizer
        #: True while the optimiser must make its step, whatever a scaler has found in the gradient.
        self.is_due = False
        #: The gradient of the step has overflowed, and counts as zeros.
        self.has_overflowed = False
        #: Steps since the last take() or expect().
        self.made = 0
        # The mean for a step that is due has values other than zero. Known only after an overflow.
        self._has_mean = False
        # The settings of each group of parameters with which a step that has overflowed is due.
        self._settings: list[dict[str, Any]] = []
        self._factor = factor
        self._had_own = "step" in vars(optimizer)
        own = self._own = optimizer.step

        def step(optimizer: Any, *arguments: Any, **named: Any) -> Any:
            self.made += 1
            if self.is_due:
                self._forget_overflow(named)
            with scaled_rates(optimizer, self._factor()):
                return own(*arguments, **named)

        self._step = replace_step(optimizer, step)

    def expect(self, has_overflowed: bool = False) -> None:
        """The optimiser's next step is due, because all other peers make theirs with the same gradient.

        If this peer's own gradient has overflowed, a scaler leaves the step out, and step() will make it.
        """
        self.is_due, self.has_overflowed, self.made = True, has_overflowed, 0
        self._has_mean = has_overflowed and self._has_gradient()
        groups = self.optimizer.param_groups if has_overflowed else []
        self._settings = [copy.deepcopy({k: v for k, v in one.items() if k != "params"}) for one in groups]

    def make_due_step(self) -> None:
        """Makes the step that is due, unless the optimiser has. Only after an overflow may it be missing."""
        if not self.is_due or self.made:
            return
        if not self.has_overflowed:
            # The step may have been made by a method that was taken from the optimiser before join().
            raise RuntimeError(
                "no step of the optimiser was seen after reduce(scaler=...): call scaler.step(optimizer), "
                "and join before anything wraps or keeps optimizer.step"
            )
        self.step()

    def step(self) -> None:
        """Makes the step that a scaler has left out.

        A schedule may have prepared the next step since. The step is made with the settings that the other peers used.
        """
        if self._has_mean and not self._has_gradient():
            raise RuntimeError(
                "the gradients were cleared before vine.step(), which makes the step that the scaler has left out: "
                "call optimizer.zero_grad() after vine.step()"
            )
        groups = self.optimizer.param_groups
        later = [dict(group) for group in groups]
        try:
            for group, settings in zip(groups, self._settings):
                group.update(settings)
            self.optimizer.step()
        finally:
            for group, settings in zip(groups, later):
                group.update(settings)

    def _has_gradient(self) -> bool:
        parameters = (p for group in self.optimizer.param_groups for p in group["params"])
        return any(p.grad is not None and bool(p.grad.any()) for p in parameters)

    def take(self) -> bool:
        """Ends a step of the peer. Returns True if the optimiser has made one with a gradient of this peer."""
        is_own = self.made > 0 and not self.has_overflowed
        self.is_due, self.has_overflowed, self.made = False, False, 0
        return is_own

    def remove(self) -> None:
        """Gives the optimiser its own method back. If others have wrapped this one, it only calls its own."""
        self._factor = lambda: 1.0
        self.is_due = False
        if vars(self.optimizer).get("step") is not self._step:
            return
        if self._had_own:
            self.optimizer.step = self._own
        else:
            del self.optimizer.step

    def _forget_overflow(self, named: dict[str, Any]) -> None:
        """A fused optimiser, which looks at the scaler's findings itself, takes the gradient as finite."""
        named.pop("grad_scaler", None)
        found = getattr(self.optimizer, "found_inf", None)
        if found is not None:
            self.optimizer.found_inf = found * 0
