#!/usr/bin/env python3
"""Numbers of fields in protocol/control/*.proto are those of protocol/control/fields.lock: a number is never given to another field, nor
a name to another number, also after a field has gone.

usage: proto_fields_test.py [--update]
  --update   writes down fields that are new; refuses what the test refuses
"""

import re
import sys
import unittest

import sources

FOLDER = sources.ROOT / "protocol/control"
LOCK = FOLDER / "fields.lock"
HEAD = "# Fields of the control API's messages; written by tests/tidy/proto_fields_test.py --update. A number is never given to another field.\n"
BEGIN = re.compile(r"(?:message|enum) (\w+) \{")
FIELD = re.compile(r"(?:(?:optional|repeated) )?([\w.<>, ]+?) (\w+) = (\d+);|(\w+) = (\d+);")


def fields_of(text):
    """{"Message.field": "number type"} of a .proto; of an enum's values the type is "value"."""
    found, within = {}, []
    for line in text.splitlines():
        line = re.sub(r"//.*", "", line).strip()
        if begin := BEGIN.match(line):
            within.append(begin[1])
        elif line.endswith("{"):  # a service, a oneof: fields of the latter are the message's
            within.append(None)
        elif any(within) and (field := FIELD.fullmatch(line)):
            message = ".".join(filter(None, within))
            kind, name, number = (field[1], field[2], field[3]) if field[2] else ("value", field[4], field[5])
            repeated = "repeated " if line.startswith("repeated ") else ""
            found[f"{message}.{name}"] = f"{number} {repeated}{kind}"
        if line.endswith("}") and within:
            within.pop()
    return found


def fields_now():
    found = {}
    for path in sorted(FOLDER.glob("*.proto")):
        found.update(fields_of(path.read_text(encoding="utf-8")))
    return found


def locked():
    lines = LOCK.read_text(encoding="utf-8").splitlines() if LOCK.exists() else []
    return dict(line.split(" = ", 1) for line in lines if line and not line.startswith("#"))


def wrong_of(now, lock):
    """What `now` does that the lock forbids, a line each."""
    wrong = [f"{name} is {now[name]}, and was {lock[name]}: give it another name and number" for name in sorted(now)
             if name in lock and now[name] != lock[name]]
    owners = {(name.rpartition(".")[0], kind.split()[0]): name for name, kind in lock.items()}
    for name, kind in sorted(now.items()):
        owner = owners.get((name.rpartition(".")[0], kind.split()[0]), name)
        if owner != name:
            wrong.append(f"{name} has the number {kind.split()[0]}, which is {owner}'s: take the next that is free")
    return wrong


class ProtoFields(unittest.TestCase):
    def test_numbers_are_those_of_the_lock(self):
        now, lock = fields_now(), locked()
        self.assertGreater(len(now), 20)
        self.assertEqual(wrong_of(now, lock), [])
        self.assertEqual(sorted(set(now) - set(lock)), [], "new fields: write them down with tests/tidy/proto_fields_test.py --update")

    def test_what_it_finds(self):
        text = "message A {\n  optional double x = 1;  // y = 2;\n  repeated B.C many = 3;\n  enum Kind {\n    NONE = 0;\n  }\n  oneof what {\n    string z = 4;\n  }\n}\n"
        found = fields_of(text)
        self.assertEqual(found, {"A.x": "1 double", "A.many": "3 repeated B.C", "A.Kind.NONE": "0 value", "A.z": "4 string"})
        self.assertEqual(wrong_of(found, found), [])
        self.assertEqual(len(wrong_of({"A.x": "2 double"}, found)), 1)
        self.assertEqual(len(wrong_of({"A.x": "1 float"}, found)), 1)
        self.assertEqual(len(wrong_of({"A.new": "1 double"}, found)), 1)  # x has gone, its number has not
        self.assertEqual(wrong_of({"B.new": "1 double"}, found), [])


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        fields, before = fields_now(), locked()
        if complaints := wrong_of(fields, before):
            sys.exit("\n".join(complaints))
        before.update(fields)
        LOCK.write_text(HEAD + "".join(f"{name} = {kind}\n" for name, kind in sorted(before.items())), encoding="utf-8")
    else:
        unittest.main()
