# Memory that an insider shares with peers of its host, and states that it serves to all of a lockstep swarm.
import mmap
import os
import pathlib
import random
import struct
import time

from agreement import Proposer
from downloads import TRUSTED
from lane import LENT_BYTES, MFD_HUGETLB, StateServer, sealed_file
from swarm import PARAMETERS, Failed, Skipped, Swarm, attack, wait_until

STATE = 2 * PARAMETERS  # Parameters, and Nesterov's velocity of each.
PAGE = mmap.PAGESIZE
SPOILT_PAGES = 4
REST_S = 75  # Longer than a refusal lasts.


def shared_buffer(process):
    """The file behind the buffer that a process shares, opened for writing. It has those of its partners open, too."""
    own = [int(line.split()[4]) for line in pathlib.Path(f"/proc/{process}/maps").read_text().splitlines()
           if "grapevine-lent" in line and " rw-s " in line]
    for file in pathlib.Path(f"/proc/{process}/fd").iterdir():
        if file.exists() and file.stat().st_ino in own:
            return os.open(file, os.O_RDWR)
    raise Failed("no shared buffer")


def spoilt(binary, page, value=float("nan"), names=True):
    """Writes a value into four pages of what one peer in lockstep shares, as bad memory or a hostile peer would.
    `names`: it is so bad that the others must name the peer and keep sound models; otherwise they must only live."""
    with Swarm(binary, mode="allreduce").start_all() as swarm:
        file = shared_buffer(swarm[3].process.pid)
        bad, draw, writes, end = struct.pack("<f", value) * 16, random.Random(1), 0, time.monotonic() + 2.5
        with mmap.mmap(file, (page + SPOILT_PAGES) * PAGE) as memory:
            while time.monotonic() < end and swarm.alive() == 4:
                at = page * PAGE + draw.randrange(0, SPOILT_PAGES * PAGE, 64)
                memory[at:at + 64] = bad
                writes += 1
        os.close(file)
        wait_until(lambda: swarm.alive() == 0, 1.5)
        honest = swarm.peers[:3]
        losses = [peer.status().get("loss") for peer in honest if peer.is_alive()]
        sound = not names or all(loss is not None and loss == loss and loss < 10 for loss in losses)
        before = [peer.step() for peer in honest]
        wait_until(lambda: all(peer.step() > step for peer, step in zip(honest, before)), 5)
        at_once = sum(peer.step() > step for peer, step in zip(honest, before))
        trains = swarm.trains(REST_S if len(losses) == 3 else 1, among=honest)
        return len(losses) == 3 and sound and at_once >= 2 and trains is not None, {
            "writes": writes, "honest alive": f"{len(losses)}/3", "step on at once": f"{at_once}/3",
            "all step after s": trains, "losses": [loss and round(loss, 2) for loss in losses],
            "ended": swarm.ended()}


@attack
def shared_nan_5(binary):
    """Writes NaN into pages 5 to 8 of the buffer that one of four peers in lockstep shares. The three others must live
    with sound models and train on, but for one that alone refuses the fourth: it must train again a minute later."""
    return spoilt(binary, 5)


@attack
def shared_nan_15(binary):
    """Writes NaN into pages 15 to 18 of the buffer that one of four peers in lockstep shares. The three others must
    live with sound models and train on, but for one that alone refuses the fourth: it must train again a minute
    later."""
    return spoilt(binary, 15)


@attack
def shared_nan_25(binary):
    """Writes NaN into pages 25 to 28 of the buffer that one of four peers in lockstep shares. The three others must
    live with sound models and train on, but for one that alone refuses the fourth: it must train again a minute
    later."""
    return spoilt(binary, 25)


@attack
def shared_large(binary):
    """Writes 2^100 into pages 15 to 18 of the buffer that one of four peers in lockstep shares. The three others must
    live with sound models and train on, but for one that alone refuses the fourth: it must train again a minute
    later."""
    return spoilt(binary, 15, 2.0**100)


@attack
def shared_limit(binary):
    """Writes 2^39 into pages 15 to 18 of the buffer that one of four peers in lockstep shares, which is just allowed. The
    three others must live and train on, whatever becomes of the model."""
    return spoilt(binary, 15, 2.0**39, names=False)


def state_served(swarm, server):
    """Installs a generation of all peers that goes on from a state which only the insider has, and serves it to each."""
    proposer = Proposer(swarm)
    version = proposer.install_own_state()
    asked = 0
    for link in proposer.links:
        request = link.receive("StateRequest", seconds=2)
        if request:
            asked += 1
            server.answer(link, request, version, STATE)
    wait_until(lambda: swarm.alive() == 0, 4)
    count = lambda name: sum(event.get("name") == "insider0" for peer in swarm.peers for event in peer.events(name))
    refused = count("model_refused")
    adopted = count("state_adopted") - refused  # A refused state is reported as adopted first.
    trains = swarm.trains(10)
    held = asked == 4 and server.reached and swarm.alive() == 4 and not adopted and trains is not None
    return held, {"asked the insider": f"{asked}/4", "opened its lane": f"{server.reached}/4",
                  "adopted": f"{adopted}/4", "refused": f"{refused}/4", "alive": f"{swarm.alive()}/4",
                  "all step after s": trains, "ended": swarm.ended()[:2]}


@attack
def source_served(binary):
    """Installs a generation that goes on from a state of the sender, and serves all peers values of 2^100. No peer may
    take it."""
    with Swarm(binary, mode="allreduce", settings=TRUSTED, options=("--lane", "plain")).start_all() as swarm:
        return state_served(swarm, StateServer(struct.pack("<f", 2.0**100) * STATE))


@attack
def shared_huge(binary):
    """Shares a buffer of huge pages that the system does not have, and serves a state from there. Peers must not die of
    reading it."""
    try:
        buffer = sealed_file(LENT_BYTES, MFD_HUGETLB)
    except OSError as error:
        raise Skipped(f"no huge pages: {error}")
    with Swarm(binary, mode="allreduce").start_all() as swarm:
        held, figures = state_served(swarm, StateServer(lent=buffer, folder=swarm.root))
        os.close(buffer)
        return held, figures
