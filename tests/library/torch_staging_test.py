"""Tensors that the peer sees as copies in the host's memory, as those on a GPU are. Skipped where
PyTorch is not installed."""

import unittest
import unittest.mock

import support  # noqa: F401  It knows where the package is.

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

import grapevine
import grapevine.torch
from grapevine import _staging
from lagging_device import LaggingDevice, install, remove
from torch_models import CRITERION, batches, make_model, make_optimizer
from torch_test import Swarms, TorchAlone, train_alone


class StageTest(unittest.TestCase):
    def setUp(self):
        install()
        self.addCleanup(remove)

    def tensors(self):
        """Tensors of several types: small ones that fill more than a bucket, large ones, and one that is not dense."""
        random = torch.Generator().manual_seed(1)
        shapes = [(3, 5), (), (700, 300), (600, 300), (513, 700), (7,), (900, 250), (800, 250)]
        tensors = [torch.randn(shape, generator=random) for shape in shapes]
        tensors += [torch.randn(40, 30, generator=random).t(), torch.randn(9).to(torch.bfloat16)]
        return tensors + [torch.arange(5), torch.randn(700, 400, generator=random).t()]

    def test_copies_are_equal_in_both_directions(self):
        tensors = self.tensors()
        expected = [tensor.clone() for tensor in tensors]
        stage = _staging.Stage(tensors)
        stage.out(tensors)
        for host, tensor in zip(stage.hosts, expected):
            self.assertTrue(host.is_contiguous())
            self.assertTrue(torch.equal(host, tensor))
            host += 1
        stage.into(tensors)
        for tensor, old in zip(tensors, expected):
            self.assertTrue(torch.equal(tensor, old + 1))

    def test_missing_tensors_are_zeros_and_stay_missing(self):
        tensors = self.tensors()
        stage = _staging.Stage(tensors)
        stage.out(tensors)
        there = [None if at % 3 == 0 else tensor for at, tensor in enumerate(tensors)]
        stage.out(there)
        for host, tensor in zip(stage.hosts, there):
            zeros = torch.zeros_like(host)
            self.assertTrue(torch.equal(host, zeros if tensor is None else tensor))
        stage.into(there)

    def test_a_loss_is_told_one_step_late(self):
        late = _staging.LateLoss()
        self.assertEqual([late(torch.tensor(loss)) for loss in (1.0, 2.0, 3.0)], [1.0, 1.0, 2.0])


class StagedAloneTest(TorchAlone):
    def setUp(self):
        super().setUp()
        install()
        self.addCleanup(remove)

    def test_one_peer_alone_is_bit_equal_to_plain_pytorch(self):
        for mode in ("gossip", "allreduce", "mixing"):
            for name in ("momentum", "groups", "adam", "adamw", "adagrad"):
                with self.subTest(mode=mode, optimizer=name):
                    self.assert_equal_alone(name, run__mode=mode)

    def test_a_step_without_an_exchange_copies_nothing(self):
        model = make_model("batch_norm")
        optimizer = make_optimizer("adam", model)
        settings = {"gossip__period_steps": 16, "run__steps": 64}
        with self.join(model, optimizer, **settings) as vine:
            copies = []
            for x, y in vine.until_over(batches()):
                CRITERION(model(x), y).backward()
                optimizer.step()
                before = LaggingDevice.made
                vine.step()
                copies.append(LaggingDevice.made - before)
        self.assertGreaterEqual(sum(number == 0 for number in copies), 56)

    def test_a_checkpoint_has_the_optimisers_state_and_buffers(self):
        self.assert_checkpoint_is_whole()

    def test_a_step_can_be_repeated_and_is_given_the_same_mean(self):
        self.assert_a_step_can_be_repeated("batch_norm")

    def test_a_copy_that_fails_ends_the_peer_with_the_reason(self):
        model = make_model("mlp")
        vine = self.join(model, make_optimizer("sgd", model), run__steps=100, gossip__period_steps=1)

        def fail(device):
            raise RuntimeError("the device is lost")

        with unittest.mock.patch.object(LaggingDevice, "finish", fail):
            with self.assertRaisesRegex(grapevine.Failed, "`copy` has failed") as caught:
                for _ in vine.until_over(range(10)):
                    vine.step()
            self.assertEqual(str(caught.exception.__cause__), "the device is lost")
            vine._leave_quietly()

    def test_names_are_those_of_the_module_that_was_compiled(self):
        class Compiled(torch.nn.Module):
            def __init__(self, module):
                super().__init__()
                self._orig_mod = module

        plain = grapevine.torch.ModuleModel(make_model("batch_norm"), None, None)
        model = grapevine.torch.ModuleModel(Compiled(make_model("batch_norm")), None, None)
        for part in ("mean", "buffers", "state"):
            names = [memory.name for memory in getattr(model, part)]
            self.assertEqual(names, [memory.name for memory in getattr(plain, part)])


class StagedSwarmTest(Swarms):
    def models(self, mode, model, optimizer, steps):
        swarm = self.swarm(mode, 3, steps, model, optimizer, "--device", "lagging")
        swarm.start_all()
        models = [swarm.model(number) for number in range(3)]
        for model in models:
            model.pop("1.num_batches_tracked", None)
        self.assertEqual(models[1:], models[:1] * 2)
        return models[0]

    def test_lockstep_equals_one_process_with_all_batches(self):
        found = self.models("allreduce", "tied", "adamw", 32)
        plain = make_model("tied")
        train_alone(plain, make_optimizer("adamw", plain), 32, 3)
        for name, value in plain.state_dict().items():
            torch.testing.assert_close(torch.tensor(found[name]), value, rtol=1e-4, atol=1e-5)

    def test_statistics_of_a_batch_norm_are_averaged(self):
        for mode in ("allreduce", "gossip"):
            with self.subTest(mode):
                self.setUp()
                found = self.models(mode, "batch_norm", "momentum", 48)
                self.assertTrue(torch.tensor(found["1.running_var"]).isfinite().all())

    def test_a_late_joiner_in_lockstep_gets_the_optimisers_state(self):
        self.assert_late_joiner_is_equal("--device", "lagging")


if __name__ == "__main__":
    unittest.main()
