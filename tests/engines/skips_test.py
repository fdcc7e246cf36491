"""A class of tests counts as skipped only if nothing in it ran, and never if a test of it failed."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).with_name("run_class.py")
PASSES, FAILS, SKIPS = "pass", "self.fail()", "self.skipTest('needs root')"


class SkipsTest(unittest.TestCase):
    def exit_code(self, *bodies, of_class="pass"):
        """The exit code for a class whose methods have these bodies."""
        text = f"import unittest\nclass It(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): {of_class}\n"
        text += "".join(f"    def test_{i}(self): {body}\n" for i, body in enumerate(bodies))
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "it_test.py").write_text(text)
            return subprocess.run([sys.executable, "-B", PROGRAM, "it_test.It"], cwd=folder,
                                  env={"PYTHONPATH": folder}, capture_output=True).returncode

    def test_a_class_that_passes(self):
        self.assertEqual(self.exit_code(PASSES, PASSES), 0)

    def test_a_class_that_is_skipped_as_a_whole(self):
        self.assertEqual(self.exit_code(SKIPS, SKIPS), 77)
        self.assertEqual(self.exit_code(PASSES, of_class="raise unittest.SkipTest('needs root')"), 77)

    def test_a_skipped_test_beside_one_that_ran(self):
        self.assertEqual(self.exit_code(SKIPS, PASSES), 0)
        self.assertEqual(self.exit_code(SKIPS, FAILS), 1)

    def test_a_class_without_tests(self):
        self.assertEqual(self.exit_code(), 1)


if __name__ == "__main__":
    unittest.main()
