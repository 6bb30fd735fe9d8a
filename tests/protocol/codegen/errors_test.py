#!/usr/bin/env python3
"""Every mistake in a spec is an error that names file, table and line."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "protocol" / "codegen"))
import generate  # noqa: E402

HEAD = '[cuToyAct]\nid = 1\nsince = 1000\nmode = "sync"\n'


def run(domain, lock="", types=None, arguments=("--check",)):
    """Exit status and error text of the generator on a spec of one domain."""
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        (directory / "types.toml").write_text(types or (HERE / "toy" / "types.toml").read_text())
        (directory / "act.toml").write_text(domain)
        (directory / "wire.lock").write_text(lock)
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            status = generate.main(["--spec", str(directory), *arguments])
        return status, errors.getvalue()


class Errors(unittest.TestCase):
    def refused(self, domain, *expected, **keywords):
        status, text = run(domain, **keywords)
        self.assertEqual(status, 1, text)
        for part in expected:
            self.assertIn(part, text)

    def param(self, line, *expected, more=()):
        """`line` as the only parameter (`more` behind it): refused at its line, with `expected` in the text."""
        listed = "".join(f'  "{p}",\n' for p in (line, *more))
        self.refused(f"{HEAD}params = [\n{listed}]\n", "act.toml:6: [cuToyAct]", *expected)

    def test_a_correct_spec_passes(self):
        self.assertEqual(run(HEAD + 'params = ["in int a"]\n'), (0, ""))

    def test_toml(self):
        self.refused("[cuToyAct\n", "act.toml", "line 1")

    def test_fields_of_a_table(self):
        self.refused(HEAD + 'colour = "red"\n', "act.toml:5: [cuToyAct] unknown field `colour`")
        self.refused(HEAD.replace("id = 1", 'id = "1"'), "act.toml:2:", "`id` must be of type int")
        self.refused(HEAD.replace("since = 1000\n", ""), "act.toml:1:", "`since` is missing")
        self.refused(HEAD.replace("id = 1\n", ""), "act.toml:1:", "`id` is missing")
        self.refused(HEAD.replace("sync", "sometimes"), "act.toml:4:", "mode = \"sometimes\" is none of")
        self.refused(HEAD.replace('"sync"', '"unsupported"'), "`reason`")
        self.refused(HEAD + 'reason = "because"\n', "`reason`")
        self.refused(HEAD + 'client = "generated"\n', "act.toml:5:", "only value")
        self.refused(HEAD + 'gate = "launch"\n', "unknown field `gate`")
        self.refused(HEAD.replace("sync", "async") + "blocking = true\n", "blocking")
        self.refused(HEAD + "aside = true\n", "aside")
        self.refused(HEAD + 'route = "home"\n', "none of named, none")
        self.refused(HEAD + 'context = "none"\naside = true\nblocking = true\n', "aside")
        self.refused('id = 1\n' + HEAD, "stands outside of a table")
        self.refused(HEAD.replace("cuToyAct", "toyAct"), "neither that of a driver function")

    def test_work(self):
        """Of a call that names a stream the row must say what its record has the device do there."""
        stream = 'params = ["in CUstream stream use(stream)"]\n'
        self.refused(HEAD + stream, "act.toml:1: [cuToyAct]", "names a stream", "write `work`", '"launch"', '"none"')
        self.refused(HEAD.replace("sync", "local") + stream, "write `work`")
        in_message = HEAD + 'client = "custom"\nserver = "custom"\nrequest = ["list(handle(stream)) streams"]\n'
        self.refused(in_message, "write `work`")
        self.refused(HEAD + 'work = "wish"\n' + stream, "act.toml:5:", "none of launch")
        self.refused(HEAD + 'work = "memory(size)"\n', "there is no parameter `size`")
        self.refused(HEAD + 'blocking = true\nwork = "graph"\n' + stream, "of a blocking call only a handwritten body waits")
        self.refused(HEAD + 'work = "launch(stream)"\n' + stream, "has no amount")
        self.refused(HEAD + 'work = "launch"\n', "exactly one field")
        self.refused(HEAD.replace("sync", "local") + 'work = "launch"\n' + stream, "without a message", "\"none\"")
        self.refused(HEAD + 'work = "copy"\n' + stream, "only a handwritten body", 'client = "custom"')
        two = 'params = ["in CUstream a use(stream)", "in CUstream b use(stream)"]\n'
        self.refused(HEAD + 'work = "launch"\n' + two, "exactly one field")
        alias = HEAD.replace("Act", "Other").replace("id = 1", "id = 2").replace('mode = "sync"', 'alias = "cuToyAct"')
        self.refused(HEAD + 'work = "order"\n' + stream + alias + 'work = "order"\n' + stream, "said by [cuToyAct]")
        for row in (HEAD + 'work = "launch"\n' + stream, HEAD + 'client = "custom"\nwork = "copy"\n' + stream,
                    HEAD + 'work = "none"\n' + stream, HEAD + 'work = "order"\n' + stream + alias + stream):
            self.assertEqual(run(row), (0, ""))

    def test_ids(self):
        self.refused(HEAD + HEAD.replace("Act", "Act2"), "act.toml:5: [cuToyAct2]", "id 0x0001 of [cuToyAct]")
        self.refused(HEAD.replace("id = 1", "id = 65536"), "not between")
        self.refused(HEAD + HEAD.replace("Act", "Act2").replace("id = 1", "id = 2"), types="[a]\ntype = \"A\"\nerror = 1\n")

    def test_parameter_lines(self):
        self.param("in int", "does not parse")
        self.param("sideways int a", "does not parse")
        self.param("in int a sparkling", "is no C type")
        self.param("in int a use", "is no C type")
        self.param("in int* a count()", "does not parse")
        self.param("in int a null(0)", "is not the number of an error")
        self.param("in CUtoy a use(dragon)", "`dragon` is no kind of handle")
        self.param("in CUtoy a use(event) use(event)", "`use` twice")
        self.param("in CUtoy a use(event) free(event)", "both use() and free()")

    def test_direction_against_constness(self):
        self.param("out int a", "is out, but int is no pointer")
        self.param("out const int* a", "points to const")
        self.param("inout const int* a", "points to const")
        self.param("in int* a", "writable memory")

    def test_lengths(self):
        self.param("in const int* a count(n)", "there is no such parameter")
        self.param("in const void* a bytes(n)", "there is no such parameter")
        self.param("out char* a text(n)", "there is no such parameter")
        self.param("in const int* a count(n)", "is no number", more=["in float n"])
        self.param("in const int* a count(n)", "is only out", more=["out int* n"])
        self.param("in const int* a count(n)", "is ignored", more=["in int n ignored"])
        self.param("out int* a count(4) filled(n)", "is no out parameter", more=["in int n"])
        self.param("in int a count(4)", "is no pointer")

    def test_nothing_is_guessed(self):
        self.param("in const void* a", "needs bytes()")
        self.param("in const char* a", "needs bytes()")
        self.param("out void** a", "points to pointers")
        self.param("in CUtoy a", "needs use()")
        self.param("in const CUtoy* a use(event)", "needs count()")
        self.param("in int a use(event)", "handles of kind event are CUtoy")
        self.param("in CUtoy a new(event)", "is for out parameters")
        self.param("out CUtoy* a use(event)", "is for in parameters")
        self.param("in int a nullable", "neither a pointer nor a handle")
        self.param("in int a null(3)", "null() is for")
        self.param("in const int* a cstr", "cstr is for")
        self.param("in const CUbundle* a", "holds pointers or handles")

    def test_messages(self):
        custom = HEAD + 'client = "custom"\nserver = "custom"\n'
        self.refused(HEAD + 'request = ["u32 a"]\n', "need client = \"custom\" and server = \"custom\"")
        self.refused(custom + 'request = ["u31 a"]\n', "act.toml:7:", "unknown form `u31`")
        self.refused(custom + 'request = ["u32 a", "u64 a"]\n', "act.toml:7:", "twice")
        self.refused(custom + 'reply = ["handle(dragon) a"]\n', "`dragon` is no kind of handle")
        self.refused(HEAD.replace("sync", "async") + 'params = ["out int* a"]\n', "has no reply, but `a` is an output")
        self.refused(HEAD.replace("sync", "local") + 'server = "custom"\n', "without a message")

    def test_alias(self):
        row = HEAD.replace('mode = "sync"', 'alias = "cuToyOther"')
        self.refused(row, "is no call with a body of its own")
        other = HEAD.replace("cuToyAct", "cuToyOther").replace("id = 1", "id = 2") + 'params = ["in int a"]\n'
        self.refused(row + other, "another number of parameters")

    def test_lock(self):
        self.assertEqual(run(HEAD, lock="0x0001 cuToyAct request() reply()\n"), (0, ""))
        self.refused(HEAD, "wire.lock:1: id 0x0002 of cuToyGone is gone", lock="0x0002 cuToyGone\n")
        self.refused(HEAD, "act.toml:1: [cuToyAct] id 0x0001 belongs to cuToyOther", lock="0x0001 cuToyOther\n")
        self.refused(HEAD, "does not parse", lock="nonsense\n")
        self.refused(HEAD, "is gone", lock="0x0002 cuToyGone\n", arguments=("--update-lock",))


if __name__ == "__main__":
    unittest.main()
