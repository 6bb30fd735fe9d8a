"""What tests of `tessera vgpu` have in common: a server with a state of its own, the command, by whom it is asked for."""

import json
import subprocess
import tempfile
import time

import users
from product import TESSERA, Server, environment
from vgpu_test import VgpuTest


class VgpuControlCase(VgpuTest):
    def serve(self, *options, memory_mib=4096, devices=1, **more):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.server = Server(*options, env=environment(TESSERA_EMULATOR_DELAY_US="0", TESSERA_EMULATOR_MEMORY_MIB=str(memory_mib),
                                                       TESSERA_EMULATOR_DEVICES=str(devices), XDG_STATE_HOME=directory.name), **more)
        self.addCleanup(self.server.stop)

    def vgpu(self, *words, user=None, code=0, url=None):
        """What it says: on stdout, or on stderr where it is to fail."""
        done = subprocess.run([TESSERA, "vgpu", *map(str, words), "--server", url or self.server.url], capture_output=True, text=True, timeout=60,
                              cwd="/", env=environment(), preexec_fn=users.become(user) if user else None)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        if code:
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, r"\Atessera: [^\n]+\n\Z")
        else:
            self.assertEqual(done.stderr, "")
        return done.stderr if code else done.stdout

    def json(self, *words, **more):
        return json.loads(self.vgpu(*words, "-o", "json", **more))

    def what_is_kept(self, name):
        """What is shown of a vGPU, but for what its sessions hold now."""
        return {key: value for key, value in self.json("show", name).items() if not key.startswith("memory_held")}

    def names(self, user=None):
        return [vgpu["name"] for vgpu in self.json("list", user=user)["vgpus"]]

    def check_share(self, worker, others, percent, windows=5):
        """Of the device time that all of these got; in one window of several, since a busy machine keeps workers from running."""
        for _ in range(windows):
            before = [self.page.busy_ns(each) for each in (worker, *others)]
            time.sleep(1)
            got = [self.page.busy_ns(each) - start for each, start in zip((worker, *others), before)]
            share = 100 * got[0] / max(1, sum(got))
            if abs(share - percent) <= 8:
                return
        self.fail(f"{share:.1f} % instead of {percent}")
