"""The installed package: programs in C and C++ that are built with pkg-config, and pip's package."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from support import HERE, LIMIT_S, FolderTest

ROOT = HERE.parents[1]
EXAMPLES = ROOT / "examples"
PREFIX = Path(os.environ["GRAPEVINE_PREFIX"])
BINARY = str(PREFIX / "bin" / "grapevine")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
PYTHON_PACKAGE = "import grapevine; print(grapevine.__file__, grapevine._library.library()._name)"


def run(*words, **more):
    """Runs a command with nothing of this project in its environment but what is given."""
    ours = ("GRAPEVINE_LIBRARY", "PYTHONPATH", "LD_LIBRARY_PATH")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return subprocess.run(
        words, env={**kept, **more}, capture_output=True, text=True, timeout=LIMIT_S
    )


class PackageTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.libraries = next(PREFIX.rglob("libgrapevine.so.0")).parent
        self.flags = os.environ.get("GRAPEVINE_FLAGS", "").split()

    def succeed(self, *words, **more):
        ended = run(*words, **more)
        self.assertEqual(ended.returncode, 0, f"{words}\n{ended.stdout}{ended.stderr}")
        return ended.stdout.strip()

    def test_pkg_config_names_the_folders_of_the_prefix(self):
        path = str(self.libraries / "pkgconfig")
        words = self.succeed("pkg-config", "--cflags", "--libs", "grapevine", PKG_CONFIG_PATH=path)
        include, folder, library = words.split()
        self.assertTrue((Path(include[2:]) / "grapevine" / "grapevine.h").exists(), words)
        self.assertTrue((Path(folder[2:]) / "libgrapevine.so").exists(), words)
        self.assertEqual(library, "-lgrapevine")

    def built(self, compiler, standard, source):
        path = str(self.libraries / "pkgconfig")
        named = self.succeed("pkg-config", "--cflags", "--libs", "grapevine", PKG_CONFIG_PATH=path)
        program = str(self.folder / Path(source).stem)
        self.succeed(
            compiler, f"-std={standard}", "-O1", *WARNINGS, *self.flags, str(EXAMPLES / source),
            *named.split(), "-o", program,
        )  # fmt: skip
        return program

    def said(self, program, algorithm, own_config=None):
        """What each of two peers has printed. With a config of the test they need not end with one model."""
        folder = self.folder / algorithm
        printed = self.succeed(
            BINARY, "launch", "-n", "2", own_config or str(EXAMPLES / "run.toml"),
            "--folder", str(folder), "--", program, algorithm, LD_LIBRARY_PATH=str(self.libraries),
        )  # fmt: skip
        if own_config is None:
            self.assertIn("one model    2 of 2 peers", printed)
        return [(folder / f"peer-{n}" / "output.log").read_text() for n in range(2)]

    def test_the_example_in_c_finds_the_weights(self):
        program = self.built(os.environ["GRAPEVINE_CC"], "c99", "least_squares.c")
        # On a busy machine an exchange may take as long as hundreds of these short steps, and moves the models by half
        # of their distance at its beginning. So each peer makes all of its steps, and has found the weights before its
        # first exchange.
        pairs = (EXAMPLES / "run.toml").read_text().replace("steps = 300", 'steps = 1000\nbudget = "peer"')
        pairs = self.write("pairs.toml", pairs + "\n[gossip]\nperiod_steps = 200\n")
        for algorithm, config in (("elastic", pairs), ("all_reduce", None)):
            with self.subTest(algorithm):
                for text in self.said(program, algorithm, config):
                    # 19,200 samples or more with a deviation of 0.06 leave a weight uncertain by 0.001, and the
                    # last steps move it by some more.
                    self.assertLess(float(re.search(r"largest error.*: ([\d.]+)", text)[1]), 0.05)

    def test_the_example_in_cpp_tells_the_arms_apart(self):
        program = self.built(os.environ["GRAPEVINE_CXX"], "c++17", "spiral.cpp")
        for algorithm in ("elastic", "all_reduce"):
            with self.subTest(algorithm):
                for text in self.said(program, algorithm):
                    # A guess is right a third of the time.
                    self.assertGreater(float(re.search(r"accuracy ([\d.]+)", text)[1]), 80)

    def test_a_refusal_is_printed_and_ends_the_examples(self):
        program = self.built(os.environ["GRAPEVINE_CC"], "c99", "least_squares.c")
        ended = run(program, "no_such_name", LD_LIBRARY_PATH=str(self.libraries))
        self.assertEqual(ended.returncode, 1)
        self.assertIn("no_such_name", ended.stderr)

    def test_the_python_package_of_the_prefix_finds_its_library(self):
        package = next(PREFIX.rglob("dist-packages"))
        printed = self.succeed(sys.executable, "-B", "-c", PYTHON_PACKAGE, PYTHONPATH=str(package))
        module, library = printed.split()
        self.assertEqual(Path(module).parents[1], package)
        self.assertEqual(Path(library).parent, self.libraries)
        self.assertTrue((package / "grapevine" / "py.typed").exists())

    def test_pip_installs_the_package(self):
        missing = [name for name in ("pip", "setuptools", "wheel") if not importlib.util.find_spec(name)]
        if missing:
            print(f"not tested: {', '.join(missing)} of Python is not installed", file=sys.stderr)
            self.skipTest("pip is not installed")
        source = self.folder / "python"
        shutil.copytree(ROOT / "python", source, ignore=shutil.ignore_patterns("__pycache__"))
        target = self.folder / "site"
        self.succeed(
            sys.executable, "-m", "pip", "install", "--no-index", "--no-build-isolation", "--no-deps",
            "--target", str(target), str(source),
        )  # fmt: skip
        # pip's package does not bring the library: the system, or a variable, says where it is.
        printed = self.succeed(
            sys.executable, "-c", PYTHON_PACKAGE,
            PYTHONPATH=str(target), LD_LIBRARY_PATH=str(self.libraries),
        )  # fmt: skip
        self.assertEqual(Path(printed.split()[0]).parents[1], target)
        ended = run(
            sys.executable, "-c", PYTHON_PACKAGE,
            PYTHONPATH=str(target), GRAPEVINE_LIBRARY=str(self.folder / "none.so"),
        )  # fmt: skip
        self.assertIn("GRAPEVINE_LIBRARY", ended.stderr)
        version = self.succeed(BINARY, "--version").split()[-1]
        self.assertTrue((target / f"grapevine-{version}.dist-info").exists(), version)


if __name__ == "__main__":
    unittest.main()
