"""PyTorch: gradients that are summed while backward still computes others."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch

from ._vine import Vine

# Gradients are handed over in parts of about this many bytes, each of which costs a call.
_PART_BYTES = 1 << 20
# Gradients whose values are compared as well. Some of them may be zero, which a scaler does not change.
_COMPARED = 4


class Buckets:
    """The buckets that DistributedDataParallel hands over in one backward pass."""

    def __init__(self) -> None:
        self._futures: list[tuple[torch.futures.Future[torch.Tensor], torch.Tensor]] = []
        self._means: list[tuple[torch.nn.Parameter, torch.Tensor]] = []
        self._versions: list[Optional[int]] = []

    def add(self, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        self._futures.append((future, bucket.buffer()))
        self._means += zip(bucket.parameters(), bucket.gradients())
        return future

    def end(self) -> None:
        """All buckets are summed, and DistributedDataParallel now writes them to the gradients."""
        self._versions = [p.grad._version if p.grad is not None else None for p, _ in self._means]
        for future, buffer in self._futures:
            future.set_result(buffer)
        self._futures = []

    def take_over(self) -> None:
        """Writes the means of parameters that only other peers used: the module leaves these
        out."""
        for (parameter, mean), version in zip(self._means, self._versions):
            if parameter.grad is None:
                if bool(mean.any()):
                    parameter.grad = mean.clone()
            elif (
                parameter.grad._version == version and parameter.grad.data_ptr() != mean.data_ptr()
            ):
                parameter.grad.copy_(mean)
        self.forget()

    def forget(self) -> None:
        self._futures = []
        self._means = []
        self._versions = []


# DistributedDataParallel checks annotations, and refuses ones that are strings.
def comm_hook(vine, bucket):  # type: ignore[no-untyped-def]
    """Sums the gradients of a DistributedDataParallel while backward computes others.

        ddp = DistributedDataParallel(model)    # its process group has this process alone
        vine = grapevine.join("run.toml", model, optimizer, algorithm="all_reduce")
        ddp.register_comm_hook(vine, grapevine.torch.comm_hook)

    The loop calls `vine.reduce()` after backward as always, which then returns the outcome of the
    sum. All backward passes of a step but the last are under `ddp.no_sync()`.
    """
    if vine._sum.is_ahead:
        raise ValueError(
            "the step's gradient has been summed: call vine.reduce() after backward, and put all "
            "backward passes of a step but the last under ddp.no_sync()"
        )
    buckets = getattr(vine._model, "buckets", None)
    if buckets is None:
        raise ValueError("comm_hook: join() was given arrays; give it the module")
    future = buckets.add(bucket)
    try:
        if vine._takes_gradient:
            vine.reduce_begin(_gradients(vine, bucket))
        if bucket.is_last() and vine._takes_gradient:
            # Nothing is left that could be computed during the sum.
            vine._end_within_backward()
    except BaseException:
        buckets.forget()
        raise
    if bucket.is_last():
        buckets.end()
        # Where nothing is summed, reduce() takes nothing over.
        if not vine._sum.is_ahead:
            buckets.forget()
    return future


def _names(vine: Vine, parameters: Sequence[torch.nn.Parameter]) -> list[str]:
    names = vine._model.names
    if any(parameter not in names for parameter in parameters):
        raise ValueError("comm_hook: join() was given another module than DistributedDataParallel")
    return [names[parameter] for parameter in parameters]


def _gradients(vine: Vine, bucket: Any) -> dict[str, torch.Tensor]:
    """The bucket's gradients by the names of their parameters. Empty parameters have none."""
    pairs = [(p, g) for p, g in zip(bucket.parameters(), bucket.gradients()) if p.numel() > 0]
    return dict(zip(_names(vine, [p for p, _ in pairs]), [g for _, g in pairs]))


def _size(gradient: torch.Tensor) -> float:
    """The sum of the gradient's absolute values."""
    return float(gradient.detach().abs().sum())


class Overlap:
    """Hands over the gradients of a module's parameters as backward completes them.

    How often backward adds to each gradient before the optimiser's step is learned from the steps
    before. What is handed over can no longer be changed, so there is no overlap as long as a loop
    changes gradients between backward and the step, for example clips them.
    """

    def __init__(self, vine: Vine) -> None:
        self._vine = vine
        self._is_on = False
        self._parameters: dict[str, torch.nn.Parameter] = {}
        # How often backward has added to each gradient in this step, and the most in any step before.
        self._count: dict[str, int] = {}
        self._most: dict[str, int] = {}
        # Each gradient and its version after backward last added to it.
        self._seen: dict[str, tuple[torch.Tensor, int]] = {}
        self._given: set[str] = set()
        self._next: dict[str, torch.Tensor] = {}
        self._bytes = 0
        # A parameter does not keep alive the graph's node that adds to its gradient.
        self._nodes: list[Any] = []
        self._hooks: list[Any] = []
        for parameter, name in vine._model.names.items():
            if parameter.requires_grad:
                self._watch(name, parameter)
        # A gradient scaler changes all gradients and no version. So the values of the smallest ones are compared, too.
        by_size = sorted(self._parameters, key=lambda name: self._parameters[name].numel())
        self._compared = set(by_size[:_COMPARED])
        self._sizes: dict[str, float] = {}

    def _watch(self, name: str, parameter: torch.nn.Parameter) -> None:
        with torch.enable_grad():
            node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        self._parameters[name] = parameter
        self._nodes.append(node)
        self._hooks.append(node.register_hook(lambda *_: self._added(name)))

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._nodes = []

    def before_step(self) -> None:
        """Called after backward. Raises if a gradient has changed after it was handed over."""
        changed = [name for name in self._seen if not self._is_as_seen(name)]
        # NaN differs from itself, but was not changed.
        if any(size == size and size != _size(self._seen[name][0]) for name, size in self._sizes.items()):
            changed = list(self._seen)
        for name in changed:
            self._refuse_change(name)
        # DistributedDataParallel hands over the gradients itself.
        self._is_on = not changed and not self._vine._sum.is_ahead
        for name, count in self._count.items():
            self._most[name] = max(count, self._most.get(name, 0))
        self._count, self._seen, self._sizes, self._given = {}, {}, {}, set()
        self._next, self._bytes = {}, 0

    def _added(self, name: str) -> None:
        """Called when backward has added to a gradient."""
        self._refuse_change(name)
        gradient = self._parameters[name].grad
        if gradient is None or not self._vine._takes_gradient:
            return
        self._count[name] = self._count.get(name, 0) + 1
        self._seen[name] = (gradient, gradient._version)
        if name in self._compared:
            self._sizes[name] = _size(gradient)
        self._next.pop(name, None)
        is_complete = self._is_on and self._count[name] == self._most.get(name)
        is_dense = not gradient.is_sparse and gradient.is_contiguous()
        # The end of the sum takes all other gradients, or refuses them with a reason.
        if is_complete and is_dense and gradient.device.type == "cpu":
            self._next[name] = gradient
            self._bytes += gradient.numel() * gradient.element_size()
        if self._bytes >= _PART_BYTES:
            part, self._next, self._bytes = self._next, {}, 0
            self._given.update(part)
            self._vine.reduce_begin(part)

    def _is_as_seen(self, name: str) -> bool:
        gradient, version = self._seen[name]
        return gradient._version == version and self._parameters[name].grad is gradient

    def _refuse_change(self, name: str) -> None:
        if name in self._given:
            raise RuntimeError(
                f"'{name}': its gradient has changed after it was handed over to be summed, which "
                "happened in no step before; use attached(vine, optimizer, overlap=False)"
            )
