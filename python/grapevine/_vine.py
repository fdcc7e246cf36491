"""The calls of a training loop."""

from __future__ import annotations

import ctypes
import logging
from typing import Any, Iterable, Iterator, Optional, Sequence

from . import _library as c
from ._memory import Memory, TensorList, count_of, number_of
from ._peer import Peer
from ._sampler import Sampler
from ._state import Copies
from ._sum import Reduced, StepSum

_log = logging.getLogger("grapevine")


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
        self._sum = StepSum()
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
        self._skipped = 0

    # ---- The loop ----

    def step(self, loss: Any = 0.0, samples: int = 1) -> bool:
        """Reports that an optimiser step is over. Returns False once training is over.

        `loss` is the step's mean loss, a number or a tensor with one. A loss on a GPU is reported
        one step late, so that nothing waits for the GPU. In gossip it waits for no other peer.

        If the optimiser has made no step, as when a gradient scaler found an overflow, `skipped_steps` counts it, and
        the first time a warning is logged.
        """
        samples = count_of(samples, "samples")
        self._finish()
        if self._is_over:
            return False
        if self._sum.is_ahead or (self._sum.found is not None and not self._sum.is_told):
            raise ValueError(
                "the gradient was summed, but the result of the sum was not read: call reduce() before "
                "optimizer.step(), and repeat the step if it says `again`"
            )
        self._steps_to_check -= 1
        if self._steps_to_check == 0:
            self._steps_to_check = 64
            self._model.check()
        rate = self._model.learning_rate()
        if rate is not None:
            self.set_learning_rate(rate)
        mean_loss = self._model.loss(loss)
        if self._watch is not None:
            self._watch.make_due_step()
        position = 0
        if self._sampler is not None:
            # A loop without until_over() takes one batch for each step.
            position = self._sampler._after_step(self._given or 1)
            c.checked(c.library().gv_set_position(self._handle, position))
        self._model.give()
        number = self.steps + 1
        try:
            result = self._begin(c.library().gv_step, samples, mean_loss)
        finally:
            # A step that was refused has used up no data, and was not skipped.
            if self._is_pending:
                self._end_step(number, position)
        goes_on = self._wait(result)
        self._take()
        return goes_on

    def _end_step(self, number: int, position: int) -> None:
        """Notes that the library has accepted the step with this number."""
        self._count_skip(number)
        if self._sampler is not None:
            self._sampler.position = position
        self._given = 0
        self._turn += 1
        self._begin_next_sum()

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
        not used. A module's new gradients then need memory of their own, so clear them by
        `optimizer.zero_grad(set_to_none=True)`; an interrupted call has done so.

        `scaler` is the GradScaler that has scaled the loss. It unscales the gradients, also in gossip, unless the loop
        has done so. A gradient that has overflowed is removed. Where peers sum gradients it counts as zeros instead,
        and the optimiser makes the step with the mean of all even if `scaler.step()` leaves it out.
        """
        samples = count_of(samples, "samples")
        self._finish()
        if scaler is None:
            return self._reduce(gradient, samples, loss)
        if self._sum.places:
            raise ValueError("a gradient with a scaler is summed after backward: it must be unscaled first")
        is_due = self._takes_gradient
        has_overflowed = self._model.unscale(scaler, is_summed=is_due)
        # If the gradient that was summed had overflowed, the scaler leaves the step out although this one has not.
        if self._sum.found is None or has_overflowed:
            self._watch.has_overflowed = has_overflowed
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
            self._watch.expect(self._watch.has_overflowed)
        return found

    def _reduce(self, gradient: Any, samples: int, loss: Any) -> Reduced:
        if not self._takes_gradient:
            return Reduced(0, False)
        if self._sum.is_ahead:
            return self._tell(None)
        if self._sum.places and gradient is None:
            return self.reduce_end(samples, loss)
        number = number_of(loss)
        places = self._model.gradient(gradient, self._sum.names)
        if self._sum.found is None:
            given = TensorList(self._model.to_sum(places))
            call = c.library().gv_reduce
            self._sum_up([given], call, given.array, given.count, samples, number)
        return self._tell(places)

    def reduce_begin(self, part: Any) -> None:
        """Hands over a part of the gradient, which is summed while you compute the rest.

        `part` maps names to arrays: some of the model's, or of a module's parameters, each with its gradient. Nothing
        may change the arrays until `reduce_end`, and they cannot be taken back. The sum begins at the model's last
        array and goes on to the first, so give them in about this order; peers need not agree on it. In gossip it does
        nothing.
        """
        self._finish()
        if not self._takes_gradient:
            return
        is_first = self._sum.found is None and not self._sum.places
        self._hand_over(self._model.part(part, is_first))

    def reduce_end(self, samples: int = 1, loss: Any = 0.0) -> Reduced:
        """Waits for the sum of a gradient in parts, and replaces each part by the mean of all peers'.

        All arrays must have been handed over. For a module, those that were not are taken from its
        parameters' gradients, as `reduce` does. A parameter whose gradient is no longer the one that was
        handed over gets the mean, too. With `again`, hand over all parts again.
        """
        samples = count_of(samples, "samples")
        self._finish()
        if not self._takes_gradient:
            return Reduced(0, False)
        self._end_parts(samples, number_of(loss))
        # An exception may have come after the first parts, so that the module has other gradients since.
        return self._tell([*self._sum.places, *self._model.rest((), self._sum.names)])

    @property
    def _takes_gradient(self) -> bool:
        """True if the step has a sum, which may have been made already."""
        return not self._is_over and (self._sum.found is not None or self.needs_gradient)

    def _hand_over(self, memory: Sequence[Memory]) -> None:
        if self._sum.found is not None:
            # The step has been summed. An array with a new gradient no longer holds the mean.
            self._sum.check_apart(memory)
            self._sum.places += memory
            return
        given = TensorList(self._model.to_sum(memory))
        places = self._sum.places
        # It stays in use even if the rest is interrupted.
        self._sum.lists.append(given)
        self._sum.places = [*places, *memory]
        result = c.library().gv_reduce_begin(self._handle, given.array, given.count)
        if result == c.WRONG_ARGUMENT:
            self._sum.lists.remove(given)
            self._sum.places = places
        if c.checked(result) == c.OVER:
            self._is_over = True
            self._note_found()

    def _end_parts(self, samples: int, loss: float) -> None:
        """Sums a gradient in parts, unless the step's gradient has been summed."""
        given = {one.name for one in self._sum.places}
        rest = self._model.rest(given, self._sum.names)
        if self._sum.found is not None:
            self._sum.places += rest
            return
        if rest:
            self._hand_over(rest)
        if not self._is_over:
            self._sum_up([], c.library().gv_reduce_end, samples, loss)

    def _end_within_backward(self) -> None:
        """Sums a gradient whose last part was handed over. Only `reduce` tells the loop of the result."""
        self._end_parts(1, 0.0)
        if self._has_mean:
            self._write_mean(self._sum.places)
        self._sum.is_ahead = True

    def _sum_up(self, lists: list[TensorList], call: Any, *arguments: Any) -> None:
        """Begins the sum of what these lists and the parts hold, and waits for its end."""
        step = self._sum
        parts = step.lists
        step.begin(lists)
        try:
            try:
                result = self._begin(call, *arguments)
            finally:
                if not self._is_pending:
                    # The call was refused. The parts are still in use, and can be completed.
                    step.is_begun, step.lists = False, parts
            self._wait(result)
            self._note_found()
        except BaseException:
            if step.is_begun:
                self._let_go()
            raise

    def _let_go(self) -> None:
        """Takes the arrays of a sum from the loop, which may refill its own before the sum ends."""
        self._sum.is_repeated, self._sum.places = True, []
        self._model.let_go(self._sum.arrays)

    def _note_found(self) -> None:
        samples, again = int(self._info.samples), bool(self._info.again)
        self._sum.found = Reduced(0, False) if self._is_over else Reduced(samples, again)

    @property
    def _has_mean(self) -> bool:
        found = self._sum.found
        return found is not None and not found.again and not self._is_over

    def _tell(self, places: Optional[Sequence[Memory]]) -> Reduced:
        """Returns the result of the step's sum, and gives the loop what came with it.

        The mean goes to these arrays. With None they have it.
        """
        found = self._sum.found
        assert found is not None
        if not self._has_mean:
            self._model.take()
        elif places is not None:
            self._write_mean(places)
        self._model.took(self._is_over, found.again)
        self._sum.is_told = self._sum.is_repeated = True
        self._sum.is_ahead, self._sum.places = False, []
        if found.again:
            self._turn += 1
            self._begin_next_sum()
        self._copies.hand_over()
        return found

    def _write_mean(self, places: Sequence[Memory]) -> None:
        """Gives the mean to the arrays of the step's present try."""
        self._sum.check_like(places)
        if self._sum.is_repeated:
            self._check_repetition()
        self._sum.is_repeated = True
        self._sum.write_mean(places)

    def _check_repetition(self) -> None:
        """Raises if the loop cannot have the step's mean again, and says once that it has."""
        if self._watch is not None and self._watch.made:
            raise RuntimeError("the optimiser has made this step already: call vine.step() before the next gradient")
        self._sum.check_unchanged(self._model)
        if not self._has_repeated:
            self._has_repeated = True
            _log.warning(
                "step %d has been summed already, so reduce() gives its mean again and ignores the new gradient. This "
                "is right where the loop repeats a step after an exception; otherwise call vine.step() after each "
                "sum. It is said once.",
                self.steps + 1,
            )

    def _begin_next_sum(self) -> None:
        self._model.reuse(self._sum.arrays)
        self._sum = StepSum()

    def _begin(self, call: Any, *arguments: Any) -> int:
        """Makes a call that may become pending. A call that is refused has changed nothing."""
        self._is_pending = True
        try:
            result = call(self._handle, *arguments, ctypes.byref(self._info))
        except ctypes.ArgumentError:
            self._is_pending = False
            raise
        self._is_pending = result != c.WRONG_ARGUMENT
        return int(result)

    def _take(self) -> None:
        """Gives the loop what the peer may have changed besides the parameters."""
        self._model.take()
        self._copies.hand_over()

    def _count_skip(self, number: int) -> None:
        """Counts the step with this number if it has no gradient of this peer."""
        if self._watch is None or self._watch.take():
            return
        self._skipped += 1
        if self._skipped == 1:
            _log.warning(
                "step %d has no gradient of this peer: its gradient scaler has found an overflow, or the loop called "
                "vine.step() without optimizer.step(). vine.skipped_steps counts such steps; this is said once.",
                number,
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
            if not self._sum.is_begun:
                self._take()
        if self._sum.is_begun and self._sum.found is None:
            self._note_found()
        # A sum may have ended training while nothing waited for it.
        if self._is_over and self._sum.found is not None and not self._sum.is_told:
            self._tell(None)

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
