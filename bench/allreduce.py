#!/usr/bin/env python3
# Sums over several processes of one machine: grapevine's all-reduce beside Gloo's and two MPIs'.
"""Times all-reduces of float vectors with everything that is installed, in alternating order.

Every contender sums the same vectors, checks one sum against the closed form, warms up and then times
operations back to back; an operation takes as long as its slowest rank. A round runs all of them once;
the table has the median of the rounds' medians and how far the rounds lie apart. What is compared with
"plain" goes over TCP, what is compared with "auto" may use shared memory. "bare sockets" is no all-reduce:
it moves the bytes of one through TCP and sums nothing.

Debian packages: libgloo-dev, python3-torch, openmpi-bin and libopenmpi-dev, mpich and libmpich-dev.

Example: bench/allreduce.py --quick
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
SYSTEM_PYTHON = "/usr/bin/python3"


def bytes_of(text):
    match = re.fullmatch(r"(\d+)(B|KiB|MiB|GiB|)", text)
    if not match or (int(match[1]) * UNITS[match[2]]) % 4 or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no size of a vector, as 64KiB is")
    return int(match[1]) * UNITS[match[2]]


def size_text(size):
    for unit in ("GiB", "MiB", "KiB"):
        if size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]} {unit}"
    return f"{size} B"


def run_together(commands, limit):
    """Runs the commands side by side to their ends and returns their outputs. None outlives the call."""
    processes = []
    try:
        for command in commands:
            processes.append(subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True))
        give_up = time.monotonic() + limit
        printed = []
        for process, command in zip(processes, commands):
            out, words = process.communicate(timeout=max(0.1, give_up - time.monotonic()))
            if process.returncode != 0:
                raise RuntimeError(f"{command[0]}: {words.strip().splitlines()[-1:] or 'failed'}")
            printed.append(out)
        return printed
    finally:
        running = [process for process in processes if process.poll() is None]
        for process in running:  # mpirun passes a friendly signal on to its ranks.
            process.terminate()
        for process in running:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def rows_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def slowest(ranks):
    """From every rank's rows, {bytes: seconds of each operation}."""
    return {rows[0]["bytes"]: [max(times) for times in zip(*(row["seconds"] for row in rows))]
            for rows in zip(*ranks)}


class Grapevine:
    def __init__(self, arguments, lane):
        self.name = f"grapevine {lane}"
        self.over_tcp = lane == "plain"
        self.command = [arguments.binary, "bench", "allreduce", "--lane", lane,
                        "--algorithm", arguments.algorithm]

    def run(self, peers, sizes, arguments):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "rows.json"
            run_together([self.command + ["-n", str(peers), "--json", str(file), "--sizes",
                                          ",".join(map(str, sizes))]], arguments.limit)
            return {row["bytes"]: row["seconds"] for row in json.loads(file.read_text())["rows"]}


class RankPerProcess:
    """Ranks that find each other through a folder: `command` RANK RANKS FOLDER `extra`..."""
    over_tcp = True

    def __init__(self, name, command, extra):
        self.name, self.command, self.extra = name, command, extra

    def run(self, peers, sizes, arguments):
        with tempfile.TemporaryDirectory() as folder:
            commands = [
                self.command + [str(rank), str(peers), folder] + self.extra +
                [str(arguments.row_seconds)] + list(map(str, sizes)) for rank in range(peers)]
            return slowest([rows_of(text) for text in run_together(commands, arguments.limit)])


class BareSockets(RankPerProcess):
    """Sums nothing, so it is no contender: the time that a sum's bytes take through sockets."""

    def __init__(self, program):
        super().__init__("bare sockets", [program], [])

    def run(self, peers, sizes, arguments):
        if peers & (peers - 1) != 0:
            raise RuntimeError("only for powers of two")
        return super().run(peers, sizes, arguments)


