# Long runs that add up: each slice of a campaign does what fits into its time and returns figures.
"""A campaign takes the path of the binary, seconds, and the figures of earlier slices.

It returns whether its promise held, and figures; those that are numbers add up over slices.
"""
import collections
import concurrent.futures
import contextlib
import errno
import hashlib
import heapq
import itertools
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import threading
import time

from files import checkpoints, go_on, kill_running
from starvation import listeners
from swarm import Swarm, counted, wait_until
from wire import ROOT

MODES = {"gossip": "", "allreduce": "", "mixing": "", "pipeline": "[pipeline]\nstages = 2\n"}
SAVING = "[checkpoint]\nevery_steps = 500\nkeep = 3\n"
PROCESSORS = os.cpu_count() or 1


def shares(seconds, names):
    """The names, each with the end of its share of the time that is left."""
    end = time.monotonic() + seconds
    for i, name in enumerate(names):
        now = time.monotonic()
        yield name, now + max(0, end - now) / (len(names) - i)


def spread_of(times):
    """The median and nearly the longest of some times, in seconds."""
    times = sorted(times)
    return {name: f"{times[len(times) * part // 100]:.2f}" if times else "none"
            for name, part in (("p50 s", 50), ("p99 s", 99))}


class Work:
    """The sampled progress of a swarm: the steps of all peers added up or, where they step together, the largest step
    that any of them has had."""

    def __init__(self, swarm, mode):
        self.swarm, self.together = swarm, mode in ("allreduce", "pipeline")
        self.steps, self.last, self.fastest, self.sampled = 0, {}, None, time.monotonic()

    def sample(self):
        now = time.monotonic()
        passed, self.sampled = now - self.sampled, now
        for peer in self.swarm.peers:
            step = peer.status().get("step") if peer.is_alive() else None
            last, self.last[peer] = self.last.get(peer), step
            if step is not None and self.together:
                self.steps = max(self.steps, step)
            elif step is not None and last is not None and step > last:
                # A peer that takes over the model of another has not made the steps between.
                most = step - last if self.fastest is None else 4 * self.fastest * passed
                self.steps += min(step - last, most)

    def over(self, seconds):
        """Steps a second, for that long."""
        self.sample()
        before, began = self.steps, time.monotonic()
        while time.monotonic() < began + seconds:
            time.sleep(0.2)
            self.sample()
        return (self.steps - before) / (time.monotonic() - began)

    def learn(self, seconds):
        """The undisturbed pace, which later ones are compared with."""
        pace = self.over(seconds)
        self.fastest = pace if self.together else pace / len(self.swarm.peers)
        return pace


def drawn_worlds(binary, seconds, earlier):
    """Drawn worlds by seeds that no slice has had."""
    ends = [int(figures["seeds"].split("-")[1]) for figures in earlier if "seeds" in figures]
    first = max(ends, default=9_999_999) + 1
    batch, failed, lock = 20, [], threading.Lock()
    end, following, done = time.monotonic() + seconds, first, 0

    def one_after_the_other():
        nonlocal following, done
        while time.monotonic() < end:
            with lock:
                seed, following = following, following + batch
            last = seed + batch
            while seed < last:
                run = subprocess.run([binary, "sim", "--swarm", str(last - seed), "--seed", str(seed)],
                                     capture_output=True, text=True)
                with lock:
                    if run.returncode == 0:
                        done += last - seed
                        break
                    found = re.search(r"world of seed (\d+)", run.stdout)
                    if not found:
                        failed.append(f"{seed}: exit code {run.returncode}")
                        break
                    failed.append(int(found[1]))
                    done += int(found[1]) + 1 - seed
                    seed = int(found[1]) + 1

    with concurrent.futures.ThreadPoolExecutor(PROCESSORS) as pool:
        for job in [pool.submit(one_after_the_other) for _ in range(PROCESSORS)]:
            job.result()
    return not failed, {"worlds": done, "seeds": f"{first}-{following - 1}", "failed": failed}


