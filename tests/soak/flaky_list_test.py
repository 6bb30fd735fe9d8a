#!/usr/bin/env python3
"""What `flaky` makes of ctest's output."""

import importlib.machinery
import importlib.util
import pathlib
import unittest

loader = importlib.machinery.SourceFileLoader("flaky", str(pathlib.Path(__file__).with_name("flaky")))
flaky = importlib.util.module_from_spec(importlib.util.spec_from_loader("flaky", loader))
loader.exec_module(flaky)

TEXT = """        Start 146: access_test
 87/447 Test #146: access_test ...............................***Failed  134.88 sec
a_test (__main__.OtherUsers) ... ok
 88/447 Test #147: run_test ..................................   Passed  108.62 sec
 89/447 Test #190: old_toolkits_test .........................***Skipped   0.10 sec
  1/3 Test   #1: link_test ...................................***Timeout  60.01 sec
 90/447 Test #191: some_test .................................***Exception: SegFault  0.10 sec
"""


class Flaky(unittest.TestCase):
    def test_outcomes(self):
        self.assertEqual(flaky.outcomes(TEXT), {"access_test": "Failed", "run_test": "Passed", "old_toolkits_test": "Skipped",
                                                "link_test": "Timeout", "some_test": "Exception: SegFault"})

    def test_what_differs(self):
        runs = [{"a": "Passed", "b": "Failed", "c": "Passed"}, {"a": "Passed", "b": "Failed", "c": "Failed"}]
        self.assertEqual(flaky.differing(runs), {"c": {"Passed": 1, "Failed": 1}})
        self.assertEqual(flaky.differing([{"a": "Passed"}, {}]), {"a": {"Passed": 1}}, "it ran once")


if __name__ == "__main__":
    unittest.main()
