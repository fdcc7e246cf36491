"""Programs that a fork server runs behave as processes of their own."""

import os
import signal
import subprocess
import sys
import unittest
import unittest.mock

from forked_peers import Forked, ForkServer
from support import HERE, FolderTest, environment, eventually

SCRIPT = """
import atexit, os, sys, time
atexit.register(print, "the end")
print(__name__, sys.argv[1:], os.environ["WHERE"], os.path.dirname(__file__) == sys.path[0])
print("a warning", file=sys.stderr)
"""


class ForkedPeersTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.server = ForkServer()
        self.addCleanup(self.server.close)

    def forked(self, text, *words):
        script = self.write("script.py", SCRIPT + text)
        program = Forked(self.server, [script, *words], environment(WHERE="here"))
        self.addCleanup(program.communicate)
        self.addCleanup(program.kill)
        return program

    def sleeping(self):
        # A file that is closed as garbage could swallow the KeyboardInterrupt, so it makes a folder.
        program = self.forked(f"os.mkdir({str(self.folder / 'runs')!r})\ntime.sleep(90)\n")
        self.assertTrue(eventually((self.folder / "runs").exists))
        (self.folder / "runs").rmdir()
        return program

    def test_words_environment_and_output_are_those_of_the_program(self):
        program = self.forked("", "one", "two")
        printed = ("__main__ ['one', 'two'] here True\nthe end\n", "a warning\n")
        self.assertEqual(program.communicate(), printed)
        self.assertEqual(program.communicate(), printed)
        self.assertEqual(program.returncode, 0)

    def test_exit_codes_are_those_of_an_interpreter(self):
        for text, code, error in (("sys.exit()", 0, ""), ("sys.exit(7)", 7, ""), ("sys.exit('no')", 1, "no"),
                                  ("os._exit(5)", 5, ""), ("1 / 0", 1, "ZeroDivisionError")):  # fmt: skip
            with self.subTest(text):
                program = self.forked(text)
                self.assertIn(error, program.communicate()[1])
                self.assertEqual(program.returncode, code)

    def test_threads_of_a_program_end_before_its_exit_functions_run(self):
        program = self.forked("import threading\nthreading.Timer(0.1, print, ['a thread']).start()\n")
        self.assertTrue(program.communicate()[0].endswith("a thread\nthe end\n"))

    def test_a_program_that_cannot_begin_fails_and_the_server_goes_on(self):
        failed = Forked(self.server, ["script.py"], {"WHERE": 1})
        self.assertIn("TypeError", failed.communicate()[1])
        self.assertEqual(failed.returncode, 1)
        following = self.forked("")
        following.communicate()
        self.assertEqual(following.returncode, 0)

    def test_signals_end_and_stop_a_program(self):
        for what, error in ((signal.SIGKILL, ""), (signal.SIGTERM, ""), (signal.SIGINT, "KeyboardInterrupt")):
            with self.subTest(what):
                program = self.sleeping()
                program.send_signal(what)
                self.assertIn(error, program.communicate()[1])
                self.assertEqual(program.returncode, -what)
        program = self.sleeping()
        program.send_signal(signal.SIGSTOP)
        self.assertTrue(eventually(lambda: state_of(program.pid) == "T"))
        program.kill()
        program.communicate()
        self.assertEqual(program.returncode, -signal.SIGKILL)

    def test_each_program_has_a_session_of_its_own_and_its_siblings_go_on(self):
        first, second = self.sleeping(), self.sleeping()
        self.assertEqual([os.getsid(one.pid) for one in (first, second)], [first.pid, second.pid])
        first.kill()
        first.communicate()
        self.assertIsNone(second.poll())

    def test_a_program_that_does_not_end_is_shown_with_its_output(self):
        with self.assertRaisesRegex(TimeoutError, "a warning"):
            self.sleeping().communicate(timeout=0.1)

    def test_programs_end_when_the_test_is_killed(self):
        # The program has itself started another one.
        script = self.write("script.py", "import os, subprocess, sys, time\n"
                            "other = subprocess.Popen(['sleep', '90'])\n"
                            "open(sys.argv[1] + '.new', 'w').write(str(other.pid))\n"
                            "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
                            "time.sleep(90)\n")  # fmt: skip
        started = self.folder / "started"
        text = f"""
import time
from forked_peers import Forked, ForkServer
from support import environment
server = ForkServer()
print(Forked(server, [{script!r}, {str(started)!r}], environment()).pid, server.process.pid, flush=True)
time.sleep(90)
"""
        test = subprocess.Popen([sys.executable, "-c", text], cwd=HERE, stdout=subprocess.PIPE, text=True)
        pids = [int(word) for word in test.stdout.readline().split()]
        self.assertEqual(len(pids), 2)
        self.assertTrue(eventually(started.exists))
        pids.append(int(started.read_text()))
        test.kill()
        test.communicate()
        self.assertTrue(eventually(lambda: all(state_of(pid) in (None, "Z") for pid in pids)))

    def test_programs_are_not_forked_from_a_server_with_threads(self):
        wait = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
        self.write("threaded.py", f"import threading\n{wait}\n")
        with unittest.mock.patch.dict(os.environ, PYTHONPATH=str(self.folder)):
            server = ForkServer("threaded")
        self.addCleanup(server.close)
        with self.assertRaisesRegex(RuntimeError, "importing threaded started threads: 1"):
            Forked(server, ["script.py"], environment())


def state_of(pid):
    """The letter of /proc for what the process does, or None if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


if __name__ == "__main__":
    unittest.main()