def starting(swarm, i, *options):
    """Starts a peer in a thread, while other things go on. The peer has started when the thread
    ends."""
    thread = threading.Thread(target=swarm.start, args=(i, *options), kwargs={"wait_for": 1})
    thread.start()
    return thread


def ended_alone(swarm, away, threads):
    """Last words of the peers that ended although nothing was done to them."""
    return [ended for ended in swarm.ended() if (i := int(ended.split()[0][1:])) not in away
            and not (i in threads and threads[i].is_alive())]


def killed_in(binary, mode, end, draw):
    """Kills one of eight peers every 5 s and starts it again 2 s later."""
    with Swarm(binary, peers=8, mode=mode, settings=MODES[mode] + SAVING).start_all() as swarm:
        work, threads, unexpected = Work(swarm, mode), {}, []
        undisturbed = work.learn(min(20, (end - time.monotonic()) / 4))
        began = due = window = time.monotonic()
        kills, windows, before, down = 0, [], work.steps, {}
        start = work.steps
        while (now := time.monotonic()) < end or down:
            if now >= due and now < end:
                i, due = draw.randrange(8), due + 5
                swarm[i].kill()
                kills, down[i] = kills + 1, now + 2
            for i in [i for i, until in down.items() if now >= until]:
                del down[i]
                threads[i] = starting(swarm, i, "--resume")
            unexpected += ended_alone(swarm, down, threads)
            work.sample()
            if now - window >= 10:
                windows.append((work.steps - before) / (now - window))
                window, before = now, work.steps
            if unexpected:
                break
            time.sleep(0.2)
        kept = (work.steps - start) / (time.monotonic() - began) / undisturbed
        for thread in threads.values():
            thread.join()
        trains, differ = swarm.trains(30), sum(len(peer.events("models_differ")) for peer in swarm.peers)
        unexpected = unexpected or ended_alone(swarm, down, threads)
        below = sum(pace < 0.25 * undisturbed for pace in windows)
        return not unexpected and trains is not None and not below and not differ, {
            mode: kills, f"{mode} kept": f"{kept:.2f}", f"{mode} 10 s below 25 %": below,
            f"{mode} ended": unexpected, f"{mode} differ": differ}


def kills(binary, seconds, _):
    """Kill -9 of one of eight peers every 5 s in each mode, which is started again after 2 s."""
    held, figures, draw = True, {}, random.Random()
    for mode, end in shares(seconds, list(MODES)):
        sound, more = killed_in(binary, mode, end, draw)
        held, figures = held and sound, figures | more
    return held, figures


def killed_in_saves(binary, end, draw):
    """Kills a peer while a checkpoint is half written, and resumes it beside that file."""
    half_written = lambda: set((peer.folder / "checkpoints").glob("*.tmp")) - left
    with Swarm(binary, peers=1, settings="[checkpoint]\nevery_steps = 100\nkeep = 3\n") as swarm:
        peer, killed, starts, left, wrong = swarm[0], 0, 0, set(), []
        while time.monotonic() < end and not wrong:
            wrong += go_on(swarm)
            starts += 1
            wait_until(half_written, draw.uniform(0.2, 2), pause=0)
            wrong += kill_running(peer)
            killed += bool(half_written())
            left |= half_written()  # Its name has the id of the process, so it does not come again.
        resumed, refused = len(peer.events("resumed")), len(peer.events("checkpoint_refused"))
        return resumed == starts - 1 and not refused and not wrong, {
            "kills": killed, "resumed": f"{resumed}/{starts - 1}", "refused": refused, "resumed wrongly": wrong}


def flip(data, draw):
    """The data with a flipped bit, and which one that is."""
    at, bit, data = draw.randrange(len(data)), draw.randrange(8), bytearray(data)
    data[at] ^= 1 << bit
    return data, f"bit {bit} of byte {at}"


