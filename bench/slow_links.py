#!/usr/bin/env python3
# Mode allreduce on slow links: rounded, sparse and factored gradients against whole ones, to the end and at equal samples.
"""Trains peers in lockstep, each in a network namespace of its own, behind links of a given bandwidth.

A bridge joins the namespaces; a token bucket (tc tbf) limits what goes into and what comes out of each. All variants
make the same steps from the same model on the same shards. Time counts from the first step of all to the last by a
peer's own clock, without start, data and evaluation; accuracy is that of the final model on the test set. The variants
run in turn, in every second round in the opposite order. Needs root, iproute2 and the data of
configs/fashion-allreduce.toml.

Example: sudo bench/slow_links.py --rates 100mbit --repeats 3
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

VARIANTS = {
    "dense": "",
    "fp16": 'codec = "fp16"\n',
    "top 16, 4 bits": 'codec = "qsgd4"\ntop_k_per_512 = 16\n',
    "rank 4": "rank = 4\n",
    "rank 4, fp16": 'rank = 4\ncodec = "fp16"\n',
    "sufficient factors": "sufficient_factors = true\n",
}
# Bytes that a token bucket passes at once. With more, small sums would never reach the limit.
BURST = "32kb"


def command(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=30).stdout


class Hosts:
    """Namespaces 10.78.0.1, .2, ... behind one bridge; gone when the block ends, however it ends."""

    def __init__(self, count, rate):
        self.tag = f"gvs{os.getpid()}"
        self.count = count
        self.rate = rate

    def name(self, host):
        return f"{self.tag}h{host}"

    def address(self, host):
        return f"10.78.0.{host + 1}"

    def limit(self, namespace, device):
        if self.rate != "unlimited":
            command("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf",
                    "rate", self.rate, "burst", BURST, "latency", "100ms")

    def __enter__(self):
        try:
            hub = self.tag + "hub"
            command("ip", "netns", "add", hub)
            command("ip", "-n", hub, "link", "add", "bridge", "type", "bridge")
            command("ip", "-n", hub, "link", "set", "bridge", "up")
            for host in range(self.count):
                name, port = self.name(host), f"port{host}"
                command("ip", "netns", "add", name)
                command("ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0",
                        "netns", name)
                command("ip", "-n", hub, "link", "set", port, "master", "bridge", "up")
                command("ip", "-n", name, "addr", "add", self.address(host) + "/24", "dev", "eth0")
                command("ip", "-n", name, "link", "set", "eth0", "up")
                command("ip", "-n", name, "link", "set", "lo", "up")
                self.limit(name, "eth0")
                self.limit(hub, port)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in [self.name(host) for host in range(self.count)] + [self.tag + "hub"]:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=30)


def config_text(peers, hidden, batch, steps, variant, seed):
    base = (pathlib.Path(__file__).resolve().parent.parent / "configs/fashion-allreduce.toml").read_text()
    for key, value in (("peers", peers), ("seed", seed), ("hidden", hidden), ("batch", batch)):
        base, found = re.subn(rf"(?m)^{key}\s*=.*$", f"{key} = {value}", base)
        assert found == 1, key
    base = re.sub(r"(?m)^epochs\s*=.*$", f"steps = {steps}", base)
    return base + f'\n[allreduce]\nalgorithm = "ring"\n{VARIANTS[variant]}\n[checkpoint]\nevery_steps = 0\n'


def events(folder):
    parts = sorted(folder.glob("events.jsonl*"), reverse=True)  # events.jsonl itself is the newest
    return [json.loads(line) for part in parts for line in part.read_text().splitlines()]


@contextlib.contextmanager
def peers_on(hosts, binary, root, text):
    """Processes of peers with this config, one on each host, with their folders below `root`. They are killed when
    the block ends."""
    (root / "config.toml").write_text(text)
    allowed = ""
    for host in range(hosts.count):
        (root / f"peer-{host}").mkdir()
        allowed += command(binary, "keygen", str(root / f"peer-{host}/key"), "--name", f"peer-{host}")
    (root / "authorized_peers").write_text(allowed)
    peers = []
    try:
        for host in range(hosts.count):
            folder = root / f"peer-{host}"
            words = ["ip", "netns", "exec", hosts.name(host), binary, "peer", str(root / "config.toml"),
                     "--name", f"peer-{host}", "--folder", str(folder), "--key", str(folder / "key"),
                     "--authorized", str(root / "authorized_peers"), "--quiet",
                     "--shard", f"{host}/{hosts.count}", "--wait-for", str(hosts.count),
                     "--listen", f"{hosts.address(host)}:7000"]
            if host > 0:
                words += ["--join", f"peer-0@{hosts.address(0)}:7000"]
            peers.append(subprocess.Popen(words, stdout=subprocess.DEVNULL))
        yield peers
    finally:
        for peer in peers:
            if peer.poll() is None:
                peer.kill()
                peer.wait()


def await_ends(peers, limit):
    """Waits until all these peers have ended well, for `limit` seconds at most."""
    give_up = time.monotonic() + limit
    for peer in peers:
        if peer.wait(timeout=max(1, give_up - time.monotonic())) != 0:
            raise SystemExit("a peer failed")


def train(binary, hosts, text, steps, limit):
    """One run to its end: seconds of training, test accuracy in percent, bytes of sums a peer and step,
    seconds lost in changes of generation."""
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        with peers_on(hosts, binary, root, text) as peers:
            await_ends(peers, limit)
        seconds, sent, lost = [], [], []
        for host in range(hosts.count):
            folder = root / f"peer-{host}"
            told = [event for event in events(folder) if event["event"] in ("generation_began", "budget_done")]
            # If starting is slow, fewer peers make the first steps; those do not count.
            while told[0]["peers"] != hosts.count:
                del told[0]
            began = told[0]
            generations = told[:[event["event"] for event in told].index("budget_done")]
            ended = told[len(generations)]
            if {generation["peers"] for generation in generations} != {hosts.count} or began["step"] > steps / 10:
                raise SystemExit(f"not everybody took part nearly all the time: {told}")
            seconds.append((ended["t"] - began["t"]) * steps / (steps - began["step"]))
            lost.append(sum(event["seconds_lost"] for event in events(folder)
                            if event["event"] == "collective_resumed"))
            result = json.loads((folder / "result.json").read_text())
            sent.append(result["allreduce"]["reduced_bytes"] / result["allreduce"]["operations"])
        newest = sorted((root / "peer-0/checkpoints").glob("step-*.safetensors"))[-1]
        said = command(binary, "eval", str(newest), "--config", str(root / "config.toml"))
        accuracy = float(re.search(r"accuracy ([\d.]+) %", said)[1])
        return max(seconds), accuracy, max(sent), max(lost)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default="build/release/grapevine")
    parser.add_argument("--peers", type=int, default=8)
    parser.add_argument("--rates", default="1gbit,100mbit", help="as tc says them, or unlimited")
    parser.add_argument("--hidden", default="[256, 128]", help="of the MLP")
    parser.add_argument("--batch", type=int, default=32, help="of each peer")
    parser.add_argument("--steps", type=int, default=1170, help="five epochs of 8 peers' 32")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", help="variants, separated by semicolons")
    parser.add_argument("--limit", type=float, default=900, help="seconds for one run")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("network namespaces need root: run it with sudo")
    # When told to stop, this program still ends its peers and removes its namespaces.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    binary = str(pathlib.Path(arguments.binary).resolve())
    control = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    print(f"{arguments.peers} peers, TCP congestion control {control}")
    variants = arguments.only.split(";") if arguments.only else list(VARIANTS)
    for rate in arguments.rates.split(","):
        runs = {variant: [] for variant in variants}
        for repeat in range(arguments.repeats):
            for variant in variants if repeat % 2 == 0 else reversed(variants):
                text = config_text(arguments.peers, arguments.hidden, arguments.batch, arguments.steps,
                                   variant, repeat + 1)
                with Hosts(arguments.peers, rate) as hosts:
                    runs[variant].append(train(binary, hosts, text, arguments.steps, arguments.limit))
                seconds, accuracy, sent, lost = runs[variant][-1]
                print(f"{rate:>9}  {variant:<15} {seconds:7.1f} s  {accuracy:6.2f} %"
                      f"  {sent / 1000:8.1f} kB a step  {lost:5.1f} s between generations", flush=True)
        samples = arguments.steps * arguments.batch * arguments.peers
        base = [run[0] for run in runs[variants[0]]]
        print(f"{rate}, hidden {arguments.hidden}, {arguments.steps} steps of"
              f" {arguments.batch * arguments.peers}, {arguments.repeats} runs; medians and ranges:")
        for variant in variants:
            times = [run[0] for run in runs[variant]]
            ratios = [b / t for b, t in zip(base, times)]
            accuracies = [run[1] for run in runs[variant]]
            print(f"  {variant:<15} {samples / statistics.median(times):9.0f} samples/s"
                  f"  {statistics.median(ratios):6.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"
                  f"  {statistics.median(accuracies):6.2f} % ({min(accuracies):.2f} to"
                  f" {max(accuracies):.2f})", flush=True)


if __name__ == "__main__":
    main()
