# Ballots, generations and settings revisions that an insider makes up, against peers in lockstep and in mixing.
import subprocess
import time

from swarm import Swarm, attack, ratio, wait_until
from wire import MOST

HIGH = 10**5  # The number of a ballot above those of honest peers.
BALLOT_MOST, REVISION_MOST = 2**62, 2**48  # The largest numbers that a peer reads.
WATCHED_S = 4


class Proposer:
    """An insider with a link to every peer of a swarm, which makes ballots by hand."""

    def __init__(self, swarm):
        self.swarm, self.key, self.id = swarm, swarm.insiders[0], swarm.insiders[0].id
        self.links = [swarm.insider(i) for i in range(len(swarm.peers))]
        self.ids = [peer.key.id for peer in swarm.peers]

    def tell(self, message, **fields):
        for link in self.links:
            link.send(message, **fields)

    def propose(self, number=HIGH):
        """Proposes a generation to all. Returns, for each peer, the newest version that it promised to start from."""
        ballot = {"number": number, "proposer": self.id}
        self.tell("Propose", ballot=ballot)
        promises = [link.receive("Promise", seconds=1) for link in self.links]
        return ballot, [promise and promise["answer"]["version"] for promise in promises]

    def install(self, **fields):
        """Has all promise a new generation, then installs one that differs from a sound one in these fields. Returns
        how many of them promised."""
        ballot, versions = self.propose()
        generation = self.generation(ballot, versions) | fields
        self.tell("Install", **self.key.install(**generation))
        return sum(version is not None for version in versions)

    def install_own_state(self):
        """Installs a sound generation that goes on from a state which only the insider has, soon after that of the
        others. Returns its version."""
        ballot, versions = self.propose()
        sound = self.generation(ballot, versions)
        newest = sound["version"] or {"step": 0, "samples": 0}
        order = self.ids + [self.id]
        version = {"step": newest["step"] + 1000, "samples": newest["samples"] + 1000 * 32 * len(order), "lineage": 7}
        self.tell("Install", **self.key.install(**sound | {
            "order": order, "sources": [self.id] * len(order), "shares": [32] * len(order), "version": version}))
        return version

    def generation(self, ballot, versions):
        """A sound generation that continues from the newest of these versions."""
        newest = max((version for version in versions if version), key=lambda v: v["samples"], default=None)
        return {"id": ballot, "order": self.ids, "sources": self.ids, "shares": [32] * len(self.ids), "version": newest}


def lockstep(binary):
    return Swarm(binary, mode="allreduce").start_all()


def stand(swarm):
    """Whether all peers live, and train from 2 to 10 s after the attack while the attacker is still
    there."""
    began = time.monotonic()
    wait_until(lambda: swarm.alive() == 0, 2)
    trains = swarm.trains(8) is not None and round(time.monotonic() - began, 1)
    alive = swarm.alive()
    return alive == len(swarm.peers) and trains, {
        "alive": f"{alive}/{len(swarm.peers)}", "all step after s": trains, "ended": swarm.ended()[:2]}


def installed(binary, mode="allreduce", **fields):
    with Swarm(binary, mode=mode).start_all() as swarm:
        proposer = Proposer(swarm)
        made = fields.pop("make", lambda _: {})(proposer)
        promised = proposer.install(**fields, **made)
        held, figures = stand(swarm)
        return held, {"promised": f"{promised}/4"} | figures


@attack
def shares_largest(binary):
    """Installs a generation in which every peer has a share of 2^32 - 1 samples. All peers must live and train on."""
    return installed(binary, shares=[2**32 - 1] * 4)


@attack
def shares_zero(binary):
    """Installs a generation in which no peer has a share of the samples. All peers must live and train on."""
    return installed(binary, shares=[0] * 4)


@attack
def order_repeated(binary):
    """Installs a generation that names one peer four times. All peers must live and train on."""
    return installed(binary, make=lambda proposer: {"order": proposer.ids[:1] * 4, "sources": proposer.ids[:1] * 4})


@attack
def order_unknown(binary):
    """Installs a generation of a thousand peers that nobody knows. All peers must live and train on."""
    def make(proposer):
        order = proposer.ids[:1] + [MOST - i for i in range(1000)]
        return {"order": order, "sources": order, "shares": [32] * 1001}
    return installed(binary, make=make)


@attack
def algorithm_unknown(binary):
    """Installs a generation with an all-reduce algorithm that does not exist. All peers must live and train on."""
    return installed(binary, algorithm=255)


