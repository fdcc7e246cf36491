# Kills and stops of real peers at random moments: survivors go on, restarted peers come back, and all end alike.
import collections
import random
import signal
import time

from swarm import Swarm, attack

SECONDS = 40
LONGEST_S = 6  # The longest time that a peer may stand still if it is left alone.


def stormed(binary, mode, peers, settings="", seed=3):
    """A fault at a time, about every second and a half: kill -9 and a restart, or a stop of up to 3 s."""
    draw, faults = random.Random(seed), collections.Counter()
    with Swarm(binary, peers=peers, mode=mode, settings=settings).start_all() as swarm:
        last = {peer.key.name: (peer.step(), time.monotonic()) for peer in swarm.peers}
        due, hurt, longest, unexpected = time.monotonic() + 1, {}, 0.0, []
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            now = time.monotonic()
            for i, (what, until) in list(hurt.items()):
                if now < until:
                    continue
                if what == "kills":
                    swarm.start(i, "--resume", wait_for=1)
                else:
                    swarm[i].signal(signal.SIGCONT)
                last[swarm[i].key.name] = (swarm[i].step(), time.monotonic() + 3)  # It may take this long to return.
                del hurt[i]
            if now >= due and not hurt:
                i, what = draw.randrange(peers), draw.choice(("kills", "stops"))
                faults[what] += 1
                hurt[i] = (what, now + draw.uniform(0.3, 3))
                swarm[i].kill() if what == "kills" else swarm[i].signal(signal.SIGSTOP)
                due = now + draw.uniform(2, 5)
            for i, peer in enumerate(swarm.peers):
                if i in hurt:
                    continue
                if not peer.is_alive():
                    unexpected.append(f"{peer.key.name} {peer.exit_code()}: {peer.output()}")
                    swarm.start(i, "--resume", wait_for=1)
                step, since = last[peer.key.name]
                if peer.step() != step:
                    last[peer.key.name] = (peer.step(), time.monotonic())
                else:
                    longest = max(longest, time.monotonic() - since)
            time.sleep(0.05)
        for i, (what, _) in hurt.items():
            swarm.start(i, "--resume", wait_for=1) if what == "kills" else swarm[i].signal(signal.SIGCONT)
        trains = swarm.trains(20)
        losses = [peer.status().get("loss") for peer in swarm.peers]
        differ = sum(len(peer.events("models_differ")) for peer in swarm.peers)
        sound = all(loss is not None and loss < 2.4 for loss in losses) if mode != "pipeline" else True
        return not unexpected and trains is not None and longest <= LONGEST_S and sound and not differ, {
            **faults, "longest standstill s": round(longest, 1), "unexpected exits": unexpected,
            "models differ": differ, "losses": [loss and round(loss, 2) for loss in losses],
            "all train at the end": trains is not None}


@attack
def chaos_gossip(binary):
    """Kills and stops eight peers of a gossip, one at a time for 40 s. A peer that is left alone stands still for at
    most 6 s, and no other process ends."""
    return stormed(binary, "gossip", 8)


@attack
def chaos_allreduce(binary):
    """Kills and stops four peers in lockstep, one at a time for 40 s. A peer that is left alone stands still for at
    most 6 s, and no models differ."""
    return stormed(binary, "allreduce", 4)


@attack
def chaos_pipeline(binary):
    """Kills and stops four peers that carry two stages, one at a time for 40 s. A peer that is left alone stands still
    for at most 6 s, and no other process ends."""
    return stormed(binary, "pipeline", 4, "[pipeline]\nstages = 2\n")
