"""Gradients that are handed over in parts, without NumPy and PyTorch."""

import array
import gc
import unittest
import weakref

from support import HERE, WATCHFUL, FolderTest, Peers, eventually

import grapevine

PEER = str(HERE / "parts_peer.py")

# Sums of 64 numbers, so their pieces do not match the arrays.
TOGETHER = """
[run]
mode = "{mode}"
steps = {steps}
peers = {peers}
linger_s = 20.0
wait_for_peers = {peers}
[allreduce]
bucket_elements = 64
""" + WATCHFUL


class PartsAloneTest(FolderTest):
    def join(self, model, mode="allreduce"):
        return grapevine.join(
            None,
            model,
            run__steps=1000,
            run__mode=mode,
            **self.alone(),
        )

    def test_parts_that_are_missing_or_given_twice_are_refused_and_change_nothing(self):
        model = {name: array.array("f", [0.0] * 4) for name in ("a", "b", "c")}
        gradient = {name: array.array("f", [k + 1.0] * 4) for k, name in enumerate(model)}
        with self.join(model) as vine:
            vine.reduce_begin({"b": gradient["b"]})
            with self.assertRaisesRegex(ValueError, "'b': its gradient .* was given before"):
                vine.reduce_begin({"a": gradient["a"], "b": gradient["b"]})
            with self.assertRaisesRegex(ValueError, "'z': the model has none of that name"):
                vine.reduce_begin({"z": gradient["a"]})
            with self.assertRaisesRegex(ValueError, "'a': its gradient has 3 elements"):
                vine.reduce_begin({"a": array.array("f", [0.0] * 3)})
            with self.assertRaisesRegex(ValueError, "'a' and 1 more: .* was not given"):
                vine.reduce_end()
            with self.assertRaisesRegex(ValueError, "call gv_reduce_end"):
                vine.step()
            with self.assertRaisesRegex(ValueError, "call gv_reduce_end"):
                vine.reduce(gradient)
            vine.reduce_begin({"c": gradient["c"]})
            with self.assertRaisesRegex(ValueError, "'a': the gradient .* was not given"):
                vine.reduce_end()
            vine.reduce_begin({"a": gradient["a"]})
            self.assertFalse(vine.reduce_end().again)
            for k, values in enumerate(gradient.values()):
                self.assertEqual(list(values), [k + 1.0] * 4)
            # A loop that repeats the step after an exception gets the same mean, in parts and as a whole.
            later = {name: array.array("f", [9.0] * 4) for name in model}
            vine.reduce_begin({name: later[name] for name in ("c", "b")})
            vine.reduce_begin({"a": later["a"]})
            with self.assertLogs("grapevine") as logged:
                self.assertFalse(vine.reduce_end().again)
            self.assertIn("step 1 has been summed already", logged.output[0])
            for k, values in enumerate(later.values()):
                self.assertEqual(list(values), [k + 1.0] * 4)
            later = {name: array.array("f", [9.0] * 4) for name in model}
            self.assertFalse(vine.reduce(later).again)
            for k, values in enumerate(later.values()):
                self.assertEqual(list(values), [k + 1.0] * 4)
            # Also in the same arrays, because the sum has arrays of its own.
            for values in later.values():
                values[:] = array.array("f", [7.0] * 4)
            self.assertFalse(vine.reduce(later).again)
            for k, values in enumerate(later.values()):
                self.assertEqual(list(values), [k + 1.0] * 4)
            with self.assertRaisesRegex(ValueError, "arrays of the same sizes and types"):
                vine.reduce({name: array.array("d", [9.0] * 4) for name in model})
            self.assertTrue(vine.step())
            self.assertFalse(vine.reduce(gradient).again)
            self.assertTrue(vine.step())

    def test_parts_stay_alive_when_another_call_is_refused(self):
        class Watched(array.array):
            """An array that can be referred to weakly."""

        model = {name: array.array("f", [0.0] * 4) for name in ("a", "b", "c")}
        with self.join(model) as vine:
            part = Watched("f", [1.0] * 4)
            lives = weakref.ref(part)
            vine.reduce_begin({"c": part})
            del part
            with self.assertRaisesRegex(ValueError, "call gv_reduce_end"):
                vine.step()
            with self.assertRaisesRegex(ValueError, "call gv_reduce_end"):
                vine.reduce({name: array.array("f", [1.0] * 4) for name in model})
            with self.assertRaises((TypeError, ValueError)):
                vine.reduce_end(loss="none")
            vine.reduce_begin({"b": array.array("f", [1.0] * 4)})
            gc.collect()
            self.assertIsNotNone(lives())
            vine.reduce_begin({"a": array.array("f", [1.0] * 4)})
            self.assertFalse(vine.reduce_end().again)
            # It has the mean, and a repeated step may have other arrays.
            self.assertIsNone(lives())
            self.assertTrue(vine.step())

    def test_a_gradient_goes_by_the_names_of_the_model(self):
        model = {name: array.array("f", [0.0] * 4) for name in ("a", "b")}
        with self.join(model) as vine:
            given = {"b": array.array("f", [2.0] * 4), "a": array.array("f", [1.0] * 4)}
            self.assertEqual([one.name for one in vine._model.gradient(given)], ["a", "b"])
            for wrong in ({"a": given["a"]}, {**given, "z": given["a"]}):
                with self.assertRaisesRegex(ValueError, "'[bz]': either the model or its gradient"):
                    vine.reduce(wrong)
            self.assertFalse(vine.reduce(given).again)
            self.assertTrue(vine.step())

    def test_where_nothing_is_summed_parts_are_left_alone(self):
        x = array.array("f", [0.0] * 4)
        with self.join({"x": x}, "gossip") as vine:
            for _ in range(3):
                vine.reduce_begin({"x": x})
                self.assertEqual(vine.reduce_end(), grapevine.Reduced(0, False))
                self.assertTrue(vine.step())

    def test_a_peer_may_leave_in_the_middle_of_a_gradient(self):
        model = {name: array.array("f", [0.0] * 4) for name in ("a", "b")}
        with self.join(model) as vine:
            vine.reduce_begin({"b": array.array("f", [1.0] * 4)})


