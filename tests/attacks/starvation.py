# Silent connections on lane ports, by somebody without a key: lanes of the swarm must open all the same.
import contextlib
import resource
import signal
import socket
import threading
import time

from swarm import Peer, Swarm, attack, ratio, wait_until

PLACES = 32  # Connections that a lane port keeps while they have not proved themselves.
WINDOW_S = 5
KEPT = 0.8  # Of the pace without the attack. Single runs swing; 95 % is for a campaign to show.


@contextlib.contextmanager
def silence(each):
    """Holds this many silent connections to every address that is added to its list, and replaces those that are
    closed. The list has what was opened as its attribute `opened`."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    over, held = threading.Event(), Held()

    def refill(address, links):
        for link in list(links):
            with contextlib.suppress(BlockingIOError):
                try:
                    gone = link.recv(1) == b""
                except ConnectionError:
                    gone = True
                if gone:
                    links.remove(link)
                    link.close()
        for _ in range(each - len(links)):
            link = socket.socket()
            link.settimeout(0.3)
            try:
                link.connect(address)
            except OSError:
                link.close()
                return
            link.setblocking(False)
            links.append(link)
            held.opened += 1

    def hold():
        while not over.wait(0.02):
            for address in list(held):
                refill(address, held[address])

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield held
    finally:
        over.set()
        thread.join()
        for links in held.values():
            for link in links:
                link.close()


class Held(dict):
    """Connections by address."""

    opened = 0

    def add(self, peer):
        links = self.setdefault(peer.lanes(), [])
        wait_until(lambda: len(links) >= PLACES, 3)


def from_the_start(binary, mode, lane, each):
    """Takes the places of each peer before it can open a lane, and compares its pace with that after the attack."""
    count = Peer.exchanges if mode == "gossip" else Peer.step
    with Swarm(binary, mode=mode, options=("--lane", lane)) as swarm:
        with silence(each) as held:
            began = time.monotonic()
            for i in range(3):
                held.add(swarm.start(i))
            # Training begins with the last peer. The others hear of it once its places are taken, too.
            for peer in swarm.peers[:3]:
                peer.signal(signal.SIGSTOP)
            held.add(swarm.start(3))
            for peer in swarm.peers[:3]:
                peer.signal(signal.SIGCONT)
            wait_until(lambda: all(peer.step() for peer in swarm.peers), 5)
            attacked = sum(swarm.pace(WINDOW_S, count))
            rate = round(held.opened / 4 / (time.monotonic() - began), 1)
        again = swarm.trains(25)
        wait_until(lambda: all(count(peer) for peer in swarm.peers), 10)
        alone = sum(swarm.pace(WINDOW_S, count))
        kept = ratio(attacked, alone)
        what = "exchanges/s" if mode == "gossip" else "steps/s"
        return kept and kept >= KEPT and swarm.alive() == 4, {
            "kept": kept, what: [round(attacked), round(alone)], "connections/s for each peer": rate,
            "trains after it within s": again}


@attack
def starve_gossip(binary):
    """Holds 32 silent connections to each lane port from the start, over TLS. Peers must keep 80 % of their
    exchanges."""
    return from_the_start(binary, "gossip", "tls", PLACES)


@attack
def starve_allreduce(binary):
    """Holds 32 silent connections to each lane port from the start, in lockstep over TLS. Peers must keep 80 % of their
    steps."""
    return from_the_start(binary, "allreduce", "tls", PLACES)


@attack
def starve_unix(binary):
    """Holds 32 silent connections to each lane port from the start, in lockstep over Unix sockets. Peers must keep 80 %
    of their steps."""
    return from_the_start(binary, "allreduce", "auto", PLACES)


@attack
def starve_many(binary):
    """Holds 1000 silent connections to each lane port from the start, in lockstep over TLS. Peers must keep 80 % of
    their steps."""
    return from_the_start(binary, "allreduce", "tls", 1000)


def in_the_middle(binary, mode):
    """Begins once lanes are open, then kills a peer and starts it again."""
    count = Peer.exchanges if mode == "gossip" else Peer.step
    with Swarm(binary, mode=mode, options=("--lane", "tls")).start_all() as swarm:
        wait_until(lambda: all(count(peer) for peer in swarm.peers), 10)
        before = sum(swarm.pace(3, count))
        with silence(PLACES) as held:
            for peer in swarm.peers:
                held.add(peer)
            open_kept = ratio(sum(swarm.pace(3, count)), before)
            gone = swarm[3].lanes()
            swarm[3].kill()
            del held[gone]
            held.add(swarm.start(3, "--resume", wait_for=1))
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
