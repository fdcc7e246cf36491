"""Means of arrays without a model, between real processes."""

import array
import ctypes
import importlib.util
import json
import os
import signal
import socket
import time
import unittest
import unittest.mock

from support import HERE, WATCHFUL, FolderTest, Peers, eventually, run

import grapevine

MEAN_PEER = str(HERE / "mean_peer.py")

TOGETHER = """
[run]
peers = {peers}
wait_for_peers = {peers}
wait_max_s = 60.0
""" + WATCHFUL


def impatient():
    """Makes calls wait for a microsecond at a time, in which no peer ends."""
    return unittest.mock.patch.object(grapevine._join, "_PATIENCE_S", 1e-6)


class MeanAloneTest(FolderTest):
    def join(self, **more):
        if not hasattr(self, "authorized"):
            self.authorized = self.make_keys(1)
        return grapevine.join(
            mode="collective",
            key=self.folder / "peer-0" / "key",
            authorized=self.authorized,
            folder=self.folder / "run",
            listen="127.0.0.1:0",
            **more,
        )

    def test_one_peer_alone_keeps_its_arrays_and_leaves_nothing_behind(self):
        threads = set(os.listdir("/proc/self/task"))
        with self.join() as vine:
            self.assertEqual(vine.calls, 0)
            for kind in "fd":
                x = array.array(kind, [1.5, -2.0, 0.0])
                self.assertIs(vine.mean(x, weight=3), x)
                self.assertEqual(list(x), [1.5, -2.0, 0.0])
            self.assertEqual(vine.calls, 2)
            self.assertEqual(vine.status["step"], 2)
        vine.leave()
        self.assertEqual(set(os.listdir("/proc/self/task")), threads)
        with self.assertRaisesRegex(ValueError, "has left"):
            vine.mean(array.array("f", [1.0]))

    def test_what_cannot_be_averaged_is_refused_and_is_no_call(self):
        with self.join() as vine:
            x = array.array("f", [1.0, 2.0])
            for bad, weight, why in (
                (array.array("i", [1]), 1, "type 'i'"),
                (array.array("q", [1]), 1, "integers have no mean"),
                (array.array("f"), 1, "is empty"),
                (b"1234", 1, "read-only"),
                (array.array("f", [1.0, float("nan")]), 1, "must be finite"),
                (array.array("f", [1.0, -float("inf")]), 1, "must be finite"),
                (array.array("d", [1e300]), 1, "must be finite"),
                (x, -1, "a weight is 0, or from"),
                (x, float("nan"), "a weight is 0, or from"),
                (x, 1e10, "a weight is 0, or from"),
            ):
                with self.assertRaisesRegex(ValueError, why):
                    vine.mean(bad, weight)
            self.assertEqual(vine.calls, 0)
            mean = vine.mean_async(x, weight=0)
            self.assertEqual(list(mean.wait()), [1.0, 2.0])
            self.assertEqual(mean.peers, 0)

    def test_arrays_of_numpy_keep_their_type_and_shape(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("NumPy is not installed")
        with self.join() as vine:
            for kind in (np.float16, np.float32, np.float64):
                x = np.arange(-3, 3, dtype=kind).reshape(2, 3) / 4
                expected = x.copy()
                self.assertIs(vine.mean(x, weight=2), x)
                self.assertEqual((x.dtype, x.shape), (expected.dtype, expected.shape))
                np.testing.assert_array_equal(x, expected)
            with self.assertRaisesRegex(ValueError, "row-major"):
                vine.mean(np.zeros((4, 4), np.float32).T)
            with self.assertRaisesRegex(ValueError, "type <i4"):
                vine.mean(np.zeros(4, np.int32))
            with self.assertRaisesRegex(ValueError, "integers have no mean"):
                vine.mean(np.zeros(4, np.int64))
            self.assertEqual(vine.calls, 3)

    def test_tensors_of_pytorch_keep_their_type_and_shape(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        with self.join() as vine:
            for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
                x = torch.arange(-3, 3).to(kind).reshape(2, 3) / 4
                expected = x.clone()
                self.assertIs(vine.mean(x, weight=2), x)
                self.assertTrue(torch.equal(x, expected))
            with self.assertRaisesRegex(ValueError, "not contiguous"):
                vine.mean(torch.zeros(4, 4).t().narrow(0, 0, 2))
            with self.assertRaisesRegex(ValueError, "on meta"):
                vine.mean(torch.zeros(4, device="meta"))
            self.assertEqual(vine.calls, 4)

    def test_join_says_what_it_needs(self):
        for named, why in (
            ({}, "needs a model"),
            ({"mode": "gossip"}, "run__mode='gossip'"),
            ({"mode": "collective", "tensors": [array.array("f", [1])]}, "takes no model"),
        ):
            with self.assertRaisesRegex(TypeError, why):
                grapevine.join(**named)
        config = "[run]\nsteps = 1\n"
        x = array.array("f", [1.0])
        with self.join() as vine:
            with self.assertRaisesRegex(ValueError, "has no model"):
                grapevine._library.checked(
                    grapevine._library.library().gv_step(vine._handle, 1, 0.0, None)
                )
        path = self.write("run.toml", config)
        with grapevine.join(
            path,
            x,
            key=self.folder / "peer-0" / "key",
            authorized=self.authorized,
            folder=self.folder / "run",
            listen="127.0.0.1:0",
        ) as vine:
            with self.assertRaisesRegex(ValueError, "has a model"):
                grapevine._library.checked(
                    grapevine._library.library().gv_mean(
                        vine._handle, None, ctypes.c_double(1.0), None
                    )
                )

    def test_a_peer_that_ends_slowly_has_not_joined(self):
        with impatient(), socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            with self.assertRaisesRegex(grapevine.Refused, "cannot listen"):
                self.join(lane_port=other.getsockname()[1])

    def test_a_mean_that_is_under_way_ends_with_its_peer(self):
        vine = self.join(wait_for=1)
        means = [vine.mean_async(array.array("f", [float(n)])) for n in range(5)]
        self.assertEqual([list(mean.wait()) for mean in means], [[float(n)] for n in range(5)])
        self.assertTrue(all(mean.done() for mean in means))
        late = vine.mean_async(array.array("f", [1.0]))
        vine.leave()
        self.assertTrue(late.done())


class MeanSwarmTest(FolderTest):
    def swarm(self, peers, *words, wait_for=None):
        config = TOGETHER.format(peers=wait_for or peers)
        return Peers(self, peers, config, MEAN_PEER, str(self.folder / "run.toml"), *words)

    def printed(self, swarm, number):
        code, out, err = swarm.end(number)
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)

    def together(self, swarm, peers):
        swarm.start_all()
        printed = [self.printed(swarm, number) for number in range(peers)]
        for one in printed:
            self.assertIsNone(one["problem"])
            self.assertEqual(one["results"], printed[0]["results"])
        return printed[0]["results"]

    def test_all_peers_get_the_same_mean_of_arrays_of_any_length(self):
        lengths = [1, 3, 1000, 7, 300000, 70000]
        for together in ((), ("--together",)):
            with self.subTest(together):
                self.setUp()
                swarm = self.swarm(3, "--calls", ",".join(map(str, lengths)), *together)
                results = self.together(swarm, 3)
                self.assertEqual([one["call"] for one in results], [1, 2, 3, 4, 5, 6])
                for k, (length, one) in enumerate(zip(lengths, results)):
                    self.assertEqual(one["peers"], 3)
                    for i in range(min(8, length)):
                        self.assertAlmostEqual(one["x"][i], 2 * (i % 7 + k), places=4)

    def test_arrays_of_unlike_kinds_have_one_mean(self):
        kinds = ["array", *(kind for kind in ("numpy", "torch") if importlib.util.find_spec(kind))]
        if len(kinds) == 1:
            self.skipTest("neither NumPy nor PyTorch is installed")
        swarm = self.swarm(len(kinds), "--calls", "6,5000")
        for number, kind in enumerate(kinds):
            swarm.start(number, "--kind", kind)
        printed = [self.printed(swarm, number) for number in range(len(kinds))]
        for one in printed:
            self.assertIsNone(one["problem"])
            self.assertEqual(one["results"], printed[0]["results"])
        for k, one in enumerate(printed[0]["results"]):
            for i, value in enumerate(one["x"]):
                self.assertAlmostEqual(value, (len(kinds) + 1) / 2 * (i % 7 + k), places=4)

    def test_weights_count(self):
        swarm = self.swarm(2, "--calls", "5")
        swarm.start(0, "--calls", "5:3,5:0,5:0.5")
        swarm.start(1, "--calls", "5:1,5:2,5:0")
        both = [self.printed(swarm, number) for number in (0, 1)]
        self.assertEqual(both[0], both[1])
        for i in range(5):
            # Peer 0 gives (i + k), and peer 1 twice that.
            self.assertAlmostEqual(both[0]["results"][0]["x"][i], 1.25 * i, places=5)
            self.assertAlmostEqual(both[0]["results"][1]["x"][i], 2 * (i + 1), places=5)
            self.assertAlmostEqual(both[0]["results"][2]["x"][i], i + 2, places=5)

    def test_arrays_of_unlike_lengths_are_refused_by_name_at_every_peer(self):
        for peers in (2, 4):
            with self.subTest(peers):
                self.setUp()
                swarm = self.swarm(peers, "--calls", "1000,2000")
                for number in range(peers - 1):
                    swarm.start(number)
                swarm.start(peers - 1, "--calls", "1000,2004")
                for number in range(peers):
                    printed = self.printed(swarm, number)
                    self.assertEqual(len(printed["results"]), 1)
                    kind, text = printed["problem"]
                    self.assertEqual(kind, "Refused")
                    theirs, ours = (2000, 2004) if number == peers - 1 else (2004, 2000)
                    self.assertIn(
                        f"an array of {theirs} numbers to call 2, and this peer one of {ours}", text
                    )
                    if number < peers - 1:
                        self.assertIn(f"peer-{peers - 1}", text)

    def pair(self):
        """Two peers in this process."""
        swarm = self.swarm(2, wait_for=1)
        first = grapevine.join(mode="collective", **swarm.given(0))
        swarm.address = "peer-0@" + first.status["self"]["advertised"]
        second = grapevine.join(mode="collective", **swarm.given(1))
        for one in (first, second):
            self.addCleanup(one._leave_quietly)
        return first, second

    def test_peers_that_end_slowly_still_say_why(self):
        with impatient():
            peers = self.pair()
            means = [one.mean_async(array.array("f", [1.0] * n)) for n, one in enumerate(peers, 3)]
            for mean in means:
                with self.assertRaisesRegex(grapevine.Refused, "numbers to call 1"):
                    mean.wait()

    def test_a_mean_after_ctrl_c_meets_the_next_one_of_the_others(self):
        first, second = self.pair()
        early, x, w = (array.array("f", [value] * 5) for value in (1.0, 2.0, 3.0))
        mean = first.mean_async(early)
        self.assert_ctrl_c_ends(lambda: first.mean(x))
        self.assertFalse(mean.done())
        theirs = [second.mean_async(array.array("f", [5.0] * 5)) for _ in range(4)]
        self.assertEqual(list(mean.wait()), [3.0] * 5)
        self.assertEqual(list(first.mean(w)), [4.0] * 5)
        # The interrupted call has ended, too.
        self.assertEqual(list(x), [3.5] * 5)
        self.assertEqual(first.calls, 3)
        self.assertEqual(list(first.mean_async(w).wait()), [4.5] * 5)
        self.assertEqual([list(one.wait())[0] for one in theirs], [3.0, 3.5, 4.0, 4.5])

    def test_a_killed_peer_is_done_without(self):
        swarm = self.swarm(4, "--calls", "1000,50", "--repeat", "200", "--pause-s", "0.005")
        swarm.start_all()
        self.assertTrue(eventually(lambda: swarm.step(1) > 20))
        swarm.kill(2)
        printed = [self.printed(swarm, number) for number in (0, 1, 3)]
        for one in printed:
            self.assertIsNone(one["problem"])
            self.assertEqual(one["results"], printed[0]["results"])
            self.assertEqual(len(one["results"]), 400)
        peers = [one["peers"] for one in printed[0]["results"]]
        self.assertEqual(peers, sorted(peers, reverse=True))
        self.assertEqual(set(peers), {3, 4})

    def test_ctrl_c_ends_the_wait_for_a_mean_within_two_seconds(self):
        # The other peer takes part in one mean, and then lives on without another.
        swarm = self.swarm(2, "--calls", "5,5", "--pause-s", "1000")
        swarm.start(0)
        vine = grapevine.join(mode="collective", **swarm.given(1))
        x = array.array("f", [1.0] * 5)
        vine.mean(x)
        self.assert_ctrl_c_ends(lambda: vine.mean(x))
        swarm.kill(0)
        vine.leave()

    def test_a_newcomer_begins_with_the_next_call_of_the_others(self):
        swarm = self.swarm(
            3, "--calls", "1000", "--repeat", "600", "--pause-s", "0.005", wait_for=2
        )
        swarm.start(0)
        swarm.start(1)
        self.assertTrue(eventually(lambda: swarm.step(0) > 20))
        swarm.start(2, "--repeat", "10")
        late, first = self.printed(swarm, 2), self.printed(swarm, 0)
        self.assertIsNone(late["problem"])
        self.assertEqual(late["missed"], 0)
        self.assertEqual(len(late["results"]), 10)
        begin = late["results"][0]["call"]
        self.assertGreater(begin, 20)
        self.assertEqual(late["results"], first["results"][begin - 1 : begin + 9])
        self.assertEqual(late["results"][0]["peers"], 3)
        self.assertEqual(self.printed(swarm, 1), first)

    def test_a_peer_that_stood_still_is_told_that_it_missed_calls(self):
        swarm = self.swarm(3, "--calls", "1000", "--repeat", "600", "--pause-s", "0.005")
        swarm.start_all()
        self.assertTrue(eventually(lambda: swarm.step(0) > 20))
        swarm.signal(1, signal.SIGSTOP)
        before = swarm.step(0)
        self.assertTrue(eventually(lambda: swarm.step(0) > before + 50))
        swarm.signal(1, signal.SIGCONT)
        still, first = self.printed(swarm, 1), self.printed(swarm, 0)
        self.assertIsNone(still["problem"])
        self.assertEqual(still["missed"], 1)
        common = {one["call"]: one for one in first["results"]}
        together = [one for one in still["results"] if one["call"] in common]
        self.assertGreater(len(together), 20)
        # The stopped peer may already have had the mean of a call that the others then made without it.
        for one in together:
            if one["call"] != self.stopped_in(still):
                self.assertEqual(one, common[one["call"]])

    @staticmethod
    def stopped_in(printed):
        """The last call before the ones that a peer missed."""
        calls = [one["call"] for one in printed["results"]]
        return next(call for call, after in zip(calls, calls[1:]) if after > call + 1)

    def test_a_program_in_c_takes_part(self):
        config = TOGETHER.format(peers=2)
        path = self.write("run.toml", config)
        ended = run(
            os.environ["GRAPEVINE_BINARY"], "launch", "-n", "2", path, "--folder",
            str(self.folder / "run"), "--", os.environ["GRAPEVINE_C99_PEER"], "--mean", path,
        )  # fmt: skip
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)


if __name__ == "__main__":
    unittest.main()
