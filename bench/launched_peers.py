"""What the benchmarks that launch peers share: a swarm that trains, what its peers say, and configs."""

import contextlib
import json
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from slow_links import Hosts, peers_on


def status(binary, peer):
    """A peer's status, or None before the peer answers."""
    answer = subprocess.run([binary, "status", str(peer), "--json"], capture_output=True, timeout=20)
    return json.loads(answer.stdout) if answer.returncode == 0 else None


@contextlib.contextmanager
def launched(binary, config, peers, patience_s=60):
    """The run folders of peers that all train. The peers are ended when the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.toml"
        path.write_text(config)
        run = pathlib.Path(folder) / "run"
        swarm = subprocess.Popen(
            [binary, "launch", "-n", str(peers), str(path), "--folder", str(run)],
            stdout=subprocess.DEVNULL,
        )
        try:
            folders = [run / f"peer-{peer}" for peer in range(peers)]
            await_training(binary, folders, patience_s, [swarm])
            yield folders
        finally:
            swarm.send_signal(signal.SIGINT)
            swarm.wait(timeout=120)


@contextlib.contextmanager
def behind_links(binary, config, peers, rate, patience_s=60):
    """Like launched(), with each peer in a network namespace of its own behind a link of this rate."""
    with tempfile.TemporaryDirectory() as folder, Hosts(peers, rate) as hosts:
        root = pathlib.Path(folder)
        with peers_on(hosts, binary, root, config) as running:
            try:
                folders = [root / f"peer-{peer}" for peer in range(peers)]
                await_training(binary, folders, patience_s, running)
                yield folders
            finally:
                for peer in running:
                    peer.send_signal(signal.SIGINT)
                for peer in running:
                    peer.wait(timeout=120)


def await_training(binary, folders, patience_s, processes):
    """Waits until all these peers train, as long as the processes run."""
    give_up = time.monotonic() + patience_s
    while not all(said and said["phase"] == "training" for said in [status(binary, peer) for peer in folders]):
        if time.monotonic() > give_up or any(process.poll() is not None for process in processes):
            raise SystemExit("the peers did not start training")
        time.sleep(0.2)


def pace(before, after):
    """Samples a second between two reports of a peer, by its own clock."""
    return (after["samples"] - before["samples"]) / (after["uptime_s"] - before["uptime_s"])


def samples_per_second(binary, config, peers, warm_up, window):
    """Sum over the peers of samples trained on in the window, by each peer's own clock."""
    with launched(binary, config, peers) as folders:
        time.sleep(warm_up)
        before = [status(binary, peer) for peer in folders]
        time.sleep(window)
        return sum(pace(then, status(binary, peer)) for then, peer in zip(before, folders))


def with_settings(text, settings):
    """A config with these (section, key, value) in place of its own; None removes the key."""
    for section, key, value in settings:
        text = re.sub(rf"(?m)^{key}\s*=.*\n", "", text)
        if value is None:
            continue
        if re.search(rf"(?m)^\[{section}\]", text):
            text = re.sub(rf"(?m)^\[{section}\].*\n", f"[{section}]\n{key} = {value}\n", text)
        else:
            text += f"\n[{section}]\n{key} = {value}\n"
    return text
