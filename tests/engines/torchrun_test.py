"""Real torchrun with the program of the page about it."""

import importlib.util
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from support import BINARY, FolderTest, environment, run

ROOT = Path(__file__).resolve().parents[2]
PEERS = 3
LIMIT_S = 200


class TorchrunTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.torchrun = shutil.which("torchrun")
        if not self.torchrun or not importlib.util.find_spec("torch"):
            self.skipTest("torchrun is not here: scripts/test --torch installs it")

    def test_processes_of_torchrun_find_the_common_optimum(self):
        self.write("run.toml", (ROOT / "examples/run.toml").read_text().replace("peers = 4", f"peers = {PEERS}"))
        made = run(BINARY, "keygen", str(self.folder / "cohort"), "--cohort")
        self.assertEqual(made.returncode, 0, made.stderr)
        given = environment(OMP_NUM_THREADS="1")
        given.pop("GRAPEVINE_PEER", None)
        # Without the first three options, PyTorch 1.13 fails with Python 3.11.
        done = subprocess.run(
            [sys.executable, "-B", self.torchrun, "--redirects", "1", "--tee", "1", "--log_dir", "logs",
             "--nproc_per_node", str(PEERS), str(ROOT / "examples/torchrun.py"), "run.toml", "cohort"],
            cwd=self.folder, env=given, capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        errors = re.findall(r"largest error of a weight: (\d+\.\d+)", done.stdout)
        self.assertEqual(len(errors), PEERS, done.stdout)
        self.assertLess(max(map(float, errors)), 0.1)


if __name__ == "__main__":
    unittest.main()
