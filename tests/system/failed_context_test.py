#!/usr/bin/env python3
"""What the server's log says of a context that a kernel broke."""

import subprocess
import unittest

from product import TESSERA, Server, program, wait_for


class FailedContext(unittest.TestCase):
    def test_the_log_names_the_kernels_launched_last(self):
        server = Server("--image-cache-size", "0")
        subprocess.run([TESSERA, "run", "--quiet", "--server", server.url, "--", program("broken_context"), "stream"],
                       stdout=subprocess.DEVNULL, timeout=20, check=True)
        wait_for(lambda: "a context failed" in server.words(), 10, "the line in the log")
        # The first call that meets the error tells it; which one that is depends on when the kernel ran.
        self.assertRegex(server.words(), r"a context failed with error 719, told by cu\w+; kernels launched last: "
                                         r"\S*Traps\S* <<<\(1, 1, 1\), \(1, 1, 1\), 0>>>, \S*Nothing\S* <<<")
        self.assertEqual(server.words().count("a context failed"), 1)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
