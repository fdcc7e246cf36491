"""The C interface and the Python package on top of it, without NumPy and PyTorch."""

import array
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

from support import BINARY, HERE, WATCHFUL, FolderTest, Peers, eventually, run

import grapevine
from grapevine import _library

QUADRATIC = str(HERE / "quadratic.py")

ALONE = """
[run]
steps = 40
peers = 1
linger_s = 0.0
"""

TOGETHER = """
[run]
{run}
peers = {peers}
linger_s = {linger_s}
wait_for_peers = {peers}
{more}
""" + WATCHFUL

# Ways to work together, and how near the common model must come to the optimum.
WAYS = {
    "gossip": ("steps = 6000", "[gossip]\nperiod_steps = 4\nalpha = 0.5\n", 0.1),
    "lockstep": ('mode = "allreduce"\nsteps = 200', "", 1e-3),
    "local steps": ('mode = "allreduce"\nsteps = 400', "[allreduce]\nperiod = 4\n", 1e-3),
    "mixing": ('mode = "mixing"\nsteps = 400', "", 0.1),
    "rounds without waiting": (
        'mode = "mixing"\nsteps = 2000',
        "[mixing]\nstaleness = -1\n",
        0.1,
    ),
}


def distance(x):
    return max(abs(value - (1.0 if k % 2 == 0 else -0.5)) for k, value in enumerate(x))


class LibraryTest(unittest.TestCase):
    def test_it_shows_what_the_header_declares_and_nothing_else(self):
        header = (HERE.parents[1] / "peer" / "library" / "grapevine.h").read_text()
        declared = set(re.findall(r"GV_API [^;]*?\b(gv_\w+)\(", header))
        self.assertEqual(len(declared), 19)
        shown = run("nm", "-D", "--defined-only", _library.library()._name).stdout.split("\n")
        symbols = {line.split()[2].split("@")[0] for line in shown if " T " in line}
        self.assertEqual(symbols, declared)
        others = [line for line in shown if line and " T " not in line and " A " not in line]
        self.assertEqual(others, [])

    def test_it_stays_loaded_because_a_lookup_of_a_name_may_outlive_its_peer(self):
        self.assertIn("NODELETE", run("readelf", "-d", _library.library()._name).stdout)

    def test_it_brings_no_openmp_runtime(self):
        needed = run("ldd", _library.library()._name).stdout
        self.assertNotIn("gomp", needed)
        self.assertNotIn("dnnl", needed)

    def test_settings_of_derived_types_and_all_characters_are_valid_toml(self):
        class Named(float):
            def __repr__(self):
                return f"named.float({float(self)})"

        self.assertEqual(grapevine._join._toml(Named(0.1)), "0.1")
        self.assertEqual(grapevine._join._toml("\U0001f347"), '"\U0001f347"')

    def test_an_array_that_is_not_finite_is_refused(self):
        for values in ([1.0, float("nan")], [float("-inf"), 1.0]):
            with self.assertRaisesRegex(ValueError, "tensor 'x': it has values that are not finite"):
                grapevine.join(None, {"x": array.array("f", values)})

    def test_python_declares_the_structs_as_c_has_them(self):
        sizes = run(os.environ["GRAPEVINE_C99_PEER"], "--sizes").stdout.split()
        ours = [_library.Tensor, _library.Options, _library.Info]
        self.assertEqual(list(map(int, sizes)), [ctypes.sizeof(one) for one in ours])
        for struct in ours:
            self.assertEqual(struct._fields_[0], ("size", ctypes.c_size_t))
            self.assertEqual(struct.size.offset, 0)


