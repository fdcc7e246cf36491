"""Gradients of PyTorch that are summed during backward. Skipped where PyTorch is not installed."""

import json
import unittest
import unittest.mock

from forked_peers import ForkedPeers
from support import HERE, WATCHFUL, FolderTest

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

import grapevine
import grapevine._overlap
import grapevine.torch
from torch_models import CRITERION, batches, forward, make_model, make_optimizer

PEER = str(HERE / "torch_overlap_peer.py")
PEERS = 2

TOGETHER = """
[run]
mode = "allreduce"
steps = {steps}
peers = {peers}
linger_s = {linger_s}
wait_max_s = 60.0
wait_for_peers = {peers}
[allreduce]
bucket_elements = 16
[train]
batch = 8
""" + WATCHFUL


def train_alone(model, optimizer, steps):
    """Plain PyTorch, on the batches of all peers together."""
    data = [batches(part, PEERS) for part in range(PEERS)]
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(PEERS):
            x, y = data[part][step % len(data[0])]
            (CRITERION(forward(model, x, step + part), y) / PEERS).backward()
        optimizer.step()


class OverlapAloneTest(FolderTest):
    """One peer in this process, with parts for each parameter."""

    def setUp(self):
        super().setUp()
        torch.set_num_threads(1)
        self.addCleanup(setattr, grapevine._overlap, "_PART_BYTES", grapevine._overlap._PART_BYTES)
        grapevine._overlap._PART_BYTES = 1
        self.model = make_model("mlp")
        self.optimizer = make_optimizer("sgd", self.model)

    def join(self, mode="allreduce"):
        return grapevine.join(
            None,
            self.model,
            self.optimizer,
            run__steps=1000,
            run__mode=mode,
            train__batch=8,
            **self.alone(),
        )

    def backward(self, model, batch=0):
        x, y = batches()[batch]
        CRITERION(model(x), y).backward()

    def distributed(self, vine):
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        self.addCleanup(self.end_group)
        ddp = torch.nn.parallel.DistributedDataParallel(self.model, find_unused_parameters=True)
        ddp.register_comm_hook(vine, grapevine.torch.comm_hook)
        return ddp

    def end_group(self):
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()

    def test_the_hook_of_distributed_data_parallel(self):
        for mode, model in (("allreduce", "mlp"), ("allreduce", "tied"), ("gossip", "tied")):
            with self.subTest(mode=mode, model=model):
                self.setUp()
                self.model = make_model(model)
                self.optimizer = make_optimizer("sgd", self.model)
                with self.join(mode) as vine:
                    ddp = self.distributed(vine)
                    self.backward(self.model)
                    wanted = [p.grad for p in self.model.parameters()]
                    for _ in range(3):
                        self.optimizer.zero_grad(set_to_none=True)
                        with ddp.no_sync():
                            self.backward(ddp)
                        self.backward(ddp)
                        self.assertFalse(vine.reduce().again)
                        # With a single peer the mean is its own gradient, and a missing gradient
                        # stays missing.
                        for parameter, gradient in zip(self.model.parameters(), wanted):
                            self.assertEqual(parameter.grad is None, gradient is None)
                            if gradient is not None:
                                self.assertTrue(torch.equal(parameter.grad, 2 * gradient))
                        self.assertTrue(vine.step())
                self.end_group()

    def test_what_the_hook_refuses(self):
        with self.join() as vine:
            ddp = self.distributed(vine)
            self.backward(ddp)
            with self.assertRaisesRegex(ValueError, "call reduce.. before optimizer.step"):
                vine.step()
            with self.assertRaisesRegex(Exception, "under ddp.no_sync"):
                self.backward(ddp)

    def test_a_step_summed_within_backward_can_be_repeated_with_other_buckets(self):
        for is_interrupted in (False, True):
            with self.subTest(is_interrupted=is_interrupted):
                self.setUp()
                with self.join() as vine:
                    self.repeat_in_buckets(vine, is_interrupted)
                self.end_group()

    def test_buckets_that_had_the_mean_and_have_another_gradient_are_refused(self):
        with self.join() as vine:
            ddp = self.distributed(vine)
            for _ in range(2):
                self.backward(ddp)
                self.assertFalse(vine.reduce().again)
                self.optimizer.step()
                self.assertTrue(vine.step())
            self.backward(ddp)
            self.assertFalse(vine.reduce().again)
            with self.assertRaisesRegex(Exception, "its arrays now hold other values"):
                self.backward(ddp, 1)

    def repeat_in_buckets(self, vine, is_interrupted):
        ddp = self.distributed(vine)
        self.backward(self.model)
        mean = [parameter.grad for parameter in self.model.parameters()]
        self.optimizer.zero_grad(set_to_none=True)
        if is_interrupted:
            interrupted = unittest.mock.patch.object(grapevine.Vine, "_wait", side_effect=KeyboardInterrupt)
            with interrupted, self.assertRaisesRegex(BaseException, "KeyboardInterrupt"):
                self.backward(ddp)
        else:
            self.backward(ddp)
            self.assertFalse(vine.reduce().again)
        # DistributedDataParallel does not go on after an exception.
        self.end_group()
        ddp = self.distributed(vine)
        self.optimizer.zero_grad(set_to_none=True)
        self.backward(ddp, 2)
        self.assertFalse(vine.reduce().again)
        for parameter, gradient in zip(self.model.parameters(), mean):
            self.assertTrue(torch.equal(parameter.grad, gradient))
        self.assertTrue(vine.step())

    def test_buckets_are_forgotten_where_nothing_is_summed(self):
        with self.join("gossip") as vine:
            ddp = self.distributed(vine)
            for _ in range(3):
                self.backward(ddp)
                vine.reduce()
                self.optimizer.step()
                vine.step()
                self.assertEqual(vine._model.buckets._means, [])

    def test_a_step_that_was_begun_in_parts_can_be_begun_again(self):
        for set_to_none in (True, False):
            with self.subTest(set_to_none=set_to_none):
                self.setUp()
                with self.join() as vine:
                    self.begin_again(vine, set_to_none)

    def begin_again(self, vine, set_to_none):
        def backward(batch):
            self.optimizer.zero_grad(set_to_none=set_to_none)
            x, y = batches()[batch]
            CRITERION(self.model(x), y).backward()
            return [parameter.grad.clone() for parameter in self.model.parameters()]

        with self.assertRaises(ZeroDivisionError), grapevine.torch.attached(vine, self.optimizer):
            backward(0)
            self.optimizer.step()
            mean = backward(1)
            self.assertEqual(vine._sum.names, set(vine._model.names.values()))
            raise ZeroDivisionError
        with grapevine.torch.attached(vine, self.optimizer):
            backward(2)
            self.optimizer.step()
            # A peer alone is given the gradient that it has handed over.
            for parameter, gradient in zip(self.model.parameters(), mean):
                self.assertTrue(torch.equal(parameter.grad, gradient))
        self.assertEqual(vine.steps, 2)

    def test_gradients_that_every_step_changes_are_not_handed_over(self):
        with self.join() as vine, grapevine.torch.attached(vine, self.optimizer):
            for _ in range(3):
                self.backward(self.model)
                self.assertEqual(vine._sum.names, set())
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1e-3)
                self.optimizer.step()
                self.optimizer.zero_grad()
            self.assertEqual(vine.steps, 3)

    def test_gradients_that_change_without_a_new_version_are_not_handed_over(self):
        with self.join() as vine, grapevine.torch.attached(vine, self.optimizer):
            for _ in range(3):
                self.backward(self.model)
                self.assertEqual(vine._sum.names, set())
                for parameter in self.model.parameters():
                    version = parameter.grad._version
                    parameter.grad.data.mul_(0.5)
                    self.assertEqual(parameter.grad._version, version)
                self.optimizer.step()
                self.optimizer.zero_grad()
            self.assertEqual(vine.steps, 3)

    def test_a_gradient_that_changes_after_it_was_handed_over_is_refused(self):
        changes = (
            lambda: torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1e-3),
            lambda: setattr(self.model[0].weight, "grad", torch.ones(8, 6)),
            lambda: self.backward(self.model),
        )
        for change in changes:
            self.setUp()
            with self.join() as vine, grapevine.torch.attached(vine, self.optimizer):
                self.backward(self.model)
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.backward(self.model)
                self.assertEqual(vine._sum.names, set(vine._model.names.values()))
                with self.assertRaisesRegex(RuntimeError, "changed after it was handed over"):
                    change()
                    self.optimizer.step()


