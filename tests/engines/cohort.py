"""A cohort that an engine starts: its config, its secret, and what its peers report."""

import json
import os
import signal

from support import BINARY, FolderTest, eventually, run

CONFIG = """
[run]
mode = "gossip"
steps = 100000000
wait_max_s = 60.0
linger_s = 0.0
folder = "{folder}"
[data]
kind = "generated"
[data.generated]
samples = 4000
test_samples = 500
[model]
kind = "mlp"
hidden = [32]
[train]
batch = 32
threads = 1
[gossip]
period_steps = 64
[checkpoint]
every_steps = {checkpoint}
"""


def parent_of(pid):
    """The process that has started this one; 0 if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


class EngineTest(FolderTest):
    """A test with a config and the secret of a cohort in its folder."""

    def setUp(self):
        super().setUp()
        self.secret = str(self.folder / "cohort")
        self.config = self.write("run.toml", CONFIG.format(folder=self.folder, checkpoint=2000))
        made = run(BINARY, "keygen", self.secret, "--cohort")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.addCleanup(self.kill_peers)

    def kill_peers(self):
        """Kills every peer that still runs in a folder of this test."""
        for lock in self.folder.glob("rank-*/lock"):
            pid = self.pid_in(lock)
            if pid and self.status(int(lock.parent.name.removeprefix("rank-"))):
                os.kill(pid, signal.SIGKILL)

    @staticmethod
    def pid_in(lock):
        try:
            return int(lock.read_text())
        except (OSError, ValueError):
            return 0

    def rank(self, rank):
        return self.folder / f"rank-{rank}"

    def pid(self, rank):
        return self.pid_in(self.rank(rank) / "lock")

    def status(self, rank):
        answer = run(BINARY, "status", str(self.rank(rank)), "--json")
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def step(self, rank):
        return (self.status(rank) or {}).get("step", 0)

    def alive(self, rank):
        """The number of peers that this one knows to be alive, itself included."""
        members = (self.status(rank) or {}).get("members", [])
        return sum(member["state"] == "alive" for member in members)

    def events(self, rank, name):
        path = self.rank(rank) / "events.jsonl"
        if not path.exists():
            return []
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [line for line in lines if line["event"] == name]

    def checkpoints(self, rank):
        files = (self.rank(rank) / "checkpoints").glob("step-*.optimizer.safetensors")
        return sorted(int(file.name.split("-")[1].split(".")[0]) for file in files)

    def wait(self, holds, what):
        self.assertTrue(eventually(holds), what)

    def wait_for_steps(self, rank, steps=500):
        """Waits until this peer has made `steps` more steps, so it trains."""
        begin = self.step(rank)
        self.wait(lambda: self.step(rank) >= begin + steps, f"rank {rank} trains")
