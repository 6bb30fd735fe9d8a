#!/usr/bin/env python3
"""The two images, built by podman from their Containerfiles and the packages; programs run in them, with nothing of this machine but its kernel.

usage: images_test.py BUILD_DIRECTORY

Buildah runs what is in the images (--isolation chroot): machines that are themselves containers let no engine start one.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from fresh_root import FreshRoot, built_packages, compile_programs, run, skip_without  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
BASE = "localhost/tessera-test-base"
ISOLATED = ("--isolation", "chroot", "--network", "host")
SOCKET_SECONDS = 60


class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="tessera_images_")
        cls.addClassCleanup(directory.cleanup)
        cls.path = pathlib.Path(directory.name)
        # Images of its own, which are gone afterwards.
        (cls.path / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\nrunroot = "{cls.path}/run"\ngraphroot = "{cls.path}/images"\n')
        os.environ["CONTAINERS_STORAGE_CONF"] = str(cls.path / "storage.conf")
        root = FreshRoot()
        cls.addClassCleanup(root.close)
        archive = cls.path / "base.tar"
        run("tar", "--one-file-system", "-C", root.path, "-cf", archive, "--exclude=./proc/*", "--exclude=./dev/*", ".")
        run("podman", "import", archive, BASE)
        archive.unlink()
        cls.packages = built_packages(BUILD)
        cls.programs = cls.path / "programs"
        cls.sockets = cls.path / "sockets"
        cls.programs.mkdir()
        cls.sockets.mkdir()
        compile_programs(SOURCE, BUILD, cls.programs)

    def container(self, name):
        """The image of NAME.Containerfile, as the page of containers builds it, and a container of it that buildah can run programs in."""
        run("podman", "build", *ISOLATED, "-f", SOURCE / f"deploy/containers/{name}.Containerfile", "--build-arg", f"BASE={BASE}",
            "-t", f"tessera-{name}", self.packages[0].parent, timeout=600)
        return run("buildah", "from", "--pull-never", f"localhost/tessera-{name}").strip()

    def command(self, container, *words, mounts=()):
        volumes = [word for mount in mounts for word in ("--volume", mount)]
        return ["buildah", "run", *ISOLATED, *volumes, container, "--", *map(str, words)]

    def test_a_program_of_one_image_uses_the_server_of_the_other(self):
        server, client = self.container("server"), self.container("client")
        told = json.loads(run("podman", "inspect", "tessera-server"))[0]["Config"]
        volume, = told["Volumes"]
        start = [*told["Entrypoint"], "--driver", "emulator", *told["Cmd"]]
        process = subprocess.Popen(self.command(server, *start, mounts=[f"{self.sockets}:{volume}"]))
        self.addCleanup(process.wait, 60)
        self.addCleanup(process.terminate)
        deadline = time.monotonic() + SOCKET_SECONDS
        while not (self.sockets / "tessera.sock").exists():
            self.assertIsNone(process.poll(), "the server has ended")
            self.assertLess(time.monotonic(), deadline, "the server has no socket")
            time.sleep(0.1)
        mounts = [f"{self.sockets}:{volume}", f"{self.programs}:/programs:ro"]
        # As the page says: an environment variable, and the program as it is.
        out = run(*self.command(client, "env", f"TESSERA_SERVER=unix:{volume}/tessera.sock", "/programs/saxpy", "/programs/saxpy.ptx", mounts=mounts))
        self.assertIn("correct", out)


if __name__ == "__main__":
    skip_without("debootstrap", "podman", "buildah", "nsenter", "unshare", "g++")
    unittest.main(verbosity=2)
