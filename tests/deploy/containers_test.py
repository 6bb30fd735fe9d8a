#!/usr/bin/env python3
"""Programs in containers, by what `tessera container make-cdi` prints: this makes namespaces and mounts as an engine would.

usage: containers_test.py BUILD_DIRECTORY
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))

from product import BUILD, Gateway, Keys, Server, TESSERA, environment, program  # noqa: E402

USER = 65530
# What an image has: here this machine's, for reading.
IMAGE = ("usr", "lib", "lib64", "bin", "etc")


def can_mount():
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True).returncode == 0


def specification(*words):
    done = subprocess.run([TESSERA, "container", "make-cdi", *words], capture_output=True, text=True, env=environment(), timeout=30)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@unittest.skipUnless(can_mount(), "needs root, and namespaces of mounts")
class Containers(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.TemporaryDirectory(prefix="tessera_container_")
        self.addCleanup(self.root.cleanup)

    def run_inside(self, edits, *words, user=0):
        """A process in a mount and a process namespace of its own, with a root that has the image and what the edits say."""
        root = self.root.name
        script = ["set -e", f"mount -t tmpfs tmpfs {root}"]
        for name in IMAGE:
            if os.path.islink(f"/{name}"):
                script.append(f"cp -P /{name} {root}/{name}")
            elif os.path.exists(f"/{name}"):
                script.append(f"mkdir {root}/{name} && mount --bind -o ro /{name} {root}/{name}")
        script += [f"mkdir -p {root}/proc {root}/dev {root}/tmp {root}/program && chmod 1777 {root}/tmp", f"mount -t proc proc {root}/proc",
                   f"mount --rbind /dev {root}/dev", f"mount --bind -o ro {os.path.dirname(program('count'))} {root}/program"]
        for mount in edits["mounts"]:
            options = ",".join(["remount", *mount["options"]])
            place = root + mount["containerPath"]
            script.append(f"mkdir -p {place} && mount --bind {mount['hostPath']} {place} && mount -o {options} {place}")
        become = f"--userspec={user}:{user} " if user else ""
        script.append(f"exec chroot {become}{root} /usr/bin/env -i {' '.join(edits['env'])} PATH=/usr/bin:/bin {' '.join(words)}")
        return subprocess.run(["unshare", "--mount", "--pid", "--fork", "--propagation", "private", "bash", "-c", "\n".join(script)],
                              capture_output=True, text=True, timeout=60)

    def test_the_socket_of_this_host(self):
        server = Server("--socket-mode", "0666")
        self.addCleanup(server.stop)
        os.chmod(server.directory.name, 0o755)
        device = specification("--server", server.url)["devices"][0]
        for user in (0, USER):
            with self.subTest(user=user):
                done = self.run_inside(device["containerEdits"], "/program/count", user=user)
                self.assertEqual((done.stdout, done.stderr), ("1\n", ""))

    def test_a_server_of_another_host_and_the_library_alone(self):
        server = Server()
        self.addCleanup(server.stop)
        keys = Keys()
        gateway = Gateway(server.path, *keys.options("server", "localhost,127.0.0.1"), listen="tls://127.0.0.1:0")
        self.addCleanup(gateway.stop)
        device = specification("--server", gateway.url, "--keys", keys.of("client", "image"))["devices"][0]
        done = self.run_inside(device["containerEdits"], "/program/count")
        self.assertEqual((done.stdout, done.stderr), ("1\n", ""))
        self.assertIn("image", gateway.words())


class Specification(unittest.TestCase):
    """Source: SPEC.md 0.5.0 of the Container Device Interface."""

    def test_its_form(self):
        found = specification()
        self.assertEqual((found["cdiVersion"], found["kind"], [one["name"] for one in found["devices"]]), ("0.5.0", "tessera/gpu", ["default"]))
        self.assertEqual(set(found), {"cdiVersion", "kind", "devices"})
        edits = found["devices"][0]["containerEdits"]
        self.assertEqual(set(edits), {"env", "mounts"})
        self.assertEqual([mount["containerPath"] for mount in edits["mounts"]], ["/opt/tessera", "/run/tessera"])
        self.assertEqual(edits["mounts"][0]["hostPath"], BUILD)
        for mount in edits["mounts"]:
            self.assertEqual((set(mount), mount["options"]), ({"hostPath", "containerPath", "options"}, ["bind", "ro", "nosuid", "nodev"]))
        self.assertEqual(edits["env"], ["LD_LIBRARY_PATH=/opt/tessera/lib/client", "TESSERA_SERVER=unix:/run/tessera/tessera.sock"])

    def test_addresses_as_people_type_them(self):
        for typed, meant, mounts in (("/srv/gpu.sock", "unix:/srv/gpu.sock", ["/srv"]), ("gpu7", "tls://gpu7:4180", []),
                                     ("/a/1,gpu7:5,unix:/b/2", "unix:/a/1,tls://gpu7:5,unix:/b/2", ["/a", "/b"])):
            edits = specification("--server", typed)["devices"][0]["containerEdits"]
            self.assertEqual(edits["env"][1], f"TESSERA_SERVER={meant}")
            self.assertEqual([mount["hostPath"] for mount in edits["mounts"][1:]], mounts)
        done = subprocess.run([TESSERA, "container", "make-cdi", "--server", "/a,"], capture_output=True, text=True, env=environment(), timeout=30)
        self.assertEqual((done.returncode, done.stdout), (71, ""))
        self.assertIn("empty entry", done.stderr)

    def test_paths_from_the_root_alone(self):
        for words in (("--keys", "keys"), ("--server", "unix:server.sock"), ("--server", "./server.sock"), ("--server", "/a,b/c")):
            done = subprocess.run([TESSERA, "container", "make-cdi", *words], capture_output=True, text=True, env=environment(), timeout=30)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, "is not an absolute path")


if __name__ == "__main__":
    unittest.main()
