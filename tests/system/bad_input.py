"""What the tests of bad input share: peers that behave badly, and the tables of netaware/cli/bad_input.md that say what users see."""

import os
import pathlib
import re
import socket
import struct
import subprocess
import tempfile
import threading
import unittest

from product import DAEMON, TESSERA, end_with_test, environment

TABLES = pathlib.Path(__file__).resolve().parents[2] / "netaware/cli/bad_input.md"
HEADING = "Bad input to `tessera run` and the library"  # the table of `tessera run` and of the library
RESULTS = {2: "OUT_OF_MEMORY", 46: "DEVICE_UNAVAILABLE", 100: "NO_DEVICE", 101: "INVALID_DEVICE", 200: "INVALID_IMAGE", 209: "NO_BINARY_FOR_GPU", 218: "INVALID_PTX",
           301: "FILE_NOT_FOUND", 803: "SYSTEM_DRIVER_MISMATCH", 999: "UNKNOWN"}


def rows_of(heading):
    """The rows of the table below a heading of that file: the first cell, and the whole line."""
    section = TABLES.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return {line.split(" | ")[0].lstrip("| "): line for line in lines}


def row(*names):
    """Says which rows of the table a test is for; none: it is for what stands around the table."""
    def mark(test):
        test.rows = names
        return test
    return mark


class TableTest(unittest.TestCase):
    """Tests of the table below `heading`. What a test sees (exit code, CUresult) must stand in one of the rows that it is for."""

    heading = None

    def check(self, result, code, sentence, name):
        self.assertEqual(result.returncode, code, result.stderr)
        # What a child of a service says has the time in front.
        ours = [line for line in result.stderr.splitlines() if re.match(r"([0-9-]+T[0-9:.]+Z )?" + re.escape(name), line)]
        self.assertEqual(len(ours), 1, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertRegex(ours[0], sentence)
        self.stands_in_its_row(code)

    def stands_in_its_row(self, what):
        table = rows_of(self.heading)
        names = getattr(getattr(self, self._testMethodName), "rows", ())
        self.assertTrue(any(re.search(rf"\b{what}\b", table.get(name, "").replace("_", "")) for name in names) if isinstance(what, int) else
                        any(what in table.get(name, "") for name in names), f"{what} stands in no row of {names}")


def check_rows(test, heading, classes):
    """Every row of the table has a test, and every test a row."""
    tested = set()
    for one in classes:
        for name in dir(one):
            if not name.startswith("test_"):
                continue
            rows = getattr(getattr(one, name), "rows", None)
            test.assertIsNotNone(rows, f"{one.__name__}.{name} is for no row of the table '{heading}'")
            tested.update(rows)
    test.assertEqual(tested, set(rows_of(heading)))


MAGIC = 0x41525354
HELLO, REFUSAL, QUERY, REPORT = 1, 3, 7, 8
NOBODY = 65534


class Accepting:
    """A listening socket whose every connection is given to `talk`, until the block that uses it ends."""

    def __init__(self, listening):
        self.socket = listening
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                self.talk(connection)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


class Listener(Accepting):
    """A socket at which `answer(connection, message)` plays the server."""

    def __init__(self, answer):
        self.directory = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.directory.name, "server.sock")
        self.url = "unix:" + self.path
        self.answer = answer
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listening.bind(self.path)
        listening.listen(8)
        super().__init__(listening)

    def talk(self, connection):
        self.answer(connection, connection.recv(200000))

    def __exit__(self, *_):
        super().__exit__()
        self.directory.cleanup()


def other_version(connection, message):
    """A server of wire version 999: a report of its own, or the refusal of a hello."""
    if struct.unpack_from("<II", message)[1] == QUERY:
        connection.send(struct.pack("<IIIQ", MAGIC, REPORT, 999, 1))
    else:
        sentence = b"the client speaks another wire version than 999: install the same release of tessera on both sides"
        connection.send(struct.pack("<IIII", MAGIC, REFUSAL, 5, len(sentence)) + sentence)


class TcpListener(Accepting):
    """A port of this host that answers what it is told with `words`, then hangs up."""

    def __init__(self, words):
        self.words = words
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = "tcp://127.0.0.1:%d" % listening.getsockname()[1]
        super().__init__(listening)

    def talk(self, connection):
        connection.recv(100)
        connection.sendall(self.words)


def closed_port():
    """The address of a port at which nobody listens."""
    with TcpListener(b"") as listener:
        return listener.url


def stale_socket(directory):
    path = os.path.join(directory, "stale.sock")
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stale.bind(path)
    stale.close()
    return path


class ServerOfNobody:
    """A tesserad that another user runs, at a socket that everybody may connect to."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory()
        os.chown(self.directory.name, NOBODY, NOBODY)
        os.chmod(self.directory.name, 0o755)
        path = os.path.join(self.directory.name, "server.sock")
        self.url = "unix:" + path
        self.process = subprocess.Popen(
            [DAEMON, "--listen", self.url, "--driver", "emulator", "--grace", "0", "--image-cache-size", "0", "--warm-workers", "0", "--log", "off"],
            stdout=subprocess.PIPE, text=True, env=environment(), user=NOBODY, group=NOBODY, extra_groups=[])
        end_with_test(self.process)
        assert self.process.stdout.readline()
        os.chmod(path, 0o666)

    def stop(self):
        self.process.terminate()
        code = self.process.wait(20)
        self.process.stdout.close()
        self.directory.cleanup()
        return code


def reachable_by_nobody():
    """Whether another user may start the programs of the build directory."""
    try:
        return os.geteuid() == 0 and subprocess.run([TESSERA, "--version"], user=NOBODY, capture_output=True).returncode == 0
    except OSError:
        return False
