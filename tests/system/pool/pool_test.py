#!/usr/bin/env python3
"""Jobs that name no server: a placer finds them GPUs of a pool, and the servers let nobody else use these."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import ledger
from pool import PLACER, Pool, Started
from product import DAEMON, Keys, Server, TESSERA, free_port, environment, program, wait_for

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs"))
import marked  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/pool-gpus.md"
SHELL = ["sh", "-c", 'echo ready; read line; exit 0']


def ready(test, process):
    test.assertEqual(process.stdout.readline(), "ready\n", process.poll() is not None and process.stderr.read())


def end(process):
    process.stdin.close()
    code = process.wait(20)
    process.stdout.close()
    process.stderr.close()
    return code


class OneServer(unittest.TestCase):
    def setUp(self):
        self.pool = Pool()
        self.addCleanup(self.pool.stop)

    def test_a_job_runs_on_what_it_asked_for_and_leaves_nothing(self):
        done = self.pool.run("--gpu-share", "0.5", "--gpu-mem", "1G", "--", program("copies"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("0.5 of its time, 1 GiB", done.stderr)
        wait_for(lambda: self.pool.grants() == {}, 20, "the vGPU's end")

    def test_the_job_sees_its_gpus_alone(self):
        script = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int(); m = ctypes.c_size_t()\n" \
                 "assert c.cuInit(0) == 0; c.cuDeviceGetCount(ctypes.byref(n)); c.cuDeviceTotalMem_v2(ctypes.byref(m), 0)\n" \
                 "print(n.value, m.value >> 20)"
        done = self.pool.run("--gpu-share", "0.25", "--", shutil.which("python3"), "-c", script)
        self.assertEqual(done.stdout.split(), ["1", "1024"], done.stderr)
        done = self.pool.run("--gpus", "2", "--gpu-mem", "100M", "--gpu-share", "0.1", "--", shutil.which("python3"), "-c", script)
        self.assertEqual(done.stdout.split(), ["2", "100"], done.stderr)

    def test_shares_fill_a_gpu_and_no_more(self):
        jobs = [self.pool.job("--gpu-share", "0.5", "--", *SHELL) for _ in range(4)]
        for job in jobs:
            ready(self, job)
        by_gpu = {}
        for row in self.pool.grants().values():
            by_gpu.setdefault(row["gpu"], []).append(row["request"])
        self.assertEqual(sorted(by_gpu), [0, 1])
        self.assertEqual([sum(shares) for shares in by_gpu.values()], [1, 1])
        late = self.pool.run("--gpu-share", "0.5", "--wait", "0", "--", "true")
        self.assertEqual(late.returncode, 82, late.stderr)
        self.assertIn("was not given a GPU in time", late.stderr)
        waits = self.pool.job("--gpu-share", "0.5", "--", *SHELL)
        self.assertIn("waiting for a GPU of the pool", waits.stderr.readline())
        self.assertEqual(end(jobs[0]), 0)
        ready(self, waits)
        for job in (waits, *jobs[1:]):
            self.assertEqual(end(job), 0)
        wait_for(lambda: self.pool.grants() == {}, 20, "the vGPUs' end")

    def test_OrionX_what_a_killed_job_had_is_back_soon(self):
        job = self.pool.job("--gpu-share", "1", "--", *SHELL)
        ready(self, job)
        self.assertEqual(len(self.pool.grants()), 1)
        job.kill()
        job.wait()
        began = time.monotonic()
        wait_for(lambda: self.pool.grants() == {}, 10, "the vGPU's end")
        self.assertLess(time.monotonic() - began, 5)  # within a second where nothing else works
        for pipe in (job.stdin, job.stdout, job.stderr):
            pipe.close()

    def test_a_job_that_waits_and_is_interrupted_has_withdrawn(self):
        first = self.pool.job("--gpus", "2", "--", *SHELL)
        ready(self, first)
        waits = self.pool.job("--", *SHELL)
        self.assertIn("waiting", waits.stderr.readline())
        waits.send_signal(signal.SIGINT)
        self.assertEqual(waits.wait(20), -signal.SIGINT)
        for pipe in (waits.stdin, waits.stdout, waits.stderr):
            pipe.close()
        of_first = set(self.pool.grants())
        self.assertEqual(end(first), 0)

        def none_left():
            there = set(self.pool.grants())
            self.assertLessEqual(there, of_first, "the one that was interrupted has got GPUs")
            return not there
        wait_for(none_left, 10, "the end of the first one's vGPUs")
        time.sleep(0.5)
        self.assertEqual(self.pool.grants(), {})

    def test_processes_one_after_another_and_beside_each_other(self):
        script = "for i in 1 2 3; do {0} & done; wait; {0} && {0}".format(program("copies"))
        done = self.pool.run("--gpu-share", "0.5", "--", "sh", "-c", script, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_a_job_cannot_have(self):
        server = self.pool.servers[0]
        for words, code, part in ((["--gpus", "3"], 81, "2 of the pool's 2 fit"),
                                  (["--gpu-mem", "100G"], 81, "100 GiB is wanted"),
                                  (["--gpu-model", "NVIDIA H900"], 81, "2 of another model"),
                                  (["--isolation", "packed"], 81, "2 without isolation packed: there is strict"),
                                  (["--priority", "best-effort"], 81, "2 without priority best-effort: there is normal, protected"),
                                  (["--priority", "high"], 2, "there is protected, normal, best-effort"),
                                  (["--gpu-share", "0"], 2, "--gpu-share"),
                                  (["--gpu-share", "0.5:0.25"], 2, "--gpu-share"),
                                  (["--gpu-mem", "20"], 2, "with its unit"),
                                  (["--server", "unix:" + server.path], 2, "is named besides"),
                                  (["--driver", "emulator"], 2, "leave --driver")):
            done = self.pool.run(*words, "--", "true")
            self.assertEqual(done.returncode, code, (words, done.stderr))
            self.assertIn(part, done.stderr, words)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_the_server_takes_nobody_without_a_ticket(self):
        server = self.pool.servers[0]
        done = subprocess.run([TESSERA, "run", "--server", "unix:" + server.path, "--", "true"], capture_output=True, text=True,
                              env=environment(), timeout=30)
        self.assertEqual(done.returncode, 73, done.stderr)
        self.assertIn("use 'tessera run --gpu-share SHARE'", done.stderr)
        # The library alone: a vGPU's name is no ticket.
        for more in ({}, {"TESSERA_VGPU": "default"}):
            done = subprocess.run([program("copies")], capture_output=True, text=True, timeout=30,
                                  env=environment(TESSERA_SERVER="unix:" + server.path, LD_LIBRARY_PATH=os.path.dirname(TESSERA) + "/../lib/client", **more))
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stderr.count("use 'tessera run --gpu-share SHARE'"), 1, done.stderr)

    def test_a_ticket_is_for_its_job(self):
        kept = os.path.join(self.pool.directory, "kept")
        job = self.pool.job("--gpu-share", "0.5", "--", "sh", "-c", f'cp "$TESSERA_TICKET" {kept}; echo ready; read line; exit 0')
        ready(self, job)
        server = self.pool.servers[0]

        def show(ticket):
            with open(os.path.join(self.pool.directory, "shown"), "wb") as file:
                file.write(ticket)
            done = subprocess.run([program("copies")], capture_output=True, text=True, timeout=30,
                                  env=environment(TESSERA_SERVER="unix:" + server.path, TESSERA_TICKET=file.name,
                                                  LD_LIBRARY_PATH=os.path.dirname(TESSERA) + "/../lib/client"))
            return done.returncode, done.stderr

        with open(kept, "rb") as file:
            ticket = file.read()
        self.assertEqual(show(ticket)[0], 0)
        damaged = bytearray(ticket)
        damaged[len(ticket) // 2] ^= 1
        for bad in (bytes(damaged), ticket[:-1], b"no ticket", bytes(4096)):
            code, words = show(bad)
            self.assertNotEqual(code, 0)
            self.assertIn("is refused", words)
        self.assertEqual(end(job), 0)
        wait_for(lambda: self.pool.grants() == {}, 20, "the vGPU's end")
        code, words = show(ticket)
        self.assertNotEqual(code, 0)
        self.assertIn("is refused", words)
        self.assertIn("released", words)

    def test_a_running_job_notices_no_end_of_the_placer(self):
        job = self.pool.job("--gpu-share", "1", "--", "sh", "-c", f"echo ready; read line; {program('copies')}")
        ready(self, job)
        self.pool.placer.kill()
        refused = self.pool.run("--", "true")
        self.assertEqual(refused.returncode, 80, refused.stderr)
        self.pool.placer = self.pool.start_placer()
        wait_for(lambda: self.pool.joins() == 2, 20, "the server's joining again")
        # What was granted before is not given twice: one GPU is left.
        other = self.pool.job("--gpu-share", "1", "--", *SHELL)
        ready(self, other)
        self.assertEqual(self.pool.run("--wait", "0", "--", "true").returncode, 82)
        self.assertEqual(end(job), 0)
        self.assertEqual(end(other), 0)
        wait_for(lambda: self.pool.grants() == {}, 20, "the vGPUs' end")

    def test_nodes_and_brokers_that_are_killed_are_not_noticed(self):
        server = self.pool.servers[0]
        job = self.pool.job("--gpu-share", "0.5", "--", "sh", "-c", f"echo ready; while read line; do {program('copies')} && echo done; done")
        ready(self, job)
        for round in range(3):
            for pid in (server.node(), server.broker()):
                os.kill(pid, signal.SIGKILL)
            wait_for(lambda: server.node() is not None, 20, "another node")
            job.stdin.write("go\n")
            job.stdin.flush()
            line = ""
            while line not in ("done\n",):
                line = job.stdout.readline()
                self.assertNotEqual(line, "", job.poll() is not None and job.stderr.read())
        self.assertEqual(end(job), 0)
        wait_for(lambda: self.pool.grants() == {}, 20, "the vGPU's end")


class Processes(unittest.TestCase):
    """Each process of a job has a context, for which there is to be room: on a GPU of 1 GiB of which a context takes 64 MiB."""

    def test_a_job_has_room_for_as_many_as_it_asked_for_and_for_more_while_nobody_else_has(self):
        pool = Pool(devices=1, server_changes={"TESSERA_EMULATOR_MEMORY_MIB": "1024", "TESSERA_EMULATOR_CONTEXT_MIB": "64"})
        self.addCleanup(pool.stop)
        [server], kept = pool.servers, os.path.join(pool.directory, "kept")
        done = pool.run("--gpu-mem", "900M", "--", "true")
        self.assertEqual(done.returncode, 81, done.stderr)
        self.assertIn("the most is 768 MiB, and 900 MiB is wanted beside 256 MiB for the contexts of 4 processes (--processes)", done.stderr)

        def process(*words):
            started = subprocess.Popen([program("memory_limit"), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env=environment(TESSERA_SERVER="unix:" + server.path, TESSERA_TICKET=kept,
                                                       LD_LIBRARY_PATH=os.path.dirname(TESSERA) + "/../lib/client"))
            self.addCleanup(lambda: started.communicate(input="\n") if started.poll() is None else None)
            return started

        small = ("--gpu-share", "0.4", "--processes", "1")
        job = pool.job(*small, "--gpu-mem", "384M", "--", "sh", "-c", f'cp "$TESSERA_TICKET" {kept}; echo ready; read line; exit 0')
        ready(self, job)
        for _ in range(2):
            self.assertNotEqual(process("hold", "8").stdout.readline(), "", server.words())
        # The second one's context is taken: 448 MiB were promised, and 64 more are in use.
        wait_for(lambda: "64 MiB" in subprocess.run([TESSERA, "get", "gpus", "--placer", pool.url], capture_output=True, text=True,
                                                     env=environment()).stdout, 10, "the placer's hearing of it")
        done = pool.run(*small, "--gpu-mem", "449M", "--wait", "0", "--", "true")
        self.assertEqual(done.returncode, 82, done.stderr)
        other = pool.job(*small, "--gpu-mem", "448M", "--", *SHELL)
        ready(self, other)
        third = process("try", "1")
        _, said = third.communicate(timeout=30)
        self.assertIn("cuInit(0): 46", said)  # DEVICE_UNAVAILABLE
        self.assertIn("the job's 2 processes use the GPU, it asked for 1, and beside all grants 0 bytes are left for one more's context of 64 MiB", said)
        self.assertIn("'tessera run --processes'", said)
        self.assertEqual(end(other), 0)
        wait_for(lambda: process("try", "1").communicate(timeout=30)[0] == "yes\n", 10, "room for a third process")
        self.assertEqual(end(job), 0)


class ThreeServers(unittest.TestCase):
    def check_status(self, pool):
        """Each server's own word of what it handed out is its ledger's: soon, since a vGPU follows its ledger."""
        def promised(server):
            return {f"grant-{grant}-{place}": (share / ledger.WHOLE, size) for grant, (state, rows) in ledger.promises(server.ledger()).items()
                    for place, (_, share, size) in enumerate(rows)}

        def told(server):
            return {row["name"]: (row["request"], row["memory_limit_bytes"]) for row in server.status().get("vgpus", []) if row["name"].startswith("grant-")}

        wait_for(lambda: all(promised(server) == told(server) for server in pool.servers), 10, "ledgers and status agreeing")
        self.assertEqual(sum(len(told(server)) for server in pool.servers), 10)

    def test_a_job_of_three_gpus_over_two_servers(self):
        pool = Pool(servers=3)
        self.addCleanup(pool.stop)
        script = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int(); assert c.cuInit(0) == 0\n" \
                 "c.cuDeviceGetCount(ctypes.byref(n)); print('ready', flush=True); print(n.value, input())"
        job = pool.job("--gpus", "3", "--", shutil.which("python3"), "-c", script)
        ready(self, job)
        self.assertEqual(len({number for number, _ in pool.grants()}), 2)
        done = pool.run("--gpus", "3", "--same-server", "--", "true")
        self.assertEqual(done.returncode, 81, done.stderr)
        job.stdin.write("\n")
        job.stdin.flush()
        self.assertEqual(job.stdout.readline().split()[0], "3")
        self.assertEqual(end(job), 0)
        wait_for(lambda: pool.grants() == {}, 20, "the vGPUs' end")

    def test_ten_jobs_over_six_gpus_and_a_server_is_killed(self):
        pool = Pool(servers=3)
        self.addCleanup(pool.stop)
        memory_bytes = pool.servers[0].status()["devices"][0]["memory_bytes"]
        watch = ledger.Watch(pool.servers, memory_bytes)
        jobs = [pool.job("--gpu-share", "0.5", "--", *SHELL) for _ in range(10)]
        for job in jobs:
            ready(self, job)
        self.check_status(pool)
        shares = {}
        for (number, _), row in pool.grants().items():
            shares[number, row["gpu"]] = shares.get((number, row["gpu"]), 0) + row["request"]
        self.assertEqual(sum(shares.values()), 5)
        self.assertLessEqual(max(shares.values()), 1)
        # Others come and go as fast as they can.
        for _ in range(3):
            for job in jobs[-4:]:
                self.assertEqual(end(job), 0)
            jobs[-4:] = [pool.job("--gpu-share", "0.5", "--", *SHELL) for _ in range(4)]
            for job in jobs[-4:]:
                ready(self, job)
        self.check_status(pool)
        pool.servers[0].kill()
        for job in jobs:
            self.assertEqual(end(job), 0)
        pool.servers.pop(0)
        self.assertGreater(watch.stop(), 3)  # on a busy machine a look takes long
        self.assertGreaterEqual(watch.most, ledger.WHOLE)
        wait_for(lambda: pool.grants() == {}, 20, "the vGPUs' end")
        # Two servers are left: four GPUs at once, and no fifth.
        four = [pool.job("--", *SHELL) for _ in range(4)]
        for job in four:
            ready(self, job)
        self.assertEqual(pool.run("--wait", "0", "--", "true").returncode, 82)
        for job in four:
            self.assertEqual(end(job), 0)


class OpenServer(unittest.TestCase):
    """A server that lets in others as well, with two GPUs at each of two NUMA nodes."""

    def test_nobody_gets_a_whole_gpu_and_several_are_near_one_another(self):
        pool = Pool(devices=4, server_options=("--admission", "open", "--warm-workers", "0"), server_changes={"TESSERA_EMULATOR_NUMA": "2"})
        self.addCleanup(pool.stop)
        done = pool.run("--", "true")
        self.assertEqual(done.returncode, 81, done.stderr)
        self.assertIn("ask for 0.99 at most (--gpu-share), or have the server started with --admission ticket", done.stderr)
        jobs = [pool.job("--gpu-share", "0.9", "--", *SHELL)]
        ready(self, jobs[0])
        jobs.append(pool.job("--gpus", "2", "--gpu-share", "0.5", "--", *SHELL))
        ready(self, jobs[1])
        self.assertEqual(sorted(row["gpu"] for row in pool.grants().values()), [0, 2, 3])
        for job in jobs:
            self.assertEqual(end(job), 0)


class ByTls(unittest.TestCase):
    """Placer, servers and jobs as on hosts of their own: everybody shows a certificate."""

    def setUp(self):
        self.keys = Keys()
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.policy = os.path.join(self.directory.name, "policy.toml")
        self.write('"name:gpu7" = "server"\n"name:alice" = "tenant"\n"name:root" = "admin"\nothers = "nobody"\n')
        self.url = f"tls://127.0.0.1:{free_port()}"
        self.socket = f"unix:{self.directory.name}/placer.sock"
        self.placer = Started(os.path.join(self.directory.name, "placer.log"), PLACER, "--listen", self.url, "--listen", self.socket, "--store", "memory", "--policy", self.policy,
                              "--log", "info", *self.keys.options("server", "127.0.0.1,localhost"))
        self.addCleanup(self.placer.stop)
        self.host = self.keys.options("host", "gpu7,127.0.0.1")
        self.server = Server("--listen", "tls://127.0.0.1:0", "--placer", self.url, *self.host)
        self.addCleanup(self.server.stop)
        wait_for(lambda: "has joined" in self.placer.words(), 20, "the server's joining")

    def write(self, roles):
        with open(self.policy, "w") as file:
            file.write("[roles]\n" + roles)

    def run_as(self, who, *words, **changes):
        return subprocess.run([TESSERA, "run", *self.keys.options("client", who), *words], capture_output=True, text=True, timeout=60,
                              env=environment(TESSERA_PLACER=self.url, **changes))

    def test_a_job_of_whom_a_certificate_names(self):
        done = self.run_as("alice", "--gpu-share", "0.5", "--", program("copies"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("it is of name:alice", self.server.words())
        for who in ("mallory",):
            done = self.run_as(who, "--gpu-share", "0.5", "--", "true")
            self.assertEqual(done.returncode, 73, done.stderr)
            self.assertIn("name:mallory may not do this", done.stderr)
        done = self.run_as("alice", "--priority", "protected", "--", "true")
        self.assertEqual(done.returncode, 73, done.stderr)
        self.assertIn("name:alice may not ask for --priority protected: ask for normal", done.stderr)
        # A ticket is nothing in another's hand.
        kept = os.path.join(self.directory.name, "kept")
        job = subprocess.Popen([TESSERA, "run", *self.keys.options("client", "alice"), "--gpu-share", "0.5", "--", "sh", "-c",
                                f'cp "$TESSERA_TICKET" {kept}; echo ready; read line; exit 0'],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(TESSERA_PLACER=self.url))
        ready(self, job)
        gateway = re.search(r"tls://127\.0\.0\.1:[1-9]\d*", self.server.ready).group()
        for who, code in (("alice", 0), ("mallory", 73)):
            done = self.run_as(who, "--", "true", TESSERA_SERVER=gateway, TESSERA_TICKET=kept)
            self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn("name:mallory", done.stderr)
        self.assertEqual(end(job), 0)

    def test_a_policy_that_changes_is_in_force_at_once_and_a_broken_one_changes_nothing(self):
        self.write('"name:alice" = "ten')
        self.assertEqual(self.run_as("alice", "--", "true").returncode, 0)
        self.write('others = "nobody"\n')
        self.assertEqual(self.run_as("alice", "--", "true").returncode, 73)


    def test_what_a_user_of_the_placers_host_asks_for_is_of_his_name(self):
        self.write(f'"name:gpu7" = "server"\nothers = "nobody"\n[users]\n"uid:{os.getuid()}" = "name:alice"\n')
        alice = self.keys.options("client", "alice")
        done = subprocess.run([TESSERA, "run", *alice, "--placer", self.socket, "--gpu-share", "0.5", "--", program("copies")], capture_output=True,
                              text=True, timeout=60, env=environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("it is of name:alice", self.server.words())
        # Where his name is needed he has to prove it.
        mallory = self.keys.options("client", "mallory")
        done = subprocess.run([TESSERA, "run", *mallory, "--placer", self.socket, "--gpu-share", "0.5", "--", program("copies")], capture_output=True,
                              text=True, timeout=60, env=environment())
        self.assertEqual(done.returncode, 73, done.stderr)


    def test_new_files_of_keys_are_taken_up_and_what_runs_goes_on(self):
        others = Keys()
        place = self.keys.of("server", "127.0.0.1,localhost")  # the placer's
        self.addCleanup(lambda: [pipe.close() for pipe in (job.stdin, job.stdout, job.stderr)])
        job = subprocess.Popen([TESSERA, "run", *self.keys.options("client", "alice"), "--gpu-share", "0.5", "--", "sh", "-c",
                                f"echo ready; read line; exec {program('copies')}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=environment(TESSERA_PLACER=self.url))
        ready(self, job)
        words = self.placer.words

        def put(name, text):
            pathlib.Path(place, name + ".new").write_text(text)
            os.chmod(f"{place}/{name}.new", 0o600)
            os.rename(f"{place}/{name}.new", f"{place}/{name}")

        def get(keys):
            return subprocess.run([TESSERA, "get", "grants", *keys, "--placer", self.url], capture_output=True, text=True, timeout=60, env=environment())

        alice = self.keys.options("client", "alice")
        # A key of others, a certificate that is half there: the old ones stay, with one line.
        before = {name: pathlib.Path(place, name).read_text() for name in ("key.pem", "certificate.pem", "authority.pem")}
        for name, text, why in (("key.pem", pathlib.Path(others.of("client", "x"), "key.pem").read_text(), "is not that of the certificate"),
                                ("certificate.pem", before["certificate.pem"][:300], "holds no certificate in PEM form")):
            put(name, text)
            wait_for(lambda: why in words(), 10, why)
            self.assertEqual(get(alice).returncode, 0)
            put(name, before[name])
            self.assertEqual(words().count(why), 1)
        # Another authority counts, and the one of before does not.
        known = [f"{others.of('client', 'alice')}/{name}.pem" for name in ("certificate", "key")]
        new = ["--certificate", known[0], "--key", known[1], "--authority", f"{self.keys.authority}/authority.pem"]
        self.assertEqual(get(new).returncode, 73)
        put("authority.pem", pathlib.Path(others.authority, "authority.pem").read_text())
        wait_for(lambda: get(new).returncode == 0, 10, "the other authority")
        refused = get(alice)
        self.assertEqual(refused.returncode, 73, refused.stderr)
        # Who was there goes on: the node has the job's session, the job its grant, and it is released.
        self.assertIn("name:alice", get(new).stdout)
        self.assertEqual(end(job), 0)
        wait_for(lambda: "name:alice" not in get(new).stdout, 10, "the release")
        self.assertEqual(words().count("has joined"), 1)
        self.assertNotIn("has left", words())


class ThePage(unittest.TestCase):
    """What docs/pool-gpus.md says of several hosts, with this one in place of each."""

    def test_its_commands(self):
        text = PAGE.read_text().split("## Over several hosts")[1].split("## What a job can ask for")[0]
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        place, port = directory.name, free_port()
        with open(f"{place}/policy.toml", "w") as file:
            file.write("[roles]" + text.split("[roles]")[1].split("```")[0])
        for said, here in (("pool.example:4190", f"127.0.0.1:{port}"), ("gpu7.example:4180", "127.0.0.1:0"), ("policy.toml", f"{place}/policy.toml"),
                           ("server pool.example", "server pool.example,127.0.0.1"), ("host gpu7.example", "host gpu7.example,127.0.0.1"),
                           ("/run/tessera/", place + "/"), ("~/gpu-keys", f"{place}/keys"), ("python train.py", program("copies")),
                           (" 20G", " 1G")):
            self.assertIn(said, text)
            text = text.replace(said, here)
        commands = [line[2:].split() for line in text.splitlines() if line.startswith("$ ")]
        self.assertEqual(len(commands), 7)

        def keys_of(name):
            return {f"TESSERA_{word.upper()}": f"{place}/keys/{name}/{word}.pem" for word in ("certificate", "key", "authority")}

        for words in commands[:4]:
            subprocess.run([TESSERA, *words[1:]], check=True, stdout=subprocess.DEVNULL, env=environment())
        placer, daemon, run = commands[4:]
        placer = Started(f"{place}/placer.log", PLACER, *placer[1:], "--store", "memory", "--log", "info", **keys_of("pool.example"))
        self.addCleanup(placer.stop)
        daemon = Started(f"{place}/daemon.log", DAEMON, *daemon[1:], "--driver", "emulator", XDG_STATE_HOME=place, **keys_of("gpu7.example"))
        self.addCleanup(daemon.stop)
        wait_for(lambda: "has joined" in placer.words(), 20, "the server's joining")
        done = subprocess.run([TESSERA, *run[1:]], capture_output=True, text=True, timeout=60, env=environment(**keys_of("alice")))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("0.5 of its time, 1 GiB", done.stderr)

        # "What happened?", to whom it says; this host is not named gpu7.example.
        subprocess.run([TESSERA, "keys", "client", "carol", "--authority", f"{place}/keys"], check=True, stdout=subprocess.DEVNULL, env=environment())
        text = PAGE.read_text().split("## What happened?")[1].split("\n## ")[0]
        commands = [line.replace("gpu7", socket.gethostname()).split() for line in marked.commands(text)]
        self.assertEqual([words[1] for words in commands], ["events", "events", "audit"])

        def told(words, name):
            done = subprocess.run([TESSERA, *words[1:]], capture_output=True, text=True, timeout=30,
                                  env=environment(TESSERA_PLACER=f"tls://127.0.0.1:{port}", **keys_of(name)))
            self.assertEqual(done.returncode, 73 if (words[1], name) == ("audit", "alice") else 0, done.stderr)
            return done.stdout

        wait_for(lambda: " release " in told(commands[0], "alice"), 10, "the events")
        for name in ("alice", "carol"):
            told(commands[1], name)
            told(commands[2], name)
        self.assertEqual({event["actor"] for event in json.loads(told(commands[2], "carol"))["events"]},
                         {"placer", "name:gpu7.example", "name:alice"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
