"""A pool of servers on the emulator: a placer, servers whose nodes join it, jobs."""

import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from product import BUILD, DAEMON, TESSERA, check_no_finding, children, end_with_test, environment, the_server, wait_for, words_of  # noqa: E402

PLACER = os.path.join(BUILD, "bin/tessera-placer")
ADMIN = os.path.join(BUILD, "bin/tessera-admin")


class Started:
    """A program that prints a line when it is ready; its log is kept. `before` runs in its process before it starts."""

    def __init__(self, log, *words, before=None, **changes):
        self.log = log
        with open(log, "a") as stderr:
            self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment(**changes), preexec_fn=before)
        end_with_test(self.process)
        self.ready = self.process.stdout.readline()

    def words(self):
        with open(self.log) as log:
            return log.read()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        self.process.terminate()
        code = self.process.wait(20)
        self.process.stdout.close()
        check_no_finding(self.words())
        return code


class PoolServer(Started):
    """A tesserad of the pool, with a state of its own and devices like no other's."""

    def __init__(self, pool, number, *options, devices=2, driver="emulator", before=None, **changes):
        self.pool, self.number = pool, number
        self.path = os.path.join(pool.directory, f"{number}.sock")
        self.state = os.path.join(pool.directory, f"state{number}")
        super().__init__(os.path.join(pool.directory, f"{number}.log"), DAEMON, "--listen", "unix:" + self.path, "--driver", driver,
                         "--grace", "0", "--log", "info", "--placer", pool.url, *(options or ("--warm-workers", "0")),
                         TESSERA_EMULATOR_MACHINE=str(number), TESSERA_EMULATOR_DEVICES=str(devices), XDG_STATE_HOME=self.state, before=before, **changes)

    def node(self):
        """The pid of its node; None when it has none."""
        return next((pid for pid in children(self.process.pid) if "--daemon-fd" in words_of(pid)), None)

    def broker(self):
        return next((pid for pid in children(self.process.pid) if "--line-fd" in words_of(pid)), None)

    def ledger(self):
        """The file of its node's ledger."""
        directory = os.path.join(self.state, "tessera")
        return next(os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".grants"))

    def status(self):
        return the_server(self.say("status", "-o", "json"))

    def say(self, *words):
        return subprocess.run([TESSERA, *words, "--server", "unix:" + self.path], capture_output=True, text=True, env=environment(), timeout=30,
                              check=True).stdout

    def vgpus(self):
        """What its broker has made for grants: rows by name."""
        return {row["name"]: row for row in json.loads(self.say("vgpu", "list", "-o", "json"))["vgpus"] if row["name"].startswith("grant-")}


class Pool:
    """`before` as in Started, of the placer and of servers; `owner`: whose directory they have, else this user's."""

    def __init__(self, *options, servers=1, devices=2, driver="emulator", server_options=(), server_changes=None, before=None, owner=None):
        self.place = tempfile.TemporaryDirectory()
        self.directory = self.place.name
        if owner is not None:
            os.chown(self.directory, owner, owner)
        self.before = before
        self.url = "unix:" + os.path.join(self.directory, "placer.sock")
        self.options = options
        self.placer = self.start_placer()
        self.servers = [PoolServer(self, number + 1, *server_options, devices=devices, driver=driver, before=before, **(server_changes or {}))
                        for number in range(servers)]
        self.wait_for_servers()

    def start_placer(self):
        return Started(os.path.join(self.directory, "placer.log"), PLACER, "--listen", self.url, "--store",
                       f"sqlite:{self.directory}/placer.db", "--log", "info", *self.options, before=self.before)

    def joins(self):
        """How often a server has joined, of all placers."""
        return len(re.findall("has joined", self.placer.words()))

    def wait_for_servers(self):
        wait_for(lambda: self.joins() == len(self.servers), 20, "the servers' joining")

    def job(self, *words, **changes):
        """A job that is started, with its output."""
        process = subprocess.Popen([TESSERA, "run", "--placer", self.url, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   stdin=subprocess.PIPE, env=environment(**changes))
        end_with_test(process)
        return process

    def run(self, *words, timeout=60, **changes):
        return subprocess.run([TESSERA, "run", "--placer", self.url, *words], capture_output=True, text=True, timeout=timeout,
                              env=environment(**changes))

    def grants(self):
        """Of all servers, by what their brokers have: (server, name) to row."""
        return {(server.number, name): row for server in self.servers for name, row in server.vgpus().items()}

    def stop(self):
        for part in (*self.servers, self.placer):
            if part.process.poll() is None:
                assert part.stop() == 0, part.words()
        self.place.cleanup()
