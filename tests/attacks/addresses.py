# Addresses and settings that an insider makes up: nothing that one peer is told may end it.
from swarm import Swarm, attack, wait_until
from wire import Insider

BAD = "x y z"
SOON_S = 4


def survivors(swarm):
    """Waits for peers to end, which those that fail do within a second or two. Returns whether all live, and
    figures."""
    wait_until(lambda: swarm.alive() == 0, SOON_S)
    return swarm.alive() == len(swarm.peers), {"alive": f"{swarm.alive()}/{len(swarm.peers)}", "ended": swarm.ended()}


@attack
def address_hello(binary):
    """Says hello to one peer with an address that has no port. All peers must live on."""
    with Swarm(binary).start_all() as swarm:
        Insider(swarm.insiders[0], swarm[0]).introduce(address="no-port-here")
        return survivors(swarm)


@attack
def address_rumour(binary):
    """Tells one peer an address of the sender that cannot be dialled, which all then hear. All peers must live on, and
    start again with --resume."""
    with Swarm(binary).start_all() as swarm:
        swarm.insider(0, address=BAD)
        held, figures = survivors(swarm)
        for peer in swarm.peers:
            peer.kill()
        for i in range(4):
            swarm.start(i, "--resume", wait_for=1)
        wait_until(lambda: swarm.alive() == 0, SOON_S)
        return held and swarm.alive() == 4, figures | {"alive after --resume": f"{swarm.alive()}/4"}


@attack
def address_third(binary):
    """Tells one peer an address of another, living peer that cannot be dialled. All peers must live on, and the address
    must stay what its owner says."""
    with Swarm(binary).start_all() as swarm:
        victim = swarm[2]
        link = swarm.insider(0)
        link.send("PushPull", members=[victim.key.member(liar=link.key, address=BAD, incarnation=1 << 47)])
        held, figures = survivors(swarm)
        known = [member["address"] for peer in swarm.peers for member in peer.status().get("members", [])
                 if member["name"] == "p2"]
        return held and set(known) == {victim.address}, figures | {"known as": sorted(set(known))}


@attack
def address_file(binary):
    """Writes lines with addresses that cannot be dialled into a peer's file of members. A start with --resume must
    pass over them."""
    with Swarm(binary, peers=2).start_all() as swarm:
        swarm[0].kill()
        with open(swarm[0].folder / "members", "a") as members:
            members.write(f"insider0@{BAD}\ninsider0@no-port-here\ninsider0\n@:0\n\0\n")
        swarm.start(0, "--resume", wait_for=1)
        trains = swarm.trains(SOON_S)
        return swarm.alive() == 2 and trains is not None, {"alive": f"{swarm.alive()}/2", "ended": swarm.ended()}


@attack
def settings_hello(binary):
    """Says hello with other settings to a newcomer before any other peer does. The newcomer must not end because of one
    voice."""
    with Swarm(binary, peers=3).start_all(2) as swarm:
        link = Insider(swarm.insiders[0], swarm[0])
        link.introduce()
        other = [[field, value + "0"] for field, value in link.agreement]
        newcomer = swarm.start(2, wait_for=3)
        Insider(swarm.insiders[0], newcomer).introduce(agreement=other)
        wait_until(lambda: not newcomer.is_alive(), SOON_S)
        return newcomer.is_alive(), {"ended": swarm.ended()}
