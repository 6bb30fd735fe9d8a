#!/usr/bin/env python3
"""Servers of a pool that are not there yet, or not any more: what their jobs hear."""

import os
import subprocess
import unittest
from pathlib import Path

from pool import PoolServer, Started
from pool_case import SHELL, PoolCase, close
from product import BUILD, DAEMON, TESSERA, environment, wait_for

PAGE = Path(__file__).parents[3] / "docs/pool-gpus.md"
NODE = os.path.join(BUILD, "bin/tessera-node")


class Joining(PoolCase):
    def waits(self, *words):
        """A job that waits, and why."""
        job = self.pool.job(*words, "--", *SHELL)
        self.addCleanup(close, job)
        self.addCleanup(job.kill)
        return job, job.stderr.readline()

    def start_server(self, number):
        self.pool.servers.append(PoolServer(self.pool, number, devices=1))

    def test_a_job_is_there_before_the_first_server(self):
        self.begin(servers=0)
        said = "no server has joined the pool"
        self.assertIn(said, self.ask("place", "--dry-run", code=82))
        late = self.pool.run("--wait", "0", "--", "true")
        self.assertEqual(late.returncode, 82, late.stderr)
        self.assertIn(said, late.stderr)
        job, why = self.waits("--gpu-share", "0.5")
        self.assertIn("waiting for a GPU of the pool: " + said, why)
        self.start_server(1)
        self.assertEqual(job.stdout.readline(), "ready\n", job.poll() is not None and job.stderr.read())
        self.end_all(job)

    def test_what_never_fits_waits_while_a_server_is_away(self):
        self.begin(servers=2, devices=1)
        self.assertEqual(self.pool.run("--gpus", "3", "--", "true").returncode, 81)
        gone = self.pool.servers.pop()
        gone.kill()
        wait_for(lambda: "has left" in self.ask("get", "servers"), 20, "the server's leaving")
        words = ("--gpus", "3", "--wait", "0", "--", "true")
        self.assertEqual(self.pool.run(*words).returncode, 82)
        job, why = self.waits("--gpus", "3")
        self.assertRegex(why, "2 of the pool's 2 fit; server '[^']+' has left")
        self.start_server(gone.number)
        self.assertEqual(job.wait(20), 81, why)
        self.assertIn("the pool has no GPU for this job: 3 GPUs wanted, 2 of the pool's 2 fit\n", job.stderr.read())

    def test_nobody_waits_for_a_server_that_is_removed(self):
        self.begin(servers=2, devices=1)
        gone = self.pool.servers.pop()
        [name] = [name for name in (line.split()[0] for line in self.ask("get", "servers").splitlines()[1:])
                  if "unix:" + gone.path in self.ask("describe", "server", name)]
        self.assertIn(f"server '{name}' is connected: stop its tesserad", self.ask("remove", name, code=81))
        self.assertIn(f"the nearest name is '{name}'", self.ask("remove", name + "x", code=81))
        gone.kill()
        wait_for(lambda: "has left" in self.ask("get", "servers"), 20, "the server's leaving")
        job, why = self.waits("--gpus", "3")
        self.assertIn(f"server '{name}' has left", why)
        # As the page says.
        lines = PAGE.read_text().split("## Remove a server for good")[1].split("```")[1].split("\n")[1:-1]
        said = [self.ask(*line.replace("gpu7", name).split()[1:]) for line in lines]
        self.assertEqual(said[1], f"server {name} is removed from the pool\n")
        self.assertEqual(job.wait(20), 81, why)
        self.assertNotIn(name, self.ask("get", "servers"))
        self.assertIn("remove", self.ask("events", "--of", name))
        self.assertEqual(self.pool.run("--gpu-share", "0.5", "--", "true").returncode, 0)
        # It joins as a new one.
        self.start_server(gone.number)
        wait_for(lambda: name in self.ask("get", "servers"), 20, "the server's joining")

    def test_a_server_that_takes_no_tickets_is_offered_to_nobody(self):
        self.begin(servers=0)
        path = os.path.join(self.pool.directory, "alone.sock")
        daemon = Started(os.path.join(self.pool.directory, "daemon.log"), DAEMON, "--listen", "unix:" + path, "--driver", "emulator", "--grace", "0",
                         "--warm-workers", "0")
        self.addCleanup(daemon.stop)
        node = Started(os.path.join(self.pool.directory, "node.log"), NODE, "--placer", self.pool.url, "--server", "unix:" + path, "--host-id", "alone",
                       "--state", os.path.join(self.pool.directory, "alone.grants"))
        self.addCleanup(node.stop)
        self.assertIn("its tesserad has not started this node, and takes no tickets", node.words())
        wait_for(lambda: "alone" in self.ask("get", "servers"), 20, "the server's joining")
        why = "takes no tickets: its tesserad is to be started with --placer"
        self.assertRegex(self.ask("get", "servers"), f"alone +unix:{path} +1 +not offered: {why}\n")
        self.assertRegex(self.ask("describe", "server", "alone"), f"state +not offered: {why}\nconnection +joined\n")
        doctor = subprocess.run([TESSERA, "doctor", "--placer", self.pool.url], capture_output=True, text=True, timeout=60, env=environment())
        self.assertIn("1 server with 1 GPU; 1 not offered: alone " + why, doctor.stdout)
        job, said = self.waits("--gpu-share", "0.5")
        self.assertIn("1 of a server that " + why, said)
        job.kill()
        # Its tesserad starts the next one.
        for part in (node, daemon):
            self.assertEqual(part.stop(), 0)
        self.start_server(1)
        self.assertEqual(self.pool.run("--gpu-share", "0.5", "--", "true").returncode, 0)

    def test_a_host_without_a_gpu_is_known(self):
        self.begin(devices=1)
        node = Started(os.path.join(self.pool.directory, "node.log"), NODE, "--placer", self.pool.url, "--host-id", "bare",
                       "--state", os.path.join(self.pool.directory, "bare.grants"))
        self.addCleanup(node.stop)
        self.assertEqual(node.ready, f"tessera-node: bare, no server, placer {self.pool.url}\n")
        wait_for(lambda: "bare" in self.ask("get", "servers"), 20, "the host's joining")
        self.assertRegex(self.ask("get", "servers"), "bare +- +0 +not offered: has no GPU\n")
        self.assertRegex(self.ask("describe", "server", "bare"), "state +not offered: has no GPU\nconnection +joined\n")
        self.assertEqual(node.words(), "")
        # It keeps nothing back that never fits, there or away.
        self.assertEqual(self.pool.run("--gpus", "2", "--", "true").returncode, 81)
        self.assertEqual(node.stop(), 0)
        wait_for(lambda: "has left" in self.ask("get", "servers"), 20, "the host's leaving")
        self.assertEqual(self.pool.run("--gpus", "2", "--", "true").returncode, 81)


if __name__ == "__main__":
    unittest.main(verbosity=2)
