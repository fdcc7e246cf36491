"""A cohort of Python programs as torchrun starts them: one secret, and ranks from its variables."""

import array
import base64
import hashlib
import json
import subprocess
import sys

from support import BINARY, HERE, LIMIT_S, FolderTest, environment, run

import grapevine

try:
    from nacl.signing import SigningKey
except ImportError:
    SigningKey = None

CONFIG = """
[run]
mode = "allreduce"
steps = 200
linger_s = 20.0
wait_for_peers = 3
folder = "{folder}"
"""


def variables(rank, ranks):
    """The variables that torchrun sets, without those of an engine that may run this test."""
    given = {**environment(), "RANK": str(rank), "WORLD_SIZE": str(ranks)}
    given.pop("GRAPEVINE_PEER", None)
    return given


class CohortTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.cohort = self.folder / "cohort"
        self.config = self.write("run.toml", CONFIG.format(folder=self.folder))
        made = run(BINARY, "keygen", str(self.cohort), "--cohort")
        self.assertEqual(made.returncode, 0, made.stderr)

    def secret(self):
        line = self.cohort.read_text().splitlines()[-1]
        return base64.b64decode(line.split()[1] + "=")

    def test_programs_of_a_cohort_find_the_common_optimum(self):
        programs = [
            subprocess.Popen(
                [sys.executable, str(HERE / "quadratic.py"), self.config,
                 "--cohort", str(self.cohort)],
                env=variables(rank, 3), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for rank in range(3)
        ]  # fmt: skip
        for program in programs:
            self.addCleanup(program.kill)
        for program in programs:
            out, err = program.communicate(timeout=LIMIT_S)
            self.assertEqual(program.returncode, 0, err)
            for at, value in enumerate(json.loads(out)["x"]):
                self.assertAlmostEqual(value, 1.0 if at % 2 == 0 else -0.5, delta=1e-3)
        if SigningKey is None:
            self.skipTest("PyNaCl is not installed, so the keys were not derived a second time")
        for rank in range(3):
            seed = hashlib.blake2b(
                digest_size=32,
                key=self.secret(),
                salt=rank.to_bytes(8, "little"),
                person=b"cohort 1",
            ).digest()
            key = bytes(SigningKey(seed).verify_key)
            number = int.from_bytes(hashlib.blake2b(key, digest_size=32).digest()[:8], "little")
            result = json.loads((self.folder / f"rank-{rank}" / "result.json").read_text())
            self.assertEqual(result["self"]["id"], f"{number:016x}")

    def test_what_is_missing_or_too_much_is_refused(self):
        x = array.array("f", [0.0] * 4)
        with self.assertRaises(grapevine.Refused) as caught:
            grapevine.join(self.config, x, cohort=self.cohort, rank=3, ranks=3)
        self.assertIn("there is no rank 3 among 3", str(caught.exception))
        with self.assertRaises(TypeError):
            grapevine.join(self.config, x, rank=0, ranks=3)
        with self.assertRaises(ValueError) as caught:
            grapevine.join(self.config, x, cohort=self.cohort, key=self.folder / "key")
        self.assertIn("takes the place of", str(caught.exception))
