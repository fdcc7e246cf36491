# Less of everything: descriptors, memory, disk, and a terminal that goes away.
import contextlib
import os
import pathlib
import signal
import subprocess
import time

from starvation import silence
from swarm import Failed, Skipped, Swarm, attack, wait_until

RUN_S = 4
SAVES = "[checkpoint]\nevery_steps = 200\nkeep = 3\n"


def limited(binary, limit, mode="gossip", must_train=False):
    """Two peers under a limit: both train or, unless they must, end with a message of their own."""
    with Swarm(binary, peers=2, mode=mode, limit=limit) as swarm:
        for i in range(2):
            swarm.start(i)
        wait_until(lambda: all(peer.step() for peer in swarm.peers) or swarm.alive() == 0, RUN_S + 4)
        trains = swarm.alive() == 2 and swarm.trains(3) is not None
        ended = [peer.exit_code() for peer in swarm.peers if not peer.is_alive()]
        # An abort is no message.
        return trains or (not must_train and bool(ended) and all(code in (1, 2) for code in ended)), {
            "trains": trains, "ended": swarm.ended()}


@attack
def limit_files_12(binary):
    """Runs two peers with 12 descriptors each. They must train, or end with a reason."""
    return limited(binary, "-n 12")


@attack
def limit_files_24(binary):
    """Runs two peers with 24 descriptors each. They must train, or end with a reason."""
    return limited(binary, "-n 24")


@attack
def limit_files_40(binary):
    """Runs two peers with 40 descriptors each. They must train."""
    return limited(binary, "-n 40", must_train=True)


@attack
def limit_memory(binary):
    """Runs two peers with 400 MB of addresses each. They must train, or end with a reason."""
    return limited(binary, "-v 400000")


@attack
def limit_memory_allreduce(binary):
    """Runs two peers in lockstep with 2 GB of addresses each, where a shared buffer takes 64 GB. They must train, or
    end with a reason."""
    return limited(binary, "-v 2000000", "allreduce")


@attack
def limit_files_strangers(binary):
    """Opens 300 connections to a peer with 64 descriptors. Its status must answer meanwhile, and it trains at once when
    they are gone."""
    with Swarm(binary, peers=2, limit="-n 64").start_all() as swarm:
        with silence(300) as held:
            held.add(swarm[0].port())
            answers = sum(bool(swarm[0].status()) for _ in range(10))
        trains = swarm.trains(10)
        return answers == 10 and trains is not None and swarm.alive() == 2, {
            "status answers": f"{answers}/10", "trains after it within s": trains, "ended": swarm.ended()}


@attack
def disk_full(binary):
    """Runs a peer on a disk of 100 KiB until it cannot save. It must train on, and resume from an older checkpoint."""
    with Swarm(binary, peers=1, settings=SAVES) as swarm:
        peer = swarm[0]
        peer.folder.mkdir()
        if os.getuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "attack", peer.folder],
                                         capture_output=True).returncode:
            raise Skipped("no right to mount")
        try:
            swarm.start(0)
            if not wait_until(lambda: peer.status().get("checkpoints", {}).get("failed"), 20):
                raise Failed("the disk did not fill")
            trains = swarm.trains(3)
            largest = max(peer.folder.rglob("*"), key=lambda file: file.stat().st_size).name
            peer.kill()
            (peer.folder / "events.jsonl").unlink()  # Room for the events of the next process.
            swarm.start(0, "--resume")
            again, resumed = swarm.trains(10), [event["step"] for event in peer.events("resumed")]
            return trains is not None and again is not None and len(resumed) == 1, {
                "trains": trains is not None, "resumed at step": resumed, "largest file": largest,
                "ended": swarm.ended()}
        finally:
            peer.kill()
            subprocess.run(["umount", peer.folder], check=True)


@attack
def disk_by_events(binary):
    """Runs undisturbed peers whose events may take 1 MiB until the oldest are gone. The files of events together must
    stay below that."""
    with Swarm(binary, run="events_mib = 1").start_all() as swarm:
        sizes = lambda: [file.stat().st_size for file in swarm[0].folder.glob("events.jsonl*")]
        began, most = time.monotonic(), 0

        def is_full():
            nonlocal most
            try:
                most = max(most, sum(sizes()))
            except FileNotFoundError:
                pass  # A file was renamed meanwhile.
            return len(list(swarm[0].folder.glob("events.jsonl*"))) == 4

        full = wait_until(is_full, 150)
        took = time.monotonic() - began
        wait_until(lambda: is_full() and False, 10)
        return full and most <= 2**20, {"files": len(sizes()), "kB at most": round(most / 1000),
                                        "GB a day": round(sum(sizes()[:3]) / took * 86400 / 1e9, 1)}


def unread(binary, *options):
    """Starts a peer whose output is a pipe, whose reader goes away."""
    with Swarm(binary, peers=1, settings="[metrics]\nevery_s = 0.2\n") as swarm:
        peer = swarm[0]
        reader, writer = os.pipe()
        command = [binary, "peer", swarm.config, "--key", peer.key.path, "--authorized", swarm.list,
                   "--folder", peer.folder, "--listen", "127.0.0.1:0", *options]
        peer.process = subprocess.Popen(command, stdout=writer, stderr=subprocess.DEVNULL)
        os.close(writer)
        wait_until(lambda: peer.step() > 0, 10)
        os.close(reader)
        wait_until(lambda: not peer.is_alive(), 2)
        trains = swarm.trains(2)
        peer.signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            peer.process.wait(timeout=20)
        saved = any((peer.folder / "checkpoints").glob("step-*.safetensors"))
        return trains is not None and saved, {"trained on": trains is not None, "exit code": peer.exit_code(),
                                              "checkpoint": saved}


@attack
def output_gone(binary):
    """Closes the reading end of the pipe that a peer prints to. It must train on, and save when it is told to end."""
    return unread(binary)


@attack
def output_gone_quiet(binary):
    """Closes the reading end of the pipe of a peer that prints nothing. It must train on, and save when it is told to
    end."""
    return unread(binary, "--quiet")


@attack
def output_full(binary):
    """Gives a peer /dev/full to print to. It must train on."""
    with Swarm(binary, peers=1) as swarm, open("/dev/full", "wb") as full:
        swarm.start(0, stdout=full)
        wait_until(lambda: swarm[0].step() > 0, 10)
        return swarm.trains(3) is not None, {"ended": swarm.ended()}


@attack
def output_gone_launch(binary):
    """Closes the reading end of the pipe that `launch` prints to. The launcher must go on, or end all its
    peers and give an exit code."""
    with Swarm(binary, peers=1) as swarm:
        run = swarm.root / "run"
        with subprocess.Popen([binary, "launch", "-n", "3", swarm.config, "--folder", run], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as launcher:
            children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
            pids = lambda: [int(pid) for pid in children.read_text().split()]
            wait_until(lambda: launcher.poll() is not None or len(pids()) >= 3, 10)
            peers = pids()
            launcher.stdout.close()
            wait_until(lambda: launcher.poll() is not None, 8)
            code = launcher.poll()
            alive = lambda: sum(os.path.exists(f"/proc/{pid}/fd") and len(os.listdir(f"/proc/{pid}/fd")) > 0
                                for pid in peers)
            wait_until(lambda: code is None or not alive(), 3)
            left = alive() if code is not None else 0
            if code is None:
                launcher.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    launcher.wait(timeout=20)
            for pid in peers if alive() else ():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return (code is None or code >= 0) and not left, {
                "exit code": "runs" if code is None else code, "peers left": left}