class Mpi:
    def __init__(self, name, launcher, program, over_tcp):
        self.name, self.launcher, self.program, self.over_tcp = name, launcher, program, over_tcp

    def run(self, peers, sizes, arguments):
        command = self.launcher + ["-np", str(peers), self.program, str(arguments.row_seconds)]
        return slowest([rows_of(run_together([command + list(map(str, sizes))], arguments.limit)[0])])


def compiled(command, output):
    """The path of the program, or None and a line that says why there is none."""
    if shutil.which(command[0]) is None:
        print(f"left out: {command[0]} is not installed")
        return None
    done = subprocess.run(command + ["-o", str(output)], capture_output=True, text=True)
    if done.returncode == 0:
        return str(output)
    print(f"left out: {' '.join(command)}: {(done.stderr.strip().splitlines() or ['failed'])[0]}")
    return None


def contenders(arguments, folder):
    """All contenders that can run on this machine."""
    found = [Grapevine(arguments, "plain"), Grapevine(arguments, "auto")]
    bare = compiled(["g++", "-O2", "-std=c++20", str(HERE / "bare_sockets.cpp")], folder / "bare")
    if bare:
        found.append(BareSockets(bare))
    gloo = compiled(["g++", "-O2", "-std=c++17", str(HERE / "gloo_allreduce.cpp"), "-lgloo",
                     "-pthread"], folder / "gloo")
    if gloo:
        found += [RankPerProcess(f"gloo {name.replace('_', ' ')}", [gloo], [name])
                  for name in ("ring", "ring_chunked", "halving_doubling")]
    openmpi = compiled(["mpicc.openmpi", "-O2", str(HERE / "mpi_allreduce.c")], folder / "openmpi")
    if openmpi and shutil.which("mpirun.openmpi"):
        launcher = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe",
                    "--mca", "mpi_yield_when_idle", "1"]
        tcp = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
        found += [Mpi("openmpi tcp", launcher + tcp, openmpi, True),
                  Mpi("openmpi shared", launcher, openmpi, False)]
    mpich = compiled(["mpicc.mpich", "-O2", str(HERE / "mpi_allreduce.c")], folder / "mpich")
    if mpich and shutil.which("mpiexec.mpich"):
        found.append(Mpi("mpich shared", ["mpiexec.mpich"], mpich, False))
    for python in dict.fromkeys((sys.executable, SYSTEM_PYTHON)):
        probe = "import torch.distributed as d; assert d.is_available() and d.is_gloo_available()"
        if subprocess.run([python, "-c", probe], capture_output=True).returncode == 0:
            found.append(RankPerProcess("torch gloo", [python, __file__, "--torch-rank"], []))
            break
    else:
        print("left out: torch.distributed with gloo is not installed")
    return found


