# What one key on the list can cost a peer: descriptors, memory, disk, pace, and what its neighbours believe.
import multiprocessing
import socket
import statistics
import subprocess
import threading
import time
import types

import zmq

from downloads import layout_of, progress, table_of
from swarm import Swarm, attack, counted, wait_until
from wire import Insider, frame, token

WATCHFUL = "[membership]\nprobe_period_s = 0.3\nprobe_timeout_s = 0.15\nsuspicion_min_s = 1.0\n" \
           "suspicion_max_factor = 2.0\n"
DESCRIPTORS = 100  # The most descriptors that one key may cost.


@attack
def invitations(binary):
    """Sends 3000 invitations to lanes at a listener that never accepts. The peer may hold at most 100 descriptors more,
    and gives them back."""
    with Swarm(binary, peers=2).start_all() as swarm, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        where = listener.getsockname()
        full = [socket.socket() for _ in range(3)]
        for link in full:
            link.setblocking(False)
            link.connect_ex(where)
        link, before = swarm.insider(0), swarm[0].usage()["fds"]
        for i in range(3000):
            link.send("LaneInvite", lane=2**63 - 1 - i, token=token(), address=f"127.0.0.1:{where[1]}")
            if i % 200 == 0:
                time.sleep(0.05)
        wait_until(lambda: swarm[0].usage()["fds"] > before + 2900, 3)
        during = swarm[0].usage()["fds"]
        wait_until(lambda: swarm[0].usage()["fds"] <= before + 2, 5)
        after = swarm[0].usage()["fds"]
        for link in full:
            link.close()
        return during <= before + DESCRIPTORS and after <= before + DESCRIPTORS and swarm.alive() == 2, {
            "fds": [before, during, after], "alive": f"{swarm.alive()}/2"}


@attack
def multipart(binary):
    """Sends two messages of 8000 parts of 65 kB. The peer's memory may grow by at most 64 MiB."""
    with Swarm(binary, peers=2).start_all() as swarm:
        link, before, most = swarm.insider(0), swarm[0].usage()["mib"], 0
        link.socket.setsockopt(zmq.SNDTIMEO, 5000)
        for _ in range(2):
            for part in range(8000):
                try:
                    link.socket.send(bytes(65_000), zmq.SNDMORE if part < 7999 else 0, copy=False)
                except zmq.ZMQError:
                    break
            end = time.monotonic() + 4
            while time.monotonic() < end:
                most = max(most, swarm[0].usage()["mib"])
                time.sleep(0.05)
        return most - before <= 64 and swarm.alive() == 2, {
            "MiB": [before, most, swarm[0].usage()["mib"]], "alive": f"{swarm.alive()}/2"}


@attack
def hellos(binary):
    """Says hello for 5 s with another session and a wrong setting of 4 kB each time. The peer's log may grow by at most
    1 MB more than that of a peer left alone."""
    with Swarm(binary, peers=2).start_all() as swarm:
        link = swarm.insider(0)
        size = lambda peer: (peer.folder / "events.jsonl").stat().st_size
        before, end, said = [size(peer) for peer in swarm.peers], time.monotonic() + 5, 0
        while time.monotonic() < end:
            link.send("Hello", name="insider0", session=said + 10,
                      agreement=[["run.seed", "x" * 4000]] + link.agreement[1:])
            said += 1
            if said % 50 == 0:
                time.sleep(0.01)
        attacked, alone = [size(peer) - was for peer, was in zip(swarm.peers, before)]
        return attacked <= alone + 10**6 and swarm.alive() == 2, {
            "hellos": said, "log grew by MB": [round(attacked / 1e6, 1), round(alone / 1e6, 1)]}


@attack
def links(binary):
    """Opens 900 control links with one key. The peer may hold at most 100 descriptors more for it."""
    with Swarm(binary, peers=2).start_all() as swarm:
        context = zmq.Context(2)
        context.set(zmq.MAX_SOCKETS, 2000)
        before, opened = swarm[0].usage(), []
        for i in range(900):
            opened.append(Insider(swarm.insiders[0], swarm[0], context))
            if i % 50 == 0:
                time.sleep(0.05)
        wait_until(lambda: swarm[0].usage()["fds"] >= before["fds"] + 900, 4)
        during, trains = swarm[0].usage(), swarm.trains(5)
        for link in opened:
            link.close()
        context.term()
        return during["fds"] <= before["fds"] + DESCRIPTORS and trains is not None and swarm.alive() == 2, {
            "fds": [before["fds"], during["fds"]], "MiB": [before["mib"], during["mib"]]}


def swallow(secret, told):
    """Reads and drops all that comes on a link, in a process of its own."""
    socket = zmq.Context().socket(zmq.ROUTER)
    socket.curve_server, socket.curve_secretkey = True, zmq.utils.z85.encode(secret)
    told.send(f"127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}")
    while True:
        socket.recv(copy=False)


