"""Samplers: parts of a data set that go on exactly after a restart, and leased batches."""

import array
import json
import unittest
from collections import Counter

from support import HERE, FolderTest, Peers

import grapevine

SAMPLER_PEER = str(HERE / "sampler_peer.py")

ALONE = """
[run]
steps = 1000000
linger_s = 0.0
[data]
partition = "{partition}"
"""

LEASED = """
[run]
{run}
peers = 2
wait_for_peers = 2
linger_s = 20.0
[train]
batch = 8
[data]
partition = "leased"
chunk_samples = 16
{more}
"""


class SamplerTest(FolderTest):
    def join(self, partition="iid", shard="0/1", folder="run", **more):
        if not hasattr(self, "authorized"):
            self.authorized = self.make_keys(1)
        return grapevine.join(
            self.write("run.toml", ALONE.format(partition=partition)),
            {"x": array.array("f", [0.0])},
            key=self.folder / "peer-0" / "key",
            authorized=self.authorized,
            folder=self.folder / folder,
            listen="127.0.0.1:0",
            shard=shard,
            **more,
        )

    def test_the_parts_of_all_peers_are_the_data_set(self):
        parts = []
        for number in range(3):
            with self.join(shard=f"{number}/3") as vine:
                sampler = vine.sampler(range(100), batch=8)
                batches = list(sampler)
                self.assertEqual(len(batches), len(sampler))
                self.assertEqual({len(batch) for batch in batches[:-1]}, {8})
                parts += [index for batch in batches for index in batch]
        self.assertEqual(sorted(parts), list(range(100)))

    def test_a_step_that_is_refused_uses_up_no_batch(self):
        with self.join(run__mode="allreduce") as vine:
            sampler = vine.sampler(64, batch=8)
            for _ in range(2):
                with self.assertRaisesRegex(ValueError, "call reduce"):
                    vine.step()
                self.assertEqual(sampler.position, 0)
            vine.reduce([array.array("f", [0.0])])
            self.assertTrue(vine.step())
            self.assertEqual(sampler.position, 8)

    def test_it_goes_on_exactly_after_a_restart(self):
        with self.join() as vine:
            wanted = []
            for batch in vine.until_over(vine.sampler(20, batch=8)):
                wanted.append(batch)
                vine.step()
                if len(wanted) == 11:
                    break
        # Each epoch has every sample once, in an order of its own.
        epochs = [sum(wanted[at : at + 3], []) for at in (0, 3, 6)]
        for epoch in epochs:
            self.assertEqual(sorted(epoch), list(range(20)))
        self.assertNotEqual(epochs[0], epochs[1])
        for stops in ((4, 7), (1, 2, 3, 9)):
            seen = []
            for at, stop in enumerate((*stops, 11)):
                with self.join(resume=at > 0, folder=f"run-{len(stops)}") as vine:
                    for batch in vine.until_over(vine.sampler(20, batch=8)):
                        seen.append(batch)
                        vine.step()
                        if len(seen) == stop:
                            break
            self.assertEqual(seen, wanted)

    def test_batches_that_were_fetched_ahead_are_not_used_up(self):
        with self.join() as vine:
            ahead = iter(vine.sampler(64, batch=8))
            batches = [next(ahead) for _ in range(6)]
            vine.step()
            vine.step()
        with self.join(resume=True) as vine:
            self.assertEqual(next(iter(vine.sampler(64, batch=8))), batches[2])

    def test_a_step_of_several_batches_uses_up_those_it_was_given(self):
        with self.join() as vine:
            batches = vine.until_over(vine.sampler(64, batch=8))
            seen = [next(batches) for _ in range(4)]
            vine.step()
            seen += [next(batches) for _ in range(2)]
        with self.join(resume=True) as vine:
            self.assertEqual(next(iter(vine.sampler(64, batch=8))), seen[4])

    def test_what_does_not_fit_is_refused(self):
        with self.join() as vine:
            with self.assertRaisesRegex(ValueError, "at least one sample"):
                vine.sampler(0, batch=8)
            vine.sampler(10, batch=8)
            with self.assertRaisesRegex(ValueError, "one sampler"):
                vine.sampler(10, batch=8)
        with self.join(shard="2/3") as vine:
            with self.assertRaisesRegex(ValueError, "fewer samples than peers"):
                vine.sampler(2, batch=1)
        with self.join(partition="by_label") as vine:
            with self.assertRaisesRegex(ValueError, "by what is in them"):
                vine.sampler(10, batch=8)

    def test_leased_data_need_their_size_and_a_sampler(self):
        with self.assertRaisesRegex(grapevine.Refused, "how many samples"):
            self.join(partition="leased")
        with self.join(partition="leased", all_samples=100, train__batch=8) as vine:
            with self.assertRaisesRegex(ValueError, "train.batch"):
                vine.sampler(100, batch=4)
            batches = iter(vine.sampler(100, batch=8))
            next(batches)
            with self.assertRaisesRegex(RuntimeError, "num_workers=0"):
                next(batches)
            vine.step()
            with self.assertRaisesRegex(ValueError, "leased"):
                vine.step()


class LeasedTest(FolderTest):
    def test_the_swarm_deals_every_batch(self):
        for run_keys, more in (
            ("epochs = 2", "[gossip]\nperiod_steps = 4\n"),
            ('epochs = 2\nmode = "allreduce"', '[allreduce]\nshares = "equal"\n'),
        ):
            with self.subTest(run_keys):
                self.setUp()
                samples = 320
                config = LEASED.format(run=run_keys, more=more)
                path = str(self.folder / "run.toml")
                swarm = Peers(self, 2, config, SAMPLER_PEER, path, str(samples), "8")
                swarm.start_all()
                printed = []
                for number in range(2):
                    code, out, err = swarm.end(number)
                    self.assertEqual((code, err), (0, ""))
                    printed.append(json.loads(out))
                self.assertEqual(printed[0]["x"], printed[1]["x"])
                batches = [batch for one in printed for batch in one["seen"]]
                seen = Counter(index for batch in batches for index in batch)
                self.assertEqual(set(seen), set(range(samples)))
                # In gossip two peers may take the same chunk before they hear of each other.
                self.assertGreaterEqual(min(seen.values()), 2)
                if "allreduce" in run_keys:
                    self.assertEqual(set(seen.values()), {2})
                    self.assertEqual(len(printed[0]["seen"]), len(printed[1]["seen"]))


if __name__ == "__main__":
    unittest.main()