def torch_rank(rank, ranks, folder, row_seconds, *sizes):
    """One rank of torch.distributed: prints for each size one JSON line."""
    import torch
    import torch.distributed as dist

    rank, ranks = int(rank), int(ranks)
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    for size in map(int, sizes):
        place = torch.arange(size // 4)
        values = (place % 251 + rank * (place % 7)).float()
        dist.all_reduce(values)
        wanted = (ranks * (place % 251) + ranks * (ranks - 1) // 2 * (place % 7)).float()
        if not torch.equal(values, wanted):
            raise SystemExit("a sum is wrong")
        values.zero_()  # Zeros stay zeros however often they are summed.
        least = 20 if size <= 1 << 20 else 10 if size <= 32 << 20 else 5
        began = time.perf_counter()
        for _ in range(least // 2):
            dist.all_reduce(values)
        mean = torch.tensor([(time.perf_counter() - began) / (least // 2)])
        dist.all_reduce(mean)
        fit = int(float(row_seconds) * ranks / max(float(mean), 1e-6))
        seconds = []
        for _ in range(min(max(fit, least), 1000)):
            began = time.perf_counter()
            dist.all_reduce(values)
            seconds.append(time.perf_counter() - began)
        print(json.dumps({"bytes": size, "seconds": seconds}), flush=True)
    dist.barrier()


def measure(found, arguments):
    """{(peers, bytes): {name: [median of each round]}}"""
    medians = {(peers, size): {} for peers in arguments.peers for size in arguments.sizes}
    for number in range(arguments.rounds):
        for peers in arguments.peers:
            for contender in found if number % 2 == 0 else reversed(found):
                try:
                    rows = contender.run(peers, arguments.sizes, arguments)
                except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                    print(f"{contender.name}, {peers} peers: {str(error)[:200]}", flush=True)
                    continue
                for size, seconds in rows.items():
                    place = medians[peers, size].setdefault(contender.name, [])
                    place.append(1e6 * statistics.median(seconds))
            print(f"round {number + 1} of {arguments.rounds}, {peers} peers done; "
                  f"load {os.getloadavg()[0]:.1f}", flush=True)
    return medians


def print_microseconds(found, medians):
    print("\nmicroseconds: median of the rounds, and half their range in per cent of it")
    print(f"{'peers':>5} {'size':>8}" + "".join(f"{c.name:>23}" for c in found))
    for (peers, size), row in medians.items():
        cells = ""
        for contender in found:
            rounds = row.get(contender.name)
            if not rounds:
                cells += f"{'-':>23}"
                continue
            middle = statistics.median(rounds)
            spread = f"+-{min(999, 50 * (max(rounds) - min(rounds)) / middle):>3.0f} %"
            cells += f"{middle:>15.1f} {spread if len(rounds) > 1 else '':>7}"
        print(f"{peers:>5} {size_text(size):>8}{cells}")


def print_ratios(found, medians):
    print("\ngrapevine / best of the others (below 1: grapevine is faster)")
    ours = [c for c in found if isinstance(c, Grapevine)]
    print(f"{'peers':>5} {'size':>8}" + "".join(
        f"{c.name + (' / best over TCP' if c.over_tcp else ' / best of all'):>44}" for c in ours))
    for (peers, size), row in medians.items():
        cells = ""
        for own in ours:
            others = {c.name: statistics.median(row[c.name]) for c in found
                      if c not in ours and not isinstance(c, BareSockets) and row.get(c.name) and (c.over_tcp or not own.over_tcp)}
            if not others or not row.get(own.name):
                cells += f"{'-':>44}"
                continue
            best = min(others, key=others.get)
            cells += f"{statistics.median(row[own.name]) / others[best]:>20.2f} {best:>23}"
        print(f"{peers:>5} {size_text(size):>8}{cells}")


def main():
    if sys.argv[1:2] == ["--torch-rank"]:
        torch_rank(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/grapevine")
    parser.add_argument("--peers", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--sizes", type=bytes_of, nargs="+", metavar="SIZE",
                        default=[4 << 10, 64 << 10, 1 << 20, 16 << 20, 128 << 20])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--algorithm", default="auto", help="of grapevine")
    parser.add_argument("--row-seconds", type=float, default=1, help="timed for one size, about")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one program")
    parser.add_argument("--only", help="names that match this regular expression, and grapevine")
    parser.add_argument("--json", help="a file for the medians of every round")
    parser.add_argument("--quick", action="store_true",
                        help="one round of 2 and 4 peers up to 16 MiB")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.peers, arguments.rounds, arguments.row_seconds = [2, 4], 1, 0.3
        arguments.sizes = [4 << 10, 1 << 20, 16 << 20]
    # When told to stop, this program still ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True,
                            text=True).stdout.strip()
    print(f"commit {commit or 'unknown'}, {os.cpu_count()} processors, "
          f"load {os.getloadavg()[0]:.1f} before")
    with tempfile.TemporaryDirectory() as folder:
        found = contenders(arguments, pathlib.Path(folder))
        if arguments.only:
            found = [c for c in found
                     if isinstance(c, Grapevine) or re.search(arguments.only, c.name)]
        medians = measure(found, arguments)
    print_microseconds(found, medians)
    print_ratios(found, medians)
    if arguments.json:
        rows = [{"peers": peers, "bytes": size, "median_us": row}
                for (peers, size), row in medians.items()]
        pathlib.Path(arguments.json).write_text(json.dumps({"commit": commit, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