@attack
def revision_nonsense(binary):
    """Installs settings that no peer understands. All peers must live and train on, and not follow them."""
    return installed(binary, "mixing", revision={"number": 1, "settings": 'algorithm = "nonsense"\n'})


@attack
def revision_largest(binary):
    """Installs sound settings with the largest number that a peer reads. All peers must live, and an operator must
    still be able to switch."""
    with Swarm(binary, mode="mixing").start_all() as swarm:
        Proposer(swarm).install(revision={"number": REVISION_MOST, "settings": "mixing.period_steps = 500\n"})
        held, figures = stand(swarm)
        told = subprocess.run([binary, "switch", swarm[0].folder, "choco"], capture_output=True, text=True)
        switched = lambda: sum("choco" in event["detail"] for peer in swarm.peers
                               for event in peer.events("algorithm_switched"))
        wait_until(lambda: switched() == 4, 5)
        return held and switched() == 4, figures | {
            "switched afterwards": f"{switched()}/4", "the command said": told.stdout.strip()[:160] + told.stderr[:160]}


@attack
def source_stolen(binary):
    """Installs a generation that goes on from a state which only the sender has, and never sends it. All peers must
    train again within 10 s, while the sender is still there."""
    with lockstep(binary) as swarm:
        Proposer(swarm).install_own_state()
        stands = swarm.pace(WATCHED_S)
        held, figures = stand(swarm)
        return held, {"steps/s in the first 4 s": stands} | figures


@attack
def decisions_two(binary):
    """Installs two generations of one ballot, each at half of the peers. All peers must exclude the sender and train
    again within 10 s."""
    with lockstep(binary) as swarm:
        proposer = Proposer(swarm)
        ballot, versions = proposer.propose()
        one = proposer.generation(ballot, versions)
        other = one | {"order": proposer.ids[::-1], "sources": proposer.ids[::-1]}
        for i, link in enumerate(proposer.links):
            link.send("Install", **proposer.key.install(**(other if i % 2 else one)))
        proved = lambda: sum(bool(peer.events("equivocation_proved")) for peer in swarm.peers)
        wait_until(lambda: proved() == 4, 2)
        held, figures = stand(swarm)
        return held and proved() == 4, {"excluded by": f"{proved()}/4"} | figures


@attack
def ballots_often(binary):
    """Proposes a generation every 0.1 s for 20 s and never finishes one. Peers must keep 80 % of their steps."""
    with lockstep(binary) as swarm:
        before, proposer = sum(swarm.pace(3)), Proposer(swarm)
        steps, began, proposals = sum(peer.step() for peer in swarm.peers), time.monotonic(), 0
        while time.monotonic() - began < 20:
            proposals += 1
            proposer.tell("Propose", ballot={"number": HIGH + 1000 * proposals, "proposer": proposer.id})
            time.sleep(0.1)
        during = (sum(peer.step() for peer in swarm.peers) - steps) / (time.monotonic() - began)
        for link in proposer.links:
            link.close()
        wait_until(lambda: swarm.alive() == 0, 1)
        after = sum(swarm.pace(3))
        kept = ratio(during, (before + after) / 2)
        return swarm.alive() == 4 and kept and kept >= 0.8, {
            "proposals": proposals, "kept": kept, "steps/s": [round(x / 4) for x in (before, during, after)]}


def counted_out(binary, message):
    """Sends a ballot with the largest number to all, after which ballots must still rise: one peer is restarted."""
    with lockstep(binary) as swarm:
        proposer = Proposer(swarm)
        proposer.tell(message, ballot={"number": BALLOT_MOST, "proposer": proposer.id})
        trains = swarm.trains(10)
        swarm[3].kill()
        swarm.start(3, "--resume", wait_for=1)
        again = swarm.trains(15)
        ballots = [event["ballot"] for event in swarm[0].events("generation_began") if "ballot" in event]
        rise = all(a <= b for a, b in zip(ballots, ballots[1:]))
        return trains is not None and again is not None and rise and swarm.alive() == 4, {
            "steps again within s": trains, "after a restart within s": again, "ballots rise": rise,
            "alive": f"{swarm.alive()}/4", "ended": swarm.ended()[:2]}


@attack
def ballot_largest(binary):
    """Proposes one generation with the largest number that a peer reads, and falls silent. Peers must train again within 10 s,
    also after the restart of one, and ballots must not go backwards."""
    return counted_out(binary, "Propose")


@attack
def ballot_preempted(binary):
    """Claims to have answered a ballot with the largest number that a peer reads. Peers must train again within 10 s,
    also after the restart of one, and ballots must not go backwards."""
    return counted_out(binary, "Preempted")