def flipped(binary, end, draw):
    """Flips a bit of a checkpoint's weights, which must then be refused."""
    with Swarm(binary, peers=1, settings=SAVING) as swarm:
        peer = swarm.start(0)
        wait_until(lambda: checkpoints(peer), 20)
        peer.signal(signal.SIGTERM)
        peer.process.wait(timeout=20)
        whole, sound = checkpoints(peer)[-1].read_bytes(), checkpoints(peer)[-1].name
        taken, count, lock = [], 0, threading.Lock()

        def one_after_the_other(number):
            nonlocal count
            folder = swarm.root / f"flips{number}"
            folder.mkdir()
            while time.monotonic() < end:
                with lock:
                    data, which = flip(whole, draw)
                (folder / sound).write_bytes(data)
                code = subprocess.run([binary, "eval", folder / sound], capture_output=True).returncode
                with lock:
                    count += 1
                    if code not in (1, 2):
                        taken.append(f"{which}: exit code {code}")

        with concurrent.futures.ThreadPoolExecutor(PROCESSORS) as pool:
            for job in [pool.submit(one_after_the_other, number) for number in range(PROCESSORS)]:
                job.result()
        unharmed = subprocess.run([binary, "eval", checkpoints(peer)[-1]], capture_output=True).returncode == 0
        return unharmed and not taken, {"flips": count, "taken": taken, "whole one taken": unharmed}


def resumed_beside_flips(binary, end, draw):
    """Flips a bit in any file of the newest checkpoint, and resumes the peer, which must take an older one."""
    with Swarm(binary, peers=1, settings=SAVING) as swarm:
        peer = swarm.start(0)
        wait_until(lambda: len(checkpoints(peer)) >= 3, 20)
        peer.signal(signal.SIGTERM)
        peer.process.wait(timeout=20)
        folder, whole, newest = peer.folder / "checkpoints", swarm.root / "whole", checkpoints(peer)[-1].name
        stem = newest.removesuffix(".safetensors")
        folder.rename(whole)
        count, taken = 0, []
        while time.monotonic() < end:
            shutil.copytree(whole, folder)
            file = draw.choice([file for file in sorted(folder.iterdir()) if file.name.split(".")[0] == stem])
            data, which = flip(file.read_bytes(), draw)
            file.write_bytes(data)
            (peer.folder / "events.jsonl").unlink()
            swarm.start(0, "--resume")
            wait_until(lambda: peer.events("resumed") or not peer.is_alive(), 10)
            resumed, refused = peer.events("resumed"), peer.events("checkpoint_refused")
            peer.kill()
            shutil.rmtree(folder)
            count += 1
            if not refused or not resumed or resumed[0]["step"] >= int(stem.split("-")[1]):
                taken.append(f"{which} of {file.name}")
        return not taken, {"flips resumed": count, "taken in a resume": taken}


def saves(binary, seconds, _):
    """Kills in the middle of a save, and flipped bits in checkpoints."""
    held, figures, draw = True, {}, random.Random()
    for part, end in shares(seconds, [killed_in_saves, flipped, resumed_beside_flips]):
        sound, more = part(binary, end, draw)
        held, figures = held and sound, figures | more
    return held, figures


