"""What the tests of the library share: keys, folders, and peers as processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "python"
BINARY = os.environ["GRAPEVINE_BINARY"]
LIMIT_S = 90
# The end of a config with which peers notice within two seconds that another is gone.
WATCHFUL = """
[membership]
probe_period_s = 0.2
probe_timeout_s = 0.1
suspicion_min_s = 0.5
suspicion_max_factor = 2
"""

sys.path.insert(0, str(PACKAGE))


def environment(**more):
    path = os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, **more}


def run(*words, **more):
    """Runs a command to its end, and returns it with its output."""
    return subprocess.run(
        words, env=environment(**more), capture_output=True, text=True, timeout=LIMIT_S
    )


def eventually(holds, limit_s=LIMIT_S):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.01)
    return False


class FolderTest(unittest.TestCase):
    """A test with a folder of its own, which is removed at its end."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def assert_ctrl_c_ends(self, wait):
        """Sends SIGINT while `wait()` waits for another peer. Python looks for signals five times a second."""
        sent = []

        def interrupt():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.5, interrupt)
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            wait()
        self.assertLess(time.monotonic() - sent[0], 2)
        timer.join()

    def assert_ctrl_c_ends_the_call(self, call):
        """Interrupts the next wait of a peer in this process, whose library has made the call by then."""
        interrupted = unittest.mock.patch("grapevine.Vine._wait", side_effect=KeyboardInterrupt)
        with interrupted, self.assertRaises(KeyboardInterrupt):
            call()

    def make_keys(self, peers):
        """Makes a key for each peer, and one allow-list of all keys."""
        lines = []
        for number in range(peers):
            name = f"peer-{number}"
            (self.folder / name).mkdir()
            made = run(BINARY, "keygen", str(self.folder / name / "key"), "--name", name)
            self.assertEqual(made.returncode, 0, made.stderr)
            lines += [line for line in made.stdout.splitlines() if line.startswith(name + " ")]
        self.assertEqual(len(lines), peers)
        return self.write("authorized_peers", "\n".join(lines) + "\n")

    def alone(self):
        """Arguments of `join` for a peer that trains alone."""
        return {
            "key": self.folder / "peer-0" / "key",
            "authorized": self.make_keys(1),
            "folder": self.folder / "run",
            "listen": "127.0.0.1:0",
            "shard": "0/1",
            "run__peers": 1,
            "run__linger_s": 0.0,
        }


class Peers:
    """Programs that each run one peer of a swarm, as a launcher starts them."""

    def __init__(self, test, peers, config, *words):
        self.test = test
        self.words = words
        self.number = peers
        self.config = test.write("run.toml", config)
        self.authorized = test.make_keys(peers)
        self.processes = {}
        self.address = None
        test.addCleanup(self.kill_all)

    def folder(self, number):
        return self.test.folder / f"peer-{number}"

    def given(self, number):
        """Arguments of `join` for a peer of the swarm."""
        return {
            "config": self.config,
            "key": str(self.folder(number) / "key"),
            "authorized": self.authorized,
            "name": f"peer-{number}",
            "folder": str(self.folder(number)),
            "listen": "127.0.0.1:0",
            "join": [self.address] if self.address else [],
            "shard": f"{number}/{self.number}",
        }

    def launched(self, words, variables):
        """A process that runs the script and its arguments, with these variables as its environment."""
        return subprocess.Popen(
            [sys.executable, *words],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start(self, number, *more, resume=False):
        given = {**self.given(number), "resume": resume}
        self.processes[number] = self.launched(
            [*self.words, *more], environment(GRAPEVINE_PEER=json.dumps(given))
        )
        if self.address is None:
            process = self.processes[number]
            eventually(lambda: process.poll() is not None or self.status(number))
            status = self.status(number)
            if process.poll() is not None or status is None:
                process.kill()
                self.test.fail("the first peer starts\n" + "".join(process.communicate()))
            self.address = f"peer-{number}@{status['self']['advertised']}"

    def start_all(self, *more):
        for number in range(self.number):
            if number not in self.processes:
                self.start(number, *more)

    def status(self, number):
        # Before the peer has made its socket, the program need not be started to find none.
        if not (self.folder(number) / "status.sock").exists():
            return None
        answer = run(BINARY, "status", str(self.folder(number)), "--json")
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def step(self, number):
        status = self.status(number)
        return status.get("step", 0) if status else 0

    def signal(self, number, what):
        self.processes[number].send_signal(what)

    def kill(self, number):
        self.signal(number, signal.SIGKILL)
        self.processes[number].communicate(timeout=LIMIT_S)

    def end(self, number):
        """Waits for the end of a process, and returns its exit code and what it printed."""
        process = self.processes[number]
        out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err

    def model(self, number):
        """The model that the program printed. Fails if it did not end cleanly."""
        code, out, err = self.end(number)
        self.test.assertEqual(code, 0, err)
        self.test.assertEqual(err, "")
        return json.loads(out)["x"]

    def kill_all(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            if not process.stdout.closed:
                process.communicate()
