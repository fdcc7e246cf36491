"""A cohort of unlike machines: two peers of this one, and one for arm64 that an emulator runs."""

import os
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

COMMON = """
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
    """What all peers run, in which the emulated one may take its time."""
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
    def setUp(self):
        super().setUp()
        if shutil.which(EMULATOR[0]) is None or not FOREIGN.exists():
            self.skipTest("there is no build for arm64; scripts/test --arm64 installs it")

    def train(self, text):
        """Trains to the end. Returns the bytes of each peer's final model."""
        path = self.write("run.toml", text.replace("{folder}", str(self.folder)))
        peers = []
        for rank in range(RANKS):
            program = [*EMULATOR, str(FOREIGN)] if rank == 1 else [BINARY]
            log = open(self.folder / f"log-{rank}", "w")
            self.addCleanup(log.close)
            peer = subprocess.Popen(
                [*program, "peer", path, "--cohort", self.secret, "--listen", "127.0.0.1:0",
                 "--rank", str(rank), "--ranks", str(RANKS), "--wait-for", str(RANKS - 1)],
                env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
            self.addCleanup(peer.wait)
            self.addCleanup(peer.kill)
            peers.append(peer)
        for rank, peer in enumerate(peers):
            log = self.folder / f"log-{rank}"
            self.assertEqual(peer.wait(timeout=3 * LIMIT_S), 0, log.read_text())
        return [(self.rank(rank) / "final.safetensors").read_bytes() for rank in range(RANKS)]

    def check_lockstep(self, models):
        """All models are equal, and were at every comparison on the way."""
        self.assertEqual(models[0], models[1])
        self.assertEqual(models[0], models[2])
        for rank in range(RANKS):
            self.assertEqual(self.events(rank, "models_differ"), [])

    def test_gossip_ends_with_one_model(self):
        models = self.train(config("gossip", 600, "[gossip]\nperiod_steps = 16"))
        self.check_lockstep(models)
