#!/usr/bin/env python3
"""The commands of docs/slurm.md on a cluster of one node (slurm_cluster.py), and what becomes of a job's grant. README.md says what it needs.

usage: slurm_pages_test.py BUILD_DIRECTORY
Exits with 77, which ctest calls skipped, where there can be no such cluster.
"""

import json
import os
import pathlib
import re
import re
import shutil
import signal
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("system", "docs")]

import product  # noqa: E402
import slurm_cluster  # noqa: E402
from page import Page  # noqa: E402
from slurm_cluster import ALICE, Cluster  # noqa: E402

ROOT = HERE.parents[1]
SERVER, POOL = "gpu7.example", "pool.example"
# Of the page's blocks: who types them, and what has been started by then.
JOBS_OF_A_SERVER, JOBS_OF_A_POOL = 2, 4
BLOCKS = 5

TRAIN = """import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
count, context, free, total = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
print(count.value, total.value >> 30, flush=True)
"""
WAITS = "\nimport time\nwhile True: time.sleep(1)\n"


class SlurmPage(Page):
    """Alice's page, and the administrator's, who has no other."""

    def __init__(self):
        super().__init__("slurm.md")
        os.chmod(self.home, 0o755)
        self.keys = product.Keys()
        self.cluster = Cluster(product.BUILD, self.files["slurm.conf"], self.home, SERVER, POOL)
        self.user = 0

    def __enter__(self):
        super().__enter__()
        self.cluster.__enter__()
        home = pathlib.Path(self.home)
        (home / "train.py").write_text(TRAIN)
        (home / "long.py").write_text(TRAIN + WAITS)
        (home / "policy.toml").write_text(f'[roles]\n"name:{SERVER}" = "server"\n"name:alice" = "tenant"\n')
        shutil.copytree(self.keys.of("client", "alice"), home / ".config/tessera")
        subprocess.run(["chown", "-R", f"{ALICE}:{ALICE}", home], check=True)
        return self

    def __exit__(self, *_):
        super().__exit__()
        self.cluster.__exit__()

    def environment(self):
        return {"PATH": slurm_cluster.SYSTEM_PATH, "HOME": self.home, "TESSERA_EMULATOR_MEMORY_MIB": str(80 << 10)}

    def shell(self, line, serves):
        return [*self.cluster.inside(0 if serves else self.user), "bash", "-c", line]

    def interrupt(self, process):
        """nsenter(1) waits for what it has forked."""
        os.kill(product.children(process.pid)[0], signal.SIGINT)

    def serve_with_keys(self, kind, name, line):
        keys = " ".join(self.keys.options(kind, name))
        self.serve(f"{product.BUILD}/bin/{line} {keys}")

    def before(self, number):
        """Starts what the block talks of, and goes to whoever types it."""
        jobs = number in (JOBS_OF_A_SERVER, JOBS_OF_A_POOL)
        self.user = ALICE if jobs else 0
        if number == JOBS_OF_A_SERVER:
            self.serve_with_keys("host", SERVER, f"tesserad --driver emulator --state none --listen tls://{SERVER}:4180 --allow alice")
        if number == JOBS_OF_A_POOL:
            self.stop_serving()
            self.serve_with_keys("server", POOL, f"tessera-placer --listen tls://{POOL}:4190 --policy policy.toml --store memory")
            self.serve_with_keys("host", SERVER, f"tesserad --driver emulator --listen tls://{SERVER}:4180 --placer tls://{POOL}:4190")

    def words(self):
        """What jobs and Slurm's daemons have said."""
        jobs = "".join(path.read_text() for path in sorted(pathlib.Path(self.home).glob("*.log")))
        return f"{jobs}\n{self.cluster.words()}"

    def has_told(self, name, pattern):
        """Of a job's file, which may not be there yet."""
        path = pathlib.Path(self.home, name)
        return path.exists() and re.search(pattern, path.read_text()) is not None

    def grants(self):
        return json.loads(self.run(f"tessera get grants --placer tls://{POOL}:4190 -o json"))["grants"]


class OnACluster(unittest.TestCase):
    def test_the_page(self):
        with SlurmPage() as page:
            try:
                self.follow(page)
            except AssertionError as failure:
                raise AssertionError(f"{failure}\n{page.words()}") from failure

    def follow(self, page):
        self.assertEqual(len(page.blocks), BLOCKS)
        said = page.follow(page.before)
        self.assertEqual(said['sinfo --noheader --format "%N %f"'], "node1 tessera\n")
        self.assertEqual(said["srun --constraint=tessera python3 train.py"], "1 80\n")
        self.assertTrue(page.has_told("train.log", r"\A1 80\n\Z"))
        self.assertTrue(page.has_told("share.log", r"(?m)^1 20$"))

        job = page.run("sbatch --parsable --output long.log --constraint=tessera --wrap 'srun tessera run --gpu-share 0.5 -- python3 long.py'").strip()
        product.wait_for(lambda: page.has_told("long.log", r"(?m)^1 \d+$"), 60, "a job that has its GPU")
        self.assertEqual(len(page.grants()), 1)
        page.run(f"scancel {job}")
        product.wait_for(lambda: not page.grants(), 60, "the end of its grant")


if __name__ == "__main__":
    if os.geteuid() != 0:
        why = "root alone starts Slurm's daemons"
    elif lacking := slurm_cluster.missing():
        why = f"not installed: {', '.join(lacking)} (deploy/install-dependencies slurm-wlm munge iproute2)"
    else:
        unittest.main(verbosity=2)
    print(f"skipped: {why}")
    sys.exit(77)
