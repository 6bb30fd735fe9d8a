#!/usr/bin/env python3
"""`tessera run` as a process: it becomes the program, and a private server ends with the job, however that ends.

usage: run_test.py BUILD_DIRECTORY
"""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

import users
from product import DAEMON, HAS_CONTROL_API, TESSERA, Server, alive, end_with_test, environment, program, the_server, wait_for

# Prints how many devices the driver has.
COUNT = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int(-1); c.cuInit(0); c.cuDeviceGetCount(ctypes.byref(n)); print(n.value, flush=True)"


def run(*words, options=("--quiet", "--driver", "emulator"), **more):
    more.setdefault("env", environment())
    return subprocess.run([TESSERA, "run", *options, "--", *words], capture_output=True, text=True, timeout=60, **more)


def socket_of(pid):
    """The path of the socket of the private server of a job."""
    with open(f"/proc/{pid}/environ") as environ:
        found = re.search("TESSERA_SERVER=unix:([^\0]*)", environ.read())
    return found and found.group(1)


def server_of(path):
    """The process ids of tesserads that listen at `path`, or below it."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as cmdline:
                if f"--listen\0unix:{path}" in cmdline.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


class ExitStatus(unittest.TestCase):
    def test_is_the_programs(self):
        self.assertEqual(run("sh", "-c", "exit 42").returncode, 42)

    def test_of_a_signal_too(self):
        self.assertEqual(run("sh", "-c", "kill -9 $$").returncode, -signal.SIGKILL)
        self.assertEqual(run("sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)
        done = subprocess.run(["sh", "-c", f"'{TESSERA}' run -q --driver emulator -- sh -c 'kill -9 $$'; echo $?"], capture_output=True,
                              text=True, timeout=60, env=environment())
        self.assertEqual(done.stdout, "137\n")

    def test_nothing_on_stdout_but_the_programs(self):
        done = run("echo", "hello", options=("--driver", "emulator"))
        self.assertEqual(done.stdout, "hello\n")
        self.assertRegex(done.stderr, r"^tessera: private server, devices: .*emulated.* ×1, driver 13.0\n$")

    def test_stdin_is_the_programs(self):
        self.assertEqual(run("cat", input="text").stdout, "text")


class Help(unittest.TestCase):
    def test_is_a_command_too(self):
        for words, same in ((("help",), ("--help",)), (("help", "run"), ("run", "--help")), (("help", "vgpu"), ("vgpu", "--help")), (("version",), ("--version",))):
            told = [subprocess.run([TESSERA, *each], capture_output=True, text=True, timeout=60, env=environment()) for each in (words, same)]
            self.assertEqual((told[0].returncode, told[0].stdout, told[0].stderr), (0, told[1].stdout, ""))
            self.assertIn("essera", told[0].stdout)


class DefaultAddress(unittest.TestCase):
    """A server that was told no address, and commands that name none."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = os.path.join(directory.name, "sockets")
        self.url = f"unix:{self.place}/tessera.sock"
        self.env = environment(TESSERA_SOCKET_DIR=self.place)

    def start(self, *options):
        server = subprocess.Popen([DAEMON, "--driver", "emulator", "--warm-workers", "0", "--image-cache-size", "0", *options], stdout=subprocess.PIPE,
                                  text=True, env=self.env)
        end_with_test(server)
        line = server.stdout.readline()
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait, 20)
        self.addCleanup(server.terminate)
        return line

    def say(self, *words, code=0, **changes):
        done = subprocess.run([TESSERA, *words], capture_output=True, text=True, timeout=60, env={**self.env, **changes})
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_commands_find_it(self):
        line = self.start()
        self.assertTrue(line.startswith(f"tesserad: listening on {self.url}, devices: "), line)
        self.assertIn("; here: tessera run -- PROGRAM\n", line)
        self.assertEqual(os.stat(self.place).st_mode & 0o7777, 0o755)
        said = f"tessera: server {self.url} of this host, since none is named (--server, TESSERA_SERVER)\n"
        done = self.say("run", "--", "sh", "-c", "echo $TESSERA_SERVER")
        self.assertEqual((done.stdout, done.stderr), (self.url + "\n", said))
        self.assertEqual(self.say("run", "-q", "--", "true").stderr, "")
        self.assertEqual(self.say("run", "-q", "--wait", "1s", "--", "true").stderr, "")  # for a place there: no pool is asked for
        self.assertEqual(self.say("sessions", "end", "4711", code=81).stderr.splitlines()[0] + "\n", said)
        for words in (("status",), ("top", "--count", "1")):
            done = self.say(*words)
            self.assertEqual((self.url in done.stdout, done.stderr), (True, said))
        self.assertIn(f"none is named, and {self.url} answers: ", self.say("doctor").stdout)
        if HAS_CONTROL_API:
            self.assertEqual(self.say("vgpu", "list").stderr, said)
            self.assertEqual(self.say("vgpu", "list", "--server", self.url.removeprefix("unix:")).stderr, "")
        # What is named comes before it, as does a placer.
        self.assertIn("/nonexistent/x", self.say("run", "--", "true", code=72, TESSERA_SERVER="unix:/nonexistent/x").stderr)
        self.assertIn("/nonexistent/x", self.say("run", "--", "true", code=80, TESSERA_PLACER="unix:/nonexistent/x").stderr)
        self.assertIn("private server", self.say("run", "--driver", "emulator", "--", "true").stderr)

    def test_several_addresses_of_each_kind(self):
        more = os.path.join(os.path.dirname(self.place), "more.sock")
        line = self.start("--listen", "tcp://127.0.0.1:0", "--listen", more, "--listen", "unix:" + more + "2", "--listen", "tcp://127.0.0.1:0")
        where = line.removeprefix("tesserad: listening on ").split(",")[0].split(" and ")
        self.assertEqual(where[:2], [f"unix:{more}", f"unix:{more}2"])
        self.assertEqual(len(set(where)), 4, line)
        for url in (more, *where[1:]):
            self.assertEqual(self.say("run", "-q", "--server", url, "--", program("count")).stdout, "1\n")
        self.assertEqual(line.count("; on other hosts: tessera run --server tcp://127.0.0.1:"), 2, line)

    def test_its_file_of_settings(self):
        file = os.path.join(os.path.dirname(self.place), "settings.toml")
        with open(file, "w") as out:
            out.write(f'listen = ["{self.place}.sock"]\nmax-sessions = 1  # of both\nno-vgpus = true\n')
        self.assertIn(f"listening on unix:{self.place}.sock, ", self.start("--config", file, "--max-sessions", "2"))
        status = self.say("status", "--server", self.place + ".sock", "-o", "json").stdout
        self.assertRegex(status, '"sessions_max": 2')

    def test_where_there_is_none(self):
        done = self.say("status", code=72)
        self.assertEqual(done.stderr, f"tessera: there is no server to ask, and none at {self.url}: start tesserad, or name one with --server or "
                                      "TESSERA_SERVER\n")

    @unittest.skipUnless(users.can_be_another(), "needs to be root, and a build directory that others can read")
    def test_its_group(self):
        os.chmod(os.path.dirname(self.place), 0o755)
        self.start("--socket-group", str(users.GROUP))
        self.assertEqual(os.stat(self.place).st_gid, users.GROUP)
        for group, code, words in ((users.GROUP, 0, f"server {self.url} of this host"),
                                   (users.NO_GROUP, 73, f"the server {self.url} is not for this user: ask for its group")):
            done = subprocess.run([TESSERA, "status"], capture_output=True, text=True, timeout=60, cwd="/", env=self.env,
                                  preexec_fn=users.become(users.ALICE, group))
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(words, done.stderr)


