#!/usr/bin/env python3
"""What is generated and committed is current: wire.lock, and the table of supported functions in docs/support.md. No call is left
without a decision."""

import unittest

import sources
import generate


class GeneratedParts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.spec = generate.load(sources.ROOT / "protocol" / "spec")

    def test_lock_and_support_table_are_current(self):
        generate.check_current(self.spec, sources.ROOT / "protocol" / "spec" / "wire.lock", sources.ROOT / "docs" / "support.md")

    def test_every_reason_says_why(self):
        self.assertEqual([c.name for c in self.spec.calls if c.mode == "unsupported" and c.reason != "next" and len(c.reason.split()) < 3], [])

    def test_handle_kinds_are_those_of_the_wire(self):
        text = (sources.ROOT / "protocol" / "wire" / "handle.h").read_text()
        for kind in self.spec.kinds.values():
            self.assertIn(f"{kind.cpp.removeprefix('HandleKind::')} = {kind.value},", text)


if __name__ == "__main__":
    unittest.main()
