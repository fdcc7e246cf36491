# Tests of the scripts in this folder: that they count right, and that they can fail.
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

try:
    import nacl.signing
    import zmq
    from zmq.auth.thread import ThreadAuthenticator
except ImportError as error:
    raise unittest.SkipTest("python3-zmq or python3-nacl is not installed") from error

import campaigns
import files
import outsiders
import resources
from starvation import listeners, silence


class FakePeer:
    """A peer at a step that the test sets."""

    def __init__(self):
        self.step = 0

    def is_alive(self):
        return True

    def status(self):
        return {"step": self.step}


class WorkTest(unittest.TestCase):
    def test_in_lockstep_a_peer_that_comes_back_makes_no_steps(self):
        swarm = types.SimpleNamespace(peers=[FakePeer(), FakePeer()])
        work = campaigns.Work(swarm, "allreduce")
        for ahead, back in ((0, 0), (1000, 0), (1000, 1000), (1010, 500), (1020, 1020)):
            swarm.peers[0].step, swarm.peers[1].step = ahead, back
            work.sample()
        self.assertEqual(work.steps, 1020)

    def test_in_gossip_the_steps_of_all_peers_count(self):
        swarm = types.SimpleNamespace(peers=[FakePeer(), FakePeer()])
        work = campaigns.Work(swarm, "gossip")
        work.sample()
        swarm.peers[0].step, swarm.peers[1].step = 7, 5
        work.sample()
        self.assertEqual(work.steps, 12)


class TailTest(unittest.TestCase):
    def test_events_of_earlier_processes_are_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            peer = types.SimpleNamespace(folder=pathlib.Path(folder))
            log = peer.folder / "events.jsonl"
            log.write_text(json.dumps({"event": "member_dead"}) + "\n" + '{"event": "tor')
            tail = campaigns.Tail(peer, since_now=True)
            with log.open("a") as more:
                more.write("\n" + json.dumps({"event": "started"}) + "\n")
            self.assertEqual([event["event"] for event in tail.read()], ["started"])
            tail.file.close()


class SavingSwarm:
    """A swarm of one peer that saves a checkpoint a hundred steps later each time that it is started."""

    def __init__(self, folder, behind=0, ends=False):
        self.folder, self.behind, self.ends, self.resumed = folder, behind, ends, []
        self.running = False
        (folder / "checkpoints").mkdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __getitem__(self, _):
        return self

    def start(self, _, *options):
        newest = files.newest_step(self)
        if "--resume" in options:
            self.resumed.append({"event": "resumed", "step": newest - self.behind})
        (self.folder / f"checkpoints/step-{newest + 101:010}.safetensors").touch()
        self.running = not self.ends

    def events(self, name):
        return self.resumed if name == "resumed" else []

    def is_alive(self):
        return self.running

    def exit_code(self):
        return None if self.running else 1

    def output(self):
        return ""

    def kill(self):
        self.running = False


class SavesTest(unittest.TestCase):
    """Peers that are killed while they save must go on at their newest checkpoint, and run until they are killed."""

    def hold(self, **how):
        """Whether the promise holds in the campaign, and in the attack."""
        at_once = types.SimpleNamespace(uniform=lambda *_: 0)
        held = []
        for module, run in ((campaigns, lambda: campaigns.killed_in_saves("", time.monotonic() + 0.05, at_once)[0]),
                            (files, lambda: files.checkpoint_killed("")["held"])):
            with (tempfile.TemporaryDirectory() as folder, mock.patch.object(files, "KILLS", 3),
                  mock.patch.object(module, "Swarm", lambda *_, **__: SavingSwarm(pathlib.Path(folder), **how))):
                held.append(run())
        return held

    def test_a_peer_that_resumes_at_an_older_step_breaks_the_promise(self):
        self.assertEqual(self.hold(), [True, True])
        self.assertEqual(self.hold(behind=101), [False, False])

    def test_a_peer_that_ends_by_itself_was_not_killed(self):
        self.assertEqual(self.hold(ends=True), [False, False])


