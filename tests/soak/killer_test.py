#!/usr/bin/env python3
"""Clients, workers, brokers, agents, gateways and the processes that carry their sessions die of SIGKILL at random moments while
others work, in vGPUs and outside. No survivor gets a wrong result or loses its session for it, nobody gets stuck, no vGPU has more
memory than its limit, and all is given back at the end.

usage: killer_test.py BUILD_DIRECTORY [--seconds S] [--clients N] [--pause-ms N] [--seed N]
"""

import collections
import os
import random
import re
import signal
import tempfile
import time

from soak import HAS_CONTROL_API, LOST, OK, Agent, Client, Gateway, Held, Server, check_ok, command_line, environment, status, wait_for

CLIENT_SECONDS_MAX = 1.5
# For a client beyond its own time: it has been told long before that, by whatever it waited for.
BOUND_S = 30
# A client may have begun while a part of its way was being replaced.
REPLACED_S = 5
# How much longer a run may take that has told nothing yet.
LONGER_S = 60
CHANNEL, TCP = "channel", "tcp"
GRACE = ("--resume-grace", "2")  # what a killed agent leaves behind is given back before the test looks
CARRIERS = ("agent's carrier", "gateway's carrier")  # which cost nobody anything whose session has begun
NOBODY = ("client", "broker")  # whose death costs nobody else anything
DECK = ["client", "client", "worker", "worker", "worker", "broker", "agent", "gateway", *CARRIERS]
# For a session to begin, on a busy machine.
BEGINS_S = 3
# Clients are in one of these, or in none. A context takes memory as well.
VGPUS = {"a": 0.4, "b": 0.2, "c": 0.1}
LIMIT_MIB, CONTEXT_MIB = 128, 2
# Between two looks at what vGPUs have.
LOOKS_S = 0.5


