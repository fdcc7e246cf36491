"""Steps of an optimiser that a gradient scaler leaves out, and how long those are that it makes. Skipped where PyTorch
is not installed."""

import json
import unittest
import unittest.mock

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

from torch_models import CRITERION, Scaler, batches, make_model, make_optimizer
from torch_test import Swarms, TorchAlone

import grapevine
import grapevine.torch
from grapevine._optimizer import StepWatch

STEPS = 16
# Steps whose gradient overflows. A scaler often meets one at the first step.
OVERFLOWS = (0, 5, 6)


class StepWatchTest(unittest.TestCase):
    def test_a_step_that_all_make_needs_the_gradient_until_it_is_made(self):
        model = make_model("mlp")
        optimizer = make_optimizer("momentum", model)
        watch = StepWatch(optimizer, lambda: 1.0)
        for has_overflowed in (True, False):
            for parameter in model.parameters():
                parameter.grad = torch.ones_like(parameter)
            watch.expect(has_overflowed)
            optimizer.zero_grad()
            if has_overflowed:
                with self.assertRaisesRegex(RuntimeError, "call optimizer.zero_grad.. after vine.step"):
                    watch.step()
            else:
                watch.step()

    def test_the_step_that_a_scaler_has_left_out_has_the_settings_from_before_the_schedule_went_on(self):
        changed = []
        for is_made_by_the_watch in (False, True):
            model = make_model("mlp")
            optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
            watch = StepWatch(optimizer, lambda: 1.0)
            schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.5, 1.0, 4)
            before = (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"])
            with unittest.mock.patch("warnings.warn"):
                for _ in range(2):
                    for parameter in model.parameters():
                        parameter.grad = torch.ones_like(parameter)
                    watch.expect(is_made_by_the_watch)
                    if not is_made_by_the_watch:
                        optimizer.step()
                    schedule.step()
                    after = (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"])
                    if is_made_by_the_watch:
                        watch.step()
                    self.assertNotEqual(after, before)
                    found = (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"])
                    self.assertEqual(found, after)
                    watch.take()
            changed.append([parameter.detach().clone() for parameter in model.parameters()])
        for one, other in zip(*changed):
            self.assertTrue(torch.equal(one, other))


class ScalerAloneTest(TorchAlone):
    def train(self, calls_reduce, unscales, mode="gossip"):
        """Trains with a scaler. Returns the parameters and what was told."""
        model = make_model("mlp")
        optimizer = make_optimizer("momentum", model)
        scaler = Scaler()
        self.setUp()
        with self.join(model, optimizer, run__steps=1000, run__mode=mode) as vine:
            for number, (x, y) in zip(range(STEPS), vine.until_over(batches())):
                optimizer.zero_grad()
                loss = CRITERION(model(x), y)
                scaler.scale(loss).backward()
                if number in OVERFLOWS:
                    model[0].weight.grad[0] = float("nan" if number == 0 else "inf")
                if unscales:
                    scaler.unscale_(optimizer)
                if calls_reduce:
                    self.assertFalse(vine.reduce(loss=loss, scaler=scaler).again)
                scaler.step(optimizer)
                scaler.update()
                vine.step(float("inf") if number in OVERFLOWS else loss)
            told = (vine.skipped_steps, vine.status["skipped_steps"], scaler.factor)
        return list(model.parameters()), told

    def test_a_skipped_step_is_told_once_and_changes_nothing(self):
        plain = make_model("mlp")
        optimizer = make_optimizer("momentum", plain)
        for number, (x, y) in enumerate(batches()):
            optimizer.zero_grad()
            CRITERION(plain(x), y).backward()
            if number not in OVERFLOWS:
                optimizer.step()
        for calls_reduce in (False, True):
            for unscales in (False, True):
                with self.subTest(calls_reduce=calls_reduce, unscales=unscales):
                    with self.assertLogs("grapevine") as logs:
                        parameters, told = self.train(calls_reduce, unscales)
                    self.assertEqual(told, (3, 3, 1024.0 / 8))
                    self.assertEqual(len(logs.records), 1)
                    self.assertIn("step 1 has no gradient of this peer", logs.output[0])
                    for ours, theirs in zip(parameters, plain.parameters()):
                        self.assertTrue(torch.equal(ours, theirs))

    def test_in_lockstep_the_step_that_a_scaler_leaves_out_is_made(self):
        plain = make_model("mlp")
        optimizer = make_optimizer("momentum", plain)
        for number, (x, y) in enumerate(batches()):
            optimizer.zero_grad()
            CRITERION(plain(x), y).backward()
            if number in OVERFLOWS:
                # The mean of all gradients is zero, and the momentum goes on.
                optimizer.zero_grad(set_to_none=False)
            optimizer.step()
        for unscales in (False, True):
            with self.subTest(unscales=unscales):
                parameters, told = self.train(True, unscales, mode="allreduce")
                self.assertEqual(told, (3, 3, 1024.0 / 8))
                for ours, theirs in zip(parameters, plain.parameters()):
                    self.assertTrue(torch.equal(ours, theirs))

    def test_a_step_that_has_overflowed_is_made_also_if_it_is_begun_again(self):
        model = make_model("mlp")
        optimizer = make_optimizer("momentum", model)
        scaler = Scaler()
        x, y = next(iter(batches()))
        with self.join(model, optimizer, run__steps=1000, run__mode="allreduce") as vine, self.assertLogs("grapevine"):
            for overflows in (True, False):
                optimizer.zero_grad(set_to_none=True)
                loss = CRITERION(model(x), y)
                scaler.scale(loss).backward()
                if overflows:
                    model[0].weight.grad[0] = float("inf")
                vine.reduce(loss=loss, scaler=scaler)
                # An exception after the first try makes the loop begin the step again.
            before = [parameter.detach().clone() for parameter in model.parameters()]
            scaler.step(optimizer)
            scaler.update()
            self.assertTrue(vine.step(loss))
            for one, other in zip(before, model.parameters()):
                # The gradient that was summed counts as zeros.
                self.assertTrue(torch.equal(one, other))

    def assert_refused(self, vine, loss=0.0):
        """The library refuses a step while a gradient in parts is incomplete."""
        vine.reduce_begin({"0.weight": torch.zeros(8, 6)})
        for _ in range(2):
            with self.assertRaisesRegex(ValueError, "is given in parts"):
                vine.step(loss)
        self.assertEqual(vine.skipped_steps, 0)
        self.assertEqual(vine.steps, 0)
        self.assertFalse(vine.reduce().again)

    def test_a_step_that_is_refused_is_not_counted_as_skipped(self):
        for is_made in (False, True):
            with self.subTest(is_made=is_made):
                self.setUp()
                model = make_model("mlp")
                optimizer = make_optimizer("sgd", model)
                with self.join(model, optimizer, run__steps=1000, run__mode="allreduce") as vine:
                    if is_made:
                        optimizer.step()
                        self.assert_refused(vine)
                        vine.step()
                    else:
                        with self.assertLogs("grapevine") as logs:
                            self.assert_refused(vine)
                            self.assertEqual(len(logs.records), 0)
                            vine.step()
                        self.assertEqual(len(logs.records), 1)
                        self.assertIn("step 1 has no gradient of this peer", logs.output[0])
                    self.assertEqual(vine.skipped_steps, 0 if is_made else 1)

    def test_a_step_that_has_overflowed_and_is_refused_is_made_and_counted_once(self):
        model = make_model("mlp")
        optimizer = make_optimizer("momentum", model)
        scaler = Scaler()
        x, y = next(iter(batches()))
        with self.join(model, optimizer, run__steps=1000, run__mode="allreduce") as vine, self.assertLogs("grapevine"):
            loss = CRITERION(model(x), y)
            scaler.scale(loss).backward()
            model[0].weight.grad[0] = float("inf")
            vine.reduce(loss=loss, scaler=scaler)
            scaler.step(optimizer)
            scaler.update()
            with unittest.mock.patch.object(optimizer, "step", wraps=optimizer.step) as step:
                wrong = unittest.mock.Mock(return_value=grapevine._library.WRONG_ARGUMENT)
                with unittest.mock.patch.object(grapevine._library.library(), "gv_step", wrong):
                    with self.assertRaises(ValueError):
                        vine.step(loss)
                self.assertEqual(vine.skipped_steps, 0)
                self.assertTrue(vine.step(loss))
            step.assert_called_once()
            self.assertEqual(vine.skipped_steps, 1)

    def test_a_fused_optimizer_makes_a_step_that_is_due(self):
        class Fused(torch.optim.SGD):
            def step(self, closure=None, **named):
                self.seen = (float(self.found_inf), named)

        optimizer = Fused([torch.nn.Parameter(torch.ones(2))], lr=0.1)
        watch = grapevine.torch.StepWatch(optimizer, lambda: 1.0)
        for is_due, seen in ((False, (1.0, {"grad_scaler": 1})), (True, (0.0, {}))):
            optimizer.found_inf = torch.ones(1)
            if is_due:
                watch.expect()
            optimizer.step(grad_scaler=1)
            self.assertEqual(optimizer.seen, seen)
            self.assertTrue(watch.take())
        self.assertFalse(watch.take())

    def test_a_scaler_needs_the_optimizer_and_a_whole_gradient(self):
        model = make_model("mlp")
        with self.join(model, None, run__steps=10) as vine:
            with self.assertRaisesRegex(TypeError, "needs the module's optimizer"):
                vine.reduce(scaler=Scaler())
        self.setUp()
        model = make_model("mlp")
        with self.join(model, make_optimizer("sgd", model), run__steps=10, run__mode="allreduce") as vine:
            vine.reduce_begin({"0.weight": torch.zeros(8, 6)})
            with self.assertRaisesRegex(ValueError, "summed after backward"):
                vine.reduce(scaler=Scaler())
        self.setUp()
        with grapevine.join(None, {"x": torch.zeros(3)}, run__steps=10, **self.given) as vine:
            with self.assertRaisesRegex(TypeError, "needs a torch.nn.Module"):
                vine.reduce([torch.zeros(3)], scaler=Scaler())


class FactorTest(TorchAlone):
    def train(self, factor, rate, schedule, is_attached):
        """Trains where the swarm says the factor. Returns the parameters."""
        model = make_model("mlp")
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        own_step = optimizer.step
        seen = []
        self.setUp()
        with self.join(model, optimizer, run__steps=STEPS, gossip__period_steps=2) as vine:
            made = schedule and schedule(optimizer, vine)
            told = unittest.mock.patch.object(grapevine.Vine, "factor", factor)

            def loop():
                for x, y in vine.until_over(batches()):
                    optimizer.zero_grad()
                    loss = CRITERION(model(x), y)
                    loss.backward()
                    optimizer.step()
                    if not is_attached:
                        vine.step(loss)
                    if made:
                        made.step()
                    seen.append(optimizer.param_groups[0]["lr"])

            with told, unittest.mock.patch("warnings.warn") as warned:
                if is_attached:
                    with grapevine.torch.attached(vine, optimizer):
                        loop()
                else:
                    loop()
        warned.assert_not_called()
        # The optimiser is as before, unless a scheduler has wrapped its step.
        if not schedule:
            self.assertEqual(optimizer.step, own_step)
        return list(model.parameters()), [one / rate for one in seen]

    def test_each_step_is_scaled_once_with_a_schedule_and_without(self):
        def by_progress(optimizer, vine):
            return grapevine.torch.scheduler(optimizer, vine, lambda progress: 1 - progress / 2)

        for schedule in (None, by_progress):
            # All factors are powers of two, and progress is steps / 16, so no product is rounded.
            plain, rates = self.train(1.0, 0.125, schedule, False)
            for is_attached in (False, True):
                with self.subTest(schedule=schedule, is_attached=is_attached):
                    ours, told = self.train(0.25, 0.5, schedule, is_attached)
                    self.assertEqual(told, rates)
                    for one, other in zip(ours, plain):
                        self.assertTrue(torch.equal(one, other))

    def test_an_optimizer_that_did_not_join_is_scaled_by_attached_alone(self):
        found = []
        for factor, rate in ((0.25, 0.5), (1.0, 0.125)):
            self.setUp()
            model = make_model("mlp")
            optimizer = torch.optim.SGD(model.parameters(), lr=rate)
            told = unittest.mock.patch.object(grapevine.Vine, "factor", factor)
            with self.join(model, None, run__steps=STEPS) as vine, told:
                with grapevine.torch.attached(vine, optimizer):
                    for x, y in vine.until_over(batches()):
                        optimizer.zero_grad()
                        CRITERION(model(x), y).backward()
                        optimizer.step()
            found.append(list(model.parameters()))
        for one, other in zip(*found):
            self.assertTrue(torch.equal(one, other))

    def test_a_schedule_may_be_made_before_or_after_joining(self):
        for is_early in (True, False):
            with self.subTest(is_early=is_early):
                self.setUp()
                model = make_model("mlp")
                optimizer = make_optimizer("sgd", model)
                make = lambda: torch.optim.lr_scheduler.StepLR(optimizer, 4)  # noqa: E731
                schedule = make() if is_early else None
                with self.join(model, optimizer, run__steps=STEPS) as vine:
                    schedule = schedule or make()
                    with unittest.mock.patch("warnings.warn") as warned:
                        for _ in vine.until_over([1]):
                            optimizer.step()
                            vine.step()
                            schedule.step()
                    self.assertEqual(vine.skipped_steps, 0)
                warned.assert_not_called()
                # It still works, and is counted no more.
                optimizer.step()


class ScalerSwarmTest(Swarms):
    def test_an_overflow_at_one_peer_harms_no_other(self):
        for mode in ("allreduce", "gossip"):
            with self.subTest(mode):
                self.setUp()
                swarm = self.swarm(mode, 3, 64, "mlp", "momentum", "--overflow-every", "7", "--scaler")
                swarm.start_all()
                printed = []
                for number in range(3):
                    code, out, err = swarm.end(number)
                    self.assertEqual(code, 0, err)
                    self.assertEqual(err.count("has no gradient of this peer"), 1, err)
                    self.assertEqual(len(err.splitlines()), 1, err)
                    printed.append(json.loads(out))
                for one in printed:
                    # Each has an overflow in every seventh step.
                    self.assertGreaterEqual(one["skipped"], one["steps"] // 7)
                    self.assertLess(one["skipped"], one["steps"] // 3)
                    self.assertEqual(one["x"], printed[0]["x"])
                    for values in one["x"].values():
                        self.assertTrue(torch.tensor(values).isfinite().all())
                if mode == "allreduce":
                    for number in range(3):
                        events = (swarm.folder(number) / "events.jsonl").read_text()
                        self.assertNotIn("models_differ", events)


if __name__ == "__main__":
    unittest.main()
