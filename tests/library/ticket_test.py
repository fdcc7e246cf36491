"""Python programs that begin a swarm and join it by a ticket, as real processes."""

import array
import json
import select
import socket
import subprocess
import sys
import unittest

from support import BINARY, HERE, LIMIT_S, FolderTest, environment

import grapevine

CONFIG = """
[run]
mode = "allreduce"
steps = 200
peers = 2
wait_for_peers = {waits}
linger_s = 20.0
[data]
kind = "csv"
folder = "/nowhere"
"""


class TicketTest(FolderTest):
    def start(self, *words):
        process = subprocess.Popen(
            words, cwd=self.folder, env=environment(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def quadratic(self, config, *words):
        return self.start(sys.executable, str(HERE / "quadratic.py"), config, *words)

    def first_line(self, output):
        """The first line of a program's output. Fails if none comes in time."""
        self.assertTrue(select.select([output], [], [], LIMIT_S)[0], "the program prints a line")
        return output.readline()

    def model(self, process):
        out, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual((process.returncode, err), (0, ""))
        return json.loads(out.splitlines()[-1])["x"]

    def create(self, model):
        """Starts a creator with the built-in model, and returns its ticket."""
        config = self.write(
            "run.toml",
            f"[run]\nmode = 'allreduce'\nsteps = 100\nwait_for_peers = 2\n[model]\n{model}\n"
            "[allreduce]\nshares = 'equal'\n",
        )
        self.creator = self.start(
            BINARY, "create", config, "--listen", "127.0.0.1:0", "--name", "first",
            "--folder", "first",
        )  # fmt: skip
        for line in self.creator.stdout:
            if "gv1_" in line:
                return line.split()[-1]
        self.fail(self.creator.stderr.read())

    def test_two_programs_train_together_with_one_ticket(self):
        config = self.write("run.toml", CONFIG.format(waits=2))
        # The first peer waits for the second, and prints its ticket before it waits.
        first = self.quadratic(config, "--create", "first")
        ticket = self.first_line(first.stdout).strip()
        self.assertTrue(ticket.startswith("gv1_"), ticket)
        second = self.quadratic(ticket, "--ticket", "1")
        model = self.model(second)
        self.assertEqual(self.model(first), model)
        for k, value in enumerate(model):
            self.assertAlmostEqual(value, 1.0 if k % 2 == 0 else -0.5, delta=1e-3)
        given = (self.folder / "peer-1" / "swarm" / "config.toml").read_text()
        self.assertIn("steps = 200", given)

    def test_a_program_that_joins_before_the_first_peer_runs_says_so_and_waits_for_it(self):
        config = self.write("run.toml", CONFIG.format(waits=2))
        with socket.socket() as reserved:  # It does not listen, so the first peer can, and no other program gets the port.
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind(("127.0.0.1", 0))
            listen = "127.0.0.1:%d" % reserved.getsockname()[1]
            words = ("--create", "first", "--listen", listen)
            first = self.quadratic(config, *words)
            ticket = self.first_line(first.stdout).strip()
            first.kill()
            first.wait()
            second = self.quadratic(ticket, "--ticket", "1")
            late = f"grapevine: {listen}: no peer answers there; waits for the peer that made the ticket until"
            self.assertIn(late, self.first_line(second.stderr))
            first = self.quadratic(config, *words)
            # It says nothing more.
            self.assertEqual(self.model(second), self.model(first))

    def test_a_used_ticket_and_a_damaged_one_are_refused_and_name_the_remedy(self):
        config = self.write("run.toml", CONFIG.format(waits=1))
        x = array.array("f", [0.0] * 4)
        tickets = []
        first = grapevine.create(
            config, {"x": x}, listen="127.0.0.1:0", folder=self.folder / "first", show=tickets.append
        )
        other = array.array("f", [0.0] * 4)
        more = {"listen": "127.0.0.1:0", "name": "second"}
        with self.assertRaisesRegex(grapevine.Refused, "copy the whole word"):
            grapevine.join(tickets[0][:-3], {"x": other}, folder=self.folder / "second", **more)
        vine = grapevine.join(tickets[0], {"x": other}, folder=self.folder / "second", **more)
        with self.assertRaisesRegex(grapevine.Refused, "used"):
            grapevine.join(tickets[0], {"x": other}, folder=self.folder / "third", **more)
        # Both may make further tickets, until they have left.
        self.assertNotEqual(vine.invite(uses=2), first.invite())
        vine.leave()
        with self.assertRaisesRegex(ValueError, "has left"):
            vine.invite()
        first.leave()

    def test_a_model_unlike_the_swarms_is_refused_with_both_layouts(self):
        ticket = self.create("kind = 'linear'")
        x = array.array("f", [0.0] * 5)
        with self.assertRaisesRegex(grapevine.Refused, "layout of the model differs"):
            grapevine.join(ticket, {"x": x}, listen="127.0.0.1:0", name="second",
                           folder=self.folder / "second")  # fmt: skip

    def test_what_a_ticket_brings_is_not_given_beside_it(self):
        x = array.array("f", [0.0] * 4)
        with self.assertRaisesRegex(ValueError, "takes the place of `key`"):
            grapevine.join("gv1_x", {"x": x}, key=self.folder / "key")
        with self.assertRaisesRegex(ValueError, "takes the place of `shard`"):
            grapevine.create(None, {"x": x}, listen="127.0.0.1:0", shard="0/1")
        self.assertFalse((self.folder / "key").exists())

    def test_a_config_that_is_too_long_for_guests_with_its_settings_is_refused(self):
        long = CONFIG.format(waits=1).replace("/nowhere", "/nowhere/" * 2000)
        config = self.write("run.toml", long)
        x = array.array("f", [0.0] * 4)
        with self.assertRaisesRegex(grapevine.Refused, "longer than 32 KiB"):
            grapevine.create(config, {"x": x}, listen="127.0.0.1:0", folder=self.folder / "first",
                             show=str, data__train_files=["a/" * 10000])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
