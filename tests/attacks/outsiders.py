# Connections to both ports by somebody without a key: nothing gets in, and nobody else notices.
import os
import socket
import ssl
import statistics
import threading
import time

import zmq

from swarm import Peer, Swarm, attack, ratio, wait_until
from wire import Insider

WINDOW_S = 2
PAIRS = 5
KEPT = 0.6  # Of the attacked peer's pace over that of one left alone: the median of all pairs. Runs swing by a fifth.
MIB, DESCRIPTORS = 32, 8  # It may hold this much more afterwards.
GREETING = b"\xff" + bytes(8) + b"\x7f\3\0" + b"CURVE".ljust(20, b"\0") + bytes(32)
TLS_HELLO = b"\x16\3\1\2\0\1\0\1\xfc\3\3"  # The beginning of a handshake that says to be longer.


def dial(address):
    link = socket.socket()
    link.settimeout(0.3)
    link.connect(address)
    return link


class Knocker:
    """Repeats one kind of connection until it is told to stop, in a thread of its own. It begins at rest."""

    def __init__(self, address, knock, most=2000):
        self.address, self.knock, self.most = address, knock, most
        self.knocks, self.entered, self.held = 0, 0, []
        self.over, self.busy = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over.is_set() and self.knocks < 100_000:
            if not self.busy.is_set():
                self.let_go()
                self.busy.wait(0.1)
                continue
            try:
                self.entered += bool(self.knock(self))
                self.knocks += 1
            except OSError:
                time.sleep(0.001)
            while len(self.held) > self.most:
                self.held.pop(0).close()

    def let_go(self):
        while self.held:
            self.held.pop().close()

    def end(self):
        self.over.set()
        self.thread.join()
        self.let_go()


def knocked(binary, knock, at=Peer.port, most=2000, tells=False):
    """Knocks at one port of p0 while it trains. Returns what that costs p0, compared with p1, which is left alone, and
    whether it was let in, if a knock tells that."""
    with Swarm(binary, options=("--lane", "tls")).start_all() as swarm:
        peer = swarm[0]
        compare = lambda: (lambda p: p[0] / max(p[1], 1))(swarm.pace(WINDOW_S))
        before, ratios = peer.usage(), []
        knocker = Knocker(at(peer), knock, most)
        for _ in range(PAIRS):
            quiet = compare()
            knocker.busy.set()
            ratios.append(compare() / max(quiet, 0.01))
            attacked = peer.usage()
            knocker.busy.clear()
        knocker.end()
        wait_until(lambda: peer.usage()["fds"] <= before["fds"] + DESCRIPTORS, 5)
        after = peer.usage()
        members = len(peer.status().get("members", []))
        kept = round(statistics.median(ratios), 2)
        held = (kept >= KEPT and not knocker.entered and members == 4 and swarm.alive() == 4
                and after["mib"] - before["mib"] <= MIB and after["fds"] <= before["fds"] + DESCRIPTORS)
        return held, {"knocks": knocker.knocks, **({"let in": knocker.entered} if tells else {}), "pace kept": kept,
                      "MiB": [before["mib"], attacked["mib"], after["mib"]],
                      "fds": [before["fds"], attacked["fds"], after["fds"]], "alive": f"{swarm.alive()}/4"}


def heard(link):
    """All that the other side sends before it falls silent or hangs up."""
    data = b""
    try:
        while len(data) < 4096 and (more := link.recv(4096)):
            data += more
    except OSError:
        pass
    return data


def says(*texts, answer=None):
    """A connection that sends texts and closes. It was let in if the answer has these bytes."""
    def knock(knocker):
        with dial(knocker.address) as link:
            for text in texts:
                link.sendall(text() if callable(text) else text)
            return answer is not None and answer in heard(link)
    return knock


def holds(knocker):
    knocker.held.append(dial(knocker.address))


def drips(first):
    """500 connections that send a byte each 50 ms."""
    def knock(knocker):
        for _ in range(500 - len(knocker.held)):
            try:
                link = dial(knocker.address)
            except OSError:
                break  # The port takes no more now. Those that are open go on.
            knocker.held.append(link)
            link.sendall(first)
        for link in list(knocker.held):
            try:
                link.send(b"\0")
            except OSError:
                knocker.held.remove(link)
                link.close()
        time.sleep(0.05)
    return knock


def mechanism(name, command, answer):
    """ZMTP with another mechanism than CURVE. A port that accepts it answers the command."""
    greeting = b"\xff" + bytes(8) + b"\x7f\3\0" + name.ljust(20, b"\0") + bytes(32)
    return says(greeting, bytes([4, len(command)]) + command, answer=answer)


@attack
def control_random(binary):
    """Sends random bytes to the control port. The peer keeps its pace, memory and descriptors."""
    return knocked(binary, says(lambda: os.urandom(200)))


@attack
def control_null(binary):
    """Greets the control port with the mechanism NULL. Nothing gets in, and the peer keeps its pace and memory."""
    return knocked(binary, mechanism(b"NULL", b"\x05READY", b"\x05READY"), tells=True)


