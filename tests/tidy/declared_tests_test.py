#!/usr/bin/env python3
"""CTest knows of every test that is a Python file, by a name that no other test has. For how much of a processor a test counts is said
by the names of cmake/TesseraTargets.cmake."""

import pathlib
import re
import subprocess
import unittest

import sources

NAMES = {"TESSERA_TEST_WAITS", "TESSERA_TEST_USUAL", "TESSERA_TEST_COMPUTES", "TESSERA_TEST_ALONE"}


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=sources.ROOT, capture_output=True, text=True, check=True).stdout
    return [pathlib.Path(name) for name in listed.splitlines() if (sources.ROOT / name).is_file()]


def without_comments(text):
    return re.sub(r"(?m)(^|\s)#.*$", r"\1", text)


def undeclared(test, lists):
    """Whether no CMakeLists.txt of the test's folder, or of one above it, has its name; `lists` are their contents by folder."""
    return not any(re.search(rf"(?<![\w-]){test.stem}(?!\w)", lists.get(folder, "")) for folder in test.parents)


def twice(test, lists):
    """Whether a program of GoogleTest has the test's name: what is said of one by its name CTest takes for both."""
    return any(re.search(rf"\btessera_test\({test.stem}\s", text) for text in lists.values())


def other_processors(text):
    """What stands behind PROCESSORS and is none of the names."""
    return [word for word in re.findall(r"\bPROCESSORS\s+([^\s)]+)", text) if word.removeprefix("${").removesuffix("}") not in NAMES]


class DeclaredTests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lists = {path.parent: without_comments((sources.ROOT / path).read_text()) for path in tracked("*CMakeLists.txt", "*.cmake")}

    def test_every_one_is_declared(self):
        tests = [path for path in tracked("tests/*_test.py") if "gpu" not in path.parts]
        self.assertGreater(len(tests), 60)
        self.assertEqual([str(test) for test in tests if undeclared(test, self.lists)], [])

    def test_none_has_anothers_name(self):
        tests = [path for path in tracked("tests/*_test.py") if not {"gpu", "tidy"} & set(path.parts)]
        self.assertEqual([str(test) for test in tests if twice(test, self.lists)], [])

    def test_processors_are_named(self):
        self.assertEqual({str(folder): found for folder, text in self.lists.items() if (found := other_processors(text))}, {})

    def test_the_test_would_notice(self):
        lists = {pathlib.Path("tests/a"): "foreach(name one_test vgpu_two_test)"}
        for name, expected in (("one_test", False), ("vgpu_two_test", False), ("two_test", True), ("one_test_more", True)):
            self.assertEqual(undeclared(pathlib.Path(f"tests/a/b/{name}.py"), lists), expected, name)
        self.assertTrue(undeclared(pathlib.Path("tests/c/one_test.py"), lists))
        self.assertTrue(twice(pathlib.Path("tests/a/three_test.py"), {pathlib.Path("tests/b"): "tessera_test(three_test LABELS unit)"}))
        self.assertFalse(twice(pathlib.Path("tests/a/three_test.py"), {pathlib.Path("tests/b"): "tessera_test(three_test_more LABELS unit)"}))
        self.assertEqual(without_comments("a # one_test\n# two\nb"), "a \n\nb")
        self.assertEqual(other_processors("PROCESSORS 3 COST 2 PROCESSORS ${TESSERA_TEST_WAITS})"), ["3"])


if __name__ == "__main__":
    unittest.main()
