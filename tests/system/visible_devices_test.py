#!/usr/bin/env python3
"""CUDA_VISIBLE_DEVICES in the forms that people and schedulers write it: what a program gets of a private server, of one that is named and
of a pool is what it gets natively, the second device is never the first, and a program without devices runs.

usage: visible_devices_test.py BUILD_DIRECTORY
"""

import os
import subprocess
import sys
import unittest

from product import HAS_CONTROL_API, TESSERA, Server, environment, program

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "pool"))
from pool import Pool  # noqa: E402

LISTS = program("visible_devices")
NONE, TWICE = "error 100", "error 101"  # CUDA_ERROR_NO_DEVICE, CUDA_ERROR_INVALID_DEVICE

# By the list: the places of the devices among all that there are, with one and with two of them. {0} and {1}: their UUIDs; {short}: all of
# the first's but the end, by which they differ. Natively so: CUDA C++ Programming Guide, "CUDA Environment Variables" (numbers, UUIDs and
# their beginnings, what follows something invalid is not visible); a number ends with its digits, and all entries are of the first one's
# form (PyTorch's parser, which was compared with driver 525); "MIG-" stands before any device's UUID (driver 580, H200); cuInit returns 101
# where a device is named twice.
FORMS = [
    ("0", [0], [0]),
    ("1", NONE, [1]),
    ("0,1", [0], [0, 1]),
    ("1,0", NONE, [1, 0]),
    ("GPU-{0}", [0], [0]),
    ("GPU-{1}", NONE, [1]),
    ("GPU-{1},GPU-{0}", NONE, [1, 0]),
    ("GPU-{short}", [0], NONE),
    ("gpu-{0}", NONE, NONE),
    ("{0}", NONE, NONE),
    ("GPU-{0},0", [0], [0]),
    ("GPU-{0},1", [0], [0]),
    ("0,GPU-{0}", [0], [0]),
    ("MIG-{0}", [0], [0]),
    ("MIG-GPU-{0}/1/0", NONE, NONE),
    ("0,0", TWICE, TWICE),
    ("1,0,1", NONE, TWICE),
    ("GPU-{0},GPU-{0}", TWICE, TWICE),
    ("0,99", [0], [0]),
    ("0,99,1", [0], [0]),
    ("99", NONE, NONE),
    ("junk", NONE, NONE),
    ("0,junk", [0], [0]),
    ("junk,0", NONE, NONE),
    ("NoDevFiles", NONE, NONE),
    ("-1", NONE, NONE),
    ("0,-1,1", [0], [0]),
    ("", NONE, NONE),
    (" 0", [0], [0]),
    ("0 ,1", [0], [0, 1]),
    ("00", [0], [0]),
    ("0x0", [0], [0]),
]


class Forms(unittest.TestCase):
    maxDiff = None

    def run_in(self, words, *lists, **variables):
        """The lines of a program that `words` start, which has to run."""
        done = subprocess.run([*words, "--", LISTS, *lists], capture_output=True, text=True, timeout=120, env=environment(CUDA_DEVICE_ORDER=None, **variables))
        self.assertEqual(done.returncode, 0, (lists, variables, done.stderr))
        return done.stdout.splitlines()

    def all_of(self, words, count, **variables):
        """The UUIDs of all devices."""
        head, *uuids = self.run_in(words, CUDA_VISIBLE_DEVICES=None, **variables)[0].split()
        self.assertEqual((head, len(set(uuids))), (f"{count}:", count))
        return uuids

    def expected(self, uuids):
        """The lists, and the line that a program prints with each."""
        names = {"0": uuids[0], "1": uuids[-1] if len(uuids) > 1 else "none", "short": uuids[0][:-2]}
        lines = {}
        for form, *answers in FORMS:
            answer = answers[len(uuids) - 1]
            text = form.replace("{0}", names["0"]).replace("{1}", names["1"]).replace("{short}", names["short"])
            lines[text] = answer if isinstance(answer, str) else " ".join([f"{len(answer)}:", *(uuids[place] for place in answer)])
        return lines

    def check(self, words, count, outside, **variables):
        """`outside`: the lists that are also set where `tessera run` starts, instead of by the program alone."""
        expected = self.expected(self.all_of(words, count, **variables))
        given = dict(zip(expected, self.run_in(words, *expected, **variables)))
        self.assertEqual(given, expected)
        for text in outside if outside is not None else expected:
            with self.subTest(visible=text):
                self.assertEqual(self.run_in(words, CUDA_VISIBLE_DEVICES=text, **variables), [expected[text]])

    # A few here: each is a way of its own through `tessera run` alone.
    FEW = ("1", "1,0", "junk", "", "0,0")

    def test_of_a_private_server(self):
        for count, outside in ((1, self.FEW), (2, None)):
            with self.subTest(count=count):
                self.check([TESSERA, "run", "--quiet", "--driver", "emulator"], count, outside, TESSERA_EMULATOR_DEVICES=str(count))

    def test_what_a_job_hides_of_a_private_server_its_programs_may_show(self):
        """As launchers do that give each of their programs a device of their own choice."""
        words = [TESSERA, "run", "--quiet", "--driver", "emulator"]
        uuids = self.all_of(words, 2, TESSERA_EMULATOR_DEVICES="2")
        lines = self.run_in(words, "1", "0", CUDA_VISIBLE_DEVICES="", TESSERA_EMULATOR_DEVICES="2")
        self.assertEqual(lines, [f"1: {uuids[1]}", f"1: {uuids[0]}"])

    def of_a_server(self, count, *options, **variables):
        server = Server(*options, env=environment(CUDA_VISIBLE_DEVICES=None, CUDA_DEVICE_ORDER=None, **variables))
        self.check([TESSERA, "run", "--quiet", "--server", server.url], count, self.FEW)
        self.assertEqual(server.stop(), 0)

    def test_of_a_server(self):
        for count in (1, 2):
            with self.subTest(count=count):
                self.of_a_server(count, TESSERA_EMULATOR_DEVICES=str(count))

    def test_of_a_server_that_waits_for_sessions(self):
        self.of_a_server(2, "--warm-workers", "1", TESSERA_EMULATOR_DEVICES="2")

    def test_of_a_server_that_has_a_list_of_its_own(self):
        server = Server(env=environment(CUDA_VISIBLE_DEVICES="3,1,9", TESSERA_EMULATOR_DEVICES="4"))
        words = [TESSERA, "run", "--quiet", "--server", server.url]
        self.check(words, 2, self.FEW)
        self.assertEqual([uuid[-2:] for uuid in self.all_of(words, 2)], ["03", "01"])
        self.assertEqual(server.stop(), 0)

    @unittest.skipUnless(HAS_CONTROL_API, "this build has no placer")
    def test_of_a_pool(self):
        for count, devices in ((1, 1), (1, 3), (2, 2), (2, 3)):
            with self.subTest(count=count, devices=devices):
                pool = Pool(devices=devices)
                self.addCleanup(pool.stop)
                words = [TESSERA, "run", "--quiet", "--placer", pool.url, "--gpus", str(count), "--gpu-share", "0.5", "--wait", "1m"]
                self.check(words, count, self.FEW if devices == count else ())


if __name__ == "__main__":
    unittest.main()
