"""Jobs on a real Slurm: arrays that grow and shrink, lost tasks and nodes, ends by scancel."""

import os
import signal
import subprocess
import unittest
from pathlib import Path

from cohort import EngineTest, parent_of
from slurm_cluster import Cluster, why_not
from support import BINARY, LIMIT_S, eventually

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/slurm/peer.sbatch"


class SlurmTest(EngineTest):
    @classmethod
    def setUpClass(cls):
        if reason := why_not():
            raise unittest.SkipTest(reason)
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.stop)
        if not cls.cluster.start():
            raise AssertionError("Slurm does not start:\n" + cls.cluster.log())

    def setUp(self):
        super().setUp()
        self.addCleanup(self.cluster.cancel_all)

    def submit(self, array, *arguments):
        """Submits the script as a job array, and returns the job's number."""
        said = self.cluster.command(
            "sbatch", "--parsable", f"--array={array}", f"--chdir={self.folder}", str(SCRIPT),
            self.config, "--listen", "127.0.0.1:0", *arguments,
            GRAPEVINE=BINARY, COHORT=self.secret,
        )  # fmt: skip
        self.assertTrue(said.isdigit(), said)
        return said

    def is_running(self, job):
        return self.cluster.jobs().get(job) == "RUNNING"

    def wait(self, holds, what):
        if not eventually(holds):
            self.fail(f"{what} in vain; jobs {self.cluster.jobs()}\n{self.cluster.log()}")

    def start_in(self, job, seconds):
        """Slurm keeps a job that it queues again for two minutes; this shortens that wait."""
        self.cluster.command("scontrol", "update", f"JobId={job}", f"StartTime=now+{seconds}")

    def are_together(self):
        return self.alive(0) == 2 and self.alive(1) == 2

    def test_an_array_trains_and_an_element_in_the_queue_disturbs_nobody(self):
        job = self.submit("0-2")
        self.wait(self.are_together, "two elements meet")
        self.assertEqual(self.cluster.jobs()[f"{job}_2"], "PENDING")
        self.wait(lambda: self.status(0)["exchanges"]["committed"] > 5, "they exchange")
        self.assertFalse(self.rank(2).exists())

        # It ends by itself before the kill, with a checkpoint, and the one in the queue takes its place.
        step = self.step(0)
        self.cluster.command("scancel", f"{job}_0")
        self.wait(lambda: f"{job}_0" not in self.cluster.jobs(), "the cancelled element ends")
        self.assertTrue((self.rank(0) / "result.json").exists())
        self.assertGreaterEqual(self.checkpoints(0)[-1], step)
        self.wait(lambda: self.alive(2) == 2 and self.alive(1) == 2, "the waiting one joins")
        self.assertEqual(len(self.events(1, "member_left")), 1)
        self.assertEqual(self.events(1, "member_dead"), [])
        self.wait_for_steps(1)

    def test_a_task_that_is_killed_and_queued_again_goes_on_from_its_checkpoint(self):
        job = self.submit("0-1")
        self.wait(lambda: self.alive(0) == 2 and self.checkpoints(1), "both train")
        os.kill(self.pid(1), signal.SIGKILL)
        self.wait(lambda: f"{job}_1" not in self.cluster.jobs(), "the element fails")
        self.wait(lambda: self.alive(0) == 1, "the other one misses it")
        self.wait_for_steps(0)

        self.cluster.command("scontrol", "requeue", f"{job}_1")
        self.wait(lambda: self.cluster.jobs().get(f"{job}_1") == "PENDING", "it is queued again")
        self.start_in(f"{job}_1", seconds=0)
        self.wait(self.are_together, "it is back")
        self.assertEqual(len(self.events(1, "resumed")), 1)
        self.wait_for_steps(1)

    def test_the_element_of_a_lost_node_goes_on_when_a_node_is_there_again(self):
        job = self.submit("0-1")
        self.wait(lambda: self.alive(0) == 2 and self.checkpoints(1), "both train")
        node = self.cluster.command("squeue", "-h", "-r", "-j", f"{job}_1", "-o", "%N")
        peer = self.pid(1)
        self.cluster.kill_node(node, [parent_of(peer), peer])
        self.wait(lambda: self.cluster.jobs().get(f"{job}_1") == "PENDING", "it is queued again")
        # For ten seconds Slurm goes on trying to tell the node to end the job that was lost with it,
        # and would end the new one, which has the same number.
        self.start_in(f"{job}_1", seconds=15)
        self.wait(lambda: self.alive(0) == 1, "the other one misses it")
        self.wait_for_steps(0)

        self.cluster.start_node(node)
        self.wait(self.are_together, "it is back")
        self.assertEqual(len(self.events(1, "resumed")), 1)
        self.assertTrue(self.is_running(f"{job}_0"))

    def test_tasks_of_one_job_have_their_ranks_and_go_on_without_a_killed_one(self):
        with open(self.folder / "srun.log", "w") as log:
            srun = subprocess.Popen(
                ["srun", "-n", "2", "--chdir", str(self.folder), BINARY, "peer", self.config,
                 "--cohort", self.secret, "--listen", "127.0.0.1:0"],
                env=self.cluster.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.addCleanup(srun.communicate)
        self.addCleanup(srun.kill)
        self.wait(self.are_together, "both tasks meet")
        os.kill(self.pid(0), signal.SIGKILL)
        self.wait(lambda: self.alive(1) == 1, "the other one misses it")
        self.wait_for_steps(1)
        step = self.step(1)
        self.cluster.command("scancel", *self.cluster.jobs())
        self.assertNotEqual(srun.wait(timeout=LIMIT_S), 0)
        self.assertGreaterEqual(self.checkpoints(1)[-1], step)
