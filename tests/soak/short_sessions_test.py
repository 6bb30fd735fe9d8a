#!/usr/bin/env python3
"""Short sessions, one after the other and several at a time, against one tesserad: nothing of them is left.

usage: short_sessions_test.py BUILD_DIRECTORY [--sessions N] [--at-once N] [--seed N]
"""

import time

from soak import Client, Held, Server, check_ok, command_line

# What tesserad may grow by however many sessions there were: the allocator's own unrest.
GROWTH_KIB = 1024
WARM_UP_SESSIONS = 60


def run(url, sessions, at_once):
    running = []
    for _ in range(sessions):
        if len(running) == at_once:
            check_ok(running.pop(0))
        running.append(Client(url, "--rounds", "1"))
    for client in running:
        check_ok(client)


def main():
    options = command_line(__doc__.splitlines()[0], sessions=(300, "sessions"), at_once=(4, "how many at a time in the second half"))
    server = Server("--max-sessions", str(max(64, 2 * options.at_once)), log="warning")
    run(server.url, WARM_UP_SESSIONS, options.at_once)
    before = Held(server)
    print("before:", before, flush=True)
    began_at = time.monotonic()
    for at_once in (1, options.at_once):
        run(server.url, options.sessions // 2, at_once)
        after = Held(server)
        print(f"after {options.sessions // 2} sessions, {at_once} at a time:", after, flush=True)
        after.check_no_more_than(before, GROWTH_KIB)
    print(f"{options.sessions} sessions in {time.monotonic() - began_at:.0f} s", flush=True)
    assert server.words() == "", server.words()
    assert server.stop() == 0


if __name__ == "__main__":
    main()
