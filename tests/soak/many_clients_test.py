#!/usr/bin/env python3
"""Many clients at once, through the channel and through one agent and one gateway; each checks its results.

usage: many_clients_test.py BUILD_DIRECTORY [--clients N] [--rounds N] [--seed N]
"""

import os
import time

from soak import Agent, Client, Gateway, Held, Server, check_ok, command_line, descriptors, threads, wait_for

BOUND_S = 300
# On fewer processors the two relays of 64 clients would have so little time that their links count as lost.
CLIENTS = min(64, 12 * os.cpu_count())


def run(url, clients, rounds):
    for client in [Client(url, "--rounds", str(rounds), bound_s=BOUND_S) for _ in range(clients)]:
        check_ok(client)


def relay_holds(part):
    return [(threads(pid), descriptors(pid)) for pid in part.pids()]


def main():
    options = command_line(__doc__.splitlines()[0], clients=(CLIENTS, "clients at once"), rounds=(20, "of each client"))
    server = Server("--max-sessions", str(options.clients))
    gateway = Gateway(server.path)
    agent = Agent(gateway.url)
    for url in (server.url, agent.url):
        run(url, 1, 1)
    before, relays_before = Held(server), [relay_holds(part) for part in (agent, gateway)]
    for way, url in (("the channel", server.url), ("an agent and a gateway", agent.url)):
        began_at = time.monotonic()
        run(url, options.clients, options.rounds)
        print(f"{options.clients} clients through {way}: {time.monotonic() - began_at:.1f} s", flush=True)
    # The memory of many workers' table entries stays with the allocator: short_sessions_test.py looks at that.
    Held(server).check_no_more_than(before, 4096)
    wait_for(lambda: [relay_holds(part) for part in (agent, gateway)] == relays_before, 10, "the end of all of the relays' sessions")
    assert (agent.stop(), gateway.stop(), server.stop()) == (0, 0, 0)


if __name__ == "__main__":
    main()
