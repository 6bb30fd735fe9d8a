#!/usr/bin/env python3
"""Floods of a pool's services, chosen by the seed, several at a time, while jobs of others start and end one after another. A job starts
nearly as soon as without a flood; no job that runs, no node and no stream is lost; placer, broker and gateway take no more memory than
they may.

usage: flood.py BUILD_DIRECTORY [--seconds S] [--jobs N] [--at-once N] [--newcomers N] [--times check|tell] [-o text|json] [--seed N]

It ends with 0 when all was kept, with 1 when something was lost or memory passed its bound, and with 3 when only a job was late (--times
tell: 0).
"""

import collections
import json
import os
import pathlib
import random
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time

from soak import TESSERA, command_line, environment, program, resident_kib, wait_for
import floods
from pool import Pool, PoolServer
from pool_case import say
from product import Keys, children, end_with_test, words_of
from users import ALICE, BOB, CAROL, become, can_be_another

# Of a start: so many times the usual one, and so much more.
TIMES, MORE_S = 2, 0.2
USUAL = 5  # starts of each way of which the median is the usual time
FLOOD_S = (2.0, 6.0)  # how long a flood goes on
PAUSE_S = 0.3  # the longest between two jobs
LOST_S = 60  # a job that has not started by then never does
LOOKS_S = 0.1  # between two looks at memory
# By how much what is resident may grow: what callers may have (SECURITY.md), what comes between two looks, what stays with the allocator.
GROWN_MIB_MAX = {"placer": 250, "broker": 200, "gateway": 140}
LATE = 3
# Who floods: it is theirs alone that may be ended for what they take.
MALLORY, TAKEN_OVER = "name:mallory", "name:taken-over"
FLOODERS = {MALLORY, TAKEN_OVER, f"uid:{ALICE}", f"uid:{BOB}"}
POLICY = f"""[roles]
"name:gpu1" = "server"
"{TAKEN_OVER}" = "server"
"name:boss" = "admin"
"name:alice" = "tenant"
"{MALLORY}" = "tenant"
"uid:{ALICE}" = "tenant"
"uid:{CAROL}" = "tenant"
others = "nobody"
"""


