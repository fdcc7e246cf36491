# Silent connections on lane ports, by somebody without a key: lanes of the swarm must open all the same.
import contextlib
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import time

from swarm import Failed, Peer, Swarm, attack, wait_until

PROGRAM = pathlib.Path(__file__).with_name("silence.py")
WINDOW_S = 2
SETTLE_S = 2  # After a change of addresses: the new ones are taken, and the old ones have closed what they had.
PAIRS = 12
KEPT = 0.95  # Of the pace while the same attacker has others to attack: the median of all pairs. Single ones swing.
LEFT_OUT = 2  # Pairs at either end of the 96 % interval of the median of 12.
UNLIKE = 0.2  # By more than this part the connections a second of both kinds of windows must not differ,
FEW = 10  # unless they differ by fewer than this.
SPARE = 500  # Descriptors of a process that are not connections.


class Silence:
    """Processes that hold this many silent connections to every address that is added, and replace those that are
    closed. One process is enough unless its descriptors are too few for four addresses."""

    def __init__(self, each):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - SPARE
        self.processes = [subprocess.Popen([sys.executable, PROGRAM, "hold", str(each)], stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, text=True, bufsize=1)
                          for _ in range(-(-4 * each // most))]
        self.holders = {}

    def add(self, address, wait=True):
        """Leaves each address to the process that has the fewest."""
        held = list(self.holders.values())
        process = self.holders[address] = min(self.processes, key=held.count)
        process.stdin.write(f"+{address[0]} {address[1]}\n")
        if wait and not process.stdout.readline().startswith("held"):
            raise Failed("no connections to a lane port")

    def remove(self, address):
        self.holders.pop(address).stdin.write(f"-{address[0]} {address[1]}\n")

    def limit(self, rate):
        """Opens at most as many connections a second from now on, or with 0 as many as it can."""
        for process in self.processes:
            process.stdin.write(f"={rate / len(self.processes)}\n")

    def count(self):
        """How many connections were opened so far."""
        opened = 0
        for process in self.processes:
            process.stdin.write("?\n")
            while not (line := process.stdout.readline().strip()).isdigit():
                if not line:
                    raise Failed("a process that holds connections has ended")
            opened += int(line)
        return opened

    def end(self):
        for process in self.processes:
            process.communicate()


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


class Comparison:
    """Paces of a swarm in pairs of windows: while its lane ports are attacked, and while the same attacker has
    listeners to attack that only close what they accept. Both cost processor time of this machine, and as much: the
    attacker opens as many connections a second in both."""

    def __init__(self, swarm, held, others, count):
        self.swarm, self.held, self.others, self.count = swarm, held, others, count
        self.attacked, self.control, self.opened = [], [], [0, 0]

    def window(self, is_attacked):
        before = self.held.count()
        (self.attacked if is_attacked else self.control).append(sum(self.swarm.pace(WINDOW_S, self.count)))
        self.opened[is_attacked] += self.held.count() - before

    def aim(self, there, not_there, limit):
        for address in not_there:
            self.held.remove(address)
        self.held.limit(limit)
        for address in there:
            self.held.add(address, wait=False)
        time.sleep(SETTLE_S)

    def run(self):
        """The attack is under way at the beginning and at the end. A pair's windows change places from one pair to the
        next, so that what else goes on falls on both alike."""
        lanes = [peer.lanes() for peer in self.swarm.peers]
        for _ in range(PAIRS // 2):
            self.window(True)
            self.aim(self.others, lanes, self.even_rate())
            self.window(False)
            self.window(False)
            self.aim(lanes, self.others, 0)
            self.window(True)
        more, fewer = max(self.opened), min(self.opened)
        if more - fewer > max(UNLIKE * more, FEW * WINDOW_S * PAIRS):
            raise Failed(f"the windows have different rates: {self.figures('paces')}")
        return self

    def even_rate(self):
        """The rate at which, after two more control windows, these have had as many connections a second as the others.
        Peers close silent connections in bursts, so it makes up for what was too much or too little before."""
        due = self.opened[True] / len(self.attacked) * (len(self.control) + 2) - self.opened[False]
        return max(1, due / (2 * WINDOW_S))

    def kept(self):
        """The median ratio, and the ends of its interval."""
        ratios = sorted(attacked / max(control, 1) for attacked, control in zip(self.attacked, self.control))
        return [round(ratio, 2) for ratio in (statistics.median(ratios), ratios[LEFT_OUT], ratios[-1 - LEFT_OUT])]

    def figures(self, what):
        seconds = WINDOW_S * PAIRS
        return {f"{what} attacked": round(statistics.median(self.attacked)),
                "control": round(statistics.median(self.control)),
                "connections/s": [round(self.opened[1] / seconds), round(self.opened[0] / seconds)]}


def counted_by(mode):
    return (Peer.exchanges, "exchanges/s") if mode == "gossip" else (Peer.step, "steps/s")


def from_the_start(binary, mode, lane, each):
    """Takes the places of each peer before it can open a lane, and compares its pace then."""
    count, what = counted_by(mode)
    with Swarm(binary, mode=mode, options=("--lane", lane)) as swarm, listeners(4) as others:
        with silence(each) as held:
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
            paces = Comparison(swarm, held, others, count).run()
        again = swarm.trains(25)
        kept, least, most = paces.kept()
        return begins and kept >= KEPT and swarm.alive() == 4, {
            "kept": kept, "interval": [least, most], **paces.figures(what), "trains after it within s": again}


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
    count, what = counted_by(mode)
    with Swarm(binary, mode=mode, options=("--lane", "tls")).start_all() as swarm, listeners(4) as others:
        wait_until(lambda: all(count(peer) for peer in swarm.peers), 10)
        with silence(32) as held:
            for peer in swarm.peers:
                held.add(peer.lanes())
            lanes_open = Comparison(swarm, held, others, count).run()
            held.remove(swarm[3].lanes())
            swarm[3].kill()
            held.add(swarm.start(3, "--resume", wait_for=1).lanes())
            wait_until(lambda: swarm.trains(1), 8)
            each = swarm.pace(WINDOW_S, count)
            restarted = Comparison(swarm, held, others, count).run()
        again = swarm.trains(25)
        kept = lanes_open.kept(), restarted.kept()
        return kept[0][0] >= KEPT and kept[1][0] >= KEPT and min(each) > 0, {
            "kept with open lanes": kept[0][0], "interval": kept[0][1:], "kept after a restart": kept[1][0],
            "interval then": kept[1][1:], "by peer": each, **restarted.figures(what),
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
