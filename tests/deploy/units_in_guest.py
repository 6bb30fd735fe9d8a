"""In the guest of guest_test.py: what systemd makes of the units that the packages have, and what users see of it.

Its services are the machine's own: tesserad has been started at boot, as root, with an emulated GPU.
"""

import json
import os
import pathlib
import pwd
import re
import signal
import subprocess
import time
import unittest

import marked

HERE = pathlib.Path(__file__).resolve().parent
URL = "unix:/run/tessera/tessera.sock"
PLACER = "unix:/run/tessera/placer.sock"
SETTINGS = pathlib.Path("/etc/tessera/tesserad.toml")
SOCKET_GROUP = 'socket-group = "gpu"\n'
SLOW_S = 120  # the processor is emulated, on a machine that may have more to do


def page_commands(name):
    """What the page has typed on a machine with systemd."""
    return marked.systemd_commands((HERE / name).read_text(encoding="utf-8"))


def typed(line, *become, **options):
    """What a shell makes of a page's line; `become`: as_user()'s words."""
    done = run(*become, "bash", "-c", line, **options)
    assert done.returncode == 0, f"$ {line}\n{done}\n{journal('-n', '40')}"
    return done.stdout


def run(*words, timeout=SLOW_S, **options):
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, **options)


def systemctl(*words):
    done = run("systemctl", *words)
    assert done.returncode == 0, f"systemctl {words}: {done}\n{journal('-n', '40')}"
    return done.stdout


def show(unit, *words):
    """What systemd knows of the unit."""
    return dict(line.split("=", 1) for line in systemctl("show", unit, *words).splitlines() if "=" in line)


def journal(*words):
    return run("journalctl", "--no-pager", "-o", "cat", *words).stdout


def wait_for(condition, what, seconds=SLOW_S):
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come in {seconds} s\n{journal('-n', '60')}")
        time.sleep(0.2)
    return found


def as_user(name, *words, **environment):
    """The words that run a command as this user, with nothing of root's environment."""
    home = pwd.getpwnam(name).pw_dir
    return ["runuser", "-u", name, "--", "env", "-i", "-C", home, f"HOME={home}", f"USER={name}", "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8",
            *(f"{key}={value}" for key, value in environment.items()), *words]


def saxpy(*options):
    return ["tessera", "run", *options, "--", f"{HERE}/saxpy", f"{HERE}/saxpy.ptx"]


def sessions():
    """How many the server of root has; -1 while it does not answer."""
    done = run("tessera", "status", "--server", URL, "-o", "json")
    return json.loads(done.stdout)["servers"][0].get("sessions", -1)


def settings(text):
    """The server's, from its next start on."""
    SETTINGS.write_text(SOCKET_GROUP + text)


class Session:
    """Alice's program, which works for so many seconds."""

    def __init__(self, test, seconds):
        self.process = subprocess.Popen(as_user("alice", "tessera", "run", "--quiet", "--server", URL, "--", f"{HERE}/load", "--seconds", str(seconds)),
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        test.addCleanup(self.process.stdout.close)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)
        wait_for(lambda: sessions() == 1 or self.process.poll() is not None, "the session")
        test.assertIsNone(self.process.poll(), "the session has ended")

    def end(self):
        """Its exit code and what it wrote."""
        out, _ = self.process.communicate(timeout=SLOW_S)
        return self.process.returncode, out