class TotalsTest(unittest.TestCase):
    def test_a_goal_may_be_a_figure_of_the_last_slice(self):
        script = pathlib.Path(__file__).resolve().parents[2] / "scripts/campaign"
        program = types.ModuleType("campaign")
        program.__file__ = str(script)
        exec(compile(script.read_text(), script, "exec"), program.__dict__)
        slices = [{"commit": "x", "campaign": "sanitizers", "verdict": "held", "figures": figures} for figures in
                  ({"asan": "3", "asan tests": "9"}, {"asan": "4", "asan tests": "10"})]
        with (mock.patch.object(program, "lines", lambda: slices),
              mock.patch.object(campaigns, "product_state", lambda *_: "same"),
              contextlib.redirect_stdout(io.StringIO()) as said):
            program.print_totals()
        self.assertIn("sanitizers: 2 slices, 0 broken, 7 of 10 asan", said.getvalue())


class MechanismTest(unittest.TestCase):
    """The attacks with other mechanisms than CURVE notice a port that accepts one."""

    def is_let_in(self, prepare, *arguments):
        context = zmq.Context()
        judge = ThreadAuthenticator(context)  # Without it a port with PLAIN would refuse every connection.
        judge.start()
        judge.configure_plain(passwords={"a": "b"})
        server = context.socket(zmq.ROUTER)
        try:
            prepare(server)
            port = server.bind_to_random_port("tcp://127.0.0.1")
            return outsiders.mechanism(*arguments)(types.SimpleNamespace(address=("127.0.0.1", port)))
        finally:
            server.close(0)
            judge.stop()
            context.term()

    def test_a_port_that_takes_null(self):
        null = b"NULL", b"\x05READY", b"\x05READY"
        self.assertTrue(self.is_let_in(lambda server: None, *null))
        self.assertFalse(self.is_let_in(self.with_curve, *null))

    def test_a_port_that_takes_plain(self):
        plain = b"PLAIN", b"\x05HELLO\1a\1b", b"\x07WELCOME"
        self.assertTrue(self.is_let_in(lambda server: setattr(server, "plain_server", 1), *plain))
        self.assertFalse(self.is_let_in(self.with_curve, *plain))

    @staticmethod
    def with_curve(server):
        server.curve_server, server.curve_secretkey = 1, zmq.curve_keypair()[1]


class LimitTest(unittest.TestCase):
    def test_peers_that_must_train_do_not_hold_by_ending(self):
        swarm = mock.MagicMock()
        swarm.__enter__.return_value = swarm
        swarm.alive.return_value = 0
        swarm.peers = [mock.Mock(**{"is_alive.return_value": False, "exit_code.return_value": 2,
                                    "step.return_value": 0})]
        with mock.patch.object(resources, "Swarm", lambda *_, **__: swarm):
            self.assertTrue(resources.limited("binary", "-n 12")[0])
            self.assertFalse(resources.limited("binary", "-n 40", must_train=True)[0])


class SilenceTest(unittest.TestCase):
    def seconds_for(self, held, count):
        """How long it takes until `count` more connections have been opened."""
        began, goal = time.monotonic(), held.count() + count
        while held.count() < goal:
            self.assertLess(time.monotonic() - began, 30)
        return time.monotonic() - began

    def test_no_more_connections_are_opened_in_a_second_than_was_said(self):
        with listeners(2) as others, silence(32) as held:
            held.limit(100)
            for address in others:
                held.add(address, wait=False)
            # At most the connections of a tenth of a second, and one more, come at once.
            self.assertGreater(self.seconds_for(held, 150), (150 - 11) / 100)
            held.limit(0)
            self.assertLess(self.seconds_for(held, 1000), (1000 - 11) / 100)


if __name__ == "__main__":
    unittest.main()