def churned(binary, mode, end, draw):
    """Eight peers leave, are killed, or lose their folders, and come back; at least five are there."""
    began = time.monotonic()
    with Swarm(binary, peers=8, mode=mode, settings=MODES[mode] + SAVING).start_all() as swarm:
        away, threads, wrong, longest, due, went = {}, {}, [], 0.0, time.monotonic(), 0
        last, differ = {}, collections.Counter()
        while time.monotonic() < end or away:
            now = time.monotonic()
            for i in [i for i, until in away.items() if now >= until]:
                del away[i]
                # The only contact might go before the newcomer has met anybody else, and would come back elsewhere.
                contacts = [peer.address for j, peer in enumerate(swarm.peers)
                            if j != i and j not in away and j not in threads]
                threads[i] = starting(swarm, i, *["--resume"] * swarm[i].folder.exists(), "--join", *contacts)
            threads = {i: thread for i, thread in threads.items() if thread.is_alive()}
            if due <= now < end and len(away) + len(threads) < 3:
                i = draw.choice([i for i in range(8) if i not in away and i not in threads])
                how, went, due = draw.choice(("leave", "kill", "forget")), went + 1, now + draw.uniform(1, 4)
                if how == "leave":
                    swarm[i].signal(signal.SIGTERM)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        swarm[i].process.wait(timeout=10)
                    if swarm[i].exit_code() != 0:
                        wrong.append(f"p{i} told to leave: exit code {swarm[i].exit_code()}")
                swarm[i].kill()
                if how == "forget":
                    differ.update(counted([swarm[i]], "models_differ"))
                    shutil.rmtree(swarm[i].folder)
                away[i], now = now + draw.uniform(1, 15), time.monotonic()
            for i, peer in enumerate(swarm.peers):
                if i in away or i in threads:
                    last.pop(i, None)
                    continue
                step = peer.status().get("step")
                if i not in last or step != last[i][0]:
                    last[i] = (step, now)
                longest = max(longest, now - last[i][1])
            wrong += ended_alone(swarm, away, threads)
            if wrong:
                break
            time.sleep(0.2)
        for thread in threads.values():
            thread.join()
        trains = swarm.trains(30)
        wrong = wrong or ended_alone(swarm, away, threads)
        differ.update(counted(swarm.peers, "models_differ"))
        return not wrong and trains is not None and longest <= 10 and not differ, {
            "went": went, "minutes": round((time.monotonic() - began) / 60, 1),
            f"{mode} standstill s": f"{longest:.1f}", f"{mode} wrong": wrong, f"{mode} differ": dict(differ)}


def churn(binary, seconds, _):
    """Peers come and go, in each mode."""
    held, figures, draw = True, {}, random.Random()
    for mode, end in shares(seconds, list(MODES)):
        sound, more = churned(binary, mode, end, draw)
        for name in ("went", "minutes"):
            more[name] = round(more[name] + figures.get(name, 0), 1)
        held, figures = held and sound, figures | more
    return held, figures


def spin():
    while True:
        pass


class Tail:
    """The events that a peer has logged since the last look, or since now."""

    def __init__(self, peer, since_now=False):
        self.file = open(peer.folder / "events.jsonl", encoding="utf-8", errors="replace")
        self.rest = ""
        if since_now:
            self.file.seek(0, os.SEEK_END)

    def read(self):
        *lines, self.rest = (self.rest + self.file.read()).split("\n")
        return [json.loads(line) for line in lines if line]


def detection(binary, seconds, _):
    """Kill -9 of one of 32 peers that wait to begin, beside four busy processes, until all others call it dead."""
    began, draw, times, false, missed, kills_done = time.monotonic(), random.Random(), [], [], 0, 0
    busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(4)]
    with Swarm(binary, peers=32, run="wait_max_s = 86400.0") as swarm:
        for i in range(32):
            swarm.start(i, wait_for=33)
        know = lambda: all(len(peer.status().get("members", [])) >= 32 for peer in swarm.peers)
        assert wait_until(know, 60), "32 peers do not find each other"
        for process in busy:
            process.start()
        try:
            tails = [Tail(peer) for peer in swarm.peers]
            while time.monotonic() < began + seconds or not kills_done:
                victim = draw.randrange(32)
                identity = swarm[victim].status()["self"]["id"]
                swarm[victim].kill()
                killed, waiting = time.monotonic(), set(range(32)) - {victim}
                while waiting and time.monotonic() < killed + 60:
                    for i in range(32):
                        for event in tails[i].read() if i != victim else []:
                            if event["event"] != "member_dead":
                                continue
                            if event["peer"] != identity:
                                false.append(event["name"])
                            elif i in waiting:
                                waiting.remove(i)
                                times.append(time.monotonic() - killed)
                    time.sleep(0.05)
                kills_done, missed = kills_done + 1, missed + len(waiting)
                # The events of its earlier processes do not count.
                tails[victim] = Tail(swarm[victim], since_now=True)
                swarm.start(victim, wait_for=33)
                wait_until(know, 30)
        finally:
            for process in busy:
                process.kill()
        exits = swarm.ended()
        late = sum(took > 15 for took in times)
        return not false and not missed and not exits and late * 100 <= len(times), {
            "kills": kills_done, "minutes": round((time.monotonic() - began) / 60, 1), **spread_of(times),
            "later than 15 s": late, "false deaths": false, "not seen": missed, "exits": exits}