class Field:
    """A placer, a server with broker, node and gateway, and one emulated GPU; all are at tls://, placer and server at sockets too."""

    server_name = "gpu1"

    def __init__(self):
        self.keys = Keys()
        self.place = tempfile.TemporaryDirectory()
        policy = pathlib.Path(self.place.name, "policy.toml")
        policy.write_text(POLICY)
        self.pool = Pool("--listen", "tls://127.0.0.1:0", "--policy", str(policy), *self.keys.options("server", "localhost,127.0.0.1"),
                         servers=0)
        os.chmod(self.pool.directory, 0o755)
        self.local_url = self.pool.url
        self.pool.url = self.placer_url = re.search(r"tls://[^\s,]+", self.pool.placer.ready).group()  # the server's way too
        self.server = PoolServer(self.pool, 1, "--listen", "tls://127.0.0.1:0", "--control", "auto", "--control", "tls://127.0.0.1:0",
                                 "--socket-mode", "666", "--host-id", self.server_name, "--warm-workers", "0",
                                 *self.keys.options("host", f"{self.server_name},127.0.0.1"), devices=1)
        self.pool.servers.append(self.server)
        self.pool.wait_for_servers()
        self.gateway_url, self.control_url = re.findall(r"tls://[^\s,]+", self.server.ready)
        [gpu] = json.loads(self.ask("get", "gpus", "-o", "json"))["gpus"]
        self.gpus, self.model = [gpu["uuid"]], gpu["model"]

    @property
    def local_path(self):
        return self.local_url.removeprefix("unix:")

    def ask(self, *words):
        """The placer, as who started it."""
        return say(*words, "--placer", self.local_url)

    def processes(self):
        """All that are to live as long as this does: whose they are, by pid. Workers and what keeps images are none of these."""
        found = {self.pool.placer.process.pid: "placer", self.server.process.pid: "tesserad"}
        for pid in children(self.server.process.pid):
            name = re.search(r"tessera-(gateway|broker|node)$", (words_of(pid) or [""])[0])
            if name:
                found |= dict.fromkeys([pid, *children(pid)], name.group(1))
        return found

    def parts(self):
        return {"placer": [self.pool.placer.process.pid], "broker": [self.server.broker()],
                "gateway": [pid for pid, name in self.processes().items() if name == "gateway"]}

    def start(self, way, *words, share=0.25, **more):
        """A job of a tenant, by the placer's port and the gateway or by the sockets of this host. It names the model of its GPU: what a
        server that was taken over offers, jobs may be given, and lose."""
        url, keys = (self.placer_url, self.keys.environment("client", "alice")) if way == "tls" else (self.local_url, {})
        gpu = ["--gpu-share", str(share), "--gpu-mem", "256M", "--gpu-model", self.model]
        job = subprocess.Popen([TESSERA, "run", "--placer", url, *gpu, "--", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True, cwd="/", env=environment(HOME="/nonexistent", **keys),
                               preexec_fn=become(CAROL) if way == "local" and can_be_another() else None, **more)
        end_with_test(job)
        return job


class Stream:
    """A command that goes on and tells what happens; all that it says is kept."""

    # What it says when more happened at once than it read; the next thing that it asks for is what is missing.
    GAP = "it goes on with what is missing"

    def __init__(self, name, *words):
        self.name, self.out = name, tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(words, stdout=self.out, stderr=subprocess.STDOUT, text=True, env=environment())
        end_with_test(self.process)

    def words(self):
        self.out.seek(0)
        return self.out.read()

    def gaps(self):
        return self.words().count(self.GAP)

    def end(self):
        """What is wrong with it."""
        ended = self.process.poll()
        self.process.terminate()
        self.process.wait(20)
        problems = [line for line in self.words().splitlines() if line.startswith("tessera: ") and self.GAP not in line]
        return [] if ended is None and not problems else [f"the stream of {self.name} was lost ({ended}): {problems}"]


class Worker:
    """A job that runs all the time, with a session that lives as long as it does, and more that come when it is told so."""

    def __init__(self, field, way):
        script = f'{program("count")} wait <&3 >/dev/null & ' \
                 f'while read line; do {program("load")} --rounds 1 >/dev/null || exit 9; echo done; done; ' \
                 'exec 3<&-; kill -0 $! || exit 8; kill $!; exit 7'
        self.way, self.told, self.done = way, 0, 0
        reader, self.keeps = os.pipe()  # what the long session waits for
        self.errors = tempfile.TemporaryFile("w+")
        self.job = field.start(way, "sh", "-c", f"exec 3<&{reader}; {script}", share=0.1, stderr=self.errors, pass_fds=(reader,))
        os.close(reader)
        self.tell()
        self.read(60)
        assert self.done == 1, self.said()

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def tell(self):
        """That another session is wanted, if it has done all before."""
        self.read()
        if self.told != self.done:
            return
        try:
            self.job.stdin.write("go\n")
            self.job.stdin.flush()
            self.told += 1
        except BrokenPipeError:
            pass  # end() tells

    def read(self, seconds=0.0):
        while self.done < self.told and select.select([self.job.stdout], [], [], seconds)[0]:
            if not self.job.stdout.readline():
                return
            self.done += 1

    def end(self):
        self.read(60)
        missing = self.told - self.done
        self.job.stdin.close()
        code = self.job.wait(60)
        os.close(self.keeps)
        if code == 7 and not missing:
            return []
        return [f"the {self.way} job that runs all the time ended with {code}, {missing} rounds missing: {self.said()}"]


class Memory:
    """What is resident of each part: before, and at most."""

    def __init__(self, field):
        self.field, self.parts, self.looked = field, field.parts(), 0.0
        self.before = self.now()
        self.most = dict(self.before)

    def now(self):
        return {part: sum(map(resident_kib, pids)) / 1024 for part, pids in self.parts.items()}

    def look(self):
        if time.monotonic() < self.looked + LOOKS_S:
            return
        self.looked = time.monotonic()
        try:
            self.most = {part: max(self.most[part], now) for part, now in self.now().items()}
        except FileNotFoundError:
            pass  # one of them has ended, which is told at the end

    def passed(self):
        return [f"the {part} grew from {self.before[part]:.0f} to {most:.0f} MiB" for part, most in self.most.items()
                if most > self.before[part] + GROWN_MIB_MAX[part]]


class Processors:
    """What the machine's processors did from here on, and what each part had of them."""

    def __init__(self, parts):
        self.parts, self.began, self.before = parts, time.monotonic(), self.now(parts)

    @staticmethod
    def now(parts):
        """The machine's ticks by kind, and by part those of each thread (its file in /proc, and its name)."""
        with open("/proc/stat") as file:
            machine = [int(word) for word in file.readline().split()[1:9]]
        threads = {part: {} for part in parts}
        for part, pids in parts.items():
            for stat in (stat for pid in pids for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")):
                try:
                    name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
                except OSError:
                    continue  # it has ended
                words = rest.split()
                threads[part][stat, name] = int(words[11]) + int(words[12])
        return machine, threads

    def words(self):
        (machine_before, threads_before), (machine, threads) = self.before, self.now(self.parts)
        ticks = [now - before for now, before in zip(machine, machine_before)]
        seconds, tick_s = time.monotonic() - self.began, 1 / os.sysconf("SC_CLK_TCK")
        percent = lambda part: 100 * part // max(sum(ticks), 1)
        said = [f"{percent(ticks[3] + ticks[4])} % of the processors idle, {percent(ticks[7])} % another machine's"]
        for part, those in threads.items():
            had = [((now - threads_before[part].get(thread, 0)) * tick_s / seconds, thread[1]) for thread, now in those.items()]
            most, name = max(had, default=(0, "none"))
            said.append(f"{part} {sum(each for each, _ in had):.2f}, its busiest thread {name} {most:.2f}")
        return "; ".join(said)


class Floods:
    """Some at a time, which end and make room for others."""

    def __init__(self, field, addresses, options):
        self.random = random.Random(options.seed)  # its own: how many jobs there are by then changes nothing
        self.kinds, self.at_once = floods.kinds(field, addresses, options.newcomers, self.random), options.at_once
        self.deck, self.there, self.begun = [], [], collections.Counter()

    def turn(self):
        for flood in [flood for flood in self.there if time.monotonic() > flood[1]]:
            self.there.remove(flood)
            flood[2].stop()
        while len(self.there) < self.at_once:
            if not self.deck:  # every kind comes before one comes again
                self.deck = self.random.sample(sorted(self.kinds), len(self.kinds))
            name = self.deck.pop()
            self.begun[name] += 1
            ends = time.monotonic() + self.random.uniform(*FLOOD_S)
            self.there.append((name, ends, self.kinds[name]()))

    def names(self):
        return [name for name, _, _ in self.there]

    def stop(self):
        for _, _, flood in self.there:
            flood.stop()
        self.there.clear()


def start_job(field, way, look):
    """Starts a job, and waits for its end: when it had its session, in seconds; None: never. Also what it said."""
    with tempfile.TemporaryFile("w+") as errors:
        began = time.monotonic()
        job = field.start(way, program("count"), stderr=errors)
        while not select.select([job.stdout], [], [], 0.05)[0] and time.monotonic() < began + LOST_S:
            look()
        started = time.monotonic() - began
        if started >= LOST_S:
            job.kill()
        line = job.stdout.readline()
        job.stdin.close()
        job.stdout.close()
        code = job.wait(LOST_S)
        errors.seek(0)
        said = errors.read()
    return (started, "") if (code, line) == (0, "1\n") else (None, f"ended with {code} after {started:.1f} s: {said}")


def run(field, addresses, options):
    """What was kept and what was not."""
    ways = ("tls", "local")
    streams = [Stream("events", TESSERA, "events", "--watch", "--placer", field.placer_url, *field.keys.options("client", "boss")),
               Stream("vGPUs", TESSERA, "vgpu", "watch", "-o", "json", "--server", "unix:" + field.server.path)]
    workers = [Worker(field, way) for way in ways]
    starts = {way: [] for way in ways}
    for _ in range(USUAL):
        for way in ways:
            for worker in workers:
                worker.tell()
            seconds, problem = start_job(field, way, lambda: None)
            assert not problem, problem
            starts[way].append(seconds)
    usual = {way: statistics.median(seconds) for way, seconds in starts.items()}
    bound = {way: TIMES * seconds + MORE_S for way, seconds in usual.items()}
    processes, memory = field.processes(), Memory(field)
    running, jobs, lost = Floods(field, addresses, options), [], []
    stops = time.monotonic() + options.seconds
    try:
        while time.monotonic() < stops or len(jobs) < options.jobs:
            running.turn()
            pause = time.monotonic() + random.uniform(0, PAUSE_S)
            while time.monotonic() < pause:
                memory.look()
                time.sleep(0.02)
            way, names = ways[len(jobs) % len(ways)], running.names()
            processors = Processors(memory.parts)
            seconds, problem = start_job(field, way, memory.look)
            jobs.append({"way": way, "seconds": seconds, "late": seconds is not None and seconds > bound[way], "floods": names})
            if jobs[-1]["late"]:
                jobs[-1]["processors"] = processors.words()
            if problem:
                lost.append(f"a {way} job among {names} {problem}")
            for worker in workers:
                worker.tell()
    finally:
        running.stop()
    for worker in workers:
        lost += worker.end()
    # The streams tell what happens now.
    marker = f"flood {options.seed} is over"
    field.ask("cordon", field.server_name, "--reason", marker)
    try:
        wait_for(lambda: marker in streams[0].words(), 20, "the stream of events' telling of something new")
    except AssertionError as problem:
        lost.append(str(problem))
    gaps = sum(stream.gaps() for stream in streams)
    for stream in streams:
        lost += stream.end()
    there = field.processes()
    lost += [f"a process of the {name} (pid {pid}) ended" for pid, name in processes.items() if pid not in there]
    words = field.pool.placer.words()
    left = len(re.findall(f"server '{field.server_name}' has left", words))
    if left:
        lost.append(f"the node left {left} times")
    ended = {who for who in re.findall(r"connections of (\S+) are closed", words) if who not in FLOODERS}
    if ended:
        lost.append(f"connections of {', '.join(sorted(ended))} were ended for what they took")
    return {"seed": options.seed, "usual_s": usual, "bound_s": bound, "jobs": jobs, "late": sum(job["late"] for job in jobs), "gaps": gaps,
            "lost": lost, "memory_passed": memory.passed(), "floods": dict(running.begun),
            "memory_mib": {part: {"before": before, "most": memory.most[part], "may": before + GROWN_MIB_MAX[part]}
                           for part, before in memory.before.items()}}


def print_table(result):
    for name, count in sorted(result["floods"].items()):
        print(f"{count:3} x {name}")
    for job in (job for job in result["jobs"] if job["late"]):
        print(f"late: a {job['way']} job started after {job['seconds']:.2f} s among {'; '.join(job['floods'])}\n      {job['processors']}")
    if result["gaps"]:
        print(f"streams that told more at once than was read, and went on with what was missing: {result['gaps']}")
    for problem in result["lost"] + result["memory_passed"]:
        print("not kept:", problem)
    print(f"\n{'jobs':8} {'number':>6} {'usual':>7} {'median':>7} {'longest':>7} {'bound':>7} {'late':>4}")
    for way, usual in result["usual_s"].items():
        jobs = [job for job in result["jobs"] if job["way"] == way]
        times = [job["seconds"] for job in jobs if job["seconds"] is not None] or [0.0]
        print(f"{way:8} {len(jobs):6} {usual:6.2f}s {statistics.median(times):6.2f}s {max(times):6.2f}s {result['bound_s'][way]:6.2f}s "
              f"{sum(job['late'] for job in jobs):4}")
    print(f"\n{'memory':8} {'before':>10} {'most':>10} {'bound':>10}")
    for part, mib in result["memory_mib"].items():
        print(f"{part:8} {mib['before']:6.0f} MiB {mib['most']:6.0f} MiB {mib['may']:6.0f} MiB")


def main():
    options = command_line("Floods of a pool's services while jobs of others start and end.", seconds=(60.0, "how long"),
                           jobs=(20, "so many jobs at least"), at_once=(3, "floods at a time"),
                           newcomers=(50, "strangers of a flood who come together, some 18 times a second"),
                           times=(("check", "tell"), "what becomes of jobs that are late"), output=(("text", "json"), "form of the output"))
    addresses = floods.far_addresses()
    field = Field()
    result = run(field, addresses, options)
    if options.output == "json":
        print(json.dumps(result, indent=2))
    else:
        print_table(result)
    if result["lost"] or result["memory_passed"] or result["late"]:
        for part in (field.pool.placer, field.server):
            print(*[line for line in part.words().splitlines() if re.search("warning|error", line)][-20:], sep="\n", file=sys.stderr)
    sys.stdout.flush()
    field.pool.stop()
    if result["lost"] or result["memory_passed"]:
        sys.exit(1)
    if result["late"] and options.times == "check":
        sys.exit(LATE)


if __name__ == "__main__":
    main()