@attack
def offers(binary):
    """Sends offers of exchanges that are refused, as fast as one peer takes them. Its pace against that of a peer left
    alone must stay above 80 % of what it is while a process that drops all gets them: both cost processor time here."""
    with Swarm(binary, peers=3).start_all() as swarm:
        processes = multiprocessing.get_context("spawn")
        ours, theirs = processes.Pipe()
        key = swarm.make_key("sink")
        sink = processes.Process(target=swallow, args=(key.curve_secret, theirs), daemon=True)
        sink.start()
        peer = types.SimpleNamespace(key=key, address=ours.recv())
        # Few frames wait in the queues, so that none reach the peer in a window that is not attacked.
        links = swarm.insider(0, queue=5000), Insider(swarm.insiders[0], peer, queue=5000)
        paces = lambda: (lambda p: p[0] / max(p[1], 1))(swarm.pace(2))
        offer = frame("Offer", id={"owner": links[0].key.id, "session": 5}, alpha=0.5, clip_radius=1.0)

        def flooded(link):
            over, sent = threading.Event(), [0]

            def flood():
                while not over.is_set():
                    sent[0] += link.send_bytes(offer)

            thread = threading.Thread(target=flood)
            thread.start()
            pace = paces()
            over.set()
            thread.join()
            return max(pace, 0.01), sent[0]

        pairs = [(flooded(links[1]), flooded(links[0])) for _ in range(7)]
        sink.kill()
        ratios = sorted(during / control for (control, _), (during, _) in pairs)
        kept = round(statistics.median(ratios), 2)
        cut = counted([swarm[0]], "link_quarantined")
        return kept >= 0.8 and swarm.alive() == 3, {
            "offers": [sum(sent for _, (_, sent) in pairs), sum(sent for (_, sent), _ in pairs)], "kept": kept,
            "of": [round(each, 2) for each in (ratios[0], ratios[-1])], "events": cut}


@attack
def names(binary):
    """Changes its name in every rumour, with escape codes and line feeds in it. No escape code may reach the terminal,
    and the file of members must not grow."""
    with Swarm(binary, peers=2).start_all() as swarm:
        link = swarm.insider(0)
        for i in range(400):
            name = f"\x1b[2J\x1b]0;owned\x07\n127.0.0.1:{1000 + i}#{i}"
            link.join(name=name, address="127.0.0.1:9", incarnation=2 + i)
            if i % 20 == 0:
                time.sleep(0.05)
        shown = subprocess.run([binary, "status", swarm[0].folder], capture_output=True).stdout
        file = swarm[0].folder / "members"
        lines = lambda: len(file.read_bytes().splitlines()) if file.exists() else 0
        wait_until(lambda: lines() > 3, 4)
        events = (swarm[0].folder / "events.jsonl").read_bytes().count(b"\x1b")
        return not shown.count(b"\x1b") and not events and lines() <= 3 and swarm.alive() == 2, {
            "escape codes shown": shown.count(b"\x1b"), "in events": events, "lines in members": lines(),
            "alive": f"{swarm.alive()}/2"}


@attack
def suspect(binary):
    """Says for 8 s, in the name of others, that a living peer is suspected. It must never be declared dead."""
    with Swarm(binary, peers=3).start_all() as swarm:
        links, victim = [swarm.insider(i) for i in (0, 2)], swarm[1]
        accusers, end = (swarm[0].key.id, swarm[2].key.id, swarm.insiders[0].id), time.monotonic() + 8
        while time.monotonic() < end:
            # What the victim states of itself cannot be made up, but can be passed on with an accusation.
            stated = next((entry for entry in table_of(links[0]) if entry["id"] == victim.key.id), None)
            for accuser in accusers if stated else ():
                for link in links:
                    link.send("Ping", sequence=1, rumors=[stated | {"state": 1, "accuser": accuser}])
            time.sleep(0.2)
        dead = [event["name"] for i in (0, 2) for event in swarm[i].events("member_dead") if event["name"] == "p1"]
        suspected = sum(event.get("name") == "p1" for i in (0, 2) for event in swarm[i].events("member_suspected"))
        return not dead and swarm.alive() == 3, {"suspected": suspected, "declared dead": len(dead)}


@attack
def undead(binary):
    """Kills two peers, and keeps one of them alive by rumours: with ever higher incarnations, and by what it stated itself
    before. The others must hold it dead within 10 s, and rumours must not raise it again."""
    with Swarm(binary, settings=WATCHFUL, insiders=2).start_all() as swarm:
        links, (victim, other) = [swarm.insider(i) for i in (0, 2)], (swarm[1], swarm[3])
        others = [swarm.insider(i, swarm.insiders[1]) for i in (0, 2)]
        layout = layout_of(links[0])
        stated = next(entry for entry in table_of(others[0]) if entry["id"] == victim.key.id)
        for peer in (victim, other):
            peer.kill()
        incarnation, began, took = 1 << 47, time.monotonic(), {}

        def states(peer):
            return {member["state"] for i in (0, 2) for member in swarm[i].status().get("members", [])
                    if member["id"] == f"{peer.key.id:016x}"}

        def spread():
            nonlocal incarnation
            incarnation += 1
            rumour = victim.key.member(liar=links[0].key, address=victim.address, incarnation=incarnation,
                                       layout_hash=layout, progress=progress(1000))
            for link, other_link in zip(links, others):
                link.send("Ping", sequence=1, rumors=[rumour])
                other_link.send("Ping", sequence=1, rumors=[stated])
            time.sleep(0.1)

        while time.monotonic() - began < 10 and len(took) < 2:
            spread()
            for peer in (victim, other):
                if peer not in took and states(peer) <= {"dead", "left"}:
                    took[peer] = round(time.monotonic() - began, 1)
        later = set()
        for _ in range(10):
            spread()
            later |= states(victim)
        return victim in took and later <= {"dead", "left"} and swarm.alive() == 2, {
            "dead after s": took.get(victim, "never"), "the one without rumours": took.get(other, "never"),
            "later": sorted(later)}
