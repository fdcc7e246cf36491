"""Cohorts that Open MPI and MPICH start, in which one rank is killed and the others go on."""

import os
import shlex
import shutil
import signal
import subprocess
import unittest

from cohort import EngineTest
from support import BINARY, LIMIT_S


class MpiTest(EngineTest):
    def go_on_without_a_killed_rank(self, program, *words):
        """`words` are options, followed by what stands before the command of a peer."""
        if shutil.which(program) is None:
            raise unittest.SkipTest(
                f"MPI is not installed: no {program}; scripts/test --mpi installs it"
            )
        peer = [BINARY, "peer", self.config, "--cohort", self.secret, "--listen", "127.0.0.1:0"]
        if words[-1] == "-c":
            peer = [shlex.join(peer) + " || :"]
        with open(self.folder / "mpirun.log", "w") as log:
            mpirun = subprocess.Popen(
                [program, *words, *peer], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.addCleanup(mpirun.wait)
        self.addCleanup(mpirun.kill)
        self.addCleanup(self.kill_peers)
        self.wait(lambda: all(self.alive(rank) == 3 for rank in range(3)), "all ranks meet")

        os.kill(self.pid(1), signal.SIGKILL)
        self.wait(lambda: self.alive(0) == 2 and self.alive(2) == 2, "the others miss it")
        self.wait_for_steps(0)
        self.wait_for_steps(2)
        self.assertIsNone(mpirun.poll())

        return mpirun

    def check_saves(self, mpirun, end):
        """Calls `end`, which must end all peers, each with a checkpoint."""
        steps = {rank: self.step(rank) for rank in (0, 2)}
        end()
        mpirun.wait(timeout=LIMIT_S)
        for rank, step in steps.items():
            self.wait(lambda: self.checkpoints(rank)[-1] >= step, f"rank {rank} saves")

    def test_ranks_of_open_mpi_go_on_without_a_killed_one(self):
        mpirun = self.go_on_without_a_killed_rank(
            "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--enable-recovery",
            "-n", "3",
        )  # fmt: skip
        self.check_saves(mpirun, mpirun.terminate)

    def test_ranks_of_mpich_go_on_without_a_killed_one(self):
        mpirun = self.go_on_without_a_killed_rank("mpirun.mpich", "-n", "3", "sh", "-c")
        # This mpirun would kill its ranks at once, so the peers get the signal themselves.
        self.check_saves(mpirun, lambda: [os.kill(self.pid(r), signal.SIGTERM) for r in (0, 2)])
