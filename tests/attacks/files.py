# Files of a run that are torn, forged, shared or unreadable, and processes that end while they write them.
import random
import shutil
import signal
import struct
import subprocess
import time

from swarm import Swarm, attack, counted, wait_until

SAVES = "[checkpoint]\nevery_steps = 200\nkeep = 3\n"
KILLS = 25


def checkpoints(peer):
    return sorted(file for file in (peer.folder / "checkpoints").glob("step-*.safetensors")
                  if ".optimizer." not in file.name)


def newest_step(peer):
    """The step of its newest checkpoint, or -1. A file gets its name when it is whole, so this one can be read."""
    return max((int(file.name.split("-")[1].split(".")[0]) for file in checkpoints(peer)), default=-1)


def go_on(swarm):
    """Starts the only peer of a swarm, and waits until it has written a checkpoint that is newer than all before.
    Returns what went wrong. With checkpoints it must go on at the step of the newest."""
    peer = swarm[0]
    newest, before = newest_step(peer), len(peer.events("resumed"))
    swarm.start(0, *["--resume"] * (newest >= 0))
    if newest >= 0:
        wait_until(lambda: len(peer.events("resumed")) > before or not peer.is_alive(), 10)
        steps = [event["step"] for event in peer.events("resumed")[before:]]
        if steps != [newest]:
            return [f"resumed at {steps} and not at {newest}"]
    if not wait_until(lambda: newest_step(peer) > newest or not peer.is_alive(), 10):
        return [f"no checkpoint after that of step {newest}"]
    return []


def kill_running(peer):
    """Kills a peer. Returns what went wrong: one that has ended by itself is not killed."""
    ended = [] if peer.is_alive() else [f"ended with exit code {peer.exit_code()}: {peer.output()}"]
    peer.kill()
    return ended