RATE, IDLE = 1000, 5000
HELD_S, SETTLE_S, FLOOD_S = 2, 2, 4


def attack_ports(targets, orders, told):
    """Opens RATE connections each second to the target that was ordered last, and holds each for up to HELD_S. It also
    holds IDLE idle connections to each target. Peers close these, so it replaces as many in each minute. With each new
    order it reports how many connections a second it has opened since the previous one."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    is_opened = {0, errno.EINPROGRESS}

    def opened(target, number):
        link = socket.socket()
        link.setblocking(False)
        return link, link.connect_ex(targets[target][number % len(targets[target])]) in is_opened

    idle = collections.deque(opened(target, i)[0] for target in targets for i in range(IDLE))
    told.send("begun")
    numbers, held, target = itertools.count(), [], orders.recv()
    starter = os.getppid()
    while target and os.getppid() == starter:
        began, tried, made = time.monotonic(), 0, 0
        while not orders.poll() and os.getppid() == starter:
            now = time.monotonic()
            while tried < (now - began) * RATE:
                number, tried = next(numbers), tried + 1
                link, is_open = opened(target, number)
                made += is_open
                heapq.heappush(held, (now + random.uniform(0, HELD_S), number, link))
                if number % (60 * RATE // IDLE) == 0:
                    idle.append(opened(target, number)[0])
                    idle.popleft().close()
            while held and held[0][0] < now:
                heapq.heappop(held)[2].close()
            time.sleep(0.005)
        told.send(made / (time.monotonic() - began))
        target = orders.recv()


@contextlib.contextmanager
def attacker_of(targets):
    """Yields a function that turns the flood to a target and returns the rate of connections since its last call."""
    (heard, orders), (said, told) = (multiprocessing.Pipe(duplex=False) for _ in range(2))
    process = multiprocessing.Process(target=attack_ports, args=(targets, heard, told), daemon=True)
    process.start()
    said.recv()
    aims = []

    def aim_at(target):
        orders.send(target)
        aims.append(target)
        return said.recv() if len(aims) > 1 else RATE

    try:
        yield aim_at
    finally:
        process.kill()
        process.join()


def flood(binary, seconds, _):
    """1,000 connections a second beside 5,000 idle ones at the ports of four peers, and in turn at ports that only
    accept and close. The speed of a machine changes by more than what a flood costs, so only windows of a few seconds
    that follow each other are compared, and every second pair begins with the harmless ports."""
    held, figures = True, {"flood s": 0}
    for mode, end in shares(seconds, ["gossip", "allreduce"]):
        with (listeners(8) as free, Swarm(binary, mode=mode, options=("--lane", "tls")) as swarm):
            swarm.start_all()
            work, kept, rates = Work(swarm, mode), [], []
            own = [at() for peer in swarm.peers for at in (peer.port, peer.lanes)]
            with attacker_of({"harmless": free, "own": own}) as aim_at:
                while not kept or time.monotonic() < end:
                    paces = {}
                    for target in ("own", "harmless") if len(kept) % 2 else ("harmless", "own"):
                        rates.append(aim_at(target))
                        time.sleep(SETTLE_S)  # The last target's connections end only now.
                        paces[target] = work.over(FLOOD_S)
                    kept.append(paces["own"] / max(paces["harmless"], 1e-9))
            low, median, high = statistics.quantiles(kept, n=4, method="inclusive") if len(kept) > 1 else 3 * kept
            alive = swarm.alive()
            held = held and median >= 0.95 and alive == 4 and min(rates) >= 0.9 * RATE
            figures |= {f"{mode} kept": f"{median:.2f} ({low:.2f} to {high:.2f}, {len(kept)} pairs)",
                        f"{mode} connections/s": round(min(rates)), f"{mode} alive": alive,
                        "flood s": figures["flood s"] + (SETTLE_S + FLOOD_S) * len(kept)}
    return held, figures


def join(binary, seconds, _):
    """A 16th peer joins 15 that train: from its start until it trains and all others know it."""
    end, times, lost = time.monotonic() + seconds, [], 0
    with Swarm(binary, peers=16).start_all(15) as swarm:
        newcomer = swarm[15]
        while time.monotonic() < end or not (times or lost):
            began = time.monotonic()
            swarm.start(15, wait_for=1)
            identity = newcomer.status().get("self", {}).get("id")
            known = lambda: newcomer.status().get("phase") == "training" and all(
                any(member["id"] == identity and member["state"] == "alive"
                    for member in peer.status().get("members", [])) for peer in swarm.peers)
            if wait_until(known, began + 20 - time.monotonic()):
                times.append(time.monotonic() - began)
            else:
                lost += 1
            newcomer.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                newcomer.process.wait(timeout=10)
            newcomer.kill()
            shutil.rmtree(newcomer.folder)
        return not lost and swarm.alive() == 15, {"joins": len(times), "not within 20 s": lost, **spread_of(times)}


def sanitizers(_, seconds, __):
    """All tests in the builds with sanitizers, as many as fit; later slices go on with the others."""
    end, held, figures = time.monotonic() + seconds, True, {}
    for preset in ("asan", "tsan"):
        build = subprocess.run(["scripts/build", preset], cwd=ROOT, capture_output=True, text=True)
        if build.returncode:
            return False, figures | {f"{preset} build": build.stdout[-300:]}
    for preset in ("asan", "tsan"):
        folder = ROOT / "build" / preset
        listed = json.loads(subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"],
                                           capture_output=True, text=True, check=True).stdout)["tests"]
        passed_file = folder / "campaign_passed.json"
        known = json.loads(passed_file.read_text()) if passed_file.exists() else {}
        state = product_state()
        passed = set(known.get(state, []))
        left = [i for i, test in enumerate(listed, 1) if test["name"] not in passed]
        tried = failed = 0
        while left and time.monotonic() < end:
            batch, left = left[:20], left[20:]
            run = subprocess.run(["ctest", "--test-dir", folder, "--parallel", str(PROCESSORS),
                                  "-I", "0,0,0," + ",".join(map(str, batch))], capture_output=True, text=True)
            names = {listed[i - 1]["name"] for i in batch}
            fallen = set(re.findall(r"^\s*\d+ - (.*) \([\w ]+\)$", run.stdout.split("tests FAILED")[-1], re.MULTILINE))
            fallen = fallen & names or names if run.returncode else set()
            passed |= names - fallen
            tried, failed = tried + len(batch), failed + len(fallen)
            passed_file.write_text(json.dumps({state: sorted(passed)}))
        held = held and not failed
        figures |= {preset: tried - failed, f"{preset} failed": failed, f"{preset} tests": len(listed)}
    return held, figures


# Product code. Slices add up as long as nothing in it has changed between their commits.
PRODUCT = ("base", "consensus", "train", "net", "peer", "sim", "cli", "CMakeLists.txt", "CMakePresets.json")


def product_state(commit="HEAD"):
    """One word for the product's code in a commit; empty if there is no such commit here."""
    listed = subprocess.run(["git", "ls-tree", "-r", commit, "--", *PRODUCT], cwd=ROOT, capture_output=True,
                            text=True).stdout
    if not listed:
        return ""
    code = "\n".join(line for line in listed.splitlines() if not line.endswith(".md"))
    return hashlib.sha256(code.encode()).hexdigest()[:16]


# Each campaign, with the totals of its figures that are wanted: numbers, or figures of its last slice.
CAMPAIGNS = {"swarm": (drawn_worlds, {"worlds": 40000}),
             "kills": (kills, {mode: 250 for mode in MODES}),
             "saves": (saves, {"kills": 300, "flips": 10000, "flips resumed": 100}),
             "churn": (churn, {"minutes": 120}),
             "detection": (detection, {"minutes": 60}),
             "flood": (flood, {"flood s": 600}),
             "join": (join, {"joins": 100}),
             "sanitizers": (sanitizers, {preset: f"{preset} tests" for preset in ("asan", "tsan")})}
