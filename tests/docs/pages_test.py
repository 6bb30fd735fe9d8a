#!/usr/bin/env python3
"""The commands of docs/*.md that are marked as to be run do what their page says.

usage: pages_test.py BUILD_DIRECTORY
"""

import grp
import json
import os
import pathlib
import re
import shutil
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))

from marked import BLOCK, SYSTEMD  # noqa: E402
from page import DOCS, Page  # noqa: E402
from product import HAS_CONTROL_API, free_port, wait_for  # noqa: E402

# Pages whose commands want a machine of another kind, and who has it.
ELSEWHERE = {"slurm.md": "deploy/slurm_pages_test.py"}
OF_SYSTEMD = {"server-at-boot.md", "upgrade.md"}
GROUP = grp.getgrgid(os.getegid())


class Pages(unittest.TestCase):
    def test_install(self):
        with Page("install.md") as page:
            said = page.follow()
            self.assertRegex(said["tessera --version"], r"^tessera \d")
            self.assertTrue(os.path.getsize(f"{page.home}/completion.bash") > 1000)
            self.assertIn("tessera-run.1", " ".join(os.listdir(f"{page.home}/manual")))

    def test_two_machines(self):
        port = free_port()
        with Page("two-machines.md", **{"gpu7.example:4180": f"localhost:{port}", "server gpu7.example": "server localhost"}) as page:
            configuration = pathlib.Path(page.home, ".config/tessera")

            def change_hosts(number):
                """Each has its own files, where the page says."""
                for block, name in ((1, "localhost"), (2, "alice")):
                    if number == block:
                        shutil.rmtree(configuration, ignore_errors=True)
                        shutil.copytree(f"{page.home}/gpu-keys/{name}", configuration)

            said = page.follow(change_hosts)
            self.assertEqual(said[f"tessera run --server tls://localhost:{port} -- ./program"].splitlines()[-1], "1")

    def test_why_slow(self):
        text = (DOCS / "why-slow.md").read_text(encoding="utf-8")
        with Page("why-slow.md") as page:
            said = page.follow()
        # What is shown has the lines that there are.
        shown = re.search(r"^```\n(python3: .*?)^```$", text, re.M | re.S)[1]
        told = said["tessera trace summary trace.json"]
        self.assertEqual(*([line.split()[0] for line in lines.splitlines() if not line.startswith(" " * 10)] for lines in (told, shown)))
        self.assertLessEqual(told.count("\n"), 12)
        numbers = json.loads(said["tessera trace summary trace.json -o json"])
        self.assertEqual((numbers["gpu"]["launches"], numbers["gpu"]["kernels"][0]["name"]), (300, "step"))
        parts = [numbers["thread"][part] for part in ("program_ns", "library_ns", "gpu_ns", "server_ns", "way_ns")]
        self.assertLess(abs(sum(parts) - numbers["wall_ns"]), 100)
        self.assertIn("cuMemcpyDtoH_v2", [function["name"] for function in numbers["round_trips"]["functions"]])
        self.assertEqual("".join(said.values()).count("from the first call to the last"), 3)

    def test_server_at_boot(self):
        with Page("server-at-boot.md", **{'socket-group = "gpu"': f'socket-group = "{GROUP.gr_name}"'}) as page:
            # What its unit starts.
            said = page.follow(lambda number: page.serve("tesserad"))
            self.assertRegex(said["tessera run -- ./program"], r"server unix:\S+/run/tessera.sock of this host.*\n1\n\Z")
            # Its file of options has keys that there are.
            done = page.run("tesserad --config tesserad.toml --check-sandbox 2>&1 || [ $? = 5 ]")
            self.assertNotIn("tesserad.toml", done)

    def test_who_may_use_it(self):
        with Page("who-may-use-it.md", **{"--socket-group gpu": f"--socket-group {GROUP.gr_name}"}) as page:
            page.follow()
            sockets = [path for path in pathlib.Path(page.home, "run").iterdir() if path.name == "tessera.sock"]
            self.assertEqual([(path.stat().st_gid, path.stat().st_mode & 0o777) for path in sockets], [(GROUP.gr_gid, 0o660)])

    @unittest.skipUnless(HAS_CONTROL_API, "this build has no control API")
    def test_share_a_gpu(self):
        with Page("share-a-gpu.md", **{"python train.py": "./program", "jupyter lab": "./program", "--owner alice": "--owner uid:71001"}) as page:
            said = page.follow()
        for vgpu in ("train", "notebook"):
            self.assertEqual(said[f"tessera run --vgpu {vgpu} -- ./program"].splitlines()[-1], "1")
        self.assertRegex(said["tessera vgpu list"], r"\bbatch +0 +0.01 +1 +1 GiB")

    @unittest.skipUnless(HAS_CONTROL_API, "this build has no control API")
    def test_give_a_team_a_quota(self):
        people = {f"--owner {name}": f"--owner uid:{number}" for number, name in ((71001, "alice"), (os.geteuid(), "bob"), (71003, "dave"), (71004, "erin"))}
        with Page("give-a-team-a-quota.md", {"TESSERA_EMULATOR_MEMORY_MIB": str(80 << 10)},
                  **{"unix:/run/tessera/tessera.sock": "unix:$HOME/run/tessera.sock", "python train.py": "./program", **people}) as page:
            said = page.follow(lambda number: number or page.serve("tesserad"))
        self.assertEqual(said["tessera run --server unix:$HOME/run/tessera.sock --vgpu vision -- ./program"].splitlines()[-1], "1")
        self.assertRegex(said["tessera vgpu list --server unix:$HOME/run/tessera.sock"], r"\bvision +0 +0.5 +0.8 +30 GiB")

    @unittest.skipUnless(HAS_CONTROL_API, "this build has no placer")
    def test_pool_gpus(self):
        # Root's placer has another name.
        name = "placer.sock" if os.geteuid() == 0 else "tessera-placer.sock"
        with Page("pool-gpus.md", **{"--placer unix:$XDG_RUNTIME_DIR/tessera-placer.sock": f"--host-id gpu7 --placer unix:$HOME/run/{name}"}) as page:
            # A reader is slower than the server that joins.
            said = page.follow(lambda number: number == 1 and wait_for(lambda: "gpu7" in page.run("tessera get servers"), 30, "the server's joining"))
        self.assertEqual(said["tessera run --gpu-share 0.5 --gpu-mem 1G -- ./program"].splitlines()[-1], "1")
        self.assertIn("gpu7", said["tessera status"])
        self.assertIn("gpu7", said["tessera events --of gpu7 --since 7d"])

    @unittest.skipUnless(HAS_CONTROL_API and shutil.which("curl"), "needs a control API, and curl")
    def test_watch_with_prometheus(self):
        port = free_port()
        with Page("watch-with-prometheus.md", **{"127.0.0.1:9464": f"127.0.0.1:{port}"}) as page:
            pathlib.Path(page.home, "vgpus.toml").write_text('[[vgpu]]\nname = "train"\nrequest = 0.6\n')
            curl, figure = f"curl http://127.0.0.1:{port}/metrics", 'tessera_vgpu_share_request_ratio{vgpu="train"'
            # What is told is made once a second.
            page.follow(lambda number: number == 1 and wait_for(lambda: figure in page.run(curl), 30, "the figures of a vGPU"))

    def test_containers(self):
        with Page("containers.md", **{"/etc/cdi/": "$HOME/cdi-", "/etc/tessera >": "$HOME/keys >"}) as page:
            os.mkdir(f"{page.home}/keys")
            file = pathlib.Path(page.home, "cdi-tessera.json")
            told = []
            page.follow(lambda number: number and told.append(json.loads(file.read_text())))
            told.append(json.loads(file.read_text()))
        self.assertEqual([one["kind"] for one in told], ["tessera/gpu"] * 2)
        self.assertIn("TESSERA_SERVER=tls://gpu7.example:4180", str(told[1]))

    def test_no_page_is_left_out(self):
        marked = {path.name for path in DOCS.glob("*.md") if BLOCK.search(path.read_text(encoding="utf-8"))}
        followed = {"containers.md", "give-a-team-a-quota.md", "install.md", "pool-gpus.md", "server-at-boot.md", "share-a-gpu.md", "two-machines.md",
                    "watch-with-prometheus.md", "who-may-use-it.md", "why-slow.md"}
        for page, test in ELSEWHERE.items():
            self.assertIn(page, (HERE.parent / test).read_text(encoding="utf-8"))
        guest = (HERE.parent / "deploy/units_in_guest.py").read_text(encoding="utf-8")
        self.assertEqual({path.name for path in DOCS.glob("*.md") if SYSTEMD.search(path.read_text(encoding="utf-8"))}, OF_SYSTEMD)
        self.assertEqual([page for page in OF_SYSTEMD if page not in guest], [])
        self.assertEqual(marked, followed | set(ELSEWHERE), "pages with commands to be run, and those that a test follows")


if __name__ == "__main__":
    unittest.main()
