"""Joining a swarm, and the calls of a training loop."""

from __future__ import annotations

import ctypes
import json
import logging
import os
from typing import (
    Any,
    Callable,
    Iterable,
    Iterator,
    Literal,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Union,
    overload,
)

from . import _library as c
from ._arrays import ArrayModel
from ._collective import Collective
from ._memory import Memory, TensorList, number_of
from ._peer import Peer, begin_to_join
from ._sampler import Sampler
from ._state import Copies, GivenState, split_state

# A waiting call returns to Python this often, so that Ctrl-C and signal handlers are not kept waiting.
_PATIENCE_S = 0.2

_log = logging.getLogger("grapevine")

# Every ticket begins with this text.
_TICKET = "gv1_"


class Reduced(NamedTuple):
    """The result of `Vine.reduce`."""

    #: Samples of all peers in the mean; 0 where gradients are not summed.
    samples: int
    #: The model was replaced by a newer one: compute the gradient again and call `reduce` again.
    again: bool


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # Types that derive from these, such as NumPy's, may print their own names.
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    raise ValueError(f"a setting cannot be a {type(value).__name__}; write a number, text or list")


def _settings(algorithm: Optional[str], settings: Mapping[str, Any]) -> str:
    """TOML text of settings whose keys are written `section__key`."""
    lines = []
    if algorithm is not None:
        lines.append(f"run.algorithm = {_toml(algorithm)}")
    for key, value in settings.items():
        if "__" not in key:
            raise TypeError(f"join() has no argument '{key}'; a setting is written section__key")
        lines.append(f"{key.replace('__', '.')} = {_toml(value)}")
    return "\n".join(lines)


def _model_of(tensors: Any, optimizer: Any, state: Any) -> Any:
    if hasattr(tensors, "named_parameters"):
        from .torch import ModuleModel

        return ModuleModel(tensors, optimizer, state)
    if optimizer is not None:
        raise TypeError("join() takes an optimizer only together with a torch.nn.Module")
    return ArrayModel(tensors, state)


def _path(value: Union[str, os.PathLike[str], None]) -> Optional[bytes]:
    return None if value is None else os.fspath(value).encode()


