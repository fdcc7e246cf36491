"""What the benchmarks of programs with their own loops share: options, environment and results."""

import argparse
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def parser():
    made = argparse.ArgumentParser()
    made.add_argument("--grapevine", default=str(ROOT / "build/release/grapevine"))
    made.add_argument("--library", default=str(ROOT / "build/release/libgrapevine.so.0"))
    made.add_argument("--seconds", type=float, default=8)
    return made


def environment(library):
    """The environment of a program that trains on one thread."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "GRAPEVINE_LIBRARY": library,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def results(outputs, count):
    """What the programs have printed after the word RESULT. There must be `count` results."""
    lines = [line for text in outputs for line in text.splitlines()]
    found = [json.loads(line[7:]) for line in lines if line.startswith("RESULT ")]
    if len(found) != count:
        sys.exit("a program did not end:\n" + "\n".join(outputs))
    return found
