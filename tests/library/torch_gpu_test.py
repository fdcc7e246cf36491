"""PyTorch modules on a GPU. Skipped where PyTorch is not installed or finds no GPU."""

import json
import unittest

from support import Peers, eventually

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error
if not torch.cuda.is_available():
    raise unittest.SkipTest("PyTorch finds no GPU")

import grapevine
import grapevine.torch
from torch_models import CRITERION, batches, make_model, make_optimizer
from torch_test import PEER, TOGETHER, Swarms, TorchAlone, train_alone

ON_GPU = ("--device", "cuda")


class GpuAloneTest(TorchAlone):
    def test_one_peer_alone_is_bit_equal_to_plain_pytorch(self):
        for mode in ("gossip", "allreduce", "mixing"):
            for name in ("momentum", "groups", "adam", "adamw", "capturable", "fused"):
                with self.subTest(mode=mode, optimizer=name):
                    self.assert_equal_alone(name, "cuda", run__mode=mode)

    def test_a_checkpoint_has_the_optimisers_state_and_buffers(self):
        self.assert_checkpoint_is_whole("cuda")

    def test_types_and_layouts(self):
        for dtype in (torch.bfloat16, torch.float16, torch.float64):
            with self.subTest(dtype):
                model = make_model("mlp").to("cuda", dtype)
                before = [parameter.detach().clone() for parameter in model.parameters()]
                with self.join(model, make_optimizer("sgd", model), run__steps=8) as vine:
                    for _ in vine.until_over([1]):
                        vine.step()
                # The model is unchanged, except that the end of the run rounds doubles to floats.
                tolerance = 1e-6 if dtype == torch.float64 else 0
                for ours, old in zip(model.parameters(), before):
                    torch.testing.assert_close(ours, old, rtol=tolerance, atol=0)
        convolution = torch.nn.Conv2d(3, 8, 3).to("cuda", memory_format=torch.channels_last)
        weight = convolution.weight.detach().clone()
        with self.join(convolution, make_optimizer("momentum", convolution), run__steps=4) as vine:
            for _ in vine.until_over([1]):
                vine.step()
        self.assertTrue(torch.equal(convolution.weight, weight))
        self.assertFalse(convolution.weight.is_contiguous())

    def test_a_compiled_module_trains_and_keeps_its_names(self):
        model = make_model("batch_norm").to("cuda")
        names = [memory.name for memory in grapevine.torch.ModuleModel(model, None, None).mean]
        compiled = torch.compile(model)
        found = [memory.name for memory in grapevine.torch.ModuleModel(compiled, None, None).mean]
        self.assertEqual(found, names)
        optimizer = make_optimizer("adam", compiled)
        losses = []
        with self.join(compiled, optimizer, run__steps=64, run__mode="allreduce") as vine:
            for x, y in vine.until_over(batches()[:4]):
                optimizer.zero_grad()
                loss = CRITERION(compiled(x.cuda()), y.cuda())
                loss.backward()
                vine.reduce(loss=loss)
                optimizer.step()
                vine.step(loss)
                losses.append(float(loss))
        self.assertLess(sum(losses[-4:]), 0.9 * sum(losses[:4]))

    def test_a_step_that_a_gradient_scaler_leaves_out_is_harmless(self):
        for mode in ("gossip", "allreduce"):
            with self.subTest(mode):
                model = make_model("mlp").cuda()
                optimizer = make_optimizer("adam", model)
                # The first scale overflows, so the scaler skips the first steps.
                scaler = torch.amp.GradScaler("cuda", init_scale=2.0**40)
                with self.join(model, optimizer, run__steps=60, run__mode=mode) as vine:
                    for x, y in vine.until_over(batches()):
                        optimizer.zero_grad()
                        with torch.autocast("cuda", torch.float16):
                            loss = CRITERION(model(x.cuda()), y.cuda())
                        scaler.scale(loss).backward()
                        scaler.unscale_(optimizer)
                        gradients = [parameter.grad for parameter in model.parameters()]
                        if not all(bool(one.isfinite().all()) for one in gradients):
                            optimizer.zero_grad(set_to_none=True)
                        vine.reduce(loss=loss)
                        optimizer.step()
                        scaler.update()
                        vine.step(loss)
                    self.assertEqual(vine.steps, 60)
                self.assertLess(scaler.get_scale(), 2.0**40)
                for parameter in model.parameters():
                    self.assertTrue(bool(parameter.isfinite().all()))

    def test_a_module_may_be_partly_on_the_cpu(self):
        model = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 4).cuda()])
        optimizer = make_optimizer("adam", model)
        with self.join(model, optimizer, run__steps=8, run__mode="allreduce") as vine:
            for _ in vine.until_over([1]):
                optimizer.zero_grad()
                loss = model[1](model[0](torch.ones(2, 4)).cuda()).square().mean()
                loss.backward()
                vine.reduce(loss=loss)
                optimizer.step()
                vine.step(loss)
        self.assertTrue(bool(model[1].weight.isfinite().all()))

    def test_work_on_another_stream_is_waited_for(self):
        model = torch.nn.Linear(2048, 2048, bias=False).cuda()
        with torch.no_grad():
            model.weight.zero_()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        other = torch.rand(4096, 4096, device="cuda")
        with torch.cuda.stream(stream), self.join(model, None, run__steps=1000) as vine:
            for _ in range(20):
                for _ in range(20):
                    other = (other @ other).clamp(max=1)
                with torch.no_grad():
                    model.weight += 1
                vine.step()
            vine.leave()
        torch.cuda.synchronize()
        # The end of the run writes the model back as the peer last saw it.
        self.assertTrue(torch.equal(model.weight, torch.full_like(model.weight, 20.0)))