class RefusalTest(FolderTest):
    def refused(self, kind, *arguments, **named):
        with self.assertRaises(kind) as caught:
            grapevine.join(*arguments, **named)
        return str(caught.exception)

    def test_arrays_that_cannot_be_shared(self):
        self.assertIn("'w': it is read-only", self.refused(ValueError, None, {"w": b"1234"}))
        self.assertIn("type 'i'", self.refused(ValueError, None, [array.array("i", [1])]))
        self.assertIn("no memory", self.refused(ValueError, None, {"w": 1.0}))
        self.assertIn("no mean", self.refused(ValueError, None, {"w": array.array("q", [1])}))
        self.assertIn("at least one", self.refused(ValueError, None, {}))
        self.assertIn("is empty", self.refused(ValueError, None, {"w": array.array("f")}))

    def test_counts_that_are_below_zero_or_not_whole(self):
        x = array.array("f", [1])
        for name in ("samples", "all_samples", "wait_for", "lane_port", "rank", "ranks"):
            with self.subTest(name):
                given = {"cohort": "secret"} if name.startswith("rank") else {}
                why = self.refused(ValueError, None, x, **given, **{name: -1})
                self.assertIn(f"{name} must be at least 0, not -1", why)
                why = self.refused(TypeError, None, x, **given, **{name: 2.5})
                self.assertIn(f"{name} must be a whole number, not 2.5", why)

    def test_two_tensors_of_one_name(self):
        x = array.array("f", [1, 2])
        memory = grapevine._memory.memory_of("x", x)
        given = grapevine._memory.TensorList([memory, memory])
        handle = ctypes.c_void_p()
        options = _library.Options(size=ctypes.sizeof(_library.Options))
        library = _library.library()
        result = library.gv_join(ctypes.byref(options), given.array, 2, ctypes.byref(handle))
        self.assertEqual(result, _library.WRONG_ARGUMENT)
        self.assertIn(b"another one has that name", library.gv_problem())
        result = library.gv_join(ctypes.byref(options), given.array, 0, ctypes.byref(handle))
        self.assertEqual(result, _library.WRONG_ARGUMENT)
        result = library.gv_join(None, given.array, 1, ctypes.byref(handle))
        self.assertIn(b"set its field `size`", library.gv_problem())
        options.joins = 1
        result = library.gv_join(ctypes.byref(options), given.array, 1, ctypes.byref(handle))
        self.assertEqual(result, _library.WRONG_ARGUMENT)
        self.assertEqual(library.gv_step(None, 1, 0.0, None), _library.WRONG_ARGUMENT)
        self.assertIn(b"call gv_join() first", library.gv_problem())

    def test_settings_and_files(self):
        x = array.array("f", [1, 2])
        config = self.write("run.toml", "[run]\nsteps = 10\nalgorithm = 'nothing'\n")
        key = self.folder / "no_key"
        text = self.refused(grapevine.Refused, config, x, key=key)
        self.assertIn("run.toml:3", text)
        self.assertIn("no_key", text)
        self.assertIn("neither --listen nor --join", text)
        text = self.refused(grapevine.Refused, None, x, key=key, run__stepps=4)
        self.assertIn("run.stepps", text)
        self.assertIn("has no argument 'steps'", self.refused(TypeError, None, x, steps=4))

    def test_more_tensors_than_a_checkpoint_can_hold(self):
        tensors = {f"w{i}": array.array("f", [1]) for i in range(20001)}
        text = self.refused(grapevine.Refused, None, tensors, run__steps=4, **self.alone())
        self.assertIn("tensors: the model has 20001, and a checkpoint holds at most 20000", text)
        self.assertIn("give several small tensors as one", text)

    def test_a_pipeline_and_a_budget_in_epochs_of_unknown_data(self):
        more = self.alone()
        x = array.array("f", [1, 2])
        text = self.refused(grapevine.Refused, None, x, run__mode="pipeline", run__steps=4, **more)
        self.assertIn("cannot see those of a learner", text)
        text = self.refused(grapevine.Refused, None, x, **more)
        self.assertIn("run.epochs", text)


class AloneTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.authorized = self.make_keys(2)
        self.config = self.write("run.toml", ALONE)

    def join(self, x, number=0, listen="127.0.0.1:0", **more):
        return grapevine.join(
            self.config,
            {"x": x},
            key=self.folder / f"peer-{number}" / "key",
            authorized=self.authorized,
            folder=self.folder / f"run-{number}",
            listen=listen,
            shard="0/1",
            **more,
        )

    def test_a_loop_trains_alone_and_is_a_good_guest(self):
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        threads = set(os.listdir("/proc/self/task"))
        processors = os.sched_getaffinity(0)
        x = array.array("f", [0.0] * 100)
        vine = self.join(x)
        self.assertEqual(vine.status["step"], 0)
        steps = 0
        for _ in vine.until_over([1, 2, 3]):
            steps += 1
            for k in range(100):
                x[k] += 1.0
            self.assertEqual(vine.reduce({"x": x}), grapevine.Reduced(0, False))
            vine.step(loss=1.0)
        self.assertEqual(steps, 40)
        # Nothing but the loop has changed the model.
        self.assertEqual(list(x), [40.0] * 100)
        self.assertTrue((self.folder / "run-0" / "final.safetensors").exists())
        self.assertFalse(vine.step(1.0))
        vine.leave()
        vine.leave()
        self.assertEqual(set(os.listdir("/proc/self/task")), threads)
        self.assertEqual(os.sched_getaffinity(0), processors)
        now = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        self.assertEqual(now, handlers)

    def test_a_model_elsewhere_is_copied_only_when_the_peer_needs_it(self):
        elsewhere, copies = array.array("f", [0.0] * 4), array.array("f", [-1.0] * 4)
        model = grapevine._arrays.ArrayModel({"x": copies}, None)
        directions = []

        def copy(role, direction):
            self.assertEqual(role, _library.MEAN)
            directions.append(direction)
            out = direction == _library.COPY_OUT
            to, source = (copies, elsewhere) if out else (elsewhere, copies)
            to[:] = source

        model.is_staged, model.copy = True, copy
        with unittest.mock.patch.object(grapevine._join, "_model_of", lambda *_: model):
            vine = self.join(elsewhere)
        for _ in vine.until_over([1]):
            self.assertEqual(list(elsewhere), [float(vine.steps)] * 4)
            for k in range(4):
                elsewhere[k] += 1.0
            vine.step()
        vine.leave()
        self.assertEqual(list(elsewhere), [40.0] * 4)
        self.assertEqual(list(copies), [40.0] * 4)
        self.assertIn(_library.COPY_OUT, directions)
        self.assertLess(len(directions), 20)

    def test_two_peers_in_one_process_and_the_same_key_again(self):
        first = self.join(array.array("f", [0.0] * 4))
        second = self.join(array.array("f", [0.0] * 4), 1, run__steps=1000000)
        # Only one peer may run in a folder.
        with self.assertRaisesRegex(grapevine.Refused, "another peer runs in this folder"):
            self.join(array.array("f", [0.0] * 4))
        first.leave()
        second.leave()
        self.join(array.array("f", [0.0] * 4)).leave()

    def test_a_child_made_by_fork_cannot_use_the_peer(self):
        with self.join(array.array("f", [0.0] * 4)) as vine:
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    vine.step()
                except ValueError as error:
                    code = 0 if "fork()" in str(error) else 2
                vine.leave()
                os._exit(code)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertTrue(vine.step())

    def test_a_child_made_by_fork_keeps_neither_the_folder_nor_the_ports(self):
        with socket.socket() as links, socket.socket() as lanes:
            for free in (links, lanes):
                free.bind(("127.0.0.1", 0))
            ports = {
                "listen": "127.0.0.1:%d" % links.getsockname()[1],
                "lane_port": lanes.getsockname()[1],
            }
        vine = self.join(array.array("f", [0.0] * 4), **ports)
        ours, childs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(childs)
            os.read(ours, 1)  # Until the parent closes its end.
            os._exit(0)
        os.close(ours)
        try:
            vine.leave()
            self.join(array.array("f", [0.0] * 4), **ports).leave()
        finally:
            os.close(childs)
            os.waitpid(child, 0)

    def test_models_of_other_shapes_are_refused_with_both_layouts(self):
        with self.join(array.array("f", [0.0] * 4)) as first:
            address = "peer-0@" + first.status["self"]["advertised"]
            # One address may also be given without a list.
            for join in ([address], address):
                with self.assertRaisesRegex(grapevine.Refused, "layout of the model differs") as caught:
                    self.join(array.array("f", [0.0] * 5), 1, join=join)
                self.assertIn("numbers 4", str(caught.exception))
                self.assertIn("numbers 5", str(caught.exception))

    def test_a_loop_goes_on_from_its_checkpoint_with_its_own_state(self):
        x = array.array("f", [0.0] * 4)
        momentum = array.array("f", [0.0] * 3)
        count = array.array("q", [0])
        state = {"momentum": momentum, "count": count}
        vine = self.join(x, state=state)
        for _ in range(10):
            x[0] += 1.0
            momentum[1] += 0.5
            count[0] -= 1 << 40
            vine.step()
        vine.leave()
        y = array.array("f", [0.0] * 4)
        other = {"momentum": array.array("f", [9.0] * 3), "count": array.array("q", [7])}
        vine = self.join(y, state=other, resume=True)
        self.assertEqual(list(y), [10.0, 0.0, 0.0, 0.0])
        self.assertEqual(list(other["momentum"]), [0.0, 5.0, 0.0])
        self.assertEqual(other["count"][0], -10 * (1 << 40))
        steps = sum(1 for _ in vine.until_over([1]) if vine.step() or True)
        self.assertEqual(steps, 30)
        vine.leave()

    def test_ctrl_c_ends_the_wait_of_join_within_two_seconds(self):
        # The second peer of two is never started.
        self.assert_ctrl_c_ends(
            lambda: self.join(array.array("f", [0.0] * 4), wait_for=2, run__wait_max_s=600)
        )

    def test_an_address_where_no_peer_answers_is_unreachable(self):
        x = array.array("f", [0.0] * 4)
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))  # Nothing listens there, and no other program gets the port.
            address = "127.0.0.1:%d" % silent.getsockname()[1]
            with self.assertRaisesRegex(grapevine.Unreachable, "no authorised peer answered"):
                self.join(x, join=[address], wait_for=2, run__wait_max_s=600)
        # The peer has ended, so its folder is free again.
        self.join(x).leave()

    def test_the_port_of_lanes_and_the_address_to_dial_from_are_taken_over(self):
        x = array.array("f", [0.0] * 4)
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            with self.assertRaisesRegex(grapevine.Refused, f"--lane-port {port}: cannot listen"):
                self.join(x, lane_port=port)
        with self.assertRaisesRegex(grapevine.Failed, "--dial-from 192.0.2.1: no such address"):
            self.join(x, dial_from="192.0.2.1")
        with self.assertRaisesRegex(ValueError, "`lane_port` is above 65535"):
            self.join(x, lane_port=65536)
        self.join(x, lane_port=port, dial_from="127.0.0.1").leave()

    def test_what_has_ended_says_so_and_nothing_else_happens(self):
        vine = self.join(array.array("f", [0.0] * 4))
        vine.step()
        vine.leave()
        self.assertEqual(vine.status, {})
        self.assertFalse(vine.step())
        self.assertEqual(vine.reduce({"x": array.array("f", [0.0] * 4)}).samples, 0)

    def test_a_peer_that_cannot_leave_is_freed_all_the_same(self):
        vine = self.join(array.array("f", [0.0] * 4))
        vine.step()
        failed = grapevine.Failed("the disk is full")
        with unittest.mock.patch.object(_library, "checked", side_effect=failed):
            with self.assertRaisesRegex(grapevine.Failed, "the disk is full"):
                vine.leave()
        vine.leave()
        self.assertEqual(vine.status, {})

    def test_a_call_that_cannot_answer_does_nothing(self):
        x = array.array("f", [0.0] * 4)
        with self.join(x) as vine:
            steps = vine.steps
            without_size = _library.Info()
            result = _library.library().gv_step(vine._handle, 1, 0.0, ctypes.byref(without_size))
            self.assertEqual(result, _library.WRONG_ARGUMENT)
            vine.step()
            self.assertEqual(vine.steps, steps + 1)

    def test_status_says_that_a_peer_has_ended_only_if_it_has(self):
        with self.join(array.array("f", [0.0] * 4)) as vine:
            socket = self.folder / "run-0" / "status.sock"
            hidden = socket.rename(socket.with_name("hidden"))
            size = ctypes.c_size_t(0)
            result = _library.library().gv_status_json(vine._handle, None, ctypes.byref(size))
            self.assertEqual(result, _library.PENDING)
            self.assertEqual(vine.status, {})
            hidden.rename(socket)
            self.assertEqual(vine.status["phase"], "training")

    def test_an_interpreter_that_ends_without_leave_leaves(self):
        program = (
            "import array, grapevine\n"
            "x = array.array('f', [0.0] * 4)\n"
            f"vine = grapevine.join({self.config!r}, x, key={str(self.folder / 'peer-0' / 'key')!r},"
            f" authorized={self.authorized!r}, folder={str(self.folder / 'run')!r},"
            " listen='127.0.0.1:0', shard='0/1')\n"
            "vine.step()\n"
        )
        ended = run(sys.executable, "-c", program)
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "", ""))
        result = json.loads((self.folder / "run" / "result.json").read_text())
        self.assertEqual(result["step"], 1)


