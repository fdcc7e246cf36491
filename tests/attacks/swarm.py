# Real peers on this machine's loopback in a temporary folder: starts them, reads their status, ends them by their ids.
"""A swarm of real peers that are attacked, and the list of attacks."""
import collections
import functools
import json
import os
import pathlib
import resource
import socket
import subprocess
import tempfile
import time
import traceback

from wire import ROOT, Insider, Key

CONFIG = """[run]
mode = "{mode}"
seed = 1
peers = {peers}
steps = 1000000000
{run}
[data]
kind = "generated"
[data.generated]
samples = 40000
[train]
batch = 32
learning_rate = 0.01
{settings}
"""
PARAMETERS = 32 * 64 + 64 + 64 * 32 + 32 + 32 * 10 + 10  # Of the default model on 32 features and 10 classes.
ATTACKS = {}  # Functions by name, in the order of their declaration.


class Skipped(Exception):
    """The attack cannot be carried out on this machine."""


class Failed(Exception):
    """The attack did not get as far as its question, so that its outcome says nothing."""


def attack(function):
    """Registers a function of the binary's path. It returns whether the promise held, and figures.

    The first sentence of its docstring says what is done, the second what must hold."""
    name = function.__name__.replace("_", "-")
    does, must = function.__doc__.split(". ", 1)

    @functools.wraps(function)
    def record(binary):
        made = {"attack": name, "does": " ".join(does.split()) + ".", "must": " ".join(must.split())}
        try:
            held, figures = function(binary)
            return made | {"held": bool(held), "figures": figures}
        except Skipped as reason:
            return made | {"held": None, "figures": {"skipped": str(reason)}}
        except Exception as reason:  # An outcome of its own, so that the next attacks are still run.
            traceback.print_exc()
            return made | {"held": None, "figures": {"failed": f"{type(reason).__name__}: {reason}"}}

    ATTACKS[name] = record
    return record


