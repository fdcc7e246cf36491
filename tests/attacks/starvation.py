# Silent connections on lane ports, by somebody without a key: lanes of the swarm must open all the same.
import contextlib
import pathlib
import signal
import statistics
import subprocess
import sys
import time

from swarm import Failed, Peer, Swarm, attack, ratio, wait_until

PROGRAM = pathlib.Path(__file__).with_name("silence.py")
WINDOW_S = 3
WINDOWS = 4  # Of each kind, one after the other.
KEPT = 0.8  # Of the pace while the same attacker has others to attack. Single runs swing.


class Silence:
    """A process that holds this many silent connections to every address that is added, and replaces those that are
    closed."""

    def __init__(self, each):
        self.process = subprocess.Popen([sys.executable, PROGRAM, "hold", str(each)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.opened = None

    def add(self, address, wait=True):
        self.process.stdin.write(f"+{address[0]} {address[1]}\n")
        if wait and not self.process.stdout.readline().startswith("held"):
            raise Failed("no connections to a lane port")

    def remove(self, address):
        self.process.stdin.write(f"-{address[0]} {address[1]}\n")

    def end(self):
        self.opened = int(self.process.communicate()[0].split()[-1])


@contextlib.contextmanager
def silence(each):
    made = Silence(each)
    try:
        yield made
    finally:
        made.end()


@contextlib.contextmanager
def listeners(count):
    """Addresses where a process of its own closes all connections at once."""
    with subprocess.Popen([sys.executable, PROGRAM, "accept", str(count)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        yield [("127.0.0.1", int(process.stdout.readline())) for _ in range(count)]
        process.stdin.close()


def from_the_start(binary, mode, lane, each):
    """Takes the places of each peer before it can open a lane. Compares its pace with that while the same attacker has
    listeners to attack that only close what they accept: both cost processor time of this machine."""
    count = Peer.exchanges if mode == "gossip" else Peer.step
    with Swarm(binary, mode=mode, options=("--lane", lane)) as swarm, listeners(4) as others:
        with silence(each) as held:
            began = time.monotonic()
            for i in range(3):
                held.add(swarm.start(i).lanes())
            # Training begins with the last peer. The others hear of it once its places are taken, too.
            for peer in swarm.peers[:3]:
                peer.signal(signal.SIGSTOP)
            held.add(swarm.start(3).lanes())
            for peer in swarm.peers[:3]:
                peer.signal(signal.SIGCONT)
            begins = wait_until(lambda: all(peer.step() for peer in swarm.peers), 10)
            wait_until(lambda: all(count(peer) for peer in swarm.peers), 10)
            lanes, attacked, control = [peer.lanes() for peer in swarm.peers], [], []
            for _ in range(WINDOWS):
                attacked.append(sum(swarm.pace(WINDOW_S, count)))
                for address in lanes:
                    held.remove(address)
                for address in others:
                    held.add(address, wait=False)
                control.append(sum(swarm.pace(WINDOW_S, count)))
                for address in others:
                    held.remove(address)
                for address in lanes:
                    held.add(address, wait=False)
            took = time.monotonic() - began
        again = swarm.trains(25)
        alone = sum(swarm.pace(WINDOW_S, count))
        kept = ratio(statistics.median(attacked), statistics.median(control))
        what = "exchanges/s" if mode == "gossip" else "steps/s"
        return begins and kept and kept >= KEPT and swarm.alive() == 4, {
            "kept": kept, f"{what} attacked": [round(pace) for pace in attacked],
            "control": [round(pace) for pace in control], "alone": round(alone),
            "connections/s": round(held.opened / took), "trains after it within s": again}


@attack
def starve_gossip(binary):
    """Holds 32 silent connections to each lane port from the start, over TLS. Peers must exchange as much as while the
    same attacker has others to attack."""
    return from_the_start(binary, "gossip", "tls", 32)


@attack
def starve_allreduce(binary):
    """Holds 32 silent connections to each lane port from the start, in lockstep over TLS. Peers must make as many steps
    as while the same attacker has others to attack."""
    return from_the_start(binary, "allreduce", "tls", 32)


@attack
def starve_unix(binary):
    """Holds 32 silent connections to each lane port from the start, in lockstep over Unix sockets. Peers must make as
    many steps as while the same attacker has others to attack."""
    return from_the_start(binary, "allreduce", "auto", 32)


@attack
def starve_many(binary):
    """Holds 1000 silent connections to each lane port from the start, in lockstep over TLS. Peers must make as many
    steps as while the same attacker has others to attack."""
    return from_the_start(binary, "allreduce", "tls", 1000)


@attack
def starve_most(binary):
    """Holds 5000 silent connections to each lane port from the start, in lockstep over TLS. Peers must make as many
    steps as while the same attacker has others to attack."""
    return from_the_start(binary, "allreduce", "tls", 5000)


@attack
def starve_most_gossip(binary):
    """Holds 5000 silent connections to each lane port from the start, over TLS. Peers must exchange as much as while
    the same attacker has others to attack."""
    return from_the_start(binary, "gossip", "tls", 5000)


def in_the_middle(binary, mode):
    """Begins once lanes are open, then kills a peer and starts it again."""
    count = Peer.exchanges if mode == "gossip" else Peer.step
    with Swarm(binary, mode=mode, options=("--lane", "tls")).start_all() as swarm:
        wait_until(lambda: all(count(peer) for peer in swarm.peers), 10)
        before = sum(swarm.pace(3, count))
        with silence(32) as held:
            for peer in swarm.peers:
                held.add(peer.lanes())
            open_kept = ratio(sum(swarm.pace(3, count)), before)
            gone = swarm[3].lanes()
            swarm[3].kill()
            held.remove(gone)
            held.add(swarm.start(3, "--resume", wait_for=1).lanes())
            wait_until(lambda: swarm.trains(1), 8)
            paces = swarm.pace(4, count)
            restarted_kept = ratio(sum(paces), before)
        again = swarm.trains(25)
        return open_kept >= KEPT and (restarted_kept or 0) >= KEPT / 2 and min(paces) > 0, {
            "kept with open lanes": open_kept, "kept after a restart": restarted_kept, "by peer": paces,
            "trains after it within s": again}


@attack
def starve_restart_gossip(binary):
    """Holds 32 silent connections to each lane port in mid-training, then one peer is restarted. Open lanes must not
    suffer, and the restarted peer must exchange."""
    return in_the_middle(binary, "gossip")


@attack
def starve_restart_allreduce(binary):
    """Holds 32 silent connections to each lane port in mid-training in lockstep, then one peer is restarted. Open lanes
    must not suffer, and all must step on with the restarted peer."""
    return in_the_middle(binary, "allreduce")