@attack
def control_plain(binary):
    """Greets the control port with the mechanism PLAIN. Nothing gets in, and the peer keeps its pace and memory."""
    return knocked(binary, mechanism(b"PLAIN", b"\x05HELLO\1a\1b", b"\x07WELCOME"), tells=True)


@attack
def control_greeting(binary):
    """Greets the control port with CURVE and closes. The peer keeps its pace, memory and descriptors."""
    return knocked(binary, says(GREETING))


@attack
def control_idle(binary):
    """Opens 800 connections to the control port and holds them. The peer keeps its pace, and its memory afterwards."""
    return knocked(binary, holds, most=800)


@attack
def control_drip(binary):
    """Sends a byte each 50 ms on 500 connections to the control port. The peer keeps its pace, and its memory
    afterwards."""
    return knocked(binary, drips(b"\xff"), most=500)


@attack
def control_stranger(binary):
    """Speaks CURVE with a key that is not on the list. No hello is answered, and the peer keeps its pace and memory."""
    with Swarm(binary).start_all() as swarm:
        key, context = swarm.make_key("stranger"), zmq.Context(1)
        compare = lambda: (lambda p: p[0] / max(p[1], 1))(swarm.pace(WINDOW_S))
        before, quiet = swarm[0].usage(), compare()
        links, end, answers, knocks = [], time.monotonic() + WINDOW_S, 0, 0
        began = [peer.step() for peer in swarm.peers[:2]]
        while time.monotonic() < end:
            links.append(Insider(key, swarm[0], context))
            links[-1].send("Hello", name="p1", session=1)
            knocks += 1
            time.sleep(0.01)
        during = [peer.step() - step for peer, step in zip(swarm.peers, began)]
        for link in links:
            answers += link.receive("Hello", seconds=0.001) is not None
            link.close()
        context.term()
        kept = ratio(during[0] / max(during[1], 1), (quiet + compare()) / 2) or 0
        after = swarm[0].usage()
        return not answers and kept >= KEPT and after["mib"] - before["mib"] <= MIB and swarm.alive() == 4, {
            "knocks": knocks, "let in": answers, "pace kept": kept, "MiB": [before["mib"], after["mib"]]}


@attack
def control_giant(binary):
    """Announces a frame of 2^62 bytes to the control port. The peer keeps its pace and memory."""
    return knocked(binary, says(GREETING, b"\2" + (2**62).to_bytes(8, "big") + bytes(1000)))


@attack
def control_flood(binary):
    """Connects to the control port of a newcomer's contact as fast as it can. The newcomer must train within 5 s."""
    with Swarm(binary).start_all(3) as swarm:
        knockers = [Knocker(swarm[0].port(), holds, 1000) for _ in range(2)]
        for knocker in knockers:
            knocker.busy.set()
        time.sleep(1)
        began = time.monotonic()
        newcomer = swarm.start(3, wait_for=1)
        wait_until(lambda: newcomer.step() and len(newcomer.status().get("members", [])) >= 4, 20)
        took = round(time.monotonic() - began, 1)
        usage = swarm[0].usage()
        for knocker in knockers:
            knocker.end()
        return took <= 5 and swarm.alive() == 4, {
            "newcomer trains after s": took, "connections": sum(knocker.knocks for knocker in knockers),
            "MiB": usage["mib"], "fds": usage["fds"], "alive": f"{swarm.alive()}/4"}


@attack
def lane_random(binary):
    """Sends 200 random bytes to the lane port. The peer keeps its pace, memory and descriptors."""
    return knocked(binary, says(lambda: os.urandom(200)), Peer.lanes)


@attack
def lane_forged(binary):
    """Sends a plain proof of a random token to the lane port. It gets no answer, and the peer keeps its pace."""
    forged = lambda: b"G\1" + bytes(6) + os.urandom(40)
    return knocked(binary, says(forged, answer=b"G"), Peer.lanes, tells=True)


@attack
def lane_tls(binary):
    """Speaks TLS to the lane port without a token. No handshake succeeds, and the peer keeps its pace and memory."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def knock(knocker):
        with dial(knocker.address) as link:
            try:
                return context.wrap_socket(link)
            except ssl.SSLError:
                return None
    return knocked(binary, knock, Peer.lanes, tells=True)


@attack
def lane_idle(binary):
    """Opens 2000 connections to the lane port and holds them. The peer keeps its pace, and its memory afterwards."""
    return knocked(binary, holds, Peer.lanes)


@attack
def lane_drip(binary):
    """Sends half of a TLS hello to the lane port byte by byte. The peer keeps its pace, and its memory afterwards."""
    return knocked(binary, drips(TLS_HELLO), Peer.lanes, most=500)


@attack
def lane_close(binary):
    """Connects to the lane port and closes, as fast as it can. The peer keeps its pace, memory and descriptors."""
    return knocked(binary, says(), Peer.lanes)
