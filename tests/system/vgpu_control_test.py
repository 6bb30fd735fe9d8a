#!/usr/bin/env python3
"""vGPUs by `tessera vgpu`, while programs run, and by several users of the host.

usage: vgpu_control_test.py BUILD_DIRECTORY
"""

import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import users
from product import CLIENT, TESSERA, Server, end_with_test, environment, program, wait_for
from vgpu_control_case import VgpuControlCase
from vgpu_test import vgpu

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../docs"))
import marked  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/give-a-team-a-quota.md"


class VgpuControl(VgpuControlCase):
    def run_as(self, user, name):
        """The exit code of a program of this user's in a vGPU, and what was said on stderr."""
        done = subprocess.run([TESSERA, "run", "--quiet", "--server", self.server.url, "--vgpu", name, "--", program("occupy"), "1", "1"],
                              capture_output=True, text=True, timeout=60, cwd="/", env=environment(), preexec_fn=users.become(user))
        return done.returncode, done.stderr

    def test_what_the_page_about_teams_says(self):
        self.serve(memory_mib=80 << 10)
        people = {"alice": "root", "bob": "daemon", "dave": "nobody", "erin": "bin"}  # users that every host has
        commands = [line.split()[2:] for line in marked.commands(PAGE.read_text()) if line.startswith("tessera vgpu ")]
        self.assertGreater(len(commands), 6)
        for words in commands:
            words = words[:words.index("--server")] if "--server" in words else words
            self.vgpu(*(people.get(word, word) for word in words))
            if words[:2] == ["create", "vision"]:
                vision = self.json("show", "vision")
                self.assertEqual((vision["request"], vision["limit"], vision["memory_bytes"], vision["max_sessions"]), (0.5, 0.8, 30 << 30, 8))
        self.assertEqual(self.names(), ["batch", "speech"])

    def test_deleted_by_force_after_a_grace(self):
        self.serve()
        self.vgpu("create", "a", "--request", 0.3)
        self.vgpu("create", "b", "--request", 0.3)
        first, _ = self.tenant("a")
        second, _ = self.tenant("b")
        # One that makes no calls.
        idle = subprocess.Popen([TESSERA, "run", "--server", self.server.url, "--vgpu", "a", "--", program("occupy"), "0", "1", "1", "stay"],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        end_with_test(idle)
        self.assertEqual(idle.stdout.readline(), "begins\n")
        began_at = time.monotonic()
        self.vgpu("delete", "a", "--force", "--grace", 3)
        self.assertEqual(self.names(), ["b"])
        self.assertIsNone(first.poll())
        said = r"tessera\[\d+\]: error: .*: its vGPU was deleted by force \(tessera vgpu delete --force\)\): CUDA calls fail from now on"
        # The program's own exit code, after a call that failed.
        self.assertRegex(first.communicate(timeout=30)[1], said + r".*\n.*cuLaunchKernel\(.*\): 46\n")
        self.assertEqual(first.returncode, 1)
        self.assertGreater(time.monotonic() - began_at, 2.5)
        wait_for(lambda: len(self.server.workers()) == 1, 20, "the end of the other session")
        self.assertNotIn("is killed", self.server.words())
        self.assertIsNone(idle.poll())
        self.assertRegex(idle.communicate("", timeout=30)[1], said)
        self.assertIsNone(second.poll())

    def test_a_grace_outlives_the_broker(self):
        self.serve()
        self.vgpu("create", "a", "--request", 0.3)
        self.vgpu("create", "b", "--request", 0.3)
        first, _ = self.tenant("a")
        second, _ = self.tenant("b")
        began_at, broker = time.monotonic(), self.server.broker()
        self.vgpu("delete", "a", "--force", "--grace", 5)
        os.kill(broker, signal.SIGKILL)
        wait_for(lambda: self.server.broker() not in (None, broker), 30, "another broker")
        self.assertIn("deleted by force", first.communicate(timeout=30)[1])
        self.assertGreater(time.monotonic() - began_at, 4.5)
        self.assertIsNone(second.poll())
        self.assertEqual(self.comes_back().keys(), {"b"})

    def test_memory_by_command(self):
        self.serve()
        mib = 1 << 20
        # The emulated GPU has 4 GiB: as much of them as of the time.
        self.assertEqual(self.json("create", "a", "--request", 0.5)["memory_bytes"], 2048 * mib)
        self.assertEqual(self.json("create", "b", "--memory", "64MiB")["memory_bytes"], 64 * mib)
        self.assertIn("memory    64 MiB\n", self.vgpu("show", "b"))
        tries = lambda size: subprocess.run([TESSERA, "run", "--quiet", "--server", self.server.url, "--vgpu", "b", "--", program("memory_limit"),
                                             "try", str(size)], capture_output=True, text=True, timeout=60, env=environment()).stdout
        self.assertEqual((tries(64), tries(65)), ("yes\n", "no\n"))
        holder = subprocess.Popen([TESSERA, "run", "--quiet", "--server", self.server.url, "--vgpu", "b", "--", program("memory_limit"), "hold", "40"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
        end_with_test(holder)
        holder.stdout.readline()
        # Those that tried have ended, and their workers as well.
        wait_for(lambda: self.json("show", "b")["memory_held_bytes"] == 40 * mib, 20, "what the program holds alone")
        kinds = self.json("show", "b")["memory_held_by_kind"]
        self.assertEqual({kind: held for kind, held in kinds.items() if held}, {"allocations": 40 * mib})
        holder.communicate("\n")
        self.vgpu("resize", "b", "--memory", "100MiB")
        self.assertEqual((tries(100), tries(101)), ("yes\n", "no\n"))
        self.assertEqual(self.json("resize", "b", "--memory", "none")["memory_bytes"], 0)
        self.assertEqual(tries(3000), "yes\n")
        wait_for(lambda: not self.server.workers(), 10, "the ends of its sessions")
        self.assertIn("memory 3 GiB is 1 GiB too much: the GPU has 4 GiB for vGPUs, and 2 GiB are left",
                      self.vgpu("create", "c", "--memory", "3GiB", code=79))
        self.assertIn("--memory: '8GB' is neither none nor a number of bytes", self.vgpu("resize", "b", "--memory", "8GB", code=2))

    def test_sessions_beyond_the_most_of_a_vgpu(self):
        self.serve()
        self.assertEqual(self.json("create", "a", "--max-sessions", 1)["max_sessions"], 1)
        first, worker = self.tenant("a")
        self.assertIn("sessions  1 of 1\n", self.vgpu("show", "a"))
        run = lambda: subprocess.run([TESSERA, "run", "--quiet", "--server", self.server.url, "--vgpu", "a", "--", program("count")],
                                     capture_output=True, text=True, timeout=60, env=environment())
        refused = run()
        self.assertEqual(refused.returncode, 83, refused.stderr)
        self.assertRegex(refused.stderr, r"\Atessera: vGPU 'a' has 1 session, and may have 1 at a time: [^\n]+\n\Z")
        # The library by itself.
        alone = subprocess.run([program("count")], capture_output=True, text=True, timeout=60,
                               env=environment(TESSERA_SERVER=self.server.url, LD_LIBRARY_PATH=CLIENT, TESSERA_VGPU="a"))
        self.assertNotEqual(alone.stdout, "1\n")
        self.assertIn("vGPU 'a' has 1 session", alone.stderr)
        self.assertEqual(self.json("resize", "a", "--max-sessions", 2)["max_sessions"], 2)
        self.assertEqual((run().stdout, first.poll()), ("1\n", None))
        self.vgpu("resize", "a", "--max-sessions", 1)
        self.assertIn(worker, self.server.workers())
        self.assertEqual(self.json("resize", "a", "--max-sessions", "none")["max_sessions"], 0)
        self.assertEqual(run().stdout, "1\n")
        self.assertIn("'0' is neither none nor a number above 0", self.vgpu("resize", "a", "--max-sessions", 0, code=2))

    def test_in_the_words_of_fast_gshare(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        state = os.path.join(directory.name, "state")
        self.serve("--state", state)
        says = lambda *pairs: [word for pair in pairs for word in ("--annotation", "fastgshare/" + pair)]
        made = self.json("create", "a", *says("gpu_quota_request=0.3", "gpu_quota_limit=0.6", "gpu_mem=67108864"))
        self.assertEqual((made["request"], made["limit"], made["memory_bytes"], made["annotations"]), (0.3, 0.6, 64 << 20, {}))
        self.assertIn("SMs       all\n", self.vgpu("show", "a"))
        # The one that has no effect yet.
        done = subprocess.run([TESSERA, "vgpu", "create", "b", *says("gpu_sm_partition=24"), "--server", self.server.url], capture_output=True,
                              text=True, timeout=60, env=environment())
        self.assertEqual((done.returncode, done.stderr),
                         (0, "tessera: fastgshare/gpu_sm_partition is kept, and takes effect with tiles, which do not exist yet\n"))
        self.assertIn("SMs       24 %\n", done.stdout)
        self.assertRegex(self.vgpu("list"), r"\nb .* 24 % ")
        changed = self.json("resize", "b", *says("gpu_quota_limit=0.5"))
        self.assertEqual((changed["limit"], changed["annotations"]), (0.5, {"fastgshare/gpu_sm_partition": "24"}))
        # What cannot be.
        for words, sentence in (((*says("gpu_quota_request=0.3"), "--request", 0.4), "fastgshare/gpu_quota_request: '0.3' contradicts request 0.4"),
                                (says("gpu_mem=8GiB"), "fastgshare/gpu_mem: '8GiB' is no number of bytes above 0, in plain digits"),
                                (says("gpu_quota_limit=150%"), "fastgshare/gpu_quota_limit: '150%' is no share from 0 to 1"),
                                (says("gpu_sm_partition=101"), "fastgshare/gpu_sm_partition: '101' is no whole percentage of SMs from 1 to 100"),
                                (("--annotation", "a.b/c=d"), "annotation 'a.b/c', with the value 'd', is none that this server knows: there are fastgshare/gpu_quota_request, "
                                 "fastgshare/gpu_quota_limit, fastgshare/gpu_mem, fastgshare/gpu_sm_partition\n")):
            for action, name in (("create", "c"), ("resize", "b")):
                self.assertIn(sentence, self.vgpu(action, name, *words, code=79))
        self.assertIn("'gpu' is not of the form KEY=VALUE", self.vgpu("create", "c", "--annotation", "gpu", code=2))
        self.assertIn("is said twice", self.vgpu("create", "c", *says("gpu_mem=1", "gpu_mem=2"), code=2))
        self.assertIn("list takes no --annotation", self.vgpu("list", *says("gpu_mem=1"), code=2))
        before = self.comes_back()
        self.assertEqual(set(before), {"a", "b"})
        # They outlive the broker, and the server.
        broker = self.server.broker()
        os.kill(broker, signal.SIGKILL)
        wait_for(lambda: self.server.broker() not in (None, broker), 30, "another broker")
        self.assertEqual(self.comes_back(), before)
        self.server.process.terminate()
        self.server.process.wait(30)
        self.serve("--state", state)
        self.assertEqual(self.comes_back(), before)

    def comes_back(self):
        """The vGPUs of a broker that is started anew, by name, once it answers."""
        def ask():
            done = subprocess.run([TESSERA, "vgpu", "list", "-o", "json", "--server", self.server.url], capture_output=True, text=True, timeout=60,
                                  env=environment())
            return {vgpu["name"]: {**vgpu, "revision": 0} for vgpu in json.loads(done.stdout)["vgpus"]} if done.returncode == 0 else None
        wait_for(ask, 30, "its vGPUs")
        return ask()

    def test_a_file_is_imported(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        def file(name, text):
            path = os.path.join(directory.name, name)
            with open(path, "wb") as out:
                out.write(text.encode() if isinstance(text, str) else text)
            return path
        self.serve("--default", "none", "--state", os.path.join(directory.name, "state"))
        self.assertEqual(json.loads(self.vgpu("list", "-o", "json"))["vgpus"], [])
        three = file("three.toml", vgpu("c", 0.2) + vgpu("a", 0.3, memory="64MiB", max_sessions=2, owners=["uid:7"]) + vgpu("b", 0.1, 0.5))
        made = self.json("import", three)["vgpus"]
        self.assertEqual([(each["name"], each["request"], each["made_by"]) for each in made], [("a", 0.3, "api"), ("b", 0.1, "api"), ("c", 0.2, "api")])
        self.assertEqual((made[0]["memory_bytes"], made[0]["max_sessions"], made[0]["owners"]), (64 << 20, 2, ["uid:7"]))
        self.assertEqual(self.json("list")["vgpus"], made)
        program_in_it, _ = self.tenant("b")
        # All or none.
        for code, sentence, text in ((79, "bad: line 6: vGPU 'c' is there already, made by the api", vgpu("d", 0.1) + "\n" + vgpu("c", 0.1)),
                                     (79, "bad: line 5: vGPU 'e': request 0.5 is 0.2 too much", vgpu("d", 0.1) + vgpu("e", 0.5)),
                                     (79, "bad: line 3: 'share' is no field of a vGPU", "[[vgpu]]\nname = 'd'\nshare = 1\n"),
                                     (79, "bad: line 1: 3 lines are to follow, and 1 do", "3\nd 0.1 1 0\n"),
                                     (79, "bad: there is no vGPU in it", ""),
                                     (79, "bad: line 1: ", b"\xff\x00"),
                                     (79, "bad has 65537 bytes, 1 more than are imported at once", "#" * 65537),
                                     (79, "bad is too long for what it should hold", "#" * (2 << 20))):
            self.assertIn(sentence, self.vgpu("import", file("bad", text), code=code))
        self.assertEqual(self.names(), ["a", "b", "c"])
        long = os.path.join(directory.name, *["x" * 100] * 5)
        os.makedirs(long)
        self.assertIn(f"{long}/bad: line 1: ", self.vgpu("import", file(long + "/bad", "vgpu"), code=79))
        self.assertIn("No such file", self.vgpu("import", os.path.join(directory.name, "nowhere"), code=79))
        self.assertIn("is no ordinary file", self.vgpu("import", directory.name, code=79))
        self.assertIn("import wants the file", self.vgpu("import", code=2))
        self.assertIn("import takes no --request", self.vgpu("import", three, "--request", 0.5, code=2))
        # Gemini's form, once for a request id; then from a directory of one's own.
        gemini = file("resource-config.txt", "2\nx 0.1 0.5 33554432\ny 0.1 1.0 0\n")
        first = self.json("import", gemini, "--request-id", "once")
        self.assertEqual(self.json("import", gemini, "--request-id", "once"), first)
        self.assertEqual([(each["name"], each["limit"], each["memory_bytes"]) for each in first["vgpus"]], [("x", 0.5, 32 << 20), ("y", 1, 0)])
        file("own.toml", vgpu("own", 0.1, sm_percent=24))
        done = subprocess.run([TESSERA, "vgpu", "import", "own.toml", "--server", self.server.url], capture_output=True, text=True, timeout=60,
                              cwd=directory.name, env=environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\nown .* 24 % ")
        self.assertIn("gpu_sm_partition is kept, and takes effect with tiles", done.stderr)
        self.assertIsNone(program_in_it.poll())
        # They outlive the broker.
        before, broker = self.comes_back(), self.server.broker()
        self.assertEqual(set(before), {"a", "b", "c", "own", "x", "y"})
        os.kill(broker, signal.SIGKILL)
        wait_for(lambda: self.server.broker() not in (None, broker), 30, "another broker")
        wait_for(lambda: {name: {**each, "sessions": before[name]["sessions"]} for name, each in self.comes_back().items()} == before, 30, "all of them")

    def test_the_file_and_the_api_leave_each_other_alone(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        file = os.path.join(directory.name, "vgpus.toml")
        with open(file, "w") as out:
            out.write("[[vgpu]]\nname = 'of-file'\nrequest = 0.5\n")
        self.serve("--vgpus", file)
        self.vgpu("create", "of-api", "--request", 0.4)
        for words in (("resize", "of-file", "--limit", 0.9), ("delete", "of-file", "--force")):
            self.assertIn("was made by the file", self.vgpu(*words, code=79))
        with open(file + ".new", "w") as out:
            out.write("[[vgpu]]\nname = 'other'\nrequest = 0.5\n")
        os.rename(file + ".new", file)
        wait_for(lambda: self.names() == ["of-api", "other"], 30, "the new file")

    def test_watch_tells_what_changes(self):
        self.serve()
        watch = subprocess.Popen([TESSERA, "vgpu", "watch", "-o", "json", "--count", "3", "--server", self.server.url], stdout=subprocess.PIPE,
                                 text=True, env=environment())
        self.addCleanup(watch.stdout.close)
        end_with_test(watch)
        self.assertEqual(json.loads(watch.stdout.readline()), {"vgpus": []})
        self.vgpu("create", "a")
        self.assertEqual(json.loads(watch.stdout.readline())["vgpus"][0]["name"], "a")
        self.vgpu("delete", "a")
        self.assertEqual(json.loads(watch.stdout.readline()), {"vgpus": []})
        self.assertEqual(watch.wait(30), 0)

    def test_users_of_a_broker_in_a_user_namespace(self):
        """That of its sandbox, where root may not mount: all users but its own look alike there."""
        if not users.can_be_another():
            self.skipTest("needs root, and programs that all can run")
        self.serve("--socket-mode", "666", before=users.without(users.SYS_ADMIN))
        os.chmod(os.path.dirname(self.server.path), 0o755)
        self.vgpu("create", "alices", "--owner", f"uid:{users.ALICE}")
        self.vgpu("create", "bobs", "--owner", f"uid:{users.BOB}")
        self.vgpu("create", "nobodys", "--owner", "uid:65534")  # what the kernel says of whom a namespace does not know
        self.assertEqual(self.names(users.ALICE), ["alices"])
        self.assertEqual(self.names(users.BOB), ["bobs"])
        self.assertIn(f"uid:{users.ALICE} may not change vGPUs", self.vgpu("delete", "alices", user=users.ALICE, code=73))
        os.kill(self.server.broker(), signal.SIGKILL)
        self.assertEqual(self.names(users.ALICE), ["alices"])

    def test_users_without_a_number_in_the_servers_namespace_are_nobody(self):
        if not users.can_be_another() or not users.may_have_user_namespaces():
            self.skipTest("needs root, programs that all can run, and user namespaces")
        self.serve("--socket-mode", "666", "--admin", "uid:65534", before=users.in_user_namespace)
        os.chmod(os.path.dirname(self.server.path), 0o755)
        self.vgpu("create", "nobodys", "--owner", "uid:65534")
        self.vgpu("create", "alls")
        self.assertEqual(self.names(), ["alls", "nobodys"])
        self.assertEqual(self.names(users.ALICE), ["alls"])
        self.assertIn("who has no number in the server's user namespace", self.vgpu("create", "mine", user=users.ALICE, code=73))
        self.assertEqual(self.run_as(users.ALICE, "alls"), (0, ""))
        code, words = self.run_as(users.ALICE, "nobodys")
        self.assertEqual(code, 79, words)

    def test_users(self):
        if not users.can_be_another():
            self.skipTest("needs root, and programs that all can run")
        self.serve("--socket-mode", "666", "--admin", f"uid:{users.CAROL}", tcp=False)
        os.chmod(os.path.dirname(self.server.path), 0o755)
        self.vgpu("create", "alices", "--owner", f"uid:{users.ALICE}")
        self.vgpu("create", "bobs", "--owner", f"uid:{users.BOB}", user=users.CAROL)
        self.vgpu("create", "alls", user=users.CAROL)
        self.assertEqual(self.names(users.ALICE), ["alices", "alls"])
        self.assertEqual(self.names(users.BOB), ["alls", "bobs"])
        self.assertEqual(self.names(users.CAROL), ["alices", "alls", "bobs"])
        self.vgpu("show", "alices", user=users.ALICE)
        for user, own, other in ((users.ALICE, "alices", "bobs"), (users.BOB, "bobs", "alices")):
            self.assertEqual(self.run_as(user, own), (0, ""))
            self.assertEqual(self.run_as(user, "alls"), (0, ""))
            code, words = self.run_as(user, other)
            self.assertEqual(code, 79, words)
            self.assertIn(f"no vGPU '{other}' for you here", words)
        # Another's, and one that is not there: the same words.
        words = self.vgpu("show", "bobs", user=users.ALICE, code=79)
        self.assertEqual(words.replace("bobs", "nothere"), self.vgpu("show", "nothere", user=users.ALICE, code=79))
        for change in (("create", "mine"), ("resize", "alices", "--limit", 0.5), ("delete", "alices"), ("delete", "bobs", "--force")):
            self.assertIn(f"uid:{users.ALICE} may not change vGPUs", self.vgpu(*change, user=users.ALICE, code=73))
        # What is another's stays as it is, also while its owner uses it; not so for an administrator.
        words = [TESSERA, "run", "--quiet", "--server", self.server.url, "--vgpu", "alices", "--", program("occupy"), "0", "1", "1", "stay"]
        alices = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd="/", env=environment(),
                                  preexec_fn=users.become(users.ALICE))
        end_with_test(alices)
        self.addCleanup(alices.communicate)
        self.assertEqual(alices.stdout.readline(), "begins\n")
        before = self.json("show", "alices")
        self.assertEqual(before["sessions"], 1)
        changes = (("resize", "alices", "--limit", 0.5), ("delete", "alices"), ("delete", "alices", "--force"))
        for change in changes:
            self.assertIn(f"uid:{users.BOB} may not change vGPUs", self.vgpu(*change, user=users.BOB, code=73))
        code, words = self.run_as(users.BOB, "alices")
        self.assertEqual(code, 79, words)
        self.assertEqual(self.json("show", "alices"), before)
        self.vgpu(*changes[0], user=users.CAROL)
        self.assertEqual(self.json("show", "alices", user=users.ALICE)["limit"], 0.5)
        self.assertIn("is used by 1 session", self.vgpu(*changes[1], user=users.CAROL, code=79))
        self.vgpu(*changes[2], user=users.CAROL)
        wait_for(lambda: not self.server.workers(), 20, "the end of its session")
        self.assertEqual(self.names(users.ALICE), ["alls"])
        self.vgpu("delete", "bobs", user=users.CAROL)
        # Who may not connect.
        os.chmod(self.server.path + ".control", 0o600)
        self.assertIn("no control API", self.vgpu("list", user=users.ALICE, code=73))

    def test_they_outlive_the_server(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        state = os.path.join(directory.name, "state")
        server = Server("--state", state)
        self.vgpu("create", "a", "--request", 0.5, "--owner", "uid:7", url=server.url)
        self.vgpu("create", "b", url=server.url)
        made = self.json("resize", "a", "--limit", 0.75, url=server.url)
        self.vgpu("delete", "b", url=server.url)
        server.stop()
        self.serve("--state", state)
        wait_for(self.names, 30, "its vGPUs")
        again = self.what_is_kept("a")
        self.assertGreater(again.pop("revision"), made.pop("revision"))
        self.assertEqual(again, made)

    def test_a_card_that_goes_and_comes_back(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        state = os.path.join(directory.name, "state")
        runs = lambda name: subprocess.run([TESSERA, "run", "--quiet", "--server", self.server.url, "--vgpu", name, "--", program("occupy"), "1", "1"],
                                           capture_output=True, text=True, timeout=60, env=environment())

        def again(devices):
            self.server.process.terminate()
            self.server.process.wait(30)
            self.serve("--state", state, devices=devices)
            wait_for(self.names, 30, "its vGPUs")

        self.serve("--state", state, devices=2)
        made = self.json("create", "a", "--gpu", 1, "--request", 0.5, "--limit", 0.75, "--owner", "uid:0", "--max-sessions", 3)
        gone = self.json("create", "gone", "--gpu", 1)
        again(1)
        # One whose GPU has gone is listed, and stops nothing.
        self.assertIn(made["gpu_uuid"], self.json("show", "a")["problem"])
        self.assertIn("not in force", self.vgpu("list"))
        self.assertEqual(runs("a").returncode, 79)
        self.vgpu("create", "c")
        self.vgpu("delete", "gone")
        self.assertEqual(runs("c").returncode, 0)
        again(2)
        self.assertEqual(self.names(), ["a", "c"])
        back = self.what_is_kept("a")
        self.assertGreater(back.pop("revision"), made.pop("revision"))
        self.assertEqual(back, made)
        done = runs("a")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.vgpu("resize", "a", "--request", 0.25)

    def test_a_full_disk(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        state = os.path.join(directory.name, "state")
        on_disk = lambda: pathlib.Path(state).read_bytes() if os.path.exists(state) else b""
        self.serve("--default", "none", "--state", state, log="warning")
        for name in "ab":
            self.vgpu("create", name, "--request", 0.3)
        # A state that is longer than the log, which is a file of the server as well.
        self.vgpu("create", "long", "--request", 0.01, *(word for i in range(30) for word in ("--owner", f"name:{i:0200}")))
        _, a = self.tenant("a")
        _, b = self.tenant("b")
        wait_for(lambda: b'"long"' in on_disk(), 10, "its state")
        kept, pid = on_disk(), self.server.process.pid
        # As a disk that is full: no file of the server may grow beyond what is there.
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (len(kept), before[1]))
        for name in "cde":
            self.vgpu("create", name, "--request", 0.1)
        time.sleep(12)  # it is tried again after 10
        self.assertEqual(on_disk(), kept)
        self.assertNotIn("state.new", os.listdir(directory.name))
        self.assertEqual(self.names(), ["a", "b", "c", "d", "e", "long"])
        self.check_share(a, [b], 50, windows=20)  # beside other tests
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        wait_for(lambda: b'"e"' in on_disk(), 30, "a state that is written again")
        self.assertEqual(self.server.words().count("cannot write the state"), 1, self.server.words())
        self.server.process.kill()
        self.server.process.wait(30)
        self.serve("--default", "none", "--state", state)
        wait_for(self.names, 30, "its vGPUs")
        self.assertEqual(self.names(), ["a", "b", "c", "d", "e", "long"])

    def test_a_damaged_state(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        state = os.path.join(directory.name, "state")
        server = Server("--state", state)
        self.vgpu("create", "a", url=server.url)
        self.vgpu("create", "b", url=server.url)
        server.stop()
        whole = pathlib.Path(state).read_bytes()
        for damaged in (b"", whole[:-1], whole[:whole.index(b"\n") + 1], whole[:60] + os.urandom(len(whole) - 60), whole + b"#\n",
                        whole.replace(b'"b"', b'"c"')):
            pathlib.Path(state).write_bytes(damaged)
            server = Server("--state", state)
            self.addCleanup(server.discard)
            self.assertEqual(server.process.wait(30), 4, server.words())
            self.assertRegex(server.words(), f"{state} is no state of a tesserad, or damaged: move it away, or name another with --state")
            self.assertEqual(pathlib.Path(state).read_bytes(), damaged)
        pathlib.Path(state).write_bytes(whole)
        self.serve("--state", state)
        wait_for(self.names, 30, "its vGPUs")
        self.assertEqual(self.names(), ["a", "b"])

    def test_addresses(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "api")
        self.serve("--control", f"unix:{path}")
        self.assertEqual(json.loads(self.vgpu_at("list", "-o", "json", "--control", f"unix:{path}")), {"vgpus": []})
        self.assertEqual(json.loads(self.vgpu_at("list", "-o", "json", "--control", path)), {"vgpus": []})
        self.assertEqual(json.loads(self.vgpu_at("list", "-o", "json", TESSERA_CONTROL=path)), {"vgpus": []})
        self.assertIn("start tesserad", self.vgpu("list", code=72))  # it is not beside the server's
        self.assertIn("unix:PATH", self.vgpu("list", url="tls://host:1", code=71))
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.server.process.terminate()
        self.server.process.wait(30)
        self.assertFalse(os.path.exists(path))

    def test_vgpus_of_grants_are_left_alone(self):
        self.serve()
        name = "grant-" + 32 * "a" + "-0"
        for words in (("create", name, "--request", 0.1), ("resize", name, "--limit", 0.5), ("delete", name, "--force")):
            self.assertIn(f"'{name}' is a grant's", self.vgpu(*words, code=79))
        self.assertEqual(self.names(), [])
        self.vgpu("create", "grants", "--request", 0.1)

    def vgpu_at(self, *words, **changes):
        return subprocess.run([TESSERA, "vgpu", *words], capture_output=True, text=True, check=True, timeout=60, env=environment(**changes)).stdout

    def test_without_an_api(self):
        self.serve("--control", "none")
        self.assertFalse(os.path.exists(self.server.path + ".control"))
        self.assertIn("no control API", self.vgpu("list", code=72))

    def test_a_broker_that_is_started_anew_listens_again(self):
        self.serve()
        self.vgpu("create", "a", "--request", 0.5)
        broker = self.server.broker()
        os.kill(broker, signal.SIGKILL)
        wait_for(lambda: self.server.broker() not in (None, broker), 30, "another broker")
        def again():
            done = subprocess.run([TESSERA, "vgpu", "list", "-o", "json", "--server", self.server.url], capture_output=True, text=True, timeout=60,
                                  env=environment())
            return [(vgpu["name"], vgpu["request"]) for vgpu in json.loads(done.stdout)["vgpus"]] if done.returncode == 0 else None
        wait_for(lambda: again() == [("a", 0.5)], 30, "its vGPU")


if __name__ == "__main__":
    unittest.main(verbosity=2)