class PartsSwarmTest(FolderTest):
    def swarm(self, peers, steps, mode="allreduce"):
        config = TOGETHER.format(mode=mode, steps=steps, peers=peers)
        return Peers(self, peers, config, PEER)

    def check_models(self, swarm, numbers, wanted):
        models = [swarm.model(number) for number in numbers]
        self.assertEqual(models[1:], models[:1] * (len(models) - 1))
        for value in models[0]:
            self.assertAlmostEqual(value, wanted, places=4)

    def test_it_is_the_mean_whatever_the_order_of_the_parts(self):
        swarm = self.swarm(3, 40)
        swarm.start_all()
        # Each step goes a quarter of the way from the model, which begins at 0, to the mean of 0, 1
        # and 3.
        self.check_models(swarm, range(3), 4 / 3 * (1 - 0.75**40))

    def test_a_peer_killed_or_gone_in_the_middle_of_its_gradient_is_done_without(self):
        for how in ("--kill-at", "--leave-at"):
            with self.subTest(how):
                self.setUp()
                swarm = self.swarm(4, 1000000)
                # The mean of 0, 1 and 3. A busy machine may leave one of the three out for a while, so they go on until
                # all have reached it.
                wanted = 4 / 3
                for number in range(3):
                    swarm.start(number, "--until", str(wanted))
                swarm.start(3, how, "20")
                arrived = [swarm.folder(number) / "arrived" for number in range(3)]
                self.assertTrue(eventually(lambda: all(file.exists() for file in arrived)))
                self.write("over", "")
                self.check_models(swarm, range(3), wanted)


if __name__ == "__main__":
    unittest.main()
