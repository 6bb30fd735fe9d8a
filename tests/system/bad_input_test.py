#!/usr/bin/env python3
"""Every row of the first table of netaware/cli/bad_input.md has a test, and every test of `tessera run` and of the library a row.

usage: bad_input_test.py BUILD_DIRECTORY
"""

import unittest

import bad_input_library_test
import bad_input_run_test
from bad_input import HEADING, check_rows


class Table(unittest.TestCase):
    def test_every_row_has_a_test_and_every_test_a_row(self):
        check_rows(self, HEADING, (bad_input_run_test.Run, bad_input_library_test.Library))


if __name__ == "__main__":
    unittest.main(verbosity=2)
