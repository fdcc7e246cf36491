"""State that a program gives and takes as bytes: join(..., state=(get, set))."""

import array
import ctypes
import threading
import unittest
import unittest.mock

from support import HERE, WATCHFUL, FolderTest, Peers, eventually

import grapevine
from grapevine import _library
from grapevine._state import GivenState

LOCKSTEP = """
[run]
mode = "allreduce"
steps = 100000
peers = 2
wait_for_peers = 1
linger_s = 0.0
""" + WATCHFUL


class StateAloneTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.given = self.alone()

    def join(self, state, **more):
        x = array.array("f", [0.0] * 4)
        return grapevine.join(None, {"x": x}, state=state, run__steps=100, **self.given, **more)

    def test_a_checkpoint_has_the_bytes_and_gives_them_to_the_loop(self):
        for state_bytes in (5, 1 << 16):
            with self.subTest(state_bytes):
                self.setUp()
                seen, momentum = [], array.array("f", [1.0])
                state = {"rest": (lambda: b"\0\xff%03d" % vine.steps, seen.append), "m": momentum}
                vine = unittest.mock.Mock(steps=0)
                vine = self.join(state, state_bytes=state_bytes)
                for _ in range(7):
                    vine.step()
                momentum[0] = 3.0
                vine.leave()
                self.assertEqual(seen, [])
                momentum[0] = 0.0
                vine = self.join(state, state_bytes=state_bytes, resume=True)
                self.assertEqual((seen, momentum[0]), ([b"\0\xff007"], 3.0))
                vine.leave()

    def test_what_is_no_state_is_refused_before_the_peer_begins(self):
        for given, error, why in (
            ("text", TypeError, "get.. returned a str, not bytes"),
            (None, TypeError, "get.. returned a NoneType"),
            (b"123456789", ValueError, "returned 9 bytes, and state_bytes is 8"),
        ):
            with self.assertRaisesRegex(error, why):
                self.join((lambda given=given: given, print), state_bytes=8)
        for state_bytes in (0, -1, 1 << 40):
            with self.assertRaisesRegex(ValueError, "state_bytes must be from 1"):
                self.join((lambda: b"", print), state_bytes=state_bytes)

    def test_an_error_of_get_ends_the_peer_and_is_its_reason(self):
        given = [b"ok"]
        vine = self.join((lambda: given[0], print), checkpoint__every_steps=4)
        given[0] = bytes(1 << 17)
        with self.assertRaises(grapevine.Failed) as raised:
            for _ in range(100):
                vine.step()
        self.assertIn("state_bytes is 65536", str(raised.exception.__cause__))
        with self.assertRaises(grapevine.Failed):
            vine.leave()

    def test_bytes_that_are_damaged_or_too_long_are_not_passed_on(self):
        seen = []
        state = GivenState("state", lambda: b"as they are", seen.append, 16)
        memory = (ctypes.c_char * (8 * state.memory.elements)).from_address(state.memory.address)
        whole = bytes(memory)
        for damaged in (
            whole[:8] + b"A" + whole[9:],
            b"\xff\xff\xff\xff" + whole[4:],
            b"\x11\0\0\0" + whole[4:],
            bytes(4) + b"\x01" + bytes(19),
        ):
            memory.raw = damaged
            with self.assertLogs("grapevine", "WARNING"):
                state.copy(_library.COPY_IN)
            state.hand_over()
        self.assertEqual(seen, [])
        memory.raw = whole
        state.copy(_library.COPY_IN)
        state.hand_over()
        state.hand_over()
        self.assertEqual(seen, [b"as they are"])

    def test_bytes_that_the_loop_has_not_taken_yet_are_passed_on_as_they_came(self):
        own, seen = [b"theirs"], []
        state = GivenState("state", lambda: own[0], seen.append, 16)
        state.copy(_library.COPY_IN)
        own[0] = b"mine"
        # Another newcomer asks before the loop has been told.
        state.copy(_library.COPY_OUT)
        state.copy(_library.COPY_IN)
        state.hand_over()
        self.assertEqual(seen, [b"theirs"])
        state.copy(_library.COPY_OUT)
        state.copy(_library.COPY_IN)
        state.hand_over()
        self.assertEqual(seen, [b"theirs", b"mine"])


class StateSwarmTest(FolderTest):
    def test_a_newcomer_in_lockstep_gets_the_bytes_on_its_own_thread(self):
        swarm = Peers(self, 2, LOCKSTEP, str(HERE / "quadratic.py"), self.folder / "run.toml",
                      "--state", "--step-s", "0.005")  # fmt: skip
        swarm.start(0)
        self.assertTrue(eventually(lambda: swarm.step(0) >= 5))
        seen = []

        def take(given):
            seen.append((given, threading.current_thread()))

        x = array.array("f", [0.0] * 24)
        vine = grapevine.join(tensors={"x": x}, state=(lambda: b"none", take), **swarm.given(1))
        self.assertEqual(len(seen), 1)
        given, thread = seen[0]
        # The peer has told with each step how many it has made.
        self.assertRegex(given, rb"^\d+ steps of peer 0$")
        self.assertGreaterEqual(int(given.split()[0]), 5)
        self.assertIs(thread, threading.current_thread())
        vine._leave_quietly()


if __name__ == "__main__":
    unittest.main()