class GpuSwarmTest(Swarms):
    # CUDA does not survive a fork, so no peer here depends on what the import of PyTorch does with it.
    kind = Peers

    def models(self, mode, peers, steps, model, optimizer, *words):
        swarm = self.swarm(mode, peers, steps, model, optimizer, *ON_GPU, *words)
        swarm.start_all()
        models = [swarm.model(number) for number in range(peers)]
        for model in models:
            model.pop("1.num_batches_tracked", None)
        self.assertEqual(models[1:], models[:1] * (peers - 1))
        return models[0]

    def test_lockstep_equals_one_process_with_all_batches(self):
        for name, optimizer in (("mlp", "momentum"), ("tied", "adamw")):
            with self.subTest(name):
                self.setUp()
                found = self.models("allreduce", 2, 32, name, optimizer)
                plain = make_model(name).cuda()
                train_alone(plain, make_optimizer(optimizer, plain), 32, 2)
                for key, value in plain.state_dict().items():
                    ours = torch.tensor(found[key])
                    torch.testing.assert_close(ours, value.cpu(), rtol=1e-4, atol=1e-5)

    def test_every_kind_of_training_ends_with_one_model(self):
        for algorithm in ("elastic", "noloco", "diloco", "d_psgd", "all_reduce"):
            with self.subTest(algorithm):
                self.setUp()
                settings = json.dumps({"algorithm": algorithm})
                config = TOGETHER.format(mode="gossip", steps=60, peers=2, wait=2)
                config = config.replace('mode = "gossip"\n', "")
                swarm = Peers(
                    self, 2, config, PEER, "mlp", "momentum", *ON_GPU, "--settings", settings
                )
                swarm.start_all()
                models = [swarm.model(number) for number in range(2)]
                self.assertEqual(models[0], models[1])

    def test_statistics_of_a_batch_norm_are_averaged(self):
        for mode in ("allreduce", "gossip"):
            with self.subTest(mode):
                self.setUp()
                self.models(mode, 2, 48, "batch_norm", "momentum")

    def test_bfloat16_trains_in_lockstep(self):
        self.setUp()
        found = self.models("allreduce", 2, 32, "bf16", "momentum")
        self.assertTrue(torch.tensor(found["0.weight"]).isfinite().all())

    def test_a_gradient_that_overflows_is_left_out_without_harm(self):
        self.models("allreduce", 2, 48, "mlp", "momentum", "--overflow-every", "7")

    def test_a_late_joiner_in_lockstep_gets_the_optimisers_state(self):
        self.assert_late_joiner_is_equal(*ON_GPU)

    def test_kill_9_of_a_peer_in_each_mode(self):
        for mode in ("gossip", "allreduce", "mixing"):
            with self.subTest(mode):
                self.setUp()
                swarm = self.swarm(mode, 3, 150, "mlp", "adam", "--step-s", "0.02", *ON_GPU)
                swarm.start_all()
                self.assertTrue(eventually(lambda: swarm.step(1) > 20))
                swarm.kill(0)
                models = [swarm.model(number) for number in (1, 2)]
                self.assertEqual(models[0], models[1])


if __name__ == "__main__":
    unittest.main()
