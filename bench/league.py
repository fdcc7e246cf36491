#!/usr/bin/env python3
# A league table of the named algorithms: equal samples, equal data, one virtual scenario.
"""Trains every named algorithm with `grapevine sim` and compares the results.

Every run is real training of 8 virtual peers on Fashion-MNIST with an MLP of one hidden layer; what is
virtual is the machines. A step takes 0.1 s on each (10 % jitter), every link has 20 ms of latency and
10 Mbit/s each way, so that a model of 204 kB takes 0.16 s. Two peers are on each of four hosts, which only
`host_gossip` makes use of; their links are like all others. All algorithms see the same number of samples.

  clean       as said
  slow        peer 5 has a quarter of the pace
  slow-swarm  the same, and the budget is the swarm's; in the other conditions each peer has its own. Members
              of a population always have their own
  faulty      a tenth of all messages and blocks is lost, and every minute, drawn, some peer is killed and
              started again from its checkpoint 5 s later

Learning rates: with --tune each algorithm's best of a grid by the mean model's accuracy after --tune-epochs on
seed 1, clean, for each way to deal the data; without, what the file has of an earlier --tune, else
--learning-rate.

Examples:
  bench/league.py --json league.json --tune --conditions clean --seeds 1
  bench/league.py --json league.json --seeds 1,2,3 --svg bench/results/league.svg
  bench/league.py --json league.json --only-print
"""
import argparse
import concurrent.futures
import csv
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import threading

PEERS = 8
BATCH = 32
SAMPLES = 60000
DATA = {"iid": 'partition = "iid"', "dirichlet": 'partition = "dirichlet"\nconcentration = 0.1'}
SLOW = "[[scenario.speed]]\npeers = 5\nfactor = 0.25\n"
CONDITIONS = {
    "clean": "",
    "slow": SLOW,
    "slow-swarm": SLOW,
    "faulty": '[[scenario.fault]]\nkind = "kill"\nat_s = 30\nfor_s = 5\nevery_s = 60\npeers = "any"\n',
}
GRID = [0.1, 0.03, 0.01]
BEYOND = (0.003, 0.3)
# Rows of algorithms without a name of their own, each after the algorithm that it varies.
VARIANTS = ["elastic+gossip.codec=qsgd8", "elastic+gossip.codec=top_k+gossip.codec_fraction=0.1+gossip.alpha=0.25",
            "all_reduce+train.schedule=growing_batch"]
CONFIG = """
[run]
algorithm = "{algorithm}"
seed = {seed}
peers = {peers}
steps = {steps}
budget = "{budget}"
linger_s = 30

[data]
kind = "idx"
folder = "{folder}"
{data}
mean = 0.2860
deviation = 0.3530

[model]
kind = "mlp"
hidden = [{hidden}]

{variant}
[train]
batch = {batch}
learning_rate = {rate}
{schedule}

[checkpoint]
every_steps = 50

[scenario]
step_s = 0.1
sample_every_s = {sample_every}
hosts = 4
until_s = 20000

[[scenario.link]]
latency_s = 0.02
bandwidth_mbit = 10
loss = {loss}

{condition}
"""


def named_algorithms(binary):
    """(family, name) of all, in the table's order."""
    text = subprocess.run([binary, "algorithms"], check=True, capture_output=True, text=True).stdout
    family, found = "", []
    for line in text.splitlines():
        if line.startswith("  "):
            found.append((family, line.split()[0]))
        elif line and not line.startswith("in a config"):
            family = line
    return found


def settings_of(binary, algorithm):
    return subprocess.run([binary, "algorithms", algorithm], check=True, capture_output=True, text=True).stdout


def has_idle_centre(binary, algorithm):
    return "centre_rests" in settings_of(binary, algorithm)


def is_of_threads(binary, algorithm):
    """True if the algorithm uses threads, which virtual peers do not have."""
    return "threads" in settings_of(binary, algorithm)


def is_of_population(binary, algorithm):
    return "[population]" in settings_of(binary, algorithm)