def forgeries(data):
    """What a checkpoint may have become, by name."""
    header = struct.unpack("<Q", data[:8])[0]
    flipped = bytearray(data)
    flipped[8 + header + 1001] ^= 4
    return {"half": data[:len(data) // 2], "empty": b"", "one bit": bytes(flipped),
            "zeros at the end": data[:-8192] + bytes(8192), "rubbish": random.Random(1).randbytes(len(data)),
            "header of 2^63": struct.pack("<Q", 2**63) + data[8:],
            "brackets": struct.pack("<Q", 2**23) + b"[" * 2**23,
            "nested objects": struct.pack("<Q", 6 * 10**6) + b'{"a":' * (12 * 10**5)}


@attack
def checkpoint_killed(binary):
    """Kills a peer 25 times while it saves every 200 steps, and resumes it each time. No checkpoint may be refused, and
    each start goes on where one was."""
    with Swarm(binary, peers=1, settings=SAVES) as swarm:
        peer, draw, wrong, temporary = swarm[0], random.Random(1), [], 0
        for _ in range(KILLS):
            wrong += go_on(swarm)
            time.sleep(draw.uniform(0, 0.1))
            wrong += kill_running(peer)
            temporary += any("tmp" in file.name or "part" in file.name for file in peer.folder.rglob("*"))
        resumed, refused = len(peer.events("resumed")), len(peer.events("checkpoint_refused"))
        return resumed == KILLS - 1 and not refused and not wrong, {
            "resumed": f"{resumed}/{KILLS - 1}", "refused": refused, "wrong": wrong,
            "with a temporary file left": temporary}


@attack
def checkpoint_forged(binary):
    """Replaces the newest checkpoint by eight kinds of damage, and its optimiser's by one flipped bit. Each must be
    refused, and the one before be used."""
    with Swarm(binary, peers=1, settings=SAVES) as swarm:
        peer = swarm.start(0)
        wait_until(lambda: len(checkpoints(peer)) >= 3, 10)
        peer.signal(signal.SIGTERM)
        peer.process.wait(timeout=20)
        folder, kept = peer.folder / "checkpoints", swarm.root / "kept"
        shutil.copytree(folder, kept)
        newest, before = checkpoints(peer)[-1], checkpoints(peer)[-2]
        damage = {name: (newest.name, data) for name, data in forgeries(newest.read_bytes()).items()}
        optimizer = newest.name.replace(".safetensors", ".optimizer.safetensors")
        state = bytearray((folder / optimizer).read_bytes())
        state[-100] ^= 4
        damage["optimiser's bit"] = (optimizer, bytes(state))
        outcomes = {}
        for name, (file, data) in damage.items():
            shutil.rmtree(folder)
            shutil.copytree(kept, folder)
            (folder / file).write_bytes(data)
            (peer.folder / "events.jsonl").unlink()
            swarm.start(0, "--resume")
            wait_until(lambda: peer.events("resumed", "resumed_from_nothing") or not peer.is_alive(), 10)
            resumed = [event["step"] for event in peer.events("resumed")]
            refused = len(peer.events("checkpoint_refused"))
            outcomes[name] = refused > 0 and resumed == [int(before.name.split("-")[1].split(".")[0])]
            peer.kill()
        return all(outcomes.values()), {"refused": f"{sum(outcomes.values())}/{len(outcomes)}",
                                        "not": [name for name, sound in outcomes.items() if not sound]}


@attack
def folder_shared(binary):
    """Starts a second peer in the run folder of a living one. The second must be refused, and the first keeps its
    files."""
    with Swarm(binary, peers=2, settings=SAVES) as swarm:
        first = swarm.start(0, wait_for=1)
        wait_until(lambda: first.step() > 0, 10)
        second = swarm[1]
        command = [binary, "peer", swarm.config, "--key", second.key.path, "--authorized", swarm.list,
                   "--folder", first.folder, "--listen", "127.0.0.1:0", "--quiet", "--join", first.address]
        with open(swarm.root / "p1.out", "wb") as output:
            second.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        wait_until(lambda: not second.is_alive(), 5)
        failed = counted([first], "save_failed")
        return not second.is_alive() and first.is_alive() and not failed, {
            "second": second.exit_code() if not second.is_alive() else "runs", "events": failed}


@attack
def list_cut(binary):
    """Empties the allow-list, then cuts it at the end of a line, and sends HUP. A peer must keep its links, or say on
    its screen that it lost them."""
    with Swarm(binary, peers=3, quiet=False).start_all() as swarm:
        whole, figures, held = swarm.list.read_text(), {}, True
        for name, text in (("empty", ""), ("cut", whole.splitlines(keepends=True)[0])):
            printed, before = len(swarm[0].lines()), len(swarm[0].events("member_removed"))
            swarm.list.write_text(text)
            read = len(swarm[0].events("allow_list_read", "allow_list_refused"))
            swarm[0].signal(signal.SIGHUP)
            wait_until(lambda: len(swarm[0].events("allow_list_read", "allow_list_refused")) > read, 3)
            time.sleep(1)
            removed = len(swarm[0].events("member_removed")) - before
            said = [line for line in swarm[0].lines()[printed:] if "list" in line]
            held &= removed == 0 or any("no longer" in line for line in said)
            figures[name] = {"members removed": removed, "said": said}
            swarm.list.write_text(whole)
            swarm[0].signal(signal.SIGHUP)
            wait_until(lambda: swarm.trains(0.5), 3)
        return held and swarm.alive() == 3, figures


@attack
def list_damaged(binary):
    """Puts repeated names and NULs into the allow-list and sends HUP, then a sound list 200 times. The damaged lists
    must be refused, and all peers train on."""
    with Swarm(binary, peers=3).start_all() as swarm:
        whole, refused = swarm.list.read_text(), 0
        for text in (whole + whole.splitlines()[0] + "\n", whole[:40] + "\0\0\0" + whole[43:], "\0" * 100):
            swarm.list.write_text(text)
            swarm[0].signal(signal.SIGHUP)
            refused += bool(wait_until(lambda: len(swarm[0].events("allow_list_refused")) > refused, 3))
        swarm.list.write_text(whole)
        for _ in range(200):
            swarm[0].signal(signal.SIGHUP)
            time.sleep(0.002)
        trains = swarm.trains(5)
        members = [m["state"] for m in swarm[0].status().get("members", [])]
        return refused == 3 and trains is not None and members == ["alive"] * 3, {
            "refused": f"{refused}/3", "members": members, "all train": trains is not None}


@attack
def key_modes(binary):
    """Starts a peer with keys that others may read, and through a symbolic link. It must refuse them with exit code 2,
    and take a key of mode 0400."""
    with Swarm(binary, peers=1) as swarm:
        peer, codes = swarm[0], {}
        for mode in (0o644, 0o640, 0o660, 0o400):
            peer.key.path.chmod(mode)
            swarm.start(0)
            wait_until(lambda: not peer.is_alive() or peer.step() > 0, 10)
            codes[f"{mode:04o}"] = "runs" if peer.is_alive() else peer.exit_code()
            peer.kill()
        link = swarm.root / "link.key"
        link.symlink_to(peer.key.path)
        peer.key.path = link
        swarm.start(0)
        codes["link"] = "runs" if peer.is_alive() else peer.exit_code()
        return codes == {"0644": 2, "0640": 2, "0660": 2, "0400": "runs", "link": 2}, {"exit codes": codes}


@attack
def key_twice(binary):
    """Runs a second process with the key of a living peer. All must train on, and the others say so."""
    with Swarm(binary, peers=3).start_all() as swarm:
        own, folder = swarm[2], swarm.root / "twice"
        command = [binary, "peer", swarm.config, "--key", own.key.path, "--authorized", swarm.list, "--folder", folder,
                   "--listen", "127.0.0.1:0", "--quiet", "--join", swarm[0].address]
        with open(swarm.root / "twice.out", "wb") as output:
            twice = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            told = wait_until(lambda: counted(swarm.peers, "key_used_twice"), 20)
            trains = swarm.trains(5)
            return bool(told) and trains is not None and swarm.alive() == 3, {
                "told": told, "all train": trains is not None, "second": twice.poll() or "runs"}
        finally:
            twice.kill()
            twice.wait()
