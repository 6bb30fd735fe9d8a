#!/usr/bin/env python3
"""Parts of a server that begin slowly, as on a busy machine, or not at all: broker and gateway are scripts that wait before they become what they
should be.

usage: slow_parts_test.py BUILD_DIRECTORY
"""

import os
import re
import signal
import subprocess
import unittest

from installation import InstallationCase
from product import TESSERA, Session, environment, wait_for

# Longer than a broker that is ready may say nothing.
SLOWLY_S = 3


class SlowParts(InstallationCase):
    def put_slow(self, name, seconds):
        self.put(name, f'#!/bin/sh\nsleep {seconds}\nexec {self.real(name)} "$@"\n'.encode())

    def test_a_broker_that_begins_slowly_is_waited_for(self):
        self.put_slow("tessera-broker", SLOWLY_S)
        server = self.serve()
        first = server.broker()
        session = Session(server.url)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: server.broker() not in (None, first), 10, "another broker")
        second = server.broker()
        wait_for(lambda: subprocess.run([TESSERA, "vgpu", "list", "--server", server.url], capture_output=True, timeout=60,
                                        env=environment()).returncode == 0, 30, "an answer of it")
        self.assertEqual(server.broker(), second)
        self.assertNotIn("has said nothing", server.words())
        self.assertEqual((session.end(), server.stop()), (0, 0))

    def test_a_gateway_that_begins_slowly_is_waited_for(self):
        self.put_slow("tessera-gateway", 1)
        server = self.serve("--listen", "tcp://127.0.0.1:0")
        self.assertEqual(Session(re.search(r"tcp://127.0.0.1:\d+", server.ready)[0]).end(), 0)
        self.assertEqual(server.stop(), 0)

    def test_who_does_not_begin_is_named(self):
        for name, options, words in (("tessera-broker", [], "tessera-broker is not ready after 1 s"),
                                     ("tessera-gateway", ["--listen", "tcp://127.0.0.1:0"], "tessera-gateway at tcp://127.0.0.1:0 is not ready after 1 s")):
            with self.subTest(name=name):
                self.put_slow(name, 1000)
                server = self.serve("--ready-timeout", "1", *options)
                self.assertEqual((server.ready, server.process.wait(30)), ("", 4), server.words())
                self.assertIn(f"tesserad: {words}, and has said nothing: ", server.words())
                server.discard()
                self.put_same(name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
