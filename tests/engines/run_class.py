"""Runs a class or a file of tests. The exit code is 77 if all were skipped, and 1 if one failed or none was found."""

import sys
import unittest

try:
    result = unittest.main(module=None, argv=sys.argv, verbosity=2, exit=False).result
except unittest.SkipTest as reason:  # The module itself cannot be used here.
    print(f"skipped: {reason}", file=sys.stderr)
    sys.exit(77)
if not result.wasSuccessful() or not (result.testsRun or result.skipped):
    sys.exit(1)
# A class that is skipped as a whole runs no test and is skipped once.
sys.exit(77 if result.skipped and result.testsRun <= len(result.skipped) else 0)
