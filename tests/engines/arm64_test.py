"""A swarm of unlike machines: two peers that this one runs itself, and one for arm64 that an emulator runs."""

import json
import shutil
import subprocess
import unittest
from pathlib import Path

from cohort import EngineTest
from support import BINARY, LIMIT_S, environment

BUILD = Path(__file__).resolve().parents[2] / "build"
FOREIGN = BUILD / "arm64/grapevine"
EMULATOR = ["qemu-aarch64", "-L", str(BUILD / "arm64-sysroot")]
RANKS = 3
STEPS = 300  # In lockstep peers compare their models every 64 steps.
MIXING = """
[mixing]
topology = "complete"
codec = "qsgd"
memory = "replicated_difference"
"""

COMMON = """
[model]
kind = "mlp"
hidden = [64]
[data]
kind = "generated"
[data.generated]
samples = 3000
test_samples = 500
[train]
batch = 16
threads = 1
optimizer = "adamw"
schedule = "cosine"
learning_rate = 0.002
warmup_steps = 20
[checkpoint]
every_steps = 0
"""


def config(mode, steps, more=""):
    """The config of all peers, with time for the emulated one to start and to end."""
    return f"""
[run]
mode = "{mode}"
seed = 5
peers = {RANKS}
steps = {steps}
wait_max_s = 60.0
linger_s = 20.0
folder = "{{folder}}"
{COMMON}
{more}
"""


class Arm64Test(EngineTest):
    @classmethod
    def setUpClass(cls):
        if shutil.which(EMULATOR[0]) is None or not FOREIGN.exists():
            raise unittest.SkipTest("there is no build for arm64; scripts/test --arm64 installs it")
        super().setUpClass()

    def train(self, text):
        """Runs the three peers to the end, which each must reach without an error."""
        path = self.write("run.toml", text.replace("{folder}", str(self.folder)))
        peers = []
        for rank in range(RANKS):
            program = [*EMULATOR, str(FOREIGN)] if rank == 1 else [BINARY]
            log = open(self.folder / f"log-{rank}", "w")
            self.addCleanup(log.close)
            peer = subprocess.Popen(
                [*program, "peer", path, "--cohort", self.secret, "--listen", "127.0.0.1:0",
                 "--rank", str(rank), "--ranks", str(RANKS), "--wait-for", str(RANKS)],
                env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
            self.addCleanup(peer.wait)
            self.addCleanup(peer.kill)
            peers.append(peer)
        for rank, peer in enumerate(peers):
            code = peer.wait(timeout=3 * LIMIT_S)
            self.assertEqual(code, 0, (self.folder / f"log-{rank}").read_text())

    def check_equal(self, files):
        """These files of all peers are equal, and no peer has found its model to differ."""
        models = [self.rank(rank).joinpath(files).read_bytes() for rank in range(RANKS)]
        self.assertGreater(len(models[0]), 1000)
        self.assertEqual(models[0], models[1])
        self.assertEqual(models[0], models[2])
        self.check_calm()

    def check_calm(self):
        for rank in range(RANKS):
            for event in ("models_differ", "sum_refused"):
                self.assertEqual(self.events(rank, event), [], f"rank {rank}")

    def tensors(self, rank, path):
        """The tensors of a file by name: their shape and their bytes."""
        data = self.rank(rank).joinpath(path).read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:end])
        header.pop("__metadata__", None)
        return {
            name: (slot["shape"], data[end + slot["data_offsets"][0] : end + slot["data_offsets"][1]])
            for name, slot in header.items()
        }

    def test_gossip_ends_with_one_model(self):
        self.train(config("gossip", 600, "[gossip]\nperiod_steps = 16"))
        self.check_equal("final.safetensors")

    def test_mixing_of_differences_ends_with_one_model(self):
        self.train(config("mixing", 300, MIXING))
        self.check_equal("final.safetensors")

    def test_all_reduce_keeps_all_bits_equal(self):
        self.train(config("allreduce", STEPS, "[allreduce]"))
        self.check_equal("final.safetensors")

    def test_compressed_all_reduce_keeps_all_bits_equal(self):
        self.train(config("allreduce", STEPS, "[allreduce]\nrank = 2"))
        self.check_equal("final.safetensors")

    def test_replicas_of_a_stage_keep_all_bits_equal(self):
        self.train(config("pipeline", STEPS, "[pipeline]\nstages = 1\nmicro_batches = 6"))
        self.check_equal(f"checkpoints/stage-0/step-{STEPS:010}.safetensors")

    def test_members_of_a_group_keep_the_bits_equal_that_all_hold(self):
        more = "[pipeline]\nstages = 1\nmicro_batches = 2\ngroup = 3"
        self.train(config("pipeline", STEPS, more))
        path = f"checkpoints/stage-0/step-{STEPS:010}.safetensors"
        held = [self.tensors(rank, path) for rank in range(RANKS)]
        whole = [name for name, tensor in held[0].items() if tensor[0] == held[1][name][0]]
        self.assertTrue(whole)
        for name in whole:
            self.assertEqual(held[0][name], held[1][name], name)
            self.assertEqual(held[0][name], held[2][name], name)
        self.check_calm()


if __name__ == "__main__":
    unittest.main()