def variant_of(algorithm):
    """easgd+period_steps=64 is easgd with that key of [mixing], and elastic+gossip.codec=qsgd8 elastic with that one of
    [gossip]: the name, the schedule, and the lines of all other settings."""
    name, *settings = algorithm.split("+")
    sections, schedule = {}, "cosine"
    for setting in settings:
        path, value = setting.split("=", 1)
        section, _, key = path.rpartition(".")
        if path == "train.schedule":
            schedule = value
            continue
        is_word = re.fullmatch(r"[a-z_][a-z_0-9]*", value) and value not in ("true", "false")
        sections.setdefault(section or "mixing", []).append(f'{key} = "{value}"' if is_word else f"{key} = {value}")
    return name, schedule, "".join(f"[{section}]\n" + "\n".join(lines) + "\n" for section, lines in sections.items())


def schedule_lines(schedule, steps):
    """Instead of a falling rate, the batch may double at half and at three quarters of the samples."""
    if schedule != "growing_batch":
        return f'schedule = "{schedule}"'
    return f'schedule = "growing_batch"\nstep_at = [{steps // 2}, {3 * steps // 4}]\nbatch_growths = 2'


def steps_of(epochs, trainers):
    """Steps of each peer that trains, for that number of epochs by all of them together."""
    return round(epochs * SAMPLES / (BATCH * trainers))


def key_of(algorithm, data, condition, seed, rate, epochs, hidden):
    return f"{algorithm} {data} {condition} seed {seed} rate {rate:g} epochs {epochs:g} hidden {hidden}"


class Store:
    """Results by key, in a file that is complete after every run."""

    def __init__(self, path):
        self.path = pathlib.Path(path) if path else None
        self.lock = threading.Lock()
        known = json.loads(self.path.read_text()) if self.path and self.path.exists() else {}
        self.runs = known.get("runs", {})
        self.rates = known.get("rates", {})

    def save(self):
        if not self.path:
            return
        fresh = self.path.with_suffix(".new")
        runs = ",\n".join(f"{json.dumps(key)}: {json.dumps(run)}" for key, run in sorted(self.runs.items()))
        fresh.write_text(f'{{"rates": {json.dumps(self.rates, sort_keys=True)},\n"runs": {{\n{runs}\n}}}}\n')
        os.replace(fresh, self.path)

    def add(self, key, result):
        with self.lock:
            self.runs[key] = result
            self.save()


