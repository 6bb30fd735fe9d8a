#!/usr/bin/env python3
"""No two classes of the product have one name in one namespace: in a program that has both, the linker takes the functions of either for
the other's, without a word (C++ standard, one-definition rule). Tests link what no program of the product does."""

import collections
import re
import unittest

import sources

PRODUCT = ("client-stub", "server", "protocol", "programs", "scheduler", "netaware")
# A class that is no member and has a body. classes() has put bases of later lines beside its name.
CLASS = re.compile(r"(?:class|struct|union|enum(?: class)?) (?:\w+\([^()]*\) |alignas\([^()]*\) )?(\w+)(?: final)?(?: ?: ?[^:;{][^;{]*)? ?(?=\{)")


def classes(text):
    """(namespace, name) of each; those of a namespace without a name, which are a file's own, are not here."""
    namespaces = []
    # One of a single line ends without its comment.
    text = re.sub(r"^namespace ?[\w:]* ?\{\n[^\n]*\n\}\n", "", text, flags=re.MULTILINE)
    for line in re.sub(r",\n\s+", ", ", re.sub(r"\n\s+(?=: )", " ", text)).splitlines():
        if match := re.match(r"namespace ?([\w:]*) ?\{$", line):
            namespaces.append(match[1])
        elif re.match(r"\}  // namespace", line) and namespaces:
            namespaces.pop()
        elif "" not in namespaces and (match := CLASS.match(line)):
            yield "::".join(namespaces), match[1]
    if namespaces:
        raise ValueError(f"no end of namespace {namespaces[-1]} is found")


class OneName(unittest.TestCase):
    def test_classes_are_found(self):
        text = ("namespace b {\nclass A;\n}\nnamespace a {\nclass B;\nclass C : public D {\n  struct Inner {\n};\nclass E final\n    : public F,\n      public G {\n};\n"
                "class C::H {\n};\nenum class I : int {\n};\nclass CAPABILITY(\"m\") J {\n};\nnamespace {\nstruct K {\n};\n}  // namespace\n"
                "struct L {\n};\n}  // namespace a\n")
        self.assertEqual([name for _, name in classes(text)], ["C", "E", "I", "J", "L"])
        self.assertEqual(list(classes("namespace CLI {\nclass Option;\n}\n\nnamespace a {\nclass B {\n};\n}  // namespace a\n")), [("a", "B")])

    def test_no_name_twice(self):
        where = collections.defaultdict(set)
        for path in sources.source_files(*PRODUCT):
            with self.subTest(path):
                for name in classes((sources.ROOT / path).read_text(encoding="utf-8")):
                    where[name].add(str(path))
        self.assertGreater(len(where), 900)
        twice = {"::".join(name): sorted(files) for name, files in where.items() if len(files) > 1}
        self.assertEqual(twice, {}, "give one of them another name")


if __name__ == "__main__":
    unittest.main()