class OverlapTest(FolderTest):
    def swarm(self, steps, *words, peers=PEERS, linger_s=20.0):
        config = TOGETHER.format(steps=steps, peers=peers, linger_s=linger_s)
        return ForkedPeers(self, peers, config, PEER, *words)

    def ended(self, swarm, number):
        code, out, err = swarm.end(number)
        self.assertEqual(code, 0, err)
        found = json.loads(out)
        return found["x"], found["given"]

    def check_as_alone(self, steps, *words):
        swarm = self.swarm(steps, *words)
        swarm.start_all()
        ended = [self.ended(swarm, number) for number in range(PEERS)]
        self.assertEqual(ended[0][0], ended[1][0])
        plain = make_model(words[0])
        train_alone(plain, make_optimizer(words[1], plain), steps)
        for name, value in plain.state_dict().items():
            # Sums in another order differ by some units in the last place for each step.
            torch.testing.assert_close(torch.tensor(ended[0][0][name]), value, rtol=1e-4, atol=1e-5)
        self.assertGreater(min(given for _, given in ended), steps)

    def test_lockstep_equals_one_process_with_all_batches(self):
        # With branches, a parameter that only another peer has used gets that peer's gradient.
        for words in (
            ("branches", "momentum", "ddp", "--passes", "2"),
            ("tied", "adamw", "attached", "--passes", "2"),
        ):
            with self.subTest(words):
                self.setUp()
                self.check_as_alone(20, *words)

    def test_kill_9_within_backward(self):
        # The others wait that long for the one that was killed.
        swarm = self.swarm(40, "batch_norm", "adam", "ddp", peers=3, linger_s=5.0)
        swarm.start(0)
        swarm.start(1)
        swarm.start(2, "--kill-at", "10")
        models = [self.ended(swarm, number)[0] for number in (0, 1)]
        for model in models:
            # The module also counts forward passes whose gradients were discarded.
            model.pop("1.num_batches_tracked")
        self.assertEqual(models[0], models[1])


if __name__ == "__main__":
    unittest.main()
