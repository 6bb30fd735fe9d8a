#!/usr/bin/env python3
"""Programs that reach their server through an agent and a gateway, over TCP, plain and under TLS: several at once, parts that are killed in the
middle, jobs of several processes, peers that are no agents.

usage: two_hosts_test.py BUILD_DIRECTORY
"""

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import time
import unittest

from product import GATEWAY, TESSERA, Agent, Gateway, Keys, Server, alive, environment, program, status_of, wait_for, words_of

COUNT = program("count")  # prints how many devices there are
PREAMBLE = struct.pack("<IIII", 0x4B4E4C54, 3, 0, 0)
JOIN = struct.pack("<IIQQQ", 8, 0, 16, 1, 0) + bytes(16)  # the only connection of its link


def agents_of(url):
    """The process ids of agents of the gateway at `url`, without the process of each that connects."""
    found = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        words = words_of(pid)
        if words and words[0].endswith("tessera-agent") and url in words and alive(pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found[pid] = int(status_of(pid)["PPid"])
    return [pid for pid, parent in found.items() if parent not in found]


class TwoHosts(unittest.TestCase):
    GRACE = 30  # of sessions whose link is lost
    link = "tcp"

    def setUp(self):
        self.keys = Keys() if self.link == "tls" else None
        self.server = Server()
        self.gateway = self.new_gateway()
        self.addCleanup(self.check_all_ended)

    def check_all_ended(self):
        wait_for(lambda: not agents_of(self.gateway.url), 10, "the end of all agents")
        if self.gateway.process.poll() is None:
            self.assertEqual(self.gateway.stop(), 0)
        wait_for(lambda: not self.server.workers(), 10, "the end of all workers")
        self.assertEqual(self.server.stop(), 0)

    def new_gateway(self, *options):
        keys = self.keys.options("server", "localhost,127.0.0.1") if self.keys else []
        return Gateway(self.server.path, "--resume-grace", str(self.GRACE), *keys, *options, listen=self.link + "://127.0.0.1:0")

    def new_agent(self, url):
        return Agent(url, *(self.keys.options("client", "alice") if self.keys else []))

    def environment(self):
        return environment(**(self.keys.environment("client", "alice") if self.keys else {}))

    def start(self, *words, url=None, **more):
        return subprocess.Popen([TESSERA, "run", "--quiet", "--server", url or self.gateway.url, "--", *words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.environment(), **more)

    def address(self):
        host, port = re.fullmatch(r"t..://(.*):(\d+)", self.gateway.url).groups()
        return host, int(port)


class Killed(TwoHosts):
    """A part that is gone from one moment to the next: its clients get an error when the grace time is over, and nothing is left
    of them. Links that are lost while all parts live: resume_test.py."""

    GRACE = 1

    def spin(self, url):
        client = self.start(program("spin"), url=url)
        self.assertEqual(client.stdout.readline(), "spinning\n")
        return client

    def check_lost(self, client, kill):
        killed_at = time.monotonic()
        kill()
        out, err = client.communicate(timeout=20)
        self.assertLess(time.monotonic() - killed_at, self.GRACE + 8.0)
        self.assertRegex(out, r"ended with [1-9]\d*\n")
        self.assertEqual(client.returncode, 0)
        self.assertRegex(err, r"^tessera[^\n]*start the program again\n$")  # one sentence, once
        wait_for(lambda: not self.server.workers(), 10, "the end of the worker")

    def test_the_agent(self):
        agent = self.new_agent(self.gateway.url)
        self.check_lost(self.spin(agent.url), agent.process.kill)
        agent.stop()

    def test_the_gateway(self):
        agent = self.new_agent(self.gateway.url)
        self.check_lost(self.spin(agent.url), self.gateway.process.kill)
        # The agent goes on: a new gateway at the same address is a new server to it.
        self.assertIsNone(agent.process.poll())
        self.gateway.process.wait()
        self.gateway.stop()
        self.assertEqual(agent.stop(), 0)

    def test_the_worker(self):
        client = self.spin(self.gateway.url)
        self.check_lost(client, lambda: os.kill(self.server.workers()[0], signal.SIGKILL))

    def test_the_program(self):
        client = self.spin(self.gateway.url)
        client.kill()
        client.communicate()
        wait_for(lambda: not self.server.workers(), 10, "the end of the killed client's worker")

    def test_in_the_middle_of_copies(self):
        for part in ("agent", "gateway"):
            gateway = self.new_gateway()
            agent = self.new_agent(gateway.url)
            client = self.start(program("copy_loop"), "ordinary", url=agent.url)
            self.assertEqual(client.stdout.readline(), "copying\n")
            self.check_lost(client, (agent if part == "agent" else gateway).process.kill)
            for one in (agent, gateway):
                one.stop()

    def test_a_signal_ends_agent_and_gateway_in_order(self):
        for part in ("agent", "gateway"):
            gateway = self.new_gateway()
            agent = self.new_agent(gateway.url)
            client = self.spin(agent.url)
            one, other = (agent, gateway) if part == "agent" else (gateway, agent)
            self.check_lost(client, one.process.terminate)
            self.assertEqual(one.stop(), 0)
            self.assertEqual(other.stop(), 0)


class OneCommand(unittest.TestCase):
    """A daemon that starts its gateway itself."""

    def test_serves_other_hosts_and_takes_the_gateway_along(self):
        server = Server("--listen", "tcp://127.0.0.1:0")
        url = re.search(r" and (tcp://127.0.0.1:\d+), devices", server.ready).group(1)
        gateways = server.gateways()
        self.assertEqual(len(gateways), 1)
        done = subprocess.run([TESSERA, "run", "--quiet", "--server", url, "--", COUNT], capture_output=True, text=True,
                              timeout=60, env=environment())
        self.assertEqual((done.stdout, done.stderr), ("1\n", ""))
        self.assertEqual(server.stop(), 0)
        self.assertFalse(alive(gateways[0]))

    def test_says_when_the_gateway_has_ended(self):
        server = Server("--listen", "tcp://127.0.0.1:0")
        os.kill(server.gateways()[0], signal.SIGKILL)
        wait_for(lambda: "the gateway at tcp://127.0.0.1" in server.words(), 10, "the line in the log")
        self.assertEqual(server.stop(), 0)

    def test_a_killed_daemon_leaves_no_gateway(self):
        server = Server("--listen", "tcp://127.0.0.1:0")
        gateway = server.gateways()[0]
        server.process.kill()
        wait_for(lambda: not alive(gateway), 10, "the end of the gateway")
        server.stop()


class Several(TwoHosts):
    def test_programs_at_once_through_one_agent(self):
        agent = self.new_agent(self.gateway.url)
        for client in [self.start(program("load"), url=agent.url) for _ in range(4)]:
            out, err = client.communicate(timeout=100)
            self.assertEqual((client.returncode, out), (0, "ok\n"), err)
        self.assertEqual(agent.stop(), 0)

    def test_jobs_at_once_through_one_gateway(self):
        clients = [self.start(program("load")) for _ in range(3)]
        for client in clients:
            out, err = client.communicate(timeout=100)
            self.assertEqual((client.returncode, out), (0, "ok\n"), err)


class Connections(TwoHosts):
    def test_connections_that_share_what_is_copied(self):
        for connections in ("2", "5"):
            job = subprocess.run([TESSERA, "run", "--quiet", "--server", self.gateway.url, "--connections", connections, "--", program("load")],
                                 capture_output=True, text=True, timeout=100, env=self.environment())
            self.assertEqual((job.returncode, job.stdout, job.stderr), (0, "ok\n", ""))
        self.assertNotIn("turned away", self.gateway.words())


class Jobs(TwoHosts):
    """`tessera run --server tcp://...`: an agent for the job."""

    def test_further_processes_use_the_same_agent(self):
        job = self.start("sh", "-c", f"'{COUNT}'; '{COUNT}'; echo $TESSERA_SERVER")
        out, err = job.communicate(timeout=60)
        self.assertRegex(out, r"^1\n1\nunix:/.*\n$")
        self.assertEqual((job.returncode, err), (0, ""))

    def test_runs_inside_a_run(self):
        job = self.start(TESSERA, "run", "--", COUNT)
        self.assertEqual(job.communicate(timeout=60), ("1\n", ""))

    def test_the_agent_ends_with_the_job(self):
        for number in (None, signal.SIGKILL, signal.SIGTERM):
            job = self.start("sh", "-c", "echo $TESSERA_SERVER; exec cat", stdin=subprocess.PIPE)
            path = job.stdout.readline().strip()[len("unix:"):]
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
            agents = agents_of(self.gateway.url)
            self.assertEqual(len(agents), 1)
            if number is not None:
                job.send_signal(number)
            job.communicate()
            wait_for(lambda: not alive(agents[0]), 10, "the end of the agent")
            self.assertFalse(os.path.exists(os.path.dirname(path)), "the directory of the socket is left")

    def test_status_and_doctor(self):
        for words in (["status"], ["doctor"]):
            done = subprocess.run([TESSERA, *words, "--server", self.gateway.url], capture_output=True, text=True, timeout=60, env=self.environment())
            self.assertIn("emulated", done.stdout, done.stderr)
            self.assertIn(self.gateway.url, done.stdout)
            self.assertEqual(done.returncode, 0, done.stdout)


class Strangers(TwoHosts):
    """Peers that are no agents: only their own connection ends, with a line in the gateway's log."""

    def said(self, *parts):
        """What the gateway answers to someone who says this, until it hangs up."""
        with socket.create_connection(self.address(), timeout=20) as peer:
            peer.sendall(b"".join(parts))
            answer = b""
            try:
                while more := peer.recv(4096):
                    answer += more
            except ConnectionResetError:
                pass
            return answer

    def check(self, sentence, *parts, answer=b""):
        self.assertEqual(self.said(*parts), answer)
        wait_for(lambda: re.search("turned away 127.0.0.1:.*" + sentence, self.gateway.words()), 10, "the line in the log: " + sentence)
        self.assertEqual(self.gateway.words().count("turned away"), 1, self.gateway.words())
        job = self.start(COUNT)
        self.assertEqual(job.communicate(timeout=60), ("1\n", ""))

    def test_another_protocol(self):
        self.check("no tessera", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

    def test_another_version(self):
        self.check("link version 99", struct.pack("<IIII", 0x4B4E4C54, 99, 0, 0), answer=PREAMBLE)

    def test_a_frame_that_is_no_hello(self):
        self.check("something else than a message of the handshake", PREAMBLE, JOIN, struct.pack("<IIQQQ", 2, 0, 8, 0, 0), b"12345678", answer=PREAMBLE)

    def test_a_connection_that_does_not_say_which_it_is(self):
        self.check("did not say which connection", PREAMBLE, struct.pack("<IIQQQ", 1, 0, 8, 0, 0), b"12345678", answer=PREAMBLE)

    def test_a_connection_of_more_than_there_can_be(self):
        self.check("more connections than there can be", PREAMBLE, struct.pack("<IIQQQ", 8, 0, 16, 2**40, 0) + bytes(16), answer=PREAMBLE)

    def test_a_length_beyond_the_bound(self):
        self.check("frame of 18446744073709551615 bytes", PREAMBLE, struct.pack("<IIQQQ", 1, 0, 2**64 - 1, 0, 0), answer=PREAMBLE)

    def test_a_hello_that_is_cut_off(self):
        hello = struct.pack("<III", 0x41525354, 1, 2)
        self.check("malformed", PREAMBLE, JOIN, struct.pack("<IIQQQ", 1, 0, len(hello), 0, 0), hello, answer=PREAMBLE)

    def test_one_that_says_nothing_is_dropped(self):
        self.gateway.stop()
        self.gateway = self.new_gateway("--hello-timeout", "1")
        began_at = time.monotonic()
        self.check("said nothing", PREAMBLE[:5])
        self.assertLess(time.monotonic() - began_at, 8)

    def test_many_that_say_nothing_leave_room_for_others(self):
        silent = [socket.create_connection(self.address(), timeout=20) for _ in range(40)]
        job = self.start(COUNT)
        self.assertEqual(job.communicate(timeout=60), ("1\n", ""))
        for one in silent:
            one.close()

    def test_a_session_limit(self):
        gateway = self.new_gateway("--max-sessions", "1")
        agent = self.new_agent(gateway.url)
        holder = subprocess.Popen([TESSERA, "run", "--quiet", "--server", agent.url, "--", COUNT, "--wait"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
        self.assertEqual(holder.stdout.readline(), "1\n")
        done = subprocess.run([TESSERA, "run", "--server", agent.url, "--", "true"], capture_output=True, text=True, timeout=60, env=environment())
        self.assertRegex(done.stderr, "1 sessions, its limit: raise --max-sessions of tessera-gateway")
        self.assertEqual(done.returncode, 72)
        holder.communicate()
        self.assertEqual((agent.stop(), gateway.stop()), (0, 0))


class ConnectionsOverTls(Connections):
    link = "tls"


class KilledOverTls(Killed):
    link = "tls"


class SeveralOverTls(Several):
    link = "tls"


class JobsOverTls(Jobs):
    link = "tls"

    def test_doctor_knows_how_long_the_certificate_lasts(self):
        place = self.keys.of("client", "alice")
        for days, grade in (("300", "good"), ("5", "note")):
            self.keys.make("client", "alice", "--authority", self.keys.authority, "--days", days, "--force")
            done = subprocess.run([TESSERA, "doctor", "--server", self.gateway.url], capture_output=True, text=True, timeout=60, env=self.environment())
            self.assertRegex(done.stdout, rf"{grade} +certificate: {place}/certificate.pem is that of alice until ")


class Secure(TwoHosts):
    """Who may connect under TLS, and what is said to those that may not."""

    link = "tls"

    def refused(self, sentence, environment, code=73):
        done = subprocess.run([TESSERA, "run", "--server", self.gateway.url, "--", "true"], capture_output=True, text=True, timeout=60, env=environment)
        self.assertRegex(done.stderr, f"^tessera: [^\n]*{sentence}[^\n]*\n$")
        self.assertEqual(done.returncode, code)

    def logs(self, sentence):
        wait_for(lambda: re.search(sentence, self.gateway.words()), 10, "the line in the log: " + sentence)

    def test_the_log_says_who_it_is(self):
        self.assertEqual(self.start(COUNT).communicate(timeout=60), ("1\n", ""))
        self.logs(r"a session of alice \(127\.0\.0\.1:\d+\) has begun")
        self.logs(r"a session of alice \(127\.0\.0\.1:\d+\) is over")

    def test_strangers(self):
        strangers = Keys()
        other = strangers.environment("client", "mallory")
        self.refused("there is no certificate at /nonexistent/tessera/certificate.pem.*tessera keys client", environment(XDG_CONFIG_HOME="/nonexistent"))
        self.refused("does not have", environment(**other))  # their authority did not sign the gateway's
        time.sleep(1.1)  # the log has a line a second of strangers
        trusting = self.keys.environment("client", "alice")["TESSERA_AUTHORITY"]
        self.refused("is not known there", environment(**{**other, "TESSERA_AUTHORITY": trusting}))
        self.logs("turned away 127.0.0.1:.*'mallory' of the peer was signed by")
        self.assertEqual(self.start(COUNT).communicate(timeout=60), ("1\n", ""))

    def test_only_who_is_allowed(self):
        self.gateway.stop()
        self.gateway = self.new_gateway("--allow", "alice")
        self.assertEqual(self.start(COUNT).communicate(timeout=60), ("1\n", ""))
        self.refused("does not allow 'bob'.*--allow bob", environment(**self.keys.environment("client", "bob")))
        self.logs("'bob' is not allowed here")

    def test_plain_and_tls_tell_each_other(self):
        url, self.gateway.url = self.gateway.url, self.gateway.url.replace("tls://", "tcp://")
        self.refused("speaks TLS: write tls://", environment(), 72)
        self.gateway.url = url
        self.logs("the peer speaks plain TCP")

    def test_new_certificates_need_no_restart(self):
        place = self.keys.of("server", "localhost,127.0.0.1")
        self.keys.make("server", "localhost,other.example", "--authority", self.keys.authority, "--directory", place, "--force")
        self.refused("is for localhost, other.example and not for 127.0.0.1", self.environment())
        self.keys.make("server", "localhost,127.0.0.1", "--authority", self.keys.authority, "--directory", place, "--force")
        self.assertEqual(self.start(COUNT).communicate(timeout=60), ("1\n", ""))

    def test_either_side_may_have_the_records_of_openssl(self):
        for gateway, client in (("own", "openssl"), ("openssl", "own"), ("openssl", "openssl")):
            started = self.new_gateway("--tls-records", gateway)
            done = subprocess.run([TESSERA, "run", "--quiet", "--server", started.url, "--", program("load"), "--rounds", "3"], capture_output=True,
                                  text=True, timeout=100, env={**self.environment(), "TESSERA_TLS_RECORDS": client})
            self.assertEqual((done.stdout, done.stderr), ("ok\n", ""), (gateway, client))
            self.assertEqual(started.stop(), 0)

    def test_records_of_nobody(self):
        self.refused("TESSERA_TLS_RECORDS takes own or openssl, not 'other'", {**self.environment(), "TESSERA_TLS_RECORDS": "other"}, 72)
        options = ["--listen", "tls://127.0.0.1:0", "--server", "unix:" + self.server.path]
        for words, env, code, sentence in ((["--tls-records", "other"], {}, 2, "--tls-records"),
                                           ([], {"TESSERA_TLS_RECORDS": "other"}, 4, "TESSERA_TLS_RECORDS takes own or openssl")):
            done = subprocess.run([GATEWAY, *options, *self.keys.options("server", "localhost,127.0.0.1"), *words], capture_output=True, text=True,
                                  timeout=60, env=environment(**env))
            self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
            self.assertIn(sentence, done.stderr)

    def test_a_daemon_hands_its_options_on(self):
        server = Server("--listen", "tls://127.0.0.1:0", "--allow", "alice", "--tls-records", "openssl", *self.keys.options("server", "localhost,127.0.0.1"))
        url = re.search(r" and (tls://127.0.0.1:\d+), devices", server.ready).group(1)
        self.assertEqual(self.start(COUNT, url=url).communicate(timeout=60), ("1\n", ""))
        words = server.children_by_words()[server.gateways()[0]]
        self.assertEqual(words[words.index("--tls-records") + 1], "openssl")
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
