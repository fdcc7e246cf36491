# Models that an insider offers: a newcomer may not believe one voice.
import struct
import time

from lane import StateServer
from swarm import PARAMETERS, Failed, Swarm, attack, wait_until
from wire import Insider

TRUSTED = "[network]\ntrusted = true\n"
CLAIMED = 2**60


def table_of(link):
    """The entries in a peer's table of members, with the signatures of those that they describe."""
    link.send("PushPull", reply=True, members=[link.key.member()])
    return (link.receive("PushPull", seconds=3) or {"members": []})["members"]


def layout_of(link):
    """The hash of the model's layout, from the table of a peer."""
    hashes = [member["layout_hash"] for member in table_of(link) if member["layout_hash"]]
    if not hashes:
        raise Failed("no layout in the table of members")
    return hashes[0]


def progress(step):
    return {"step": step, "steps_per_second": 1000.0, "phase": 1}


def served(binary, value, step):
    """A newcomer meets three honest peers and an insider that serves it a model of equal values."""
    with Swarm(binary, settings=TRUSTED, options=("--lane", "plain")).start_all(3) as swarm:
        first = swarm.insider(0)
        layout = layout_of(first)
        claim = step or swarm[0].step() + 10_000
        newcomer = swarm.start(3, wait_for=1)
        link = Insider(swarm.insiders[0], newcomer)
        if not link.introduce(agreement=first.agreement):
            raise Failed("the newcomer did not answer a hello")
        link.join(incarnation=2, layout_hash=layout, progress=progress(claim))
        server = StateServer(struct.pack("<f", value) * PARAMETERS)
        end, asked = time.monotonic() + 8, False
        while time.monotonic() < end and not asked:
            frame = link.receive("Ping", "StateRequest", seconds=0.2)
            if frame and frame["message"] == "Ping":
                link.send("Ack", sequence=frame["sequence"], about=link.key.id, progress=progress(claim))
            elif frame:
                asked = True
                version = {"step": claim, "samples": claim, "lineage": 1}
                server.answer(link, frame, version, PARAMETERS)
        wait_until(lambda: newcomer.events("model_fetched") and newcomer.step(), 5)
        refused = [event.get("name") for event in newcomer.events("model_refused")]
        fetched = [event.get("name") for event in newcomer.events("model_fetched") if event.get("name") not in refused]
        status = newcomer.status()
        held = "insider0" not in fetched and newcomer.is_alive() and status.get("step", CLAIMED) < CLAIMED
        return held, {"asked the insider": asked, "took the model of": fetched, "step": status.get("step"),
                      "phase": status.get("phase"), "alive": f"{swarm.alive()}/4"}


@attack
def adopt_huge(binary):
    """Claims step 2^60 and serves a newcomer a model of values 2^100. The newcomer must not take it, nor the step."""
    return served(binary, 2.0**100, CLAIMED)


@attack
def adopt_plausible(binary):
    """Claims to be a little ahead and serves a newcomer a foreign model of ordinary length. The newcomer must not take
    it from one voice."""
    return served(binary, 0.05, 0)


@attack
def adopt_unserved(binary):
    """Claims step 2^60 and never sends its model. A newcomer must train within 10 s, and running peers go on."""
    with Swarm(binary).start_all(3) as swarm:
        links = [swarm.insider(i) for i in range(3)]
        layout = layout_of(links[0])
        for link in links:
            link.join(incarnation=2, layout_hash=layout, progress=progress(CLAIMED))
        began = time.monotonic()
        newcomer = swarm.start(3, wait_for=1)
        wait_until(lambda: newcomer.step() > 0 or not newcomer.is_alive(), 15)
        took = round(time.monotonic() - began, 1)
        trains = swarm.trains(5)
        return swarm.alive() == 4 and trains is not None and took <= 10, {
            "newcomer trains after s": took, "alive": f"{swarm.alive()}/4"}


@attack
def claim_third(binary):
    """Tells one peer that another, honest one is at step 2^61. Peers must believe only that peer about its steps."""
    with Swarm(binary, peers=3).start_all() as swarm:
        link, victim = swarm.insider(0), swarm[1]
        layout = layout_of(link)
        highest, end = 0, time.monotonic() + 3
        lie = victim.key.member(liar=link.key, address=victim.address, incarnation=1 << 47, version=1000,
                                layout_hash=layout, progress=progress(2**61))
        link.send("PushPull", members=[lie])
        while time.monotonic() < end:
            for member in swarm[0].status().get("members", []):
                highest = max(highest, member["step"])
            time.sleep(0.05)
        return highest < CLAIMED and swarm.alive() == 3, {"highest step seen": highest, "alive": f"{swarm.alive()}/3"}