class Job(unittest.TestCase):
    """A job that waits, with a private server."""

    def start(self, *words, **more):
        job = subprocess.Popen([TESSERA, "run", "--quiet", "--driver", "emulator", "--", *words], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), **more)
        self.addCleanup(job.communicate)
        return job

    def start_counting(self):
        """A program with a session that waits for the end of its input; its socket and the server's processes."""
        # Python's own handler of SIGINT may miss one that comes right before it reads.
        job = self.start(sys.executable, "-c", f"import signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); {COUNT}; sys.stdin.read()")
        self.assertEqual(job.stdout.readline(), "1\n")
        path = socket_of(job.pid)
        self.assertTrue(os.path.exists(path))
        servers = server_of(path)
        self.assertEqual(len(servers), 1)
        return job, path, servers[0]

    def check_gone(self, path, server):
        wait_for(lambda: not alive(server), 10, "the end of the private server")
        self.assertFalse(os.path.exists(os.path.dirname(path)), "the directory of the socket is left")

    def test_ends_with_the_program(self):
        job, path, server = self.start_counting()
        job.communicate()
        self.assertEqual(job.returncode, 0)
        self.check_gone(path, server)

    def test_ends_when_killed(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            job, path, server = self.start_counting()
            job.send_signal(number)
            job.wait(10)
            self.assertNotEqual(job.returncode, 0)
            self.check_gone(path, server)

    def test_ends_when_killed_while_the_server_starts(self):
        with tempfile.TemporaryDirectory() as runtime:
            job = subprocess.Popen([TESSERA, "run", "--driver", "emulator", "--", "sleep", "100"], env=environment(XDG_RUNTIME_DIR=runtime))
            wait_for(lambda: server_of(runtime), 10, "the start of a server")
            job.kill()
            job.wait(10)
            wait_for(lambda: not server_of(runtime), 20, "the end of the server")
            wait_for(lambda: not os.listdir(runtime), 10, "the end of its directory")

    def test_signals_reach_the_program(self):
        for number, name in ((signal.SIGTERM, "TERM"), (signal.SIGHUP, "HUP"), (signal.SIGUSR1, "USR1"), (signal.SIGINT, "INT")):
            job = self.start("sh", "-c", f"trap 'echo got {name}; exit 3' {name}; echo ready; while :; do sleep 0.05; done")
            self.assertEqual(job.stdout.readline(), "ready\n")
            job.send_signal(number)
            self.assertEqual(job.communicate(timeout=10)[0], f"got {name}\n")
            self.assertEqual(job.returncode, 3)

    def test_control_c_at_a_terminal(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe(TESSERA, [TESSERA, "run", "--quiet", "--driver", "emulator", "--", "sh", "-c",
                                 "trap 'exit 5' INT; echo ready; while :; do sleep 0.05; done"], environment())
        text = b""
        while b"ready" not in text:
            text += os.read(terminal, 100)
        path = socket_of(pid)
        servers = server_of(path)
        os.write(terminal, b"\x03")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 5)
        os.close(terminal)
        self.check_gone(path, servers[0])

    def test_the_program_has_no_child_it_did_not_start(self):
        done = run(sys.executable, "-c", "import os\ntry:\n  os.waitpid(-1, os.WNOHANG); print('a child')\nexcept ChildProcessError: print('none')")
        self.assertEqual(done.stdout, "none\n")


class Children(unittest.TestCase):
    """Programs that start further processes."""

    def test_a_shell_script(self):
        self.assertEqual(run("sh", "-c", f"'{sys.executable}' -c \"{COUNT}\"; '{sys.executable}' -c \"{COUNT}\"").stdout, "1\n1\n")

    def test_fork_and_exec(self):
        program = f"import subprocess, sys; {COUNT}; print(subprocess.run([sys.executable, '-c', {COUNT!r}], capture_output=True, text=True).stdout, end='')"
        self.assertEqual(run(sys.executable, "-c", program).stdout, "1\n1\n")

    def test_multiprocessing(self):
        for method, expected in (("spawn", "[1, 1]"), ("forkserver", "[1, 1]")):
            with tempfile.TemporaryDirectory() as directory:
                script = os.path.join(directory, "workers.py")
                with open(script, "w") as file:
                    file.write(f"""import ctypes, multiprocessing
def count(_):
    cuda = ctypes.CDLL('libcuda.so.1')
    number = ctypes.c_int(-1)
    cuda.cuInit(0)
    cuda.cuDeviceGetCount(ctypes.byref(number))
    return number.value
if __name__ == '__main__':
    count(0)
    with multiprocessing.get_context('{method}').Pool(2) as pool:
        print(pool.map(count, range(2)))
""")
                done = run(sys.executable, script)
                self.assertEqual(done.stdout, expected + "\n", done.stderr)

    def test_a_process_without_the_environment_gets_no_gpu(self):
        done = run("env", "-u", "LD_LIBRARY_PATH", sys.executable, "-c", "import ctypes; print(ctypes.CDLL('libcuda.so.1')._name)")
        # Whatever is installed on this machine, it is not the client library of this build.
        self.assertNotIn("lib/client", done.stdout)

    def test_runs_inside_a_run(self):
        done = run(TESSERA, "run", "--", sys.executable, "-c", COUNT)
        self.assertEqual((done.stdout, done.stderr), ("1\n", ""))


class ServerCheck(unittest.TestCase):
    def test_makes_no_noise_and_no_worker(self):
        server = Server(log="debug")
        before = server.words()
        done = run("true", options=("--server", server.url))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(server.words(), before)
        self.assertEqual(server.stop(), 0)


class OtherCommands(unittest.TestCase):
    def tessera(self, *words, env=None):
        return subprocess.run([TESSERA, *words], capture_output=True, text=True, timeout=60, env=env or environment())

    def test_help_and_version(self):
        for words in (["--help"], ["--version"], ["run", "--help"], ["status", "--help"], ["top", "--help"], ["doctor", "--help"], ["completion", "--help"]):
            done = self.tessera(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
            self.assertGreater(len(done.stdout), 5)
        codes = re.findall(r"^ +(\d+)  ", self.tessera("run", "--help").stdout, re.MULTILINE)
        self.assertEqual([int(code) for code in codes], [2, 71, 72, 73, 74, 75, 76, 77, 79, 80, 81, 82, 83, 126, 127])

    def test_status(self):
        server = Server()
        done = self.tessera("status", "--server", server.url, "-o", "json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        status = the_server(done.stdout)
        self.assertEqual((status["driver"], status["cuda_version"], status["sessions"]), ("emulator", "13.0", 0))
        self.assertEqual(status["devices"][0]["memory_used_bytes"], 0)
        text = self.tessera("status", env=environment(TESSERA_SERVER=server.url)).stdout
        self.assertRegex(text, r"tesserad .*, driver emulator, CUDA 13.0, 0 of 256 sessions\ndevice 0: .* MiB, 0 MiB used(, load 0 %)?\n$")
        self.assertEqual(server.stop(), 0)
        self.assertEqual(self.tessera("status", "--server", server.url).returncode, 72)
        self.assertEqual(self.tessera("status").returncode, 72)

    def on_a_terminal(self, server):
        """Of 60 columns: lines fit, a key looks again at once, q ends it, and the terminal is as it was."""
        ours, its = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        before = termios.tcgetattr(its)
        become_its = lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the process in its foreground
        top = subprocess.Popen([TESSERA, "top", "--server", server.url, "--interval", "60", "--sort", "memory"], stdin=its, stdout=its, stderr=its,
                               env=environment(), start_new_session=True, preexec_fn=become_its)
        self.addCleanup(top.kill)
        seen = b""

        def look():
            nonlocal seen
            while not re.search(rb"SESSION.*\n.*\n", seen.rsplit(b"\x1b[H\x1b[2J", 1)[-1]):
                seen += os.read(ours, 4096)
            return seen.rsplit(b"\x1b[H\x1b[2J", 1)[-1].decode()

        lines = look().replace("\r", "").splitlines()
        self.assertLessEqual(max(len(line) for line in lines), 60)
        self.assertRegex(lines[-1], r" \d+ MiB +(\d+ %|-)  spin, ")
        seen = b""
        os.write(ours, b"l")
        look()
        os.write(ours, b"q")
        self.assertEqual(top.wait(10), 0)
        self.assertEqual(termios.tcgetattr(its), before)
        os.close(its)

    def test_top(self):
        server = Server()
        spin = subprocess.Popen([TESSERA, "run", "--quiet", "--server", server.url, "--", program("spin")], stdout=subprocess.PIPE, text=True,
                                env=environment())
        end_with_test(spin)
        self.assertTrue(spin.stdout.readline())  # its kernel is about to run
        done = self.tessera("top", "--server", server.url, "-o", "json", "--count", "4", "--interval", "0.15")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        looks = [the_server(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(looks), 4)
        session, = looks[-1]["session_list"]
        self.assertEqual((session["pid"], session["program"]), (spin.pid, "spin"))
        self.assertEqual((session["host"], session["name"]), (os.uname().nodename, f"uid:{os.getuid()}"))
        use, = looks[-1]["uses"]
        self.assertEqual((use["pid"], use["device"]), (spin.pid, 0))
        self.assertGreater(use["gpu_percent"], 50)
        text = self.tessera("top", "--server", server.url).stdout
        self.assertRegex(text, rf"SESSION +PID .*\n +{session['session']} +{spin.pid} +\d+ s +0 +\d+ MiB +\d+ %  spin, {session['user']}@{os.uname().nodename} \(uid:{os.getuid()}\)\n$")
        self.on_a_terminal(server)
        spin.kill()
        spin.wait()
        wait_for(lambda: not server.workers(), 10, "the end of the session")
        self.assertTrue(self.tessera("top", "--server", server.url).stdout.endswith("PROGRAM, USER@HOST (NAME)\n"))
        self.assertEqual(server.stop(), 0)
        self.assertEqual(self.tessera("top", "--server", server.url).returncode, 72)
        self.assertEqual(self.tessera("top", "--interval", "0").returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
