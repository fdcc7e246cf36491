#!/usr/bin/python3
# A process that holds silent connections, and one that closes all it accepts, to tell their costs apart.
"""silence.py hold EACH: holds EACH silent connections to every address that is added on standard input ("+HOST PORT"),
replaces those that are closed, and lets go of one that is taken back ("-HOST PORT"). It opens at most as many a second
as it was told last ("=RATE"; at first, and with 0, as many as it can). It prints "held HOST PORT" when
the first 32 of an address are open for the first time, and, when it is asked ("?") and at the end, how many it opened.

silence.py accept COUNT: listens on COUNT ports, which it prints, and closes each connection as it comes.
"""
import collections
import os
import resource
import select
import socket
import sys
import time

TAKEN = 32  # An address counts as held from this number of connections on.
AT_ONCE = 64  # Opened to one address before the others have their turn.
SAVED_S = 0.1  # A process that was held up makes up for this time at most.


def hold(each):
    poll, links, wanted, full, opened, told = select.epoll(), {}, collections.Counter(), set(), 0, b""
    held, pending, addresses, rate, may, seen = collections.Counter(), set(), [], 0.0, 0.0, time.monotonic()
    poll.register(sys.stdin, select.EPOLLIN)

    def drop(number):
        link, address = links.pop(number)
        pending.discard(number)
        held[address] -= 1
        link.close()

    def obey(line):
        nonlocal rate
        if line[0] == "?":
            print(opened, flush=True)
            return
        if line[0] == "=":
            rate = float(line[1:])
            return
        address = line[1:].split()[0], int(line.split()[1])
        if line[0] == "+":
            addresses.append(address)
        else:
            addresses.remove(address)
            for number in [number for number, (_, where) in links.items() if where == address]:
                drop(number)

    while True:
        now = time.monotonic()
        may, seen = min(may + rate * (now - seen), max(1, rate * SAVED_S)), now
        for address in addresses:
            count = min(AT_ONCE, each - held[address], int(may) if rate else AT_ONCE)
            may -= count if rate else 0
            for _ in range(count):
                link = socket.socket()
                link.setblocking(False)
                link.connect_ex(address)
                number = link.fileno()
                links[number] = link, address
                pending.add(number)
                poll.register(link, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP)
                held[address] += 1
                opened += 1
        is_short = any(held[address] < each for address in addresses)
        for number, events in poll.poll(0 if is_short and not rate else 0.005 if is_short else 0.05):
            if number == sys.stdin.fileno():
                data = os.read(number, 4096)
                if not data:
                    print(opened, flush=True)
                    return
                *lines, told = (told + data).split(b"\n")
                for line in lines:
                    obey(line.decode())
                continue
            if number not in links:
                continue
            if events & (select.EPOLLIN | select.EPOLLERR | select.EPOLLHUP | select.EPOLLRDHUP):
                drop(number)
            elif number in pending:
                pending.discard(number)
                poll.modify(number, select.EPOLLIN | select.EPOLLRDHUP)
                address = links[number][1]
                wanted[address] += 1
                if wanted[address] == min(each, TAKEN) and address not in full:
                    full.add(address)
                    print("held", *address, flush=True)


def accept(count):
    listeners, poll = {}, select.epoll()
    for _ in range(count):
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(4096)
        listener.setblocking(False)
        listeners[listener.fileno()] = listener
        poll.register(listener, select.EPOLLIN)
        print(listener.getsockname()[1], flush=True)
    poll.register(sys.stdin, select.EPOLLIN)
    while True:
        for number, _ in poll.poll():
            if number == sys.stdin.fileno():
                return
            for _ in range(AT_ONCE):
                try:
                    listeners[number].accept()[0].close()
                except BlockingIOError:
                    break


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    {"hold": hold, "accept": accept}[sys.argv[1]](int(sys.argv[2]))
