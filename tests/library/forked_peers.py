"""Peers of a swarm that are forked from one process, which has imported PyTorch for all of them."""

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

from support import HERE, LIMIT_S, Peers, environment, eventually


class ForkServer:
    """A `fork_server.py` with these modules. It ends with this process, and its programs end with it."""

    def __init__(self, *modules):
        self.connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.settimeout(LIMIT_S)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "fork_server.py"), str(theirs.fileno()), *modules],
                # OpenBLAS starts threads when NumPy is imported, unless it may have only one.
                env=environment(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def ask(self, request, files=()):
        packet = json.dumps(request).encode()
        try:
            socket.send_fds(self.connection, [packet], [file.fileno() for file in files])
            answer = self.connection.recv(1 << 16)
        except BaseException:
            # After a timeout or Ctrl-C, a late answer would be taken for that to the next request.
            self.connection.close()
            raise
        if not answer:
            raise RuntimeError(f"the fork server has ended with code {self.process.wait(LIMIT_S)}; see its output")
        answer = json.loads(answer)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def close(self):
        self.connection.close()
        self.process.wait(LIMIT_S)


class Forked:
    """A program that a fork server runs, with what tests use of `subprocess.Popen`."""

    def __init__(self, server, words, variables):
        self.server = server
        self.words = [str(word) for word in words]
        self.returncode = None
        self._printed = None
        self.stdout = tempfile.TemporaryFile("w+")
        self.stderr = tempfile.TemporaryFile("w+")
        request = {"words": self.words, "environment": variables}
        try:
            self.pid = server.ask(request, (self.stdout, self.stderr))["pid"]
        except BaseException:
            self._close()
            raise

    def poll(self):
        if self.returncode is None:
            self.returncode = self.server.ask({"pid": self.pid})["code"]
        return self.returncode

    def send_signal(self, what):
        # Until the code is known the process is there, if only as a zombie.
        if self.poll() is None:
            os.kill(self.pid, what)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout=LIMIT_S):
        """Waits for the end, and returns what the program printed to both outputs."""
        has_ended = eventually(lambda: self.poll() is not None, timeout)
        if self._printed is None:
            self.stdout.seek(0)
            self.stderr.seek(0)
            printed = self.stdout.read(), self.stderr.read()
            if not has_ended:
                raise TimeoutError(f"{self.words} runs after {timeout} s, and has printed:\n" + "".join(printed))
            self._close()
            self._printed = printed
        return self._printed

    def _close(self):
        self.stdout.close()
        self.stderr.close()


@functools.lru_cache(maxsize=None)
def _with_torch():
    server = ForkServer("torch")
    atexit.register(server.close)
    return server


class ForkedPeers(Peers):
    """Peers whose programs use PyTorch, and check nothing of the interpreter that runs them."""

    def __init__(self, test, peers, config, *words):
        # It imports while the keys are made.
        self.server = _with_torch()
        super().__init__(test, peers, config, *words)

    def launched(self, words, variables):
        return Forked(self.server, words, variables)