class Swarms(FolderTest):
    def swarm(self, way, peers=3, steps=None, linger_s=20.0):
        run_keys, extra, self.tolerance = WAYS[way]
        if steps is not None:
            run_keys = re.sub(r"steps = \d+", f"steps = {steps}", run_keys)
        config = TOGETHER.format(run=run_keys, peers=peers, more=extra, linger_s=linger_s)
        return Peers(self, peers, config, QUADRATIC, str(self.folder / "run.toml"))


class InterruptedTest(FolderTest):
    def test_a_loop_that_ctrl_c_interrupts_in_a_sum_begins_the_step_again(self):
        config = TOGETHER.format(
            run='mode = "allreduce"\nsteps = 20', peers=2, more="", linger_s=20.0
        )
        swarm = Peers(self, 2, config, str(HERE / "interrupted_peer.py"), str(self.folder / "run.toml"))
        swarm.start_all()
        ended = [swarm.end(number) for number in range(2)]
        for code, _, problem in ended:
            self.assertEqual(code, 0, problem)
        self.assertIn("has been summed already", ended[0][2])
        said = [json.loads(out) for _, out, _ in ended]
        self.assertEqual(said[0]["interruptions"], 5)
        self.assertEqual([one["steps"] for one in said], [20, 20])
        self.assertEqual(said[0]["x"], said[1]["x"])
        # The mean of both gradients is half of each, so 20 steps leave (1 - 1/4)^20 of the distance.
        for value in said[0]["x"]:
            self.assertAlmostEqual(value, 1 - 0.75**20, places=5)

    def join(self, x, **more):
        return grapevine.join(None, {"x": x}, run__mode="allreduce", run__steps=1000, **self.alone(), **more)

    def test_a_loop_may_refill_its_arrays_after_ctrl_c_and_is_given_the_mean(self):
        x, gradient = array.array("f", [0.0] * 4), array.array("f", [1.0] * 4)
        with self.join(x) as vine:
            self.assert_ctrl_c_ends_the_call(lambda: vine.reduce({"x": gradient}))
            with self.assertRaisesRegex(ValueError, "the result of the sum was not read"):
                vine.step()
            gradient[:] = array.array("f", [9.0] * 4)
            self.assertFalse(vine.reduce({"x": gradient}).again)
            self.assertEqual(list(gradient), [1.0] * 4)
            self.assertTrue(vine.step())
            # The next step has a sum of its own.
            gradient[:] = array.array("f", [5.0] * 4)
            self.assertFalse(vine.reduce({"x": gradient}).again)
            self.assertEqual(list(gradient), [5.0] * 4)
            self.assertTrue(vine.step())

    def test_parts_may_be_refilled_after_ctrl_c(self):
        gradient = array.array("f", [1.0] * 4)
        with self.join(array.array("f", [0.0] * 4)) as vine:
            vine.reduce_begin({"x": gradient})
            self.assert_ctrl_c_ends_the_call(vine.reduce_end)
            gradient[:] = array.array("f", [9.0] * 4)
            vine.reduce_begin({"x": gradient})
            self.assertFalse(vine.reduce_end().again)
            self.assertEqual(list(gradient), [1.0] * 4)
            self.assertTrue(vine.step())

    def test_samples_that_are_no_count_are_refused_and_change_nothing(self):
        class Three:
            def __index__(self):
                return 3

        gradient = array.array("f", [1.0] * 4)
        with self.join(array.array("f", [0.0] * 4)) as vine:
            for wrong, error, why in (
                (2.0, TypeError, "a whole number, not 2.0"),
                ("2", TypeError, "a whole number, not '2'"),
                (-1, ValueError, "at least 0, not -1"),
            ):
                for call in (lambda: vine.reduce({"x": gradient}, samples=wrong),
                             lambda: vine.reduce_end(samples=wrong), lambda: vine.step(samples=wrong)):  # fmt: skip
                    with self.assertRaisesRegex(error, f"samples must be {why}"):
                        call()
            self.assertFalse(vine.reduce({"x": gradient}, samples=Three()).again)
            self.assertTrue(vine.step(samples=Three()))

    def test_a_call_that_ctypes_refuses_leaves_nothing_pending(self):
        gradient = array.array("f", [1.0] * 4)
        with self.join(array.array("f", [0.0] * 4)) as vine:
            unchecked = unittest.mock.patch.object(grapevine._vine, "count_of", lambda value, _: value)
            with unchecked, self.assertRaises(ctypes.ArgumentError):
                vine.reduce({"x": gradient}, samples=2.0)
            gradient[:] = array.array("f", [9.0] * 4)
            self.assertFalse(vine.reduce({"x": gradient}).again)
            self.assertEqual(list(gradient), [9.0] * 4)
            self.assertTrue(vine.step())