class Field:
    """One tesserad, a gateway and an agent beside it, replaced at their addresses when they were killed, and the clients."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory()
        vgpus = os.path.join(self.directory.name, "vgpus.toml")
        with open(vgpus, "w") as file:
            for name, request in VGPUS.items():
                file.write(f'[[vgpu]]\nname = "{name}"\nrequest = {request}\nmemory = "{LIMIT_MIB}MiB"\n')
        self.server = Server("--max-sessions", "256", *(("--usage-days", "1") if HAS_CONTROL_API else ()), "--vgpus", vgpus, log="info", env=environment(TESSERA_EMULATOR_CONTEXT_MIB=str(CONTEXT_MIB)))
        self.agent_url = f"unix:{self.directory.name}/agent.sock"
        self.gateway = Gateway(self.server.path, *GRACE)
        self.agent = Agent(self.gateway.url, url=self.agent_url)
        self.gateways = {self.gateway.process.pid}  # the process ids that they have had
        self.clients = []
        self.deck = []  # whom to kill next: every kind comes, however short the run
        self.killed = []  # (when, what, process id)
        self.ends = collections.Counter()
        self.looked_at = 0.0
        self.most_held = 0  # by a vGPU

    def start_client(self):
        way = random.choice((CHANNEL, TCP))
        seconds = random.uniform(0.05, CLIENT_SECONDS_MAX)
        client = Client(self.server.url if way == CHANNEL else self.agent_url, "--seconds", f"{seconds:.2f}", vgpu=random.choice(["", *VGPUS]),
                        bound_s=seconds + BOUND_S)
        client.way = way
        self.clients.append(client)

    def kill(self):
        """Ends somebody. What is a part of a way is there again at once."""
        if not self.deck:
            self.deck = random.sample(DECK, len(DECK))
        what = self.deck.pop()
        if what == "client":
            victim = random.choice(self.clients)
            victim.kill()
            pid = victim.pid
        elif what == "worker":
            workers = self.server.workers()
            if not workers:
                return
            pid = random.choice(workers)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return
        elif what == "broker":
            pid = self.server.broker()
            if pid is None:  # it is being started anew
                return
            os.kill(pid, signal.SIGKILL)
        elif what in CARRIERS:
            pid = (self.agent if what.startswith("agent") else self.gateway).carrier()
            os.kill(pid, signal.SIGKILL)
        elif what == "agent":
            pid = self.agent.process.pid
            self.agent.kill()
        else:
            pid = self.gateway.process.pid
            self.gateway.kill()
        self.killed.append((time.monotonic(), what, pid))
        if what == "agent":
            end(self.agent)
            self.agent = Agent(self.gateway.url, url=self.agent_url)
            assert self.agent.ready, self.agent.words()
        elif what == "gateway":
            end(self.gateway)
            self.gateway = Gateway(self.server.path, *GRACE, listen=self.gateway.url)
            assert self.gateway.ready, self.gateway.words()
            self.gateways.add(self.gateway.process.pid)

    def may_have_lost(self, client):
        """Whether something died that this client needs."""
        since = client.began_at - REPLACED_S
        for when, what, pid in self.killed:
            if what == "worker":
                served = self.clients_of(pid)
                if client.pid in served or (client.way == TCP and served & self.gateways and when > since):
                    return True
            elif what in CARRIERS:
                if client.way == TCP and since < when < client.began_at + BEGINS_S:
                    return True
            elif what not in NOBODY and client.way == TCP and when > since:
                return True
        return False

    def clients_of(self, worker_pid):
        """The process ids of those whom workers with this process id have served: it may come again in a long run."""
        return {int(pid) for pid in re.findall(rf"session \d+ opened by pid (\d+), worker pid {worker_pid},", self.server.words())}

    def judge(self, client):
        code, text = client.finish()
        what = f"a client through the {client.way} (pid {client.pid})"
        if client.killed:
            return "killed"
        if (code, text) == (OK, "ok\n"):
            return "ok"
        # A session that is lost at the very end of its program costs it nothing but a word on stderr.
        assert code == LOST or (code == OK and text.startswith("ok\n")), f"{what} ended with {code}: {text}"
        told = "".join(line for line in self.server.words().splitlines(True) if f"pid {client.pid}" in line)
        assert self.may_have_lost(client), f"{what} lost its session though nothing died that it needs: {text}{told}"
        return "lost"

    def reap(self):
        for client in list(self.clients):
            if client.process.poll() is not None or client.overdue():
                self.ends[f"{client.way} {self.judge(client)}"] += 1
                self.clients.remove(client)

    def look(self):
        """At what vGPUs have."""
        if time.monotonic() < self.looked_at + LOOKS_S:
            return
        self.looked_at = time.monotonic()
        for vgpu in status(self.server).get("vgpus", []):  # none while the broker is being started anew
            if vgpu["name"] not in VGPUS:
                continue
            assert vgpu["memory_held_bytes"] <= LIMIT_MIB << 20, vgpu
            self.most_held = max(self.most_held, vgpu["memory_held_bytes"])

    def is_given_back(self):
        vgpus = {vgpu["name"]: (vgpu["sessions"], vgpu["memory_held_bytes"]) for vgpu in status(self.server).get("vgpus", [])}
        return all(vgpus.get(name) == (0, 0) for name in VGPUS)

    def tells_something(self):
        return self.most_held > 0 and {what for _, what, _ in self.killed} == set(DECK) and min(self.ends[f"{way} ok"] for way in (CHANNEL, TCP)) > 0


def end(part):
    part.process.wait()
    part.stop()


def main():
    options = command_line(__doc__.splitlines()[0], seconds=(12.0, "how long"), clients=(8, "clients at once"),
                           pause_ms=(400, "longest pause between two deaths"))
    field = Field()
    for url in (field.server.url, field.agent_url):
        check_ok(Client(url, "--rounds", "1"))
    before = Held(field.server)
    stops_at = time.monotonic() + options.seconds
    # On a slow machine longer, until every part has died and a client of each way has come through.
    while time.monotonic() < (stops_at if field.tells_something() else stops_at + LONGER_S):
        while len(field.clients) < options.clients:
            field.start_client()
        time.sleep(random.uniform(0, options.pause_ms / 1000))
        field.kill()
        field.reap()
        field.look()
    while field.clients:
        field.reap()
        time.sleep(0.02)
    deaths = collections.Counter(what for _, what, _ in field.killed)
    print("killed:", ", ".join(f"{count} {what}s" for what, count in sorted(deaths.items())))
    print(f"most memory of a vGPU: {field.most_held >> 20} MiB of {LIMIT_MIB}")
    print("ends:", ", ".join(f"{count} {what}" for what, count in sorted(field.ends.items())), flush=True)
    assert field.tells_something(), "too short to tell anything"
    for url in (field.server.url, field.agent_url):
        check_ok(Client(url, "--rounds", "3"))
    wait_for(field.is_given_back, 20, "what vGPUs had")
    after = Held(field.server)
    print(f"before: {before}\nafter: {after}", flush=True)
    after.check_no_more_than(before, 4096)
    assert (field.agent.stop(), field.gateway.stop(), field.server.stop()) == (0, 0, 0)
    field.directory.cleanup()


if __name__ == "__main__":
    main()
