#!/usr/bin/env python3
"""Sessions one after the other in vGPUs with a limit of memory: each finds all of it, whatever became of the one before, and none has
more.

usage: memory_limits_test.py BUILD_DIRECTORY [--sessions N] [--seed N]
"""

import os
import random
import subprocess
import tempfile
import threading
import time

from soak import CLIENT, Held, Server, command_line, environment, program, status, wait_for

LIMIT_MIB = {"a": 64, "b": 96}  # one program at a time in each
CONTEXT_MIB = 2
# As tests/system/programs/memory_limit.cc has them.
PATHS = ["blocks", "small-blocks", "pitched", "physical", "mapped", "pool", "destroyed-pool", "arrays", "volumes", "mipmaps", "heap", "variables",
         "graph-memory", "local-memory", "graph-local-memory"]
USABLE = 0.998
# For the memory of a program that was killed to be there again; the longest that it took is printed.
BACK_S = 10
GROWTH_KIB = 1024


class Tenant:
    """Runs the sessions of one vGPU."""

    def __init__(self, server, name, seed):
        self.server, self.name, self.limit = server, name, LIMIT_MIB[name]
        self.random = random.Random(seed)
        self.longest_s = 0.0
        self.problem = None

    def start(self, *words):
        env = environment(LD_LIBRARY_PATH=CLIENT, TESSERA_SERVER=self.server.url, TESSERA_VGPU=self.name)
        return subprocess.Popen([program("memory_limit"), *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=env)

    def says(self, *words):
        process = self.start(*words)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0 and not err, f"memory_limit {words} ended with {process.returncode}: {out}{err}"
        return out

    def has_all(self):
        process = self.start("try", self.limit)
        out, err = process.communicate(timeout=120)
        # While the one before it ends there may be no room for a context.
        assert process.returncode == 0 or "cuDevicePrimaryCtxRetain" in err, err
        return out == "yes\n"

    def fill(self):
        path = self.random.choice(PATHS)
        name, held, _, limit = self.says(path).split()
        assert name == path and int(limit) == self.limit << 20, (name, limit)
        assert USABLE * int(limit) <= int(held) <= int(limit), f"{path} had {held} of {limit} bytes"

    def crash(self):
        process = self.start("hold", self.random.randint(1, self.limit))
        if self.random.random() < 0.5:
            time.sleep(self.random.uniform(0, 0.15))
        else:
            process.stdout.readline()
        process.kill()
        process.communicate()
        killed_at = time.monotonic()
        wait_for(self.has_all, BACK_S, f"all of the memory of {self.name}")
        self.longest_s = max(self.longest_s, time.monotonic() - killed_at)

    def overreach(self):
        assert self.says("try", self.limit + 1) == "no\n"

    def run(self, sessions):
        try:
            for _ in range(sessions):
                self.random.choices((self.fill, self.crash, self.overreach), (6, 3, 1))[0]()
        except BaseException as problem:  # for the main thread
            self.problem = problem

    def gave_back(self):
        vgpu, = [vgpu for vgpu in status(self.server)["vgpus"] if vgpu["name"] == self.name]
        return (vgpu["sessions"], vgpu["memory_held_bytes"]) == (0, 0)


def run(tenants, sessions):
    threads = [threading.Thread(target=tenant.run, args=(sessions // len(tenants),)) for tenant in tenants]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for tenant in tenants:
        if tenant.problem is not None:
            raise tenant.problem
        wait_for(tenant.gave_back, 20, f"what {tenant.name} held")


def main():
    options = command_line(__doc__.splitlines()[0], sessions=(60, "sessions"))
    with tempfile.TemporaryDirectory() as directory:
        vgpus = os.path.join(directory, "vgpus.toml")
        with open(vgpus, "w") as file:
            for name, limit in LIMIT_MIB.items():
                file.write(f'[[vgpu]]\nname = "{name}"\nrequest = 0.4\nmemory = "{limit}MiB"\n')
        server = Server("--vgpus", vgpus, log="error",
                        env=environment(TESSERA_EMULATOR_CONTEXT_MIB=str(CONTEXT_MIB), TESSERA_EMULATOR_DELAY_US="0"))
        tenants = [Tenant(server, name, options.seed + number) for number, name in enumerate(LIMIT_MIB)]
        run(tenants, 10 * len(tenants))
        before = Held(server)
        print("before:", before, flush=True)
        began_at = time.monotonic()
        run(tenants, options.sessions)
        after = Held(server)
        print(f"after {options.sessions} sessions in {time.monotonic() - began_at:.0f} s:", after, flush=True)
        print(f"memory of a killed program was there again after {max(tenant.longest_s for tenant in tenants):.2f} s at the longest, "
              "with a program that asked for it", flush=True)
        after.check_no_more_than(before, GROWTH_KIB)
        assert server.words() == "", server.words()
        assert server.stop() == 0


if __name__ == "__main__":
    main()
