"""The unit for systemd, with this test as the service manager: what it starts, hears and ends."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from cohort import CONFIG, EngineTest
from support import BINARY, LIMIT_S, FolderTest

EXPOSURE_MAX = 3.0  # systemd calls units below 5 "OK", and those above 9 "UNSAFE".
UNIT = Path(__file__).resolve().parents[2] / "scripts/debian/grapevine@.service"


class ServiceTest(EngineTest):
    def setUp(self):
        super().setUp()
        self.etc = self.folder / "etc/grapevine/vine"
        self.state = self.folder / "rank-0"
        for folder in (self.etc, self.state, self.folder / "run/grapevine/vine"):
            folder.mkdir(parents=True)
        (self.etc / "run.toml").write_text(CONFIG.format(folder=self.folder, checkpoint=2000))
        made = subprocess.run(
            [BINARY, "keygen", str(self.etc / "key"), "--name", "vine"],
            capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip
        lines = [line for line in made.stdout.splitlines() if line.startswith("vine ")]
        (self.etc / "authorized_peers").write_text(lines[0] + "\n")
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.manager.close)
        self.manager.bind(str(self.folder / "notify"))
        self.manager.settimeout(LIMIT_S)

    def setting(self, name, options="--listen 127.0.0.1:0"):
        """The words of a setting of the unit, with all places below the folder of this test."""
        text = UNIT.read_text().replace("\\\n", " ")
        (value,) = [
            line.partition("=")[2] for line in text.splitlines() if line.startswith(name + "=")
        ]
        for place, here in {
            "/etc/grapevine/%i": self.etc,
            "%S/grapevine/%i": self.state,
            "%t": self.folder / "run",
            "%d": self.etc,
            "%i": "vine",
            "/usr/bin/grapevine": BINARY,
            "$GRAPEVINE_OPTIONS": options,
        }.items():
            value = value.replace(place, str(here))
        return value

    def start(self):
        subprocess.run(shlex.split(self.setting("ExecStartPre")), check=True, timeout=LIMIT_S)
        peer = subprocess.Popen(
            shlex.split(self.setting("ExecStart")), cwd=self.state,
            env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify")},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(peer.communicate)
        self.addCleanup(peer.kill)
        return peer

    def test_a_manager_whose_queue_is_full_at_first_learns_later_that_a_peer_is_ready(self):
        waiting = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                # Every message has a socket of its own, because a socket's own buffer is limited too.
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
                    other.setblocking(False)
                    other.sendto(b"STATUS=busy", str(self.folder / "notify"))
                waiting += 1
        self.start()
        self.wait_for_steps(0)  # By then the peer has tried to tell the manager.
        for _ in range(waiting):
            self.assertEqual(self.manager.recv(100), b"STATUS=busy")
        self.assertEqual(self.manager.recv(100), b"READY=1")

    def test_a_peer_of_the_unit_says_when_it_is_ready_and_when_it_stops(self):
        peer = self.start()
        self.assertEqual(self.manager.recv(100), b"READY=1")
        # It serves its status, so it is ready indeed.
        self.assertIsNotNone(self.status(0))
        self.wait_for_steps(0)

        reload = self.setting("ExecReload").replace("$MAINPID", str(peer.pid))
        subprocess.run(shlex.split(reload), check=True, timeout=LIMIT_S)
        self.wait(lambda: self.events(0, "allow_list_read"), "it reads the allow-list again")

        step = self.step(0)
        peer.send_signal(signal.SIGTERM)
        self.assertEqual(self.manager.recv(100), b"STOPPING=1")
        self.assertEqual(peer.wait(timeout=LIMIT_S), 0)
        self.assertGreaterEqual(self.checkpoints(0)[-1], step)

    def test_what_a_person_has_to_correct_ends_with_the_code_that_prevents_a_restart(self):
        (self.etc / "run.toml").write_text("[run]\nno_such_setting = 1\n")
        subprocess.run(shlex.split(self.setting("ExecStartPre")), check=True, timeout=LIMIT_S)
        peer = subprocess.run(
            shlex.split(self.setting("ExecStart")), capture_output=True, timeout=LIMIT_S
        )
        self.assertEqual(str(peer.returncode), self.setting("RestartPreventExitStatus"))

    def test_a_peer_accepts_the_options_in_the_comment_of_the_unit(self):
        def said(options):
            """What a peer with these options and a wrong config says before it starts anything."""
            words = shlex.split(self.setting("ExecStart", options))
            return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S).stderr

        (self.etc / "run.toml").write_text("[run]\nno_such_setting = 1\n")
        subprocess.run(shlex.split(self.setting("ExecStartPre")), check=True, timeout=LIMIT_S)
        (options,) = re.findall(r"^#.* GRAPEVINE_OPTIONS=(.*)$", UNIT.read_text(), re.MULTILINE)
        self.assertIn("--listen", options)
        self.assertIn("no_such_setting", said(options))
        for option in ("--listen", "--advertise", "--join"):
            self.assertNotIn(option, said(options))
        # The peer does look at the options.
        self.assertIn("--listen: ", said("--listen 0.0.0.0:7000"))


class SystemdUnitTest(FolderTest):
    """What systemd itself says about the unit; it needs no running systemd for that."""

    def setUp(self):
        super().setUp()
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not installed")

    def analyze(self, unit, *words):
        """Runs systemd-analyze on a unit that starts the program of this build."""
        place = self.write("grapevine@.service", unit.replace("/usr/bin/grapevine", BINARY))
        return subprocess.run(
            ["systemd-analyze", *words, place], capture_output=True, text=True, timeout=LIMIT_S
        )

    def test_systemd_finds_no_fault_in_the_unit(self):
        unit = UNIT.read_text()
        found = self.analyze(unit, "verify", "--man=no")
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        misspelt = self.analyze(unit.replace("PrivateTmp=", "PrivateTemp="), "verify", "--man=no")
        self.assertIn("PrivateTemp", misspelt.stderr)

    def test_the_unit_lets_a_peer_do_little_else(self):
        words = ["security", "--offline=true", "--no-pager"]
        said = self.analyze(UNIT.read_text(), *words)
        found = re.search(r"Overall exposure level for \S+: (\d+\.\d)", said.stdout)
        self.assertTrue(found, said.stdout + said.stderr)
        self.assertLess(float(found[1]), EXPOSURE_MAX)