def simulate(arguments, text, seed):
    """`grapevine sim` of a config: its summary and the points of its curves, or why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "config.toml").write_text(text)
        try:
            done = subprocess.run(
                [arguments.binary, "sim", str(folder / "config.toml"), "--seed", str(seed), "--folder",
                 str(folder / "run")], capture_output=True, text=True, timeout=arguments.limit,
                env={**os.environ, "OMP_NUM_THREADS": "1"})
        except subprocess.TimeoutExpired:
            return {"failed": f"took more than {arguments.limit:g} s"}
        if done.returncode != 0:
            return {"failed": (done.stderr.strip() or done.stdout.strip())[-300:]}
        summary = json.loads((folder / "run/summary.json").read_text())
        with open(folder / "run/curves.csv", newline="") as file:
            points = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    return {"summary": summary, "points": points}


def train(arguments, algorithm, data, condition, seed, rate, epochs):
    name, schedule, variant = variant_of(algorithm)
    trainers = PEERS - (1 if name in arguments.idle_centres else 0)
    # A batch grows with the samples of all peers.
    is_of_swarm = (condition == "slow-swarm" and not is_of_population(arguments.binary, name)
                   or schedule == "growing_batch")
    steps = steps_of(epochs, trainers)
    text = CONFIG.format(
        budget="swarm" if is_of_swarm else "peer", algorithm=name, variant=variant,
        schedule=schedule_lines(schedule, steps), seed=seed, peers=PEERS, steps=steps,
        folder=arguments.folder, data=DATA[data], hidden=arguments.hidden, batch=BATCH, rate=rate,
        loss=0.1 if condition == "faulty" else 0, condition=CONDITIONS[condition],
        sample_every=10 if condition == "clean" else 20)
    result = simulate(arguments, text, seed)
    if "failed" in result:
        return result
    summary, points = result["summary"], result["points"]
    most = max(point["steps"] for point in points)
    return {
        "accuracy": summary["mean_accuracy"],
        "worst": summary.get("worst_accuracy", 0),
        "loss": summary["mean_loss"],
        "spread": summary["spread"],
        "seconds": next(point["time_s"] for point in points if point["steps"] >= most),
        "wall_s": summary["wall_s"],
        "megabytes": (summary["lane_bytes"] + summary["control_bytes"]) / 1e6,
        # Larger batches are fewer steps.
        "unfinished": 0 if schedule == "growing_batch" else summary["unfinished"],
        "kills": summary["faults"].get("kill", 0),
        "events": {name: summary["events"].get(name, 0) for name in
                   ("gradient_not_finite", "generation_ended", "exchange_aborted", "state_adopted",
                    "model_fetched", "member_dead")},
        "curve": [[round(point["time_s"], 2), round(point["accuracy"], 4)] for point in points],
    }


def run_all(arguments, store, wanted):
    """Runs of (algorithm, data, condition, seed, rate, epochs) that the file does not have yet, two at a time."""
    jobs = [job for job in wanted if key_of(*job, arguments.hidden) not in store.runs]
    # A duplicate would run twice.
    jobs = list(dict.fromkeys(jobs))
    total, done = len(jobs), 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(2, arguments.jobs)) as pool:
        futures = {pool.submit(train, arguments, *job): job for job in jobs}
        for future in concurrent.futures.as_completed(futures):
            job, result = futures[future], future.result()
            store.add(key_of(*job, arguments.hidden), result)
            done += 1
            said = result.get("failed") or (f"{100 * result['accuracy']:6.2f} %  worst {100 * result['worst']:6.2f} %"
                                            f"  {result['seconds']:7.1f} s  {result['wall_s']:5.1f} s real")
            name, data, condition, seed, rate, _ = job
            print(f"{done}/{total}  {name:<18} {data:<9} {condition:<7} seed {seed}  rate {rate:<5g} {said}",
                  flush=True)


def quality(result):
    """The figure by which learning rates are compared."""
    if "failed" in result or not math.isfinite(result["loss"] or math.nan):
        return -1
    return result["accuracy"]


def tune(arguments, store):
    """The best of the grid for each algorithm and data, on seed 1."""
    pairs = [(name, data) for data in arguments.data for _, name in arguments.algorithms]
    grids = {pair: list(GRID) for pair in pairs}
    # If the best is at an edge of the grid, one more is tried beyond it.
    for _ in range(2):
        run_all(arguments, store, [(*pair, "clean", 1, rate, arguments.tune_epochs)
                                   for pair in pairs for rate in grids[pair]])
        for pair in pairs:
            name, data = pair
            best = max(grids[pair], key=lambda rate: quality(store.runs[
                key_of(name, data, "clean", 1, rate, arguments.tune_epochs, arguments.hidden)]))
            store.rates[f"{name} {data}"] = best
            beyond = {max(GRID): BEYOND[1], min(GRID): BEYOND[0]}.get(best)
            if beyond and beyond not in grids[pair]:
                grids[pair].append(beyond)
    store.save()


def rate_of(arguments, store, name, data):
    """The rate found for the algorithm, or else for the algorithm that it varies."""
    own = store.rates.get(f"{name} {data}")
    return own or store.rates.get(f"{variant_of(name)[0]} {data}", arguments.learning_rate)


def seconds_to(result, target):
    """Virtual seconds until the mean model was that accurate, between two points of its curve; or None."""
    before = None
    for time, accuracy in result["curve"]:
        if accuracy >= target:
            if before is None or accuracy == before[1]:
                return time
            return before[0] + (time - before[0]) * (target - before[1]) / (accuracy - before[1])
        before = (time, accuracy)
    return None


def mean_and_range(values, digits=2):
    text = f"{statistics.mean(values):.{digits}f}"
    return text if len(values) == 1 else text + f" ± {statistics.stdev(values):.{digits}f}"


def runs_of(arguments, store, name, data, condition):
    rate = rate_of(arguments, store, name, data)
    keys = [key_of(name, data, condition, seed, rate, arguments.epochs, arguments.hidden)
            for seed in arguments.seeds]
    return rate, [store.runs[key] for key in keys if key in store.runs]


def time_text(results, target):
    times = [seconds_to(result, target) for result in results]
    if any(time is None for time in times):
        reached = sum(time is not None for time in times)
        return "never" if reached == 0 else f"{reached} of {len(times)}"
    return f"{statistics.mean(times):.0f}"


def table(arguments, store, data, condition):
    lines = [f"| Algorithm | Rate | Mean model, % | Worst peer, % | s to {100 * arguments.target:g} % | "
             f"s to {100 * arguments.low_target:g} % | s in all | MB sent by a peer | Spread | Failures | Wall s |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    missing = []
    for _, name in arguments.algorithms:
        rate, results = runs_of(arguments, store, name, data, condition)
        whole = [result for result in results if "failed" not in result]
        if not whole:
            if results:
                lines.append(f"| {name} | {rate:g} | did not end: {results[0]['failed'][:60]} | | | | | | | | |")
            else:
                missing.append(name)
            continue
        failures = [text for text in (
            f"{sum(r['unfinished'] for r in whole)} unfinished" if any(r["unfinished"] for r in whole) else "",
            "diverged" if any(r["events"]["gradient_not_finite"] for r in whole) else "",
            f"{sum(r['kills'] for r in whole)} kills" if any(r["kills"] for r in whole) else "",
            f"{len(results) - len(whole)} runs" if len(results) > len(whole) else "") if text]
        lines.append(
            f"| {name} | {rate:g} | {mean_and_range([100 * r['accuracy'] for r in whole])}"
            f" | {mean_and_range([100 * r['worst'] for r in whole])}"
            f" | {time_text(whole, arguments.target)} | {time_text(whole, arguments.low_target)}"
            f" | {statistics.mean(r['seconds'] for r in whole):.0f}"
            f" | {statistics.mean(r['megabytes'] for r in whole) / PEERS:.1f}"
            f" | {statistics.mean(r['spread'] for r in whole):.3g} | {', '.join(failures) or '0'}"
            f" | {statistics.mean(r['wall_s'] for r in whole):.0f} |")
    if missing:
        lines.append(f"\nNot run: {', '.join(missing)}.")
    return "\n".join(lines)


def print_tables(arguments, store):
    for data in arguments.data:
        for condition in arguments.conditions:
            print(f"\n### {data}, {condition}\n\n{table(arguments, store, data, condition)}")


COLOURS = {"clean": "#0b6e4f", "slow": "#c77d0a", "slow-swarm": "#3b5b92", "faulty": "#a8324a"}


def picture(arguments, store):
    """A row for each algorithm, a panel for each way to deal the data: a line from the worst peer to the mean
    model, whose mark is filled."""
    row, left, width, gap, top = 19, 150, 330, 30, 64
    names = [name for _, name in arguments.algorithms]
    height = top + row * len(names) + 40
    total = left + len(arguments.data) * (width + gap) + 10
    low, high = arguments.picture_low, 90.0
    out = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{total}' height='{height}' "
           f"viewBox='0 0 {total} {height}'>",
           "<style>text{font:11px sans-serif;fill:#222}.head{font-size:13px;font-weight:bold}"
           ".tick{font-size:10px;fill:#555}.grid{stroke:#e4e4e4}.frame{fill:none;stroke:#999}</style>",
           "<rect width='100%' height='100%' fill='#fff'/>"]
    for i, condition in enumerate(arguments.conditions):
        x = left + 90 * i
        out.append(f"<circle cx='{x}' cy='18' r='4' fill='{COLOURS[condition]}'/>"
                   f"<text x='{x + 9}' y='22'>{condition}</text>")
    out.append(f"<text x='{left + 90 * len(arguments.conditions)}' y='22'>dot: mean model; line: down to the "
               "worst peer; mean of the seeds</text>")
    for i, name in enumerate(names):
        out.append(f"<text x='{left - 10}' y='{top + row * i + 13}' text-anchor='end'>{name}</text>")
    for panel, data in enumerate(arguments.data):
        begin = left + panel * (width + gap)

        def x_of(percent):
            return begin + width * (min(max(percent, low), high) - low) / (high - low)

        bottom = top + row * len(names)
        out.append(f"<text class='head' x='{begin}' y='{top - 22}'>{data}: accuracy, %</text>")
        for tick in range(math.ceil(low / 5) * 5, int(high) + 1, 5):
            out.append(f"<line class='grid' x1='{x_of(tick):.1f}' x2='{x_of(tick):.1f}' y1='{top}' y2='{bottom}'/>"
                       f"<text class='tick' x='{x_of(tick):.1f}' y='{top - 6}' text-anchor='middle'>{tick}</text>")
        for i, name in enumerate(names):
            for c, condition in enumerate(arguments.conditions):
                _, results = runs_of(arguments, store, name, data, condition)
                whole = [result for result in results if "failed" not in result]
                if not whole:
                    continue
                mean = 100 * statistics.mean(result["accuracy"] for result in whole)
                worst = 100 * statistics.mean(result["worst"] for result in whole)
                y = top + row * i + 5 + 4.5 * c
                colour = COLOURS[condition]
                out.append(f"<line x1='{x_of(worst):.1f}' x2='{x_of(mean):.1f}' y1='{y:.1f}' y2='{y:.1f}' "
                           f"stroke='{colour}' stroke-width='1.5'/>"
                           f"<circle cx='{x_of(mean):.1f}' cy='{y:.1f}' r='2.6' fill='{colour}'/>")
        out.append(f"<rect class='frame' x='{begin}' y='{top}' width='{width}' height='{bottom - top}'/>")
    out.append(f"<text class='tick' x='{left}' y='{height - 14}'>values below {low:g} % are drawn at {low:g} %</text>")
    return "\n".join(out + ["</svg>"]) + "\n"


def words(text):
    return [word for word in re.split(r"[, ]+", text) if word]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default="build/release/grapevine")
    parser.add_argument("--folder", default="/usr/share/datasets/fashion-mnist", help="of Fashion-MNIST")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--algorithms", default="all",
                        help="names, separated by commas; easgd+period_steps=64 changes a key of [mixing], and\n"
                             "elastic+gossip.codec=qsgd8 one of [gossip]")
    parser.add_argument("--data", default="iid,dirichlet")
    parser.add_argument("--conditions", default="clean,slow,faulty")
    parser.add_argument("--epochs", type=float, default=5, help="over all 60000 samples, by all peers together")
    parser.add_argument("--hidden", type=int, default=64, help="units of the MLP")
    parser.add_argument("--learning-rate", type=float, default=0.03, help="of algorithms that were not tuned")
    parser.add_argument("--tune", action="store_true", help="find learning rates first")
    parser.add_argument("--tune-epochs", type=float, default=1, help="of the runs that find them")
    parser.add_argument("--target", type=float, default=0.88, help="accuracy to be reached")
    parser.add_argument("--low-target", type=float, default=0.85)
    parser.add_argument("--json", help="results; what is in it is not run again")
    parser.add_argument("--svg", help="where to draw them")
    parser.add_argument("--picture-low", type=float, default=70, help="percent at the left edge")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, at most two")
    parser.add_argument("--limit", type=float, default=300, help="real seconds for one run")
    parser.add_argument("--only-print", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    known = [(family, name) for family, name in named_algorithms(arguments.binary)
             if not is_of_threads(arguments.binary, name)]
    if arguments.algorithms == "all":
        arguments.algorithms = [(family, row) for family, name in known
                                for row in [name, *(v for v in VARIANTS if variant_of(v)[0] == name)]]
    else:
        chosen = words(arguments.algorithms)
        families = {name: family for family, name in known}
        strange = [word for word in chosen if variant_of(word)[0] not in families]
        if strange:
            raise SystemExit(f"no such algorithm: {', '.join(strange)}")
        arguments.algorithms = [(families[variant_of(word)[0]], word) for word in chosen]
    names = {variant_of(word)[0] for _, word in arguments.algorithms}
    arguments.idle_centres = {name for name in names if has_idle_centre(arguments.binary, name)}
    arguments.data = words(arguments.data)
    arguments.conditions = words(arguments.conditions)
    arguments.seeds = [int(seed) for seed in words(arguments.seeds)]
    store = Store(arguments.json)
    if not arguments.only_print:
        if arguments.tune:
            tune(arguments, store)
        # The order makes the results of the first runs useful by themselves.
        run_all(arguments, store,
                [(name, data, condition, seed, rate_of(arguments, store, name, data), arguments.epochs)
                 for seed in arguments.seeds for condition in arguments.conditions
                 for data in arguments.data for _, name in arguments.algorithms])
    print_tables(arguments, store)
    if arguments.svg:
        pathlib.Path(arguments.svg).write_text(picture(arguments, store))


if __name__ == "__main__":
    main()
