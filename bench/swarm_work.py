#!/usr/bin/env python3
# Machines of different speeds, different data at each peer: what a budget of the swarm gains.
"""Runs configs/one-slow.toml and variants of it on virtual peers, and prints a row for each demand.

Each row has the figures of all seeds and a verdict. Times are virtual; the ideal time is all steps over the sum of
the paces. "equal" has the same keys with four equal paces; "own budget" is budget = "peer" with an exchange every 16
steps, the default. Ends with 1 if a demand is not met.

The last rows are the bytes that reports about the swarm's work take for each second and peer, with leased data and peers that
only cost time.

With --tried it prints other rows: how other optimisers, models, numbers of peers and links do with unequal paces, beside
equal paces. A row has the accuracy, and the time divided by the ideal time. Some rows train on fewer samples, so that a
run takes about a minute.

Examples:
  bench/swarm_work.py
  bench/swarm_work.py --only-traffic --traffic 10,100,1000
  bench/swarm_work.py --tried "adam;text" --seeds 1
  bench/swarm_work.py --seeds 1 --binary build/release/grapevine
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
THREE_LABELS = 'partition = "by_label"\nlabels_per_peer = 3'
DATA = {"three labels": THREE_LABELS, "iid": 'partition = "iid"', "leased": 'partition = "leased"',
        "dirichlet": 'partition = "dirichlet"\nconcentration = 0.1'}
# 60,000 samples four times in batches of 32, at 100 steps a second of four peers, or of 3.1.
STEPS = 4 * 60000 / 32
IDEAL_SLOW_S = STEPS / 310


# By the number of peers: largest bytes a second and peer, and seconds of a chunk.
TRAFFIC = {10: (800, 0.25), 100: (4000, 1), 1000: (20000, 10)}
FRAME_MAX = 65536
LEASED_TIME = """[run]
steps = 100000
budget = "swarm"
[data]
partition = "leased"
chunk_samples = {samples}
[scenario]
peers = {peers}
work = "time"
dimension = 16
step_s = 0.01
until_s = {until_s}
[[scenario.link]]
latency_s = 0.01
"""


# ---- Other optimisers, models, numbers of peers and links ----

SLOW = "[[scenario.speed]]\npeers = 3\nfactor = 0.1\n"
OF_SLOW = 4 / 3.1


def one_slow(*changes):
    """configs/one-slow.toml with replacements, without the slow peer."""
    return changed((ROOT / "configs/one-slow.toml").read_text(), (SLOW, ""), *changes)


def changed(text, *changes):
    for old, new in changes:
        assert old in text, f"there is no {old!r} any more"
        text = text.replace(old, new)
    return text


def optimizer(name, more=""):
    return one_slow(('optimizer = "nesterov"\nlearning_rate = 0.03', f'optimizer = "{name}"\nlearning_rate = 0.001\n{more}'))


def in_sums(more=""):
    return one_slow(('budget = "swarm"', 'budget = "swarm"\nmode = "allreduce"'), ("learning_rate = 0.03", "learning_rate = 0.12"),
                    ("[gossip]\nperiod_steps = 4", f"[allreduce]\n{more}"))


def text_task():
    """The text of configs/text.toml with steps for four peers, all on alike data."""
    folder = ROOT / "configs/text"
    return changed((ROOT / "configs/text.toml").read_text(), ("peers = 2", 'peers = 4\nbudget = "swarm"'), ("steps = 240", "steps = 60"),
                   ('folder = "text"', f'folder = "{folder}"')) + "[scenario]\nstep_s = 0.1\n"


def from_one_to_a_tenth(peers):
    return "".join(f"[[scenario.speed]]\npeers = {k}\nfactor = {1 - 0.9 * k / (peers - 1):.3f}\n" for k in range(peers))


# Name, config, its partition, the entries of slower peers, and the ideal time over that of equal peers.
TRIED = [("nesterov", one_slow, THREE_LABELS, SLOW, OF_SLOW),
         ("adam", lambda: optimizer("adam"), THREE_LABELS, SLOW, OF_SLOW),
         ("adamw", lambda: optimizer("adamw", "weight_decay = 0.1"), THREE_LABELS, SLOW, OF_SLOW),
         ("lenet, half the samples", lambda: one_slow(('kind = "mlp"\nhidden = [48]', 'kind = "lenet"'), ("epochs = 4", "epochs = 2")),
          THREE_LABELS, SLOW, OF_SLOW),
         ("text", text_task, 'partition = "iid"', SLOW, OF_SLOW),
         ("16 peers, from 1 to 0.1", lambda: one_slow(("[scenario]", "[scenario]\npeers = 16")), THREE_LABELS,
          from_one_to_a_tenth(16), 1 / 0.55),
         ("links of 50 ms", lambda: one_slow() + "[[scenario.link]]\nlatency_s = 0.05\n", THREE_LABELS, SLOW, OF_SLOW),
         ("links of 200 ms", lambda: one_slow() + "[[scenario.link]]\nlatency_s = 0.2\n", THREE_LABELS, SLOW, OF_SLOW),
         ("allreduce", in_sums, THREE_LABELS, SLOW, OF_SLOW),
         ("allreduce, equal shares", lambda: in_sums('shares = "equal"'), THREE_LABELS, SLOW, OF_SLOW)]


def tried_rows(arguments):
    print(f"{'':<26}{'data':<12}{'equal paces: %':<24}{'s':<8}{'unequal paces: %':<24}{'s':<8}over the ideal")
    for name, config, own, slower, ideal in TRIED:
        if arguments.tried != "all" and name not in arguments.tried.split(";"):
            continue
        for partition in (own, DATA["leased"]):
            text = changed(config(), (own, partition))
            equal, unequal = ([simulated(arguments, text + paces, seed) for seed in arguments.seeds] for paces in ("", slower))
            percent = ["  ".join(f"{100 * one['mean_accuracy']:.2f}" for one in runs) for runs in (equal, unequal)]
            seconds = [mean([one["virtual_s"] for one in runs]) for runs in (equal, unequal)]
            data = partition.split('"')[1]
            print(f"{name:<26}{data:<12}{percent[0]:<24}{seconds[0]:<8.1f}{percent[1]:<24}{seconds[1]:<8.1f}"
                  f"{seconds[1] / seconds[0] / ideal:.2f}", flush=True)


def config_of(data, pace, swarm):
    text = (ROOT / "configs/one-slow.toml").read_text()
    text = text.replace(THREE_LABELS, DATA[data]).replace("factor = 0.1", f"factor = {pace}")
    if not swarm:
        text = text.replace('budget = "swarm"', 'budget = "peer"').replace("period_steps = 4", "period_steps = 16")
    return text


def run(arguments, data, pace, swarm, seed, steps=None):
    text = config_of(data, pace, swarm)
    if steps:
        text = text.replace("epochs = 4", f"steps = {steps}")
    return simulated(arguments, text, seed)


def simulated(arguments, text, seed):
    """summary.json of the virtual run of a config."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "run.toml"
        config.write_text(text)
        command = [arguments.binary, "sim", str(config), "--seed", str(seed), "--folder", f"{folder}/run"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads((pathlib.Path(folder) / "run" / "summary.json").read_text())


def traffic(arguments, peers):
    """traffic.json of a run in which that many peers lease chunks."""
    chunk_s = TRAFFIC[peers][1]
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "run.toml"
        # Batches of 64 in 10 ms, and long enough for several chunks and comparisons of tables.
        config.write_text(LEASED_TIME.format(samples=round(chunk_s / 0.01) * 64, peers=peers, until_s=30 + 3 * chunk_s))
        command = [arguments.binary, "sim", str(config), "--seed", str(arguments.seeds[0]), "--traffic",
                   "--folder", f"{folder}/run"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads((pathlib.Path(folder) / "run" / "traffic.json").read_text())


class Rows:
    def __init__(self, arguments):
        self.arguments = arguments
        self.kept = {}
        self.failed = 0

    def of(self, data, pace, swarm, steps=None):
        key = (data, pace, swarm, steps)
        if key not in self.kept:
            self.kept[key] = [run(self.arguments, *key[:3], seed, steps) for seed in self.arguments.seeds]
        return self.kept[key]

    def accuracy(self, *key):
        return [100 * summary["mean_accuracy"] for summary in self.of(*key)]

    def seconds(self, *key):
        return [summary["virtual_s"] for summary in self.of(*key)]

    def row(self, name, figures, demand, holds):
        self.failed += not holds
        print(f"{name:<44} {'  '.join(f'{figure:.2f}' for figure in figures):<24} {demand:<34} "
              f"{'holds' if holds else 'FAILS'}", flush=True)


def traffic_rows(rows):
    for peers in rows.arguments.traffic:
        told, most = traffic(rows.arguments, peers), TRAFFIC[peers][0]
        figure = told["work_bytes_a_second_and_peer"]
        rows.row(f"leased, {peers} peers: bytes a second and peer", [figure], f"at most {most}", figure <= most)
        rows.row("the same, with all small messages", [told["bytes_a_second_and_peer"]], "for comparison", True)
        rows.row("the same: bytes of the longest", [told["longest_message"]], f"at most {FRAME_MAX}",
                 told["longest_message"] <= FRAME_MAX)


def mean(figures):
    return sum(figures) / len(figures)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/grapevine"))
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--traffic", type=lambda text: [int(peers) for peers in text.split(",")], default=[10, 100],
                        help="numbers of peers for the last rows, of 10, 100 and 1000, which takes long")
    parser.add_argument("--only-traffic", action="store_true", help="only the last rows")
    parser.add_argument("--tried", default="", help="only these rows of what was tried, as \"adam;text\", or \"all\"")
    arguments = parser.parse_args()
    if arguments.tried:
        tried_rows(arguments)
        return 0
    rows = Rows(arguments)
    if rows.arguments.only_traffic:
        traffic_rows(rows)
        return 1 if rows.failed else 0
    slow = ("three labels", 0.1, True)
    equal = ("three labels", 1.0, True)
    rows.row("three labels, own budget, one slow: %", rows.accuracy("three labels", 0.1, False), "for comparison", True)
    rows.row("the same: s", rows.seconds("three labels", 0.1, False), "for comparison", True)
    figures = rows.accuracy(*slow)
    rows.row("three labels, swarm, one slow: %", figures, "each at least 83.5", min(figures) >= 83.5)
    least = mean(rows.accuracy(*equal)) - 1
    rows.row("the same, beside equal paces: %", rows.accuracy(*equal), f"mean of the slow at least {least:.2f}",
             mean(figures) >= least)
    figures = rows.seconds(*slow)
    rows.row("three labels, swarm, one slow: s", figures, f"at most {1.3 * IDEAL_SLOW_S:.1f} (1.3 of the ideal)",
             max(figures) <= 1.3 * IDEAL_SLOW_S)
    least = mean(rows.accuracy("dirichlet", 1.0, False, 1875)) + 0.5
    figures = rows.accuracy("dirichlet", 1.0, True)
    rows.row("dirichlet 0.1, own budget by epochs: %", rows.accuracy("dirichlet", 1.0, False), "for comparison", True)
    rows.row("dirichlet 0.1, swarm, equal paces: %", figures, f"mean at least {least:.2f} (own, by steps)",
             mean(figures) >= least)
    least = mean(rows.accuracy("iid", 1.0, False)) - 0.3
    figures = rows.accuracy("iid", 0.1, True)
    rows.row("iid, swarm, one slow: %", figures, f"mean at least {least:.2f} (own, equal)", mean(figures) >= least)
    figures = rows.seconds("iid", 0.1, True)
    rows.row("iid, swarm, one slow: s", figures, f"at most {1.1 * IDEAL_SLOW_S:.1f} (1.1 of the ideal)",
             max(figures) <= 1.1 * IDEAL_SLOW_S)
    leased, alike = ("leased", 0.1, True), ("leased", 1.0, True)
    least = mean(rows.accuracy(*alike)) - 0.5
    rows.row("leased, one slow: %", rows.accuracy(*leased), f"mean at least {least:.2f} (equal paces)",
             mean(rows.accuracy(*leased)) >= least)
    rows.row("leased, one slow: s", rows.seconds(*leased), f"at most {1.1 * IDEAL_SLOW_S:.1f} (1.1 of the ideal)",
             max(rows.seconds(*leased)) <= 1.1 * IDEAL_SLOW_S)
    again = [100 * (summary["steps"] / STEPS - 1) for summary in rows.of(*leased)]
    rows.row("leased, one slow: steps made again, %", again, "at most 1", max(again) <= 1)
    every = [summary for kept in (slow, equal, ("dirichlet", 1.0, True), ("iid", 0.1, True), leased) for summary in rows.of(*kept)]
    rows.row("spread of the peers' models at the end", [max(summary["spread"] for summary in every)], "0",
             all(summary["spread"] == 0 for summary in every))
    rows.row("peers that are not done", [max(summary["unfinished"] for summary in every)], "0",
             not any(summary["unfinished"] for summary in every))
    traffic_rows(rows)
    return 1 if rows.failed else 0


if __name__ == "__main__":
    sys.exit(main())