class Vine(Peer):
    """One peer in this process, with a model. Made by `join`; used by one thread at a time.

    Also a context manager, which leaves at the end of its block.
    """

    def __init__(
        self, handle: ctypes.c_void_p, model: Any, tensors: TensorList, copies: Copies
    ) -> None:
        super().__init__(handle)
        self._model = model
        self._tensors = tensors
        self._copies = copies
        self._is_pending = True
        self._gradient: Optional[TensorList] = None
        # Parts of the step's gradient that were handed over, and the names in them. The peer uses the memory until
        # their sum is ready.
        self._parts: list[TensorList] = []
        self._handed_over: set[str] = set()
        # The result of a sum that ended during backward, until `reduce` returns it.
        self._summed: Optional[Reduced] = None
        # The arrays of a sum under way.
        self._summing: list[Memory] = []
        # The arrays that hold the step's mean gradient, and the result of its sum. A loop that repeats the step after
        # an exception gets the same mean again.
        self._mean: Optional[tuple[list[Memory], Reduced]] = None
        # The mean has just been written, so the loop cannot have changed its arrays.
        self._is_fresh = False
        # A sum that was interrupted has replaced the model, which the next call has to say.
        self._was_replaced = False
        # The warning about a repeated mean has been given.
        self._has_repeated = False
        self._steps_to_check = 1
        self._sampler: Optional[Sampler] = None
        # Batches that until_over() has given since the last step.
        self._given = 0
        # Grows when the loop may ask for a batch: for another step, or again for the same.
        self._turn = 0
        # The optimiser's steps, once this peer has joined.
        self._watch: Any = None
        # The gradient of the step has overflowed, and counted as zeros.
        self._has_overflowed = False
        self._skipped = 0

    # ---- The loop ----

    def step(self, loss: Any = 0.0, samples: int = 1) -> bool:
        """Reports that an optimiser step is over. Returns False once training is over.

        `loss` is the step's mean loss, a number or a tensor with one. A loss on a GPU is reported
        one step late, so that nothing waits for the GPU. In gossip it waits for no other peer.

        If the optimiser has made no step, as when a gradient scaler found an overflow, `skipped_steps` counts it, and
        the first time a warning is logged.
        """
        self._finish()
        if self._is_over:
            return False
        if self._summed is not None:
            raise ValueError(
                "the gradient was summed during backward, but the result of the sum was not read: "
                "call reduce() before optimizer.step(), and repeat the step if it says `again`"
            )
        self._steps_to_check -= 1
        if self._steps_to_check == 0:
            self._steps_to_check = 64
            self._model.check()
        rate = self._model.learning_rate()
        if rate is not None:
            self.set_learning_rate(rate)
        if self._sampler is not None:
            # A loop without until_over() takes one batch for each step.
            position = self._sampler._advance(self._given or 1)
            c.checked(c.library().gv_set_position(self._handle, position))
        self._given = 0
        self._turn += 1
        self._note_skip()
        number = self._model.loss(loss)
        self._model.give()
        result = self._begin(c.library().gv_step, samples, number)
        if self._is_pending:
            self._forget_mean()
        goes_on = self._wait(result)
        self._take()
        return goes_on

    def reduce(
        self, gradient: Any = None, samples: int = 1, loss: Any = 0.0, scaler: Any = None
    ) -> Reduced:
        """Replaces the gradient by the mean of all peers', where peers sum gradients.

        Called after `loss.backward()` and before `optimizer.step()`. For a module the gradients are
        those of its parameters; for arrays, `gradient` has one array for each of the model's, and
        a mapping has the model's names in any order. In gossip, and between sums, it does nothing.
        If training ends during the call, a module's gradients are removed, so that the optimiser's
        step changes nothing; a loop with arrays must check `is_over` and make no step.

        If the gradient was handed over in parts during backward, it waits for their sum.

        A step has one sum. If an exception, such as that of Ctrl-C, interrupts this call or comes before the
        optimiser's step, and the loop begins the step again, the step's mean is given again, and the new gradient is
        not used. The new gradient then needs arrays of its own, unless this call was interrupted.

        `scaler` is the GradScaler that has scaled the loss. It unscales the gradients, also in gossip, unless the loop
        has done so. A gradient that has overflowed is removed. Where peers sum gradients it counts as zeros instead,
        and the optimiser makes the step with the mean of all even if `scaler.step()` leaves it out.
        """
        self._finish()
        if scaler is None:
            return self._reduce(gradient, samples, loss)
        if self._summed is not None or self._handed_over:
            raise ValueError("a gradient with a scaler is summed after backward: it must be unscaled first")
        is_due = self._takes_gradient
        self._has_overflowed = self._model.unscale(scaler, is_summed=is_due)
        try:
            found = self._reduce(gradient, samples, loss)
        except BaseException:
            # The scaler may unscale the gradient of the step's next try.
            scaler.update()
            raise
        if found.again:
            # The gradient is dropped, and the scaler may unscale the next one.
            scaler.update()
        elif is_due and not self._is_over:
            self._watch.expect(self._has_overflowed)
        return found

    def _reduce(self, gradient: Any, samples: int, loss: Any) -> Reduced:
        if self._summed is not None:
            found, self._summed = self._summed, None
            return self._take_over(found)
        if self._handed_over and gradient is None:
            return self.reduce_end(samples, loss)
        if not self._takes_gradient:
            return Reduced(0, False)
        if self._was_replaced:
            return self._tell_replaced()
        if self._mean is not None:
            return self._take_over(self._give_again(lambda: self._model.gradient(gradient)))
        # It must stay alive until the call is over, even if Ctrl-C interrupts the wait.
        given = self._gradient = TensorList(self._model.gradient(gradient))
        result = self._begin_sum(
            given.memory, c.library().gv_reduce, given.array, given.count, samples, number_of(loss)
        )
        return self._take_over(self._reduced(result))

    def reduce_begin(self, part: Any) -> None:
        """Hands over a part of the gradient, which is summed while you compute the rest.

        `part` maps names to arrays: some of the model's, or of a module's parameters, each with its gradient. Nothing
        may change the arrays until `reduce_end`, and they cannot be taken back. The sum begins at the model's last
        array and goes on to the first, so give them in about this order; peers need not agree on it. In gossip it does
        nothing.
        """
        self._finish()
        if not self._takes_gradient or self._was_replaced:
            return
        self._hand_over(self._model.part(part, is_first=not self._handed_over))

    def reduce_end(self, samples: int = 1, loss: Any = 0.0) -> Reduced:
        """Waits for the sum of a gradient in parts, and replaces each part by the mean of all peers'.

        All arrays must have been handed over. For a module, those that were not are taken from its
        parameters' gradients, as `reduce` does. With `again`, hand over all parts again.
        """
        self._finish()
        if not self._takes_gradient:
            return Reduced(0, False)
        return self._take_over(self._end_parts(samples, loss))

    @property
    def _takes_gradient(self) -> bool:
        """True if the step has a sum, which may have been made already."""
        return not self._is_over and (self._mean is not None or self.needs_gradient)

    def _hand_over(self, memory: Sequence[Memory]) -> None:
        given = TensorList(memory)
        # It stays in use even if the rest is interrupted.
        self._parts.append(given)
        if self._mean is None:
            result = c.library().gv_reduce_begin(self._handle, given.array, given.count)
            if result == c.WRONG_ARGUMENT:
                self._parts.remove(given)
            self._is_over = self._is_over or c.checked(result) == c.OVER
        self._handed_over.update(one.name for one in memory)

    def _end_parts(self, samples: int, loss: Any) -> Reduced:
        if self._was_replaced:
            return self._tell_replaced()
        if self._mean is not None:
            return self._give_again(self._all_parts)
        rest = self._model.rest(self._handed_over)
        if rest:
            self._hand_over(rest)
        if self._is_over:
            return Reduced(0, False)
        memory = [one for part in self._parts for one in part.memory]
        result = self._begin_sum(memory, c.library().gv_reduce_end, samples, number_of(loss))
        return self._reduced(result)

    def _all_parts(self) -> list[Memory]:
        """The arrays of a gradient that was given in parts although the step's sum has been made."""
        memory = [one for part in self._parts for one in part.memory]
        memory += self._model.rest(self._handed_over)
        self._parts, self._handed_over = [], set()
        return memory

    def _tell_replaced(self) -> Reduced:
        """What the interrupted sum would have returned: the gradient is of a model that was replaced since."""
        self._was_replaced = False
        self._parts, self._handed_over = [], set()
        return Reduced(0, True)

    def _give_again(self, gradient: Callable[[], Sequence[Memory]]) -> Reduced:
        """Writes the step's mean to the arrays of a gradient that the loop has computed again."""
        assert self._mean is not None
        memory, found = self._mean
        if self._watch is not None and self._watch.made:
            raise RuntimeError("the optimiser has made this step already: call vine.step() before the next gradient")
        # A gradient from GPUs is copied to the same arrays as before, so the mean is read first.
        means = [ctypes.string_at(one.address, one.bytes) for one in memory]
        given = list(gradient())
        by_name = {one.name: one for one in given}
        has_names = all(one.name in by_name for one in memory)
        places = [by_name[one.name] for one in memory] if has_names else given
        if [(one.type, one.elements) for one in places] != [(one.type, one.elements) for one in memory]:
            raise ValueError(
                "the step's gradient was summed before an exception: give arrays of the same sizes and types again"
            )
        own = {one.address for one in memory}
        if not self._is_fresh and not self._model.is_staged and any(one.address in own for one in places):
            raise ValueError(
                "the step's gradient has been summed, and its arrays now hold other values: call vine.step() after "
                "each sum, or give each try of a step arrays of its own"
            )
        if not self._has_repeated:
            self._has_repeated = True
            _log.warning(
                "step %d has been summed already, so reduce() gives its mean again and ignores the new gradient. This "
                "is right where the loop repeats a step after an exception; otherwise call vine.step() after each "
                "sum. It is said once.",
                self.steps + 1,
            )
        for place, mean in zip(places, means):
            ctypes.memmove(place.address, mean, len(mean))
        self._mean = (places, found)
        self._is_fresh = False
        return found

    def _forget_mean(self) -> None:
        self._mean = None
        self._is_fresh = self._was_replaced = False

    def _begin_sum(self, memory: list[Memory], call: Any, *arguments: Any) -> int:
        """Begins a sum, whose mean will be in these arrays."""
        self._summing = memory
        return self._begin(call, *arguments)

    def _begin(self, call: Any, *arguments: Any) -> int:
        """Makes a call that may become pending.

        A call that is refused has changed nothing: parts of a gradient that were handed over stay
        in use, and can be completed.
        """
        self._is_pending = True
        result = call(self._handle, *arguments, ctypes.byref(self._info))
        self._is_pending = result != c.WRONG_ARGUMENT
        if not self._is_pending:
            self._summing = []
        return int(result)

    def _reduced(self, result: int) -> Reduced:
        """Waits for a sum that has this result so far."""
        self._wait(result)
        return self._end_sum()

    def _end_sum(self) -> Reduced:
        """The result of a sum for which the loop no longer waits. Keeps its mean until the step is over."""
        memory, self._summing = self._summing, []
        self._gradient = None
        self._parts = []
        self._handed_over = set()
        if self._is_over:
            return Reduced(0, False)
        found = Reduced(int(self._info.samples), bool(self._info.again))
        if not found.again:
            self._mean = (memory, found)
        return found

    def _take_over(self, found: Reduced) -> Reduced:
        """Writes changes of a sum, other than those in the gradients' own memory, to the model."""
        self._turn += found.again
        if found.again or self._is_over:
            self._model.take()
        self._model.took(self._is_over, found.again)
        self._copies.hand_over()
        return found

    def _take(self) -> None:
        """Gives the loop what the peer may have changed besides the parameters."""
        self._model.take()
        self._copies.hand_over()

    def _note_skip(self) -> None:
        """Counts a step that the optimiser has not made. A step that all others make is made here."""
        if self._watch is None:
            return
        if self._watch.is_due and not self._watch.made:
            if not self._has_overflowed:
                # The step may have been made by a method that was taken from the optimiser before join().
                raise RuntimeError(
                    "no step of the optimiser was seen after reduce(scaler=...): call scaler.step(optimizer), "
                    "and join before anything wraps or keeps optimizer.step"
                )
            self._watch.step()
        if self._watch.take() and not self._has_overflowed:
            return
        self._has_overflowed = False
        self._skipped += 1
        if self._skipped == 1:
            _log.warning(
                "step %d has no gradient of this peer: its gradient scaler has found an overflow, or the loop called "
                "vine.step() without optimizer.step(). vine.skipped_steps counts such steps; this is said once.",
                self.steps + 1,
            )

    def sampler(self, dataset: Any, batch: int) -> Sampler:
        """Batches of indices of the samples in this peer's part of a data set.

        `dataset` may also be its number of samples. All peers have the same data set, of which
        `data.partition` (iid, shared or leased) gives each its part. The order depends on
        `run.seed` and the shard alone. After a restart with `resume=True` it goes on where the
        checkpoint was made: with `until_over(loader)` each step uses up the batches that the loop
        has been given, and otherwise one.
        """
        if self._sampler is not None:
            raise ValueError("a peer has one sampler, because it has one position in its data")
        samples = dataset if isinstance(dataset, int) else len(dataset)
        self._sampler = Sampler(self, samples, batch)
        return self._sampler

    def set_learning_rate(self, rate: float) -> None:
        """Tells the peer the learning rate of the next step, which some mixing rules need.

        With a module and its optimiser, `step` does this.
        """
        c.checked(c.library().gv_set_learning_rate(self._handle, rate))

    def until_over(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Repeats the loader's batches until training is over."""
        while not self._is_over:
            is_empty = True
            for batch in loader:
                is_empty = False
                self._given += 1
                yield batch
                if self._is_over:
                    return
            if is_empty:
                raise ValueError("until_over(loader): the loader has no batch")

    # ---- What is known ----

    @property
    def steps(self) -> int:
        """Steps made in this process."""
        return int(self._info.steps)

    @property
    def needs_gradient(self) -> bool:
        """True if the next step's gradient must pass through `reduce`."""
        return bool(self._info.needs_gradient) and not self._is_over

    @property
    def progress(self) -> float:
        """How much of the swarm's budget is used up, from 0 to 1."""
        return float(self._info.progress)

    @property
    def factor(self) -> float:
        """What the next change of the parameters should be multiplied by; usually 1.

        It differs from 1 in gossip where this peer's data would otherwise count too little or too
        much. The steps of an optimiser that was given to `join` are multiplied by it already.
        """
        return float(self._info.factor)

    @property
    def skipped_steps(self) -> int:
        """Steps in this process without a gradient of this peer, as a gradient scaler leaves them out."""
        return self._skipped

    @property
    def status(self) -> dict[str, Any]:
        """The peer's status, as `grapevine status --json` prints it, and `skipped_steps`.

        Empty as long as the peer does not answer, and once it has ended.
        """
        status = super().status
        return {**status, "skipped_steps": self._skipped} if status else status

    def _free(self) -> None:
        if self._watch is not None:
            self._watch.remove()
        super()._free()

    def _finish(self) -> None:
        """Waits for the end of a call that Ctrl-C has interrupted. The result of a sum is kept for the next one."""
        if self._is_pending and not self._is_over:
            self._wait(c.PENDING)
            if not self._summing:
                self._forget_mean()
                self._take()
                return
            self._was_replaced = self._end_sum().again
            self._is_fresh = self._mean is not None
            if self._is_over:
                self._model.took(True, False)

    def _wait(self, result: int) -> bool:
        """Waits until a call is no longer pending. Returns False if training is over."""
        while self._checked(result) == c.PENDING:
            result = c.library().gv_wait(self._handle, ctypes.byref(self._info))
        self._is_pending = False
        self._is_over = self._is_over or result == c.OVER
        return not self._is_over

    def _checked(self, result: int) -> int:
        try:
            return c.checked(result)
        except c.Failed as failed:
            raise failed from self._copies.problem


@overload
def join(
    config: Union[str, os.PathLike[str], None] = ...,
    tensors: None = ...,
    optimizer: None = ...,
    *,
    mode: Literal["collective"],
    **named: Any,
) -> Collective: ...


@overload
def join(
    config: Union[str, os.PathLike[str], None],
    tensors: Any,
    optimizer: Any = ...,
    **named: Any,
) -> Vine: ...


def join(
    config: Union[str, os.PathLike[str], None] = None,
    tensors: Any = None,
    optimizer: Any = None,
    *,
    mode: Optional[str] = None,
    algorithm: Optional[str] = None,
    key: Union[str, os.PathLike[str], None] = None,
    authorized: Union[str, os.PathLike[str], None] = None,
    cohort: Union[str, os.PathLike[str], None] = None,
    rank: Optional[int] = None,
    ranks: int = 0,
    rendezvous: Union[str, os.PathLike[str], None] = None,
    name: Optional[str] = None,
    folder: Union[str, os.PathLike[str], None] = None,
    listen: Optional[str] = None,
    advertise: Optional[str] = None,
    dial_from: Optional[str] = None,
    lane_port: int = 0,
    join: Sequence[str] = (),
    shard: Optional[str] = None,
    wait_for: int = 0,
    samples: int = 0,
    all_samples: int = 0,
    resume: bool = False,
    state: Any = None,
    state_bytes: int = 1 << 16,
    _begun: Optional[Callable[[Peer], None]] = None,
    **settings: Any,
) -> Union[Vine, Collective]:
    """Joins a swarm with a model, and returns when the first step may be made.

    `config` is the run's TOML file, or None for what the launcher gave or the built-in one. Or it is a ticket, which
    brings the config, a certificate and addresses from the peer that has made it. `folder` keeps them, so that the same
    call continues as the same peer. While that peer does not answer, join() says so once on standard error and waits
    until the ticket expires. `tensors` is a torch.nn.Module, or arrays: a mapping of names to arrays, a list, or
    one. With a module, `optimizer` is its torch optimiser, whose state then goes into checkpoints and, in lockstep, to
    newcomers. `state` has further arrays that go there, or is a pair of functions (get, set): get() returns at most
    `state_bytes` bytes, and set(bytes) is given those of a checkpoint or of another peer. Never unpickle them: a peer
    that has been taken over could run code here. `algorithm` is a name from `grapevine algorithms`. The other arguments
    are those of `grapevine peer`, and settings are written `section__key=value`, for example
    `gossip__period_steps=8`. `samples` is the size of this peer's data and `all_samples` that of all peers', which a
    budget in epochs needs. With `cohort` (the file with a cohort's secret), `rank` and `ranks` are by default what
    torchrun, Slurm, MPI or Kubernetes says.

    With `mode="collective"` there is no model, only means of arrays. Returns a Collective once this
    peer works together with the others.

    Raises Refused, Unreachable or Failed, whose texts say what to do.
    """
    is_ticket = isinstance(config, str) and config.strip().startswith(_TICKET)
    if cohort is None and (rank is not None or ranks or rendezvous is not None):
        raise TypeError("join() takes rank, ranks and rendezvous only together with cohort")
    is_collective = _is_collective(mode, tensors, optimizer, state)
    addresses = (ctypes.c_char_p * max(1, len(join)))(*[one.encode() for one in join])
    options = c.Options(
        size=ctypes.sizeof(c.Options),
        config=None if is_ticket else _path(config),
        settings=_settings(algorithm, settings).encode(),
        key=_path(key),
        authorized=_path(authorized),
        name=_path(name),
        folder=_path(folder),
        listen=_path(listen),
        advertise=_path(advertise),
        join=ctypes.cast(addresses, ctypes.POINTER(ctypes.c_char_p)),
        joins=len(join),
        shard=_path(shard),
        wait_for=wait_for,
        samples=samples,
        all_samples=all_samples,
        patience_s=_PATIENCE_S,
        resume=int(resume),
        has_rank=int(rank is not None),
        cohort=_path(cohort),
        rank=rank or 0,
        ranks=ranks,
        rendezvous=_path(rendezvous),
        ticket=_path(config) if is_ticket else None,
        create=int(_begun is not None),
        dial_from=_path(dial_from),
        lane_port=lane_port,
    )
    if is_collective:
        return Collective._join(options, _begun)
    arrays, given = split_state(state, state_bytes)
    return _join_with_model(options, _model_of(tensors, optimizer, arrays), given, _begun)


def create(
    config: Union[str, os.PathLike[str], None] = None,
    tensors: Any = None,
    optimizer: Any = None,
    *,
    listen: str,
    uses: int = 1,
    valid_s: float = 3600.0,
    may_invite: bool = True,
    show: Callable[[str], Any] = print,
    **named: Any,
) -> Union[Vine, Collective]:
    """Begins a swarm that others join by tickets, and is its first peer.

    `listen` is the "HOST:PORT" that the others dial, or ":PORT". As soon as the peer listens, which is before the
    others have come, it passes a ticket to `show`. `uses`, `valid_s` and `may_invite` are as for `invite`, and all
    other arguments as for `join`. Called again with the same `folder`, it continues with its swarm.
    """

    def begun(peer: Peer) -> None:
        # The peer answers once it has read its model and opened its ports. If that fails, the call says so.
        ticket = None
        while ticket is None:
            ticket = peer._ticket(uses, valid_s, may_invite)
        show(ticket)

    return join(config, tensors, optimizer, listen=listen, _begun=begun, **named)


def _is_collective(mode: Optional[str], tensors: Any, optimizer: Any, state: Any) -> bool:
    if mode is None:
        if tensors is None:
            raise TypeError('join() needs a model, or mode="collective" to do without one')
        return False
    if mode != "collective":
        raise TypeError(f"join(mode={mode!r}): write run__mode={mode!r} for a mode that trains")
    if tensors is not None or optimizer is not None or state is not None:
        raise TypeError('join(mode="collective") takes no model, and averages arrays by mean()')
    return True


def _join_with_model(
    options: c.Options,
    model: Any,
    state: list[GivenState],
    begun: Optional[Callable[[Peer], None]],
) -> Vine:
    given = TensorList(model.mean, model.buffers, [*model.state, *(one.memory for one in state)])
    copies = Copies(model, state)
    options.copy = copies.function
    handle = ctypes.c_void_p()
    vine = None
    try:
        join = c.library().gv_join
        begin_to_join(
            options,
            lambda: join(ctypes.byref(options), given.array, given.count, ctypes.byref(handle)),
        )
        vine = Vine(handle, model, given, copies)
        if begun is not None:
            begun(vine)
        # Called even without a wait, to learn what the first step needs.
        vine._wait(c.PENDING)
        vine._take()
        vine._watch = model.watch(lambda: vine.factor)
        return vine
    except BaseException:
        if vine is not None:
            vine._leave_quietly()
        elif handle:
            c.library().gv_free(handle)
        raise
