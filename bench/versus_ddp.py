#!/usr/bin/python3
# Mode allreduce against PyTorch's DistributedDataParallel: summed samples/s, every step together.
"""Alternates between `grapevine launch` with mode = "allreduce" and DDP over gloo on the same models.

One thread a process, batch 64 each, data of the same shape in memory. A contender is started, warms
up, and is then timed over a window; the ratio is that of one round, and its median and range are
printed.

Needs Debian's python3-torch with OpenBLAS: apt-get install python3-torch libopenblas0-pthread
Example: bench/versus_ddp.py --binary build/release/grapevine
"""
import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from launched_peers import samples_per_second
from versus_pytorch import model_of

BATCH = 64
AIMS = {"mlp": 2.0, "lenet": 1.5, "cnn": 1.5}
MODELS = {"mlp": 'kind = "mlp"\nhidden = [256, 128]', "lenet": 'kind = "lenet"', "cnn": 'kind = "cnn"'}
LOCKSTEP = """[run]
mode = "allreduce"
steps = 1000000000
peers = {peers}
[data]
kind = "idx"
folder = "/usr/share/datasets/fashion-mnist"
[model]
{model}
[train]
batch = {batch}
optimizer = "nesterov"
momentum = 0.9
learning_rate = 0.001
"""


def train_rank(name, rank, ranks, meeting, warm_up, window):
    """One rank of DDP: prints how many samples a second it trained on in the window."""
    import torch
    import torch.distributed

    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=ranks)
    model = torch.nn.parallel.DistributedDataParallel(model_of(name))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, nesterov=True)
    loss_of = torch.nn.CrossEntropyLoss()
    inputs = torch.randn(6400, 1, 28, 28)
    labels = torch.randint(0, 10, (6400,))

    def steps(seconds):
        """All ranks make equally many steps, because they make each together. After every tenth,
        rank 0 looks at the time."""
        began = time.perf_counter()
        count = 0
        more = torch.ones(1)
        while more.item() > 0:
            for _ in range(10):
                at = count % 100 * BATCH
                optimizer.zero_grad(set_to_none=True)
                loss_of(model(inputs[at:at + BATCH]), labels[at:at + BATCH]).backward()
                optimizer.step()
                count += 1
            more.fill_(time.perf_counter() - began < seconds)
            torch.distributed.broadcast(more, 0)
        return count * BATCH / (time.perf_counter() - began)

    steps(warm_up)
    print(steps(window))


def ddp_samples_per_second(name, ranks, warm_up, window):
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo")
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, "--rank", str(rank), str(ranks), name, f"{folder}/meeting",
                 str(warm_up), str(window)],
                stdout=subprocess.PIPE, text=True, env=environment)
            for rank in range(ranks)
        ]
        try:
            return sum(float(process.communicate(timeout=120 + 2 * (warm_up + window))[0])
                       for process in processes)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/grapevine")
    parser.add_argument("--peers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--warm-up", type=float, default=3, help="seconds")
    parser.add_argument("--window", type=float, default=8, help="seconds")
    parser.add_argument("--only", choices=list(AIMS))
    arguments = parser.parse_args()
    # When told to stop, this program still ends the peers that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for name, aim in AIMS.items():
        if arguments.only not in (None, name):
            continue
        for peers in arguments.peers:
            config = LOCKSTEP.format(peers=peers, model=MODELS[name], batch=BATCH)
            contenders = {
                "grapevine": lambda: samples_per_second(
                    arguments.binary, config, peers, arguments.warm_up, arguments.window),
                "ddp": lambda: ddp_samples_per_second(
                    name, peers, arguments.warm_up, arguments.window),
            }
            paces = {contender: [] for contender in contenders}
            for repeat in range(arguments.repeats):
                # In changing order, so that a drifting machine favours neither.
                for contender in sorted(contenders, reverse=repeat % 2 == 0):
                    paces[contender].append(contenders[contender]())
            ratios = [a / b for a, b in zip(paces["grapevine"], paces["ddp"])]
            print(f"{name:6} {peers} peers: grapevine {statistics.median(paces['grapevine']):8.0f}"
                  f"  ddp {statistics.median(paces['ddp']):8.0f} samples/s"
                  f"  ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}),"
                  f" aim {aim}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank, ranks, name, meeting, warm_up, window = sys.argv[2:]
        train_rank(name, int(rank), int(ranks), meeting, float(warm_up), float(window))
    else:
        main()
