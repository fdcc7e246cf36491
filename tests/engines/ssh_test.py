"""`launch --hosts` with a real sshd on each of three hosts, which are network namespaces here."""

import os
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

from cohort import EngineTest
from support import BINARY, LIMIT_S, run

SSHD = "/usr/sbin/sshd"

SERVER = """
ListenAddress {address}
HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
SetEnv PATH={folder}/bin:/usr/bin:/bin
"""

CLIENT = """
IdentityFile {folder}/key
IdentitiesOnly yes
UserKnownHostsFile /dev/null
StrictHostKeyChecking no
LogLevel ERROR
"""


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, timeout=LIMIT_S)


class Hosts:
    """Namespaces with an address each, behind one bridge that has an address of its own."""

    def __init__(self, test, count):
        self.names = [f"gv-ssh-{os.getpid()}-{i}" for i in range(count + 1)]
        self.addresses = [f"10.77.9.{i + 1}" for i in range(count)]
        test.addCleanup(self.remove)
        hub, *hosts = self.names
        self.made = self.do("netns", "add", hub) and self.do(
            "-n", hub, "link", "add", "hub", "type", "bridge"
        )
        self.made = self.made and self.do("-n", hub, "link", "set", "hub", "up")
        self.made = self.made and self.do("-n", hub, "addr", "add", "10.77.9.254/24", "dev", "hub")
        for number, host in enumerate(hosts):
            self.made = (
                self.made
                and self.do("netns", "add", host)
                and self.do("-n", hub, "link", "add", f"p{number}", "type", "veth",
                            "peer", "name", "eth0", "netns", host)
                and self.do("-n", hub, "link", "set", f"p{number}", "master", "hub", "up")
                and self.do("-n", host, "link", "set", "lo", "up")
                and self.do("-n", host, "link", "set", "eth0", "up")
                and self.do("-n", host, "addr", "add", f"{self.addresses[number]}/24",
                            "dev", "eth0")
            )  # fmt: skip

    def do(self, *words):
        self.said = ip(*words).stderr
        return not self.said

    def remove(self):
        for name in self.names:
            ip("netns", "delete", name)


class SshTest(EngineTest):
    def setUp(self):
        if not shutil.which("ssh") or not Path(SSHD).exists():
            raise unittest.SkipTest("ssh is not installed; scripts/test --ssh installs it")
        if os.getuid() != 0:
            raise unittest.SkipTest("ssh to hosts of this machine's own needs root")
        super().setUp()
        self.hosts = Hosts(self, 3)
        if not self.hosts.made:
            raise unittest.SkipTest("ssh: no network namespaces here: " + self.hosts.said)
        made = run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "key"))
        self.assertEqual(made.returncode, 0, made.stderr)
        (self.folder / "bin").mkdir()
        (self.folder / "bin/grapevine").symlink_to(BINARY)
        # Where sshd puts its unprivileged half. Normally the package's service makes this folder.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.client = self.write("ssh_config", CLIENT.format(folder=self.folder))
        self.list = self.write("hosts.txt", "\n".join(self.hosts.addresses) + "\n")
        self.servers = [self.start_server(number) for number in range(3)]
        self.launch = None

    def start_server(self, number):
        settings = self.write(
            f"sshd-{number}",
            SERVER.format(address=self.hosts.addresses[number], folder=self.folder),
        )
        server = self.start("sshd.log", number + 1, SSHD, "-D", "-e", "-f", settings)
        self.wait(
            lambda: self.inside(0, "ssh", "-F", self.client, self.hosts.addresses[number], ":")
            .returncode == 0,
            f"host {number} takes connections",
        )  # fmt: skip
        return server

    def inside(self, number, *words):
        """Runs a command in namespace `number`, of which 0 is the launcher's."""
        return run("ip", "netns", "exec", self.hosts.names[number], *words)

    def start(self, log, number, *words):
        with open(self.folder / log, "a") as out:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.hosts.names[number], *words],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_launch(self, *more):
        process = self.start(
            "launch.log", 0, BINARY, "launch", "--hosts", self.list, "--ssh",
            f"ssh -F {self.client}", "--folder", str(self.folder), self.config, *more,
        )  # fmt: skip
        self.addCleanup(self.kill_peers)
        self.wait(lambda: all(self.alive(rank) == 3 for rank in range(3)), "all hosts meet")
        return process

    def said(self):
        return (self.folder / "launch.log").read_text()

    def check_saves(self, ranks, end):
        """Calls `end`, after which these peers must end, each with a checkpoint."""
        steps = {rank: self.step(rank) for rank in ranks}
        end()
        for rank, step in steps.items():
            self.wait(lambda: self.step(rank) == 0, f"rank {rank} ends")
            self.assertGreaterEqual(self.checkpoints(rank)[-1], step)

    def test_an_interrupt_ends_all_peers_with_a_checkpoint_and_they_go_on_with_resume(self):
        launch = self.start_launch()
        self.check_saves(range(3), lambda: launch.send_signal(signal.SIGINT))
        self.assertEqual(launch.wait(timeout=LIMIT_S), 0, self.said())
        self.assertEqual(self.said().count("exit code 0"), 3)

        launch = self.start_launch("--resume")
        for rank in range(3):
            self.assertEqual(len(self.events(rank, "resumed")), 1)
        launch.send_signal(signal.SIGINT)
        self.assertEqual(launch.wait(timeout=LIMIT_S), 0, self.said())

    def test_the_others_go_on_without_a_killed_peer_and_its_end_is_shown(self):
        launch = self.start_launch()
        os.kill(self.pid(1), signal.SIGKILL)
        self.wait(lambda: self.alive(0) == 2 and self.alive(2) == 2, "the others miss it")
        self.wait_for_steps(0)
        launch.send_signal(signal.SIGINT)
        self.assertEqual(launch.wait(timeout=LIMIT_S), 1, self.said())
        self.assertEqual(self.said().count("exit code 0"), 2)
        self.assertIn("exit code 137", self.said())

    def test_peers_leave_with_a_checkpoint_when_the_launcher_is_killed(self):
        launch = self.start_launch()
        self.check_saves(range(3), launch.kill)

    def test_a_host_that_cannot_be_reached_is_named(self):
        self.servers[2].kill()
        self.servers[2].wait()
        self.write("hosts.txt", "\n".join(reversed(self.hosts.addresses)) + "\n")
        launch = self.start(
            "launch.log", 0, BINARY, "launch", "--hosts", self.list, "--ssh",
            f"ssh -F {self.client}", "--folder", str(self.folder), self.config,
        )  # fmt: skip
        self.wait(lambda: self.alive(1) == 2 and self.alive(2) == 2, "the others meet")
        launch.send_signal(signal.SIGINT)
        self.assertEqual(launch.wait(timeout=LIMIT_S), 1, self.said())
        self.assertIn(f"rank-0     {self.hosts.addresses[2]}", self.said())
        self.assertIn("no connection by ssh", self.said())
