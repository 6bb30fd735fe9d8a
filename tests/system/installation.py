"""An installation of its own, whose programs a test replaces as an upgrade does."""

import os
import shutil
import tempfile
import unittest

from product import BUILD, Server

PARTS = ("bin/tesserad", "bin/tessera-gateway", "bin/tessera-broker", "lib/libtessera-emulator.so")


class InstallationCase(unittest.TestCase):
    def setUp(self):
        self.prefix = self.enterContext(tempfile.TemporaryDirectory())
        os.chmod(self.prefix, 0o755)
        for part in PARTS:
            os.makedirs(os.path.dirname(os.path.join(self.prefix, part)), exist_ok=True)
            shutil.copy(os.path.join(BUILD, part), os.path.join(self.prefix, part))

    @staticmethod
    def real(name):
        return os.path.join(BUILD, "bin", name)

    def put(self, name, content):
        """As dpkg does it: what runs keeps the old file."""
        path = os.path.join(self.prefix, "bin", name)
        with open(path + ".new", "wb") as file:
            file.write(content)
        os.chmod(path + ".new", 0o755)
        os.rename(path + ".new", path)

    def put_same(self, name):
        with open(self.real(name), "rb") as file:
            self.put(name, file.read())

    def serve(self, *options):
        return Server("--state", "none", "--image-cache-size", "0", *options, program=os.path.join(self.prefix, "bin/tesserad"))
