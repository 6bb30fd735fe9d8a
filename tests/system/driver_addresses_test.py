#!/usr/bin/env python3
"""What a worker's driver maps lies where no program has mappings of its own (server/worker/high_addresses.h).

usage: driver_addresses_test.py BUILD_DIRECTORY
"""

import re
import unittest

from product import BUILD, Server, wait_for

LOW, HIGH = 0x6C0000000000, 0x700000000000


def mappings_of_driver(pid):
    with open(f"/proc/{pid}/maps") as maps:
        return [int(line.split("-")[0], 16) for line in maps if re.search("libtessera-emulator", line)]


class DriverAddresses(unittest.TestCase):
    def test_the_driver_lies_low(self):
        # Without a sandbox a worker's mappings can be looked at by whoever started it.
        server = Server("--sandbox", "off", "--warm-workers", "1", driver=f"{BUILD}/lib/libtessera-emulator.so")
        try:
            wait_for(lambda: any(map(mappings_of_driver, server.workers())), 20, "a worker with a driver")
            for worker in server.workers():
                for address in mappings_of_driver(worker):
                    self.assertTrue(LOW <= address < HIGH, hex(address))
        finally:
            server.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
