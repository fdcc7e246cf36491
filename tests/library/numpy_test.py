"""NumPy arrays as models of peers, and the example with NumPy."""

import re
import sys

import numpy as np
from support import BINARY, HERE, FolderTest, run

import grapevine

EXAMPLES = HERE.parents[1] / "examples"


class NumPyTest(FolderTest):
    def test_state_may_be_one_array_of_any_length(self):
        given = self.alone()
        for length in (1, 3):
            with self.subTest(length):
                x, state = np.zeros(2, np.float32), np.zeros(length, np.float32)
                with grapevine.join(None, {"x": x}, state=state, run__steps=100, **given) as vine:
                    for _ in range(5):
                        state += 1
                        vine.step()
                state[:] = 0
                with grapevine.join(None, {"x": x}, state=state, run__steps=100, resume=True, **given):
                    np.testing.assert_array_equal(state, 5)

    def refused(self, value):
        with self.assertRaises(ValueError) as caught:
            grapevine.join(None, {"w": value})
        return str(caught.exception)

    def test_arrays_that_cannot_be_shared(self):
        self.assertIn("row-major", self.refused(np.zeros((4, 4), np.float32).T))
        self.assertIn("type <i4", self.refused(np.zeros(4, np.int32)))
        fixed = np.zeros(4, np.float32)
        fixed.flags.writeable = False
        self.assertIn("read-only", self.refused(fixed))
        self.assertIn("no mean", self.refused(np.zeros(4, np.int64)))

    def test_peers_with_data_of_their_own_find_the_same_weights(self):
        usual = (EXAMPLES / "run.toml").read_text()
        # In gossip no peer waits for another. In a short run one peer may make most of the steps within a few
        # milliseconds, before the others have had a processor.
        longer = usual.replace("steps = 300", "steps = 3000")
        self.assertNotEqual(usual, longer)
        for algorithm in ("elastic", "all_reduce", "local_sgd", "choco"):
            with self.subTest(algorithm):
                config = self.write("run.toml", longer if algorithm == "elastic" else usual)
                ended = run(
                    BINARY, "launch", "-n", "4", config,
                    "--folder", str(self.folder / algorithm), "--",
                    sys.executable, str(EXAMPLES / "regression.py"), algorithm,
                )  # fmt: skip
                self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
                self.assertIn("one model    4 of 4 peers", ended.stdout)
                for number in range(4):
                    log = (self.folder / algorithm / f"peer-{number}" / "output.log").read_text()
                    error = float(re.search(r"largest error of a weight: ([\d.]+)", log)[1])
                    # 4000 samples with a deviation of 0.1 leave a weight uncertain by 0.002.
                    self.assertLess(error, 0.03)