class KilledTest(Swarms):
    def assert_done_without(self, way):
        """Any one of four peers is killed. The others end with one model."""
        for victim in range(4):
            with self.subTest(victim=victim):
                self.setUp()
                # Those that live wait for the dead one as long as they linger.
                swarm = self.swarm(way, 4, steps=150, linger_s=3.0)
                swarm.start_all("--step-s", "0.01")
                self.assertTrue(eventually(lambda: swarm.step(1) > 10))
                swarm.kill(victim)
                # The dead peer alone saw its part of the data, so the others no longer learn it.
                models = [swarm.model(number) for number in range(4) if number != victim]
                self.assertEqual(models[1:], models[:1] * 2)

    def test_any_killed_peer_is_done_without_in_gossip(self):
        self.assert_done_without("gossip")

    def test_any_killed_peer_is_done_without_in_lockstep(self):
        self.assert_done_without("lockstep")

    def test_any_killed_peer_is_done_without_in_mixing(self):
        self.assert_done_without("mixing")


class SwarmTest(Swarms):
    def check_model(self, swarm, numbers):
        models = [swarm.model(number) for number in numbers]
        for model in models:
            self.assertEqual(model, models[0])
        self.assertLess(distance(models[0]), self.tolerance)

    def test_loops_find_the_common_optimum_in_every_way(self):
        for way in WAYS:
            with self.subTest(way):
                self.setUp()
                swarm = self.swarm(way)
                swarm.start_all()
                self.check_model(swarm, range(3))

    def test_in_lockstep_all_begin_with_the_model_of_one(self):
        for way in ("lockstep", "local steps"):
            with self.subTest(way):
                self.setUp()
                # Fewer steps than lie between two comparisons of the models.
                swarm = self.swarm(way, steps=20)
                for number in range(3):
                    swarm.start(number, "--start", str(0.25 * number))
                models = [swarm.model(number) for number in range(3)]
                self.assertEqual(models[1:], models[:1] * 2)
                for number in range(3):
                    events = (swarm.folder(number) / "events.jsonl").read_text()
                    self.assertNotIn("models_differ", events)

    def test_a_late_joiner_and_one_that_stood_still_end_with_the_others(self):
        for way in ("gossip", "lockstep"):
            with self.subTest(way):
                self.setUp()
                # Enough steps that the run is still on when the third peer has started, even on a busy machine.
                swarm = self.swarm(way, steps=1000)
                path = self.folder / "run.toml"
                path.write_text(path.read_text().replace("peers = 3", "peers = 2"))
                swarm.start(0, "--step-s", "0.01")
                swarm.start(1, "--step-s", "0.01")
                self.assertTrue(eventually(lambda: swarm.step(0) > 10))
                swarm.start(2, "--step-s", "0.01")
                self.assertTrue(eventually(lambda: swarm.step(2) > 10))
                swarm.signal(1, signal.SIGSTOP)
                before = swarm.step(0)
                self.assertTrue(eventually(lambda: swarm.step(0) > before + 10))
                swarm.signal(1, signal.SIGCONT)
                models = [swarm.model(number) for number in range(3)]
                self.assertEqual(models[1:], models[:1] * 2)

    def test_ctrl_c_ends_the_wait_of_reduce_within_two_seconds(self):
        swarm = self.swarm("lockstep", 2)
        # It takes part in one sum, and then lives on without another.
        swarm.start(0, "--step-s", "1000")
        x = array.array("f", [0.0] * 24)
        vine = grapevine.join(tensors={"x": x}, **swarm.given(1))
        vine.reduce({"x": x})
        vine.step()
        self.assert_ctrl_c_ends(lambda: vine.reduce({"x": x}))
        swarm.kill(0)
        vine.leave()

    def test_an_exception_in_a_loop_leaves_cleanly_and_the_others_go_on(self):
        swarm = self.swarm("lockstep")
        swarm.start(0, "--step-s", "0.01")
        swarm.start(1, "--step-s", "0.01")
        swarm.start(2, "--step-s", "0.01", "--fail-at", "20")
        code, _, err = swarm.end(2)
        self.assertEqual(code, 1)
        self.assertIn("the user's loop has a mistake", err)
        self.assertEqual(swarm.model(0), swarm.model(1))

    def test_a_launcher_starts_programs_and_says_how_they_ended(self):
        config = TOGETHER.format(run=WAYS["lockstep"][0], peers=2, more="", linger_s=20.0)
        path = self.write("run.toml", config)
        ended = run(
            BINARY, "launch", "-n", "2", path, "--folder", str(self.folder / "run"), "--",
            sys.executable, QUADRATIC, path,
        )  # fmt: skip
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("one model    2 of 2 peers", ended.stdout)
        c99 = run(
            BINARY, "launch", "-n", "2", path, "--folder", str(self.folder / "run-c"), "--",
            os.environ["GRAPEVINE_C99_PEER"], path,
        )  # fmt: skip
        self.assertEqual(c99.returncode, 0, c99.stdout + c99.stderr)
        self.assertIn("one model    2 of 2 peers", c99.stdout)


if __name__ == "__main__":
    unittest.main()
