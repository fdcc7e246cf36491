"""Gradients of PyTorch that are summed during backward. Skipped where PyTorch is not installed."""

import json
import unittest

from support import HERE, FolderTest, Peers

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

from torch_models import CRITERION, batches, forward, make_model, make_optimizer

PEER = str(HERE / "torch_overlap_peer.py")
PEERS = 2

TOGETHER = """
[run]
mode = "{mode}"
steps = {steps}
peers = {peers}
linger_s = 20.0
wait_max_s = 60.0
wait_for_peers = {peers}
[allreduce]
bucket_elements = 16
[train]
batch = 8
[membership]
probe_period_s = 0.2
probe_timeout_s = 0.1
suspicion_min_s = 0.5
suspicion_max_factor = 2
"""


def train_alone(model, optimizer, steps):
    """Plain PyTorch, on the batches of all peers together."""
    data = [batches(part, PEERS) for part in range(PEERS)]
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(PEERS):
            x, y = data[part][step % len(data[0])]
            (CRITERION(forward(model, x, step + part), y) / PEERS).backward()
        optimizer.step()


class OverlapTest(FolderTest):
    def swarm(self, steps, *words, peers=PEERS, mode="allreduce"):
        config = TOGETHER.format(mode=mode, steps=steps, peers=peers)
        return Peers(self, peers, config, PEER, *words)

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
            # Sums in another order: some units of the last place a step.
            torch.testing.assert_close(torch.tensor(ended[0][0][name]), value, rtol=1e-4, atol=1e-5)
        return min(given for _, given in ended)

    def test_lockstep_equals_one_process_with_all_batches(self):
        for model, optimizer, how, passes in (
            ("mlp", "adam", "ddp", 1),
            ("mlp", "momentum", "attached", 1),
            ("tied", "adamw", "ddp", 2),
            ("tied", "adamw", "attached", 3),
        ):
            with self.subTest(model=model, how=how, passes=passes):
                self.setUp()
                given = self.check_as_alone(20, model, optimizer, how, "--passes", str(passes))
                self.assertGreater(given, 40)

    def test_a_parameter_that_only_other_peers_have_used_gets_their_mean(self):
        for how in ("ddp", "attached"):
            with self.subTest(how):
                self.setUp()
                self.check_as_alone(20, "branches", "momentum", how)

    def test_kill_9_within_backward(self):
        for how in ("ddp", "attached"):
            with self.subTest(how):
                self.setUp()
                swarm = self.swarm(40, "batch_norm", "adam", how, peers=3)
                swarm.start(0)
                swarm.start(1)
                swarm.start(2, "--kill-at", "10")
                models = [self.ended(swarm, number)[0] for number in (0, 1)]
                for model in models:
                    model.pop("1.num_batches_tracked")
                self.assertEqual(models[0], models[1])

    def test_in_gossip_nothing_is_handed_over(self):
        swarm = self.swarm(20, "mlp", "sgd", "ddp", mode="gossip")
        swarm.start_all()
        for number in range(PEERS):
            self.assertEqual(self.ended(swarm, number)[1], 0)

    def test_a_gradient_that_is_changed_after_it_was_handed_over_is_refused(self):
        words = ("mlp", "sgd", "attached", "--clip-at", "10")
        swarm = self.swarm(40, *words, peers=1)
        swarm.start(0)
        code, _, err = swarm.end(0)
        self.assertEqual(code, 1)
        self.assertRegex(err, "'0.weight': its gradient has changed after it was handed over")


if __name__ == "__main__":
    unittest.main()
