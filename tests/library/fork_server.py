"""Imports modules once, and forks for each program that a test asks for: to import PyTorch takes seconds.

    python3 fork_server.py DESCRIPTOR MODULE...

DESCRIPTOR is a socket of packets, each of which is a request in JSON. A request with `words` and `environment` comes
with two open files for what the program prints, and is answered by the program's `pid`, or by an `error`. One with a
`pid` is answered by its exit `code`, or by null while it runs; the process can be signalled until its code was told. At
the end of the socket all programs are killed. `forked_peers.py` is the other side.

A program finds the modules imported, and otherwise what it finds in an interpreter of its own, except that all programs
have one seed for the hashes of texts. So tests of what an interpreter does, and some with swarms, do not use this.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import traceback


def run(words):
    """Runs a script as an interpreter does. Returns its exit code."""
    sys.argv = words
    sys.path[0] = os.path.dirname(words[0])
    code = 0
    try:
        # The generators were seeded when their modules were imported, so all programs would draw the same numbers.
        for name in ("torch", "numpy.random"):
            if name in sys.modules:
                sys.modules[name].seed()
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        traceback.print_exc()
        code = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    # The process ends without freeing what was imported, which takes nearly as long as to import it.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    return code or 0


def fork(request, files, connection):
    """Forks a process that runs a script, and returns its id."""
    pid = os.fork()
    if pid != 0:
        return pid
    code = 1
    try:
        connection.close()
        os.setsid()
        for file, target in zip(files, (1, 2)):
            os.dup2(file, target)
            os.close(file)
        os.environ.clear()
        os.environ.update(request["environment"])
        code = run(request["words"])
        if code == -signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    finally:
        # No exception may lead the child back to the server's loop.
        os._exit(code & 0xFF)


def kill(pid):
    """Kills a program and the processes that it has started, which are in its process group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(pid, signal.SIGKILL)  # It has no group of its own yet.
    os.waitpid(pid, 0)


def serve(connection, running):
    """Answers requests until the socket's end. `running` are the programs whose exit codes were not told."""
    while True:
        packet, files, _, _ = socket.recv_fds(connection, 1 << 20, 2)
        if not packet:
            return
        request = json.loads(packet)
        # Only the thread that forks lives on in the child, and others might have held locks.
        threads = len(os.listdir("/proc/self/task"))
        if "words" in request and threads > 1:
            answer = {"error": f"importing {' '.join(sys.argv[2:])} started threads: {threads - 1}"}
        elif "words" in request:
            pid = fork(request, files, connection)
            running.add(pid)
            answer = {"pid": pid}
        else:
            pid, status = os.waitpid(request["pid"], os.WNOHANG)
            running.discard(pid)
            answer = {"code": os.waitstatus_to_exitcode(status) if pid else None}
        for file in files:
            os.close(file)
        connection.send(json.dumps(answer).encode())


def main():
    connection = socket.socket(fileno=int(sys.argv[1]))
    for module in sys.argv[2:]:
        importlib.import_module(module)
    # The collector would otherwise write to every object that was imported, and so copy it for each program.
    gc.collect()
    gc.freeze()
    running = set()
    try:
        serve(connection, running)
    finally:
        for pid in running:
            kill(pid)


main()