class Tesserad(unittest.TestCase):
    def setUp(self):
        settings("")
        systemctl("reset-failed")
        systemctl("restart", "tesserad")

    def test_reload(self):
        session = Session(self, 20)
        before = show("tesserad")
        systemctl("reload", "tesserad")
        after = show("tesserad")
        self.assertEqual([after[key] for key in ("ActiveState", "SubState", "MainPID", "StatusText")],
                         ["active", "running", before["MainPID"], before["StatusText"]])
        self.assertIn("Reloaded tesserad.service", journal("-b", "-u", "tesserad"))
        self.assertEqual(session.end(), (0, "ok\n"))

    def test_who_may_come(self):
        done = run(*as_user("alice", *saxpy()))
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("correct", done.stdout)
        self.assertIn(URL, done.stderr)
        done = run(*as_user("bob", *saxpy("--server", URL)))
        self.assertEqual(done.returncode, 73, done)
        self.assertIn("not allowed to use the socket", done.stderr)

    def test_watchdog(self):
        session = Session(self, 600)
        before = show("tesserad")
        group = pathlib.Path(f"/sys/fs/cgroup{before['ControlGroup']}/cgroup.procs")
        old = set(group.read_text().split())
        self.assertGreater(len(old), 2)  # workers besides
        os.kill(int(before["MainPID"]), signal.SIGSTOP)
        wait_for(lambda: int(show("tesserad")["NRestarts"]) > int(before["NRestarts"]), "the watchdog")
        wait_for(lambda: show("tesserad")["SubState"] == "running", "another server")
        self.assertIn("Watchdog timeout", journal("-b", "-u", "tesserad"))
        self.assertNotEqual(show("tesserad")["MainPID"], before["MainPID"])
        self.assertEqual(old & set(group.read_text().split()), set())
        code, out = session.end()
        self.assertEqual(code, 3, out)
        self.assertIn("lost", out)
        self.assertIn("correct", run(*as_user("alice", *saxpy())).stdout)

    def stop(self):
        """Starts the server's end, and waits until it takes nobody any more."""
        self.killed = self.killed_by_systemd()
        process = subprocess.Popen(["systemctl", "stop", "tesserad"])
        self.addCleanup(process.wait)
        wait_for(lambda: show("tesserad")["ActiveState"] == "deactivating", "the end's begin")
        return process

    def killed_by_systemd(self):
        """Its processes that have outlived it."""
        return journal("-b", "-u", "tesserad").count("Killing process")

    def ended(self, process):
        self.assertEqual(process.wait(SLOW_S), 0)
        self.assertEqual(self.killed_by_systemd(), self.killed, journal("-n", "40"))
        self.assertEqual([show("tesserad")[key] for key in ("ActiveState", "Result", "ExecMainStatus")], ["inactive", "success", "0"])

    def test_drain(self):
        session = Session(self, 25)
        stop = self.stop()
        done = run(*as_user("alice", *saxpy("--server", URL)))
        self.assertEqual(done.returncode, 72, done)
        self.assertIn("the server is ending, 1 sessions left", done.stderr)
        self.assertIn("ending, 1 sessions left", show("tesserad")["StatusText"])
        self.assertEqual(session.end(), (0, "ok\n"))
        self.ended(stop)

    def test_drain_ends_who_goes_on(self):
        settings("grace = 3\n")
        systemctl("restart", "tesserad")
        session = Session(self, 600)
        stop = self.stop()
        code, out = session.end()
        self.assertEqual(code, 3, out)
        self.assertIn("lost", out)
        self.ended(stop)

    def test_settings_with_a_mistake(self):
        settings("max-session = 3\n")
        self.assertNotEqual(run("systemctl", "restart", "tesserad").returncode, 0)
        told = show("tesserad")
        # A mistake stays one: nobody starts the server again and again.
        self.assertEqual([told[key] for key in ("ActiveState", "ExecMainStatus", "NRestarts")], ["failed", "2", "0"])
        self.assertRegex(journal("-b", "-u", "tesserad"), r"tesserad\.toml, line 2: there is no key 'max-session': the nearest is 'max-sessions'")


class Upgrade(unittest.TestCase):
    """docs/upgrade.md, with packages of a higher revision."""

    def test_the_page(self):
        settings(f'placer = "{PLACER}"\nhost-id = "gpu7"\nadmission = "open"\ngrace = 3\n')
        systemctl("restart", "tesserad", "tessera-placer")
        self.addCleanup(systemctl, "stop", "tessera-placer")
        status, install, stop, start, drain, uncordon = page_commands("upgrade.md")
        session = Session(self, 600)
        self.assertRegex(typed(status), r"\bgpu7\b")
        before = show("tesserad")["MainPID"]
        typed(install, cwd=HERE / "next")
        self.assertIn("-2~", run("dpkg-query", "-W", "tessera-server").stdout)
        # The old program serves on.
        self.assertEqual(show("tesserad")["MainPID"], before)
        self.assertRegex(os.readlink(f"/proc/{before}/exe"), r" \(deleted\)$")
        self.assertEqual(sessions(), 1)
        typed(stop)
        self.assertEqual(session.end()[0], 3)
        typed(start)
        self.assertNotRegex(os.readlink(f"/proc/{show('tesserad')['MainPID']}/exe"), "deleted")
        self.assertIn("correct", run(*as_user("alice", *saxpy("--server", URL))).stdout)

        def offered():
            rows = json.loads(run("tessera", "get", "servers", "-o", "json").stdout or '{"servers": []}')["servers"]
            return [row["offered"] for row in rows if row["server"] == "gpu7"]
        wait_for(lambda: offered() == [True], "the server in the pool")
        typed(drain)
        wait_for(lambda: offered() == [False], "its drain")
        typed(uncordon)
        wait_for(lambda: offered() == [True], "its end")


