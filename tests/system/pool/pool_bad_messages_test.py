#!/usr/bin/env python3
"""What is no message of the placer's, from somebody who may connect: it is refused, and nothing of it is in the log."""

import socket
import struct
import unittest

from pool import Pool

NO_TEXT = b"\x0a\x01\xff"  # field 1, a text of a byte that is no UTF-8
CUT_OFF = b"\x0a\x7f"
HEADERS, DATA, SETTINGS = 1, 0, 4
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, body):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def header(name, value):
    """Literal, in no table (RFC 7541, 6.2.2)."""
    return b"\0" + b"".join(bytes([len(part)]) + part.encode() for part in (name, value))


def call(method, message):
    """A call of gRPC, as bytes of a connection of its own (HTTP/2, RFC 9113)."""
    head = b"".join(header(*pair) for pair in ((":method", "POST"), (":scheme", "http"), (":path", "/tessera.control.v1." + method), (":authority", "placer"),
                                               ("te", "trailers"), ("content-type", "application/grpc")))
    return (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b"") + frame(HEADERS, END_HEADERS, 1, head) +
            frame(DATA, END_STREAM, 1, b"\0" + struct.pack(">I", len(message)) + message))


def is_answered(connection):
    """Whether headers of the stream come that end it."""
    received = b""
    while True:
        while len(received) >= 9:
            size, (kind, flags) = int.from_bytes(received[:3], "big"), received[3:5]
            if len(received) < 9 + size:
                break
            if kind == HEADERS and flags & END_STREAM:
                return True
            received = received[9 + size:]
        more = connection.recv(4096)
        if not more:
            return False
        received += more


class BadMessages(unittest.TestCase):
    def test_what_is_no_message_is_answered_and_is_not_in_the_log(self):
        pool = Pool()
        self.addCleanup(pool.stop)
        before = pool.placer.words()
        for method in ("PlacementService/Place", "PlacementService/Renew", "PlacementService/Release", "NodeService/Attach"):
            for message in (NO_TEXT, CUT_OFF):
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.settimeout(10)
                    connection.connect(pool.url.removeprefix("unix:"))
                    connection.sendall(call(method, message))
                    self.assertTrue(is_answered(connection), (method, message))
        self.assertEqual(pool.placer.words(), before)
        self.assertEqual(pool.run("--gpu-share", "0.5", "--", "true").returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
