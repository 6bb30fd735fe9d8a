#!/usr/bin/env python3
"""Work that waits for other work ends, whatever the gate does: each case of tests/system/programs/gate_waits in each state.

usage: gate_waits_test.py BUILD_DIRECTORY
"""

import os
import queue
import signal
import subprocess
import tempfile
import threading
import unittest

from product import TESSERA, Server, end_with_test, environment, program

ALONE = [f"{how}-{release}" for how in ("value", "spin") for release in ("record", "kernel", "copy", "host")]
ALONE += ["functions", "aside", "threads"]
PAIRS = ["events", "flags", "values", "event", "long"]
# Where work waits for tokens. As many as several tokens take; and where each waits for long.
FEWER, FEWEST = (["--launches", str(launches), "--rounds", "5"] for launches in (8, 3))
# Of one case, in seconds: after a case that was billed for long, the next one waits for up to ten.
LIMIT = 20


class Program:
    """gate_waits with these cases, in a vGPU; what it says is read by a thread."""

    def __init__(self, server, vgpu, cases, *options):
        self.cases, self.log = list(cases), tempfile.TemporaryFile("w+")
        words = [TESSERA, "run", "--quiet", "--server", server.url, "--vgpu", vgpu, "--", program("gate_waits"), *cases, *options]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env=environment(), start_new_session=True)
        end_with_test(self.process)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.split())
        self.lines.put(None)

    def line(self, limit=LIMIT):
        """What it says next, as words; None when it ends, or says nothing for so long."""
        try:
            return self.lines.get(timeout=limit)
        except queue.Empty:
            return None

    def answer(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        """With all of its processes."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.reader.join()
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.seek(0)
        words = self.log.read()
        self.log.close()
        return words


class GateWaits(unittest.TestCase):
    def serve(self, limit=1.0, requests=(0.3, 0.3, 0.3)):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        file = os.path.join(directory.name, "vgpus.toml")
        with open(file, "w") as out:
            for name, request in zip(("one", "two", "tenant"), requests):
                out.write(f'[[vgpu]]\nname = "{name}"\nrequest = {request}\nlimit = {1.0 if name == "tenant" else limit}\n')
        self.server = Server("--vgpus", file, "--default", "none", env=environment(TESSERA_EMULATOR_DELAY_US="0"))
        self.addCleanup(self.server.stop)

    def idle(self):
        session = Program(self.server, "tenant", ["idle"])
        self.addCleanup(session.end)
        self.assertEqual(session.line(), ["idle"])

    def tenant(self):
        words = [TESSERA, "run", "--quiet", "--server", self.server.url, "--vgpu", "tenant", "--", program("occupy"), "100000000",
                 "700"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment())
        end_with_test(process)

        def end():
            process.kill()
            process.communicate()

        self.addCleanup(end)
        self.assertTrue(process.stdout.readline())
        return process

    def check(self, vgpu, cases, *options):
        """Those that hang or are wrong, each with what it said; the others go on without them."""
        failed, cases = [], list(cases)
        while cases:
            running = Program(self.server, vgpu, cases, *options)
            while cases and (said := running.line()) and said[0] == cases[0]:
                del cases[0]
            code = running.process.poll()  # none: it hangs
            words = running.end()
            if cases:
                failed.append(f"{cases.pop(0)}: exit code {code}\n{words}")
        return failed

    def check_all(self, *runs):
        """Some runs at once: each a vGPU, cases and options."""
        failed = []
        threads = [threading.Thread(target=lambda run=run: failed.extend(self.check(*run))) for run in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            self.fail("\n".join(failed) + self.server.words())

    def check_each(self, *options, peer="one"):
        self.check_all(("one", ALONE, *options))
        self.check_all(("one", PAIRS, "--peer-vgpu", peer, *options))

    def test_free(self):
        self.serve()
        self.check_each()

    def test_armed(self):
        self.serve()
        self.idle()
        self.check_each()

    def test_metered(self):
        self.serve()
        self.tenant()
        self.check_each(*FEWER, peer="two")

    def test_metered_with_more_than_a_token_takes(self):
        self.serve()
        self.tenant()
        self.check_all(("one", ["value-kernel"]))

    def test_together(self):
        self.serve()
        self.tenant()
        for cases in ["value-record", "spin-kernel"], ["value-copy", "spin-host"], ["functions", "aside", "threads"]:
            self.check_all(("one", cases, *FEWEST), ("one", cases, *FEWEST))
        self.check_all(("one", PAIRS, *FEWEST))

    def test_small(self):
        """What waits is billed for all of the time, which is far more than its share."""
        self.serve(requests=(0.02, 0.02, 0.9))
        self.tenant()
        self.check_all(("one", ["value-record"], *FEWEST), ("two", ["spin-kernel"], *FEWEST))

    def test_limited(self):
        self.serve(limit=0.3)
        self.check_all(("one", ["spin-copy"], *FEWEST), ("two", ["value-record"], *FEWEST))

    def capture(self, *steps):
        """Goes on with a capture, and with its launch, when these were done."""
        running = Program(self.server, "one", ["capture"], *FEWER)
        said = []
        for step in steps:
            said.append(running.line())
            step()
            running.answer()
        said.append(running.line())
        words = running.end()
        self.assertEqual([line and line[0] for line in said], ["captures", "captured", "capture"], words + self.server.words())

    def test_captures_while_the_gate_closes_and_opens(self):
        self.serve()
        self.capture(self.idle, lambda: None)
        tenants = []
        self.capture(lambda: tenants.append(self.tenant()), lambda: None)
        self.capture(lambda: None, lambda: None)
        self.capture(tenants[0].kill, lambda: None)
        self.capture(lambda: None, self.tenant)


if __name__ == "__main__":
    unittest.main(verbosity=2)