class AtBoot(unittest.TestCase):
    def test_ready(self):
        told = show("tesserad")
        self.assertEqual([told[key] for key in ("ActiveState", "SubState", "Type", "NRestarts", "Result")], ["active", "running", "notify", "0", "success"])
        self.assertRegex(told["StatusText"], rf"^{URL}, Tessera emulated GPU")
        self.assertIn(f"listening on {URL}", journal("-b", "-u", "tesserad"))

    def test_exposure_is_what_the_readme_says(self):
        rows = dict(re.findall(r"^\| `([\w-]+\.service)` \| ([\d.]+) \|", (HERE / "exposure.md").read_text(), re.MULTILINE))
        self.assertEqual(len(rows), 3)
        for unit, most in rows.items():
            said = float(re.search(r"exposure level for \S+: ([\d.]+)", run("systemd-analyze", "security", unit).stdout)[1])
            print(f"{unit}: exposure {said}")
            self.assertLessEqual(said, float(most), unit)


class Pool(unittest.TestCase):
    """The placer and a node, whose units give up more than tesserad's."""

    def setUp(self):
        settings("")
        systemctl("restart", "tesserad", "tessera-placer")
        self.addCleanup(systemctl, "stop", "tessera-placer")
        self.assertIn(PLACER, self.runs("tessera-placer")["StatusText"])

    def runs(self, unit):
        told = show(unit)
        self.assertEqual([told["ActiveState"], told["SubState"], told["NRestarts"]], ["active", "running", "0"])
        return told

    def joins(self, name):
        wait_for(lambda: name in run("tessera", "get", "servers", "--placer", PLACER).stdout, "the server in the pool")

    def test_a_job_is_placed(self):
        settings(f'placer = "{PLACER}"\n')
        systemctl("restart", "tesserad")
        self.joins("gpu7-")
        done = run(*saxpy("--placer", PLACER, "--gpu-share", "0.5", "--wait", "60s"))
        self.assertEqual(done.returncode, 0, f"{done}\n{journal('-n', '40')}")
        self.assertIn("correct", done.stdout)
        wait_for(lambda: json.loads(run("tessera", "vgpu", "usage", "--server", URL, "-o", "json").stdout or "{}").get("rows"), "records of what it used")

    def test_a_node_of_its_own(self):
        pathlib.Path("/etc/default/tessera-node").write_text(f"PLACER={PLACER}\nOPTIONS=--server unix:/run/tessera/tessera.sock\n")
        systemctl("start", "tessera-node")
        self.addCleanup(systemctl, "stop", "tessera-node")
        status = self.runs("tessera-node")["StatusText"]
        self.assertIn(f"placer {PLACER}", status)
        self.joins(status.split(",")[0])
        systemctl("reload", "tessera-node")
        self.assertEqual(self.runs("tessera-node")["StatusText"], status)

    def test_the_socket_keeps_its_group(self):
        """/run/tessera is the placer's as well."""
        systemctl("restart", "tessera-placer")
        done = run(*as_user("alice", *saxpy("--server", URL)))
        self.assertIn("correct", done.stdout, done)


class OfAUser(unittest.TestCase):
    """The user unit, by the systemd of a user who is not logged in."""

    def test_it_serves_its_user(self):
        user = pwd.getpwnam("alice").pw_uid
        runtime = f"/run/user/{user}"
        systemctl("start", f"user@{user}.service")
        self.addCleanup(systemctl, "stop", f"user@{user}.service")

        def alice(*words, code=0):
            done = run(*as_user("alice", *words, XDG_RUNTIME_DIR=runtime))
            self.assertEqual(done.returncode, code, f"{done}\n{journal('-n', '40')}")
            return done.stdout + done.stderr
        of_root, of_alice = page_commands("server-at-boot.md")
        typed(of_root)
        self.assertEqual(show("tesserad")["UnitFileState"], "enabled")
        typed(of_alice, *as_user("alice", XDG_RUNTIME_DIR=runtime))
        self.assertEqual(alice("systemctl", "--user", "is-enabled", "tesserad"), "enabled\n")
        self.assertIn(f"unix:{runtime}/tessera.sock", alice("systemctl", "--user", "show", "-p", "StatusText", "tesserad"))
        # Hers goes before root's.
        out = alice(*saxpy())
        self.assertIn("correct", out)
        self.assertIn(f"unix:{runtime}/tessera.sock", out)
        alice("systemctl", "--user", "reload", "tesserad")
        alice("systemctl", "--user", "stop", "tesserad")
        self.assertIn("Result=success", alice("systemctl", "--user", "show", "-p", "Result", "tesserad"))


if __name__ == "__main__":
    # AtBoot comes first: it looks at what nobody has touched yet.
    if unittest.main(verbosity=2, exit=False).result.wasSuccessful():
        print("guest: all is well")
