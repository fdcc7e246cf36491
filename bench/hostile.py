#!/usr/bin/env python3
# Three of sixteen peers are hostile: the remaining accuracy, with the default guard and without.
"""Runs configs/hostile-16.toml with each of eight attacks, guarded and plain, and without hostile peers.

Guarded is the config as it stands: clipped_gossip and its defaults, eight neighbours. Plain is the same with
guard = "none". Lying about weights is tried on push_sum, since plain averages send no weights. Accuracies are those
of the mean model of the thirteen honest peers and of the worst of them, on all test samples.

Examples:
  bench/hostile.py --json hostile.json
  bench/hostile.py --json hostile.json --seeds 1 --attacks bit_flip,little_is_enough+strength=1
  bench/hostile.py --json hostile.json --only-print
"""
import argparse
import pathlib
import statistics

from league import Store, simulate, words

# Published strengths, unless these are too weak to spoil even a plain average.
ATTACKS = ["bit_flip", "label_flip+strength=10", "scale", "little_is_enough+strength=10", "inner_product", "dissensus",
           "not_a_number", "lying_weight"]
GUARDS = {"guarded": "", "plain": 'guard = "none"\n'}
DATA = {"iid": 'partition = "iid"', "dirichlet": 'partition = "dirichlet"\nconcentration = 0.1'}


def config_of(arguments, attack, guard, seed):
    """The config with that attack, or without hostile peers if it is "clean"."""
    head, rule = pathlib.Path(arguments.config).read_text().split("[[scenario.hostile]]\n")
    peers = next(line for line in rule.splitlines() if line.startswith("peers"))
    head = head.replace("seed = 1\n", f"seed = {seed}\n").replace(DATA["iid"], DATA[arguments.data])
    settings = GUARDS[guard]
    if guard == "plain" and attack.startswith("lying_weight"):
        settings += 'kind = "push_sum"\n'
    head = head.replace("[mixing]\n", "[mixing]\n" + settings)
    if attack == "clean":
        return head
    name, *strength = attack.split("+")
    return head + "\n".join(["[[scenario.hostile]]", peers, f'attack = "{name}"', *strength]) + "\n"


def key_of(arguments, attack, guard, seed):
    return f"{arguments.data} {attack} {guard} seed {seed}"


def run(arguments, attack, guard, seed):
    result = simulate(arguments, config_of(arguments, attack, guard, seed), seed)
    if "failed" in result:
        return result
    summary = result["summary"]
    return {"accuracy": summary["mean_accuracy"], "worst": summary.get("worst_accuracy", 0),
            "unfinished": summary["unfinished"], **summary.get("hostile", {})}


def run_all(arguments, store):
    # Runs whose results must hold come first.
    jobs = [(attack, guard, seed) for guard in GUARDS for seed in arguments.seeds
            for attack in ["clean", *arguments.attacks]]
    missing = [job for job in jobs if key_of(arguments, *job) not in store.runs]
    for done, job in enumerate(missing, 1):
        result = run(arguments, *job)
        store.add(key_of(arguments, *job), result)
        said = result.get("failed") or f"{100 * result['accuracy']:6.2f} %  worst {100 * result['worst']:6.2f} %"
        print(f"{done}/{len(missing)}  {job[0]:<30} {job[1]:<8} seed {job[2]}  {said}", flush=True)


def results_of(arguments, store, attack, guard):
    runs = [(seed, store.runs.get(key_of(arguments, attack, guard, seed))) for seed in arguments.seeds]
    return {seed: result for seed, result in runs if result and "failed" not in result}


def cells(arguments, store, attack, guard):
    """Mean accuracy, the largest loss of a seed against its guarded clean run, and the worst peer of all."""
    clean = results_of(arguments, store, "clean", "guarded")
    results = results_of(arguments, store, attack, guard)
    if not results:
        return ["-"] * 3
    lost = [100 * (clean[seed]["accuracy"] - result["accuracy"]) for seed, result in results.items() if seed in clean]
    return [f"{100 * statistics.mean(result['accuracy'] for result in results.values()):.2f}",
            f"{max(lost):.2f}" if lost else "-",
            f"{100 * min(result['worst'] for result in results.values()):.2f}"]


def share_held(arguments, store, attack):
    results = results_of(arguments, store, attack, "guarded").values()
    heard = sum(result.get("heard", 0) for result in results)
    if heard == 0:
        return "-"
    return f"{100 * sum(r['held_back'] + r['messages_refused'] for r in results) / heard:.0f}"


def print_table(arguments, store):
    print("| Attack | Guarded, % | Lost at most | Worst peer, % | Hostile models held back, % "
          "| Plain, % | Lost at most | Worst peer, % |")
    print("|---|---|---|---|---|---|---|---|")
    for attack in ["clean", *arguments.attacks]:
        name, *strength = attack.split("+")
        title = "none" if attack == "clean" else " ".join([f"`{name}`", *strength]).replace("strength=", "at ")
        print("| " + " | ".join([title, *cells(arguments, store, attack, "guarded"),
                                 share_held(arguments, store, attack),
                                 *cells(arguments, store, attack, "plain")]) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default="build/release/grapevine")
    parser.add_argument("--config", default="configs/hostile-16.toml")
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--attacks", default=",".join(ATTACKS), help="with a strength as scale+strength=10")
    parser.add_argument("--data", choices=DATA, default="iid", help="how images are dealt out")
    parser.add_argument("--json", help="results; what is in it is not run again")
    parser.add_argument("--limit", type=float, default=300, help="real seconds for one run")
    parser.add_argument("--only-print", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    arguments.seeds = [int(seed) for seed in words(arguments.seeds)]
    arguments.attacks = words(arguments.attacks)
    store = Store(arguments.json)
    if not arguments.only_print:
        run_all(arguments, store)
    print_table(arguments, store)


if __name__ == "__main__":
    main()