def wait_until(condition, seconds, pause=0.02):
    """What the condition gives once it is true, or what it gave at the end of the time."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found or time.monotonic() > end:
            return found
        time.sleep(pause)


def ratio(part, whole):
    return round(part / whole, 2) if whole else None


class Peer:
    """One process, and its files."""

    def __init__(self, key, folder):
        self.key, self.folder, self.process, self.address = key, folder, None, None

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def exit_code(self):
        return self.process.poll()

    def status(self):
        """What `grapevine status --json` prints; empty if there is no answer."""
        try:
            folder = os.open(self.folder, os.O_PATH)  # The path of a Unix socket is short.
            try:
                with socket.socket(socket.AF_UNIX) as link:
                    link.settimeout(3)
                    link.connect(f"/proc/self/fd/{folder}/status.sock")
                    link.shutdown(socket.SHUT_WR)
                    data = b"".join(iter(lambda: link.recv(65536), b""))
            finally:
                os.close(folder)
            return json.loads(data)
        except (OSError, ValueError):
            return {}

    def step(self):
        return self.status().get("step", 0)

    def lanes(self):
        host, port = self.status()["self"]["lanes"].rsplit(":", 1)
        return host, int(port)

    def port(self):
        host, port = self.address.rsplit(":", 1)
        return host, int(port)

    def exchanges(self):
        return self.status().get("exchanges", {}).get("committed", 0)

    def events(self, *names):
        """The events of its log with one of these names, or all."""
        try:
            lines = (self.folder / "events.jsonl").read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return []
        found = []
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # The last line may be half written.
            if not names or event["event"] in names:
                found.append(event)
        return found

    def lines(self):
        """What its processes printed."""
        return (self.folder.parent / f"{self.folder.name}.out").read_text(errors="replace").strip().splitlines()

    def output(self):
        """The last line that they printed."""
        return self.lines()[-1][:160] if self.lines() else ""

    def usage(self):
        """Resident memory in MiB, descriptors, seconds of processors."""
        try:
            process = pathlib.Path(f"/proc/{self.process.pid}")
            pages = int((process / "statm").read_text().split()[1])
            times = (process / "stat").read_text().rsplit(")", 1)[1].split()[11:13]
            return {"mib": pages * resource.getpagesize() // 2**20, "fds": len(os.listdir(process / "fd")),
                    "cpu_s": sum(map(int, times)) / os.sysconf("SC_CLK_TCK")}
        except (OSError, IndexError):
            return {"mib": 0, "fds": 0, "cpu_s": 0}

    def signal(self, number):
        if self.is_alive():
            os.kill(self.process.pid, number)

    def kill(self):
        if self.is_alive():
            self.process.kill()
        if self.process:
            self.process.wait()


class Swarm:
    """Peers p0, p1, ... and keys on their list that no peer uses. Ends them all when the block ends."""

    def __init__(self, binary, peers=4, mode="gossip", settings="", insiders=1, options=(), quiet=True, limit="",
                 run=""):
        self.binary, self.options, self.limit = str(binary), [*options, *["--quiet"] * quiet], limit
        self.temporary = tempfile.TemporaryDirectory(prefix="attack-")
        self.root = pathlib.Path(self.temporary.name)
        self.config = self.root / "config.toml"
        self.config.write_text(CONFIG.format(mode=mode, peers=peers, settings=settings, run=run))
        self.peers = [Peer(self.make_key(f"p{i}"), self.root / f"p{i}") for i in range(peers)]
        self.insiders = [self.make_key(f"insider{i}") for i in range(insiders)]
        self.list = self.root / "authorized_peers"
        self.write_list()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for peer in self.peers:
            peer.kill()
        self.temporary.cleanup()

    def __getitem__(self, i):
        return self.peers[i]

    def make_key(self, name):
        path = self.root / f"{name}.key"
        subprocess.run([self.binary, "keygen", path, "--name", name], check=True, capture_output=True)
        return Key(path, name)

    def write_list(self):
        keys = [peer.key for peer in self.peers] + self.insiders
        self.list.write_text("".join(key.line + "\n" for key in keys))

    def start(self, i, *options, wait_for=None, folder=None, **popen):
        """Starts a peer, which joins by the first other one that runs, and waits for its address."""
        peer = self.peers[i]
        contact = next((other.address for other in self.peers if other is not peer and other.is_alive()), None)
        command = [self.binary, "peer", self.config, "--key", peer.key.path, "--authorized", self.list,
                   "--folder", folder or peer.folder, "--listen", "127.0.0.1:0", "--shard", f"{i}/{len(self.peers)}",
                   "--wait-for", str(wait_for or len(self.peers)), *self.options, *options]
        if contact:
            command += ["--join", contact]
        if self.limit:
            command = ["bash", "-c", f'ulimit {self.limit}; exec "$@"', "peer", *command]
        with open(self.root / f"p{i}.out", "ab") as output:
            popen = {"stdout": output, "stderr": subprocess.STDOUT} | popen
            peer.process = subprocess.Popen(list(map(str, command)), cwd=ROOT, **popen)
        # An earlier process in this folder may have left its socket, so the id is compared.
        own = lambda: (status := peer.status().get("self", {})) and status["pid"] == peer.process.pid and status
        found = wait_until(lambda: own() or not peer.is_alive(), 20)
        if isinstance(found, dict):
            peer.address = found["advertised"]
        return peer

    def start_all(self, count=None):
        """Starts all peers, or the first ones, and waits until they train."""
        started = [self.start(i, wait_for=count) for i in range(count or len(self.peers))]
        if not wait_until(lambda: all(peer.step() > 0 for peer in started), 30):
            raise Failed(f"the swarm does not train: {[(peer.exit_code(), peer.output()) for peer in started]}")
        return self

    def alive(self):
        return sum(peer.is_alive() for peer in self.peers)

    def ended(self):
        """Exit codes and last words of the peers that ended; empty if none did."""
        return [f"{peer.key.name} {peer.exit_code()}: {peer.output()}" for peer in self.peers
                if peer.process and not peer.is_alive()]

    def insider(self, i=0, key=None, queue=100_000, **fields):
        """A link to a peer that has said hello and is in its table of members. `queue`: frames that may wait in it."""
        link = Insider(key or self.insiders[0], self.peers[i], queue=queue)
        if not link.introduce():
            raise Failed("no answer to a hello")
        link.join(**fields)
        return link

    def pace(self, seconds, count=Peer.step):
        """What each peer that runs counts in a second: by default its steps."""
        peers = [peer for peer in self.peers if peer.is_alive()]
        before, began = [count(peer) for peer in peers], time.monotonic()
        time.sleep(seconds)
        after, took = [count(peer) for peer in peers], time.monotonic() - began
        return [round((b - a) / took, 1) for a, b in zip(before, after)]

    def trains(self, seconds, among=None):
        """Seconds until all peers that run, of these, have made steps, or None if they do not in that time."""
        peers, began = [peer for peer in among or self.peers if peer.is_alive()], time.monotonic()
        before = [peer.step() for peer in peers]
        all_step = lambda: all(peer.step() > step for peer, step in zip(peers, before))
        return round(time.monotonic() - began, 1) if peers and wait_until(all_step, seconds) else None


def counted(peers, *names):
    """How often events of these names are in the logs of peers."""
    return dict(collections.Counter(event["event"] for peer in peers for event in peer.events(*names)))
