#!/usr/bin/env python3
"""Of every call that names a stream protocol/spec says what its record has the device do there; and the wire knows nothing of it."""

import pathlib
import re
import shutil
import sys
import tempfile
import tomllib
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROTOCOL = HERE.parents[2] / "protocol"
sys.path.insert(0, str(PROTOCOL / "codegen"))
import generate  # noqa: E402
import lock  # noqa: E402

# As the rows read, whatever the generator makes of them.
A_STREAM = re.compile(r"in (const )?CUstream\b.*|.*\buse\(stream\).*|.*\bhandle\(stream\).*")


class SpecWork(unittest.TestCase):
    def test_every_row_with_a_stream_says_its_work(self):
        rows = 0
        for path in sorted((PROTOCOL / "spec").glob("*.toml")):
            for name, row in tomllib.loads(path.read_text(encoding="utf-8")).items():
                if path.name == "types.toml" or "alias" in row:
                    continue
                lines = [*row.get("params", []), *row.get("request", [])]
                if any(A_STREAM.fullmatch(line) and "free(stream)" not in line for line in lines):
                    rows += 1
                    self.assertIn("work", row, f"{path.name}: [{name}]")
        self.assertGreater(rows, 90)

    def test_the_wire_does_not_depend_on_it(self):
        spec = generate.load(PROTOCOL / "spec")
        with tempfile.TemporaryDirectory() as directory:
            other = pathlib.Path(directory) / "spec"
            shutil.copytree(PROTOCOL / "spec", other)
            for path in other.glob("*.toml"):
                text = path.read_text(encoding="utf-8")
                path.write_text(re.sub(r'^work( *)= ".*"$', r'work\1= "none"', text, flags=re.M), encoding="utf-8")
            changed = generate.load(other)
        self.assertNotEqual([call.gate for call in spec.calls], [call.gate for call in changed.calls])
        self.assertEqual(lock.spec_hash(spec), lock.spec_hash(changed))
        self.assertEqual(lock.lock_text(spec), lock.lock_text(changed))


if __name__ == "__main__":
    unittest.main()
