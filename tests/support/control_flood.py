#!/usr/bin/env python3
"""Clients of the control API, or of a placer, that misbehave, until stdin ends: 64 that change vGPUs, or ask for GPUs, as fast as
they are let, 64 that ask and read nothing, 64 that send random bytes. Whoever is turned away comes again. Says `begins`, and at its end what became of them, as JSON:
answers that it got, connections of each kind, how many of them were closed.

As a module: how long changes of a GPU's holder took meanwhile.

usage: control_flood.py [--placer | --user UID] unix:PATH       --user: root becomes this one
       control_flood.py [--placer] tls://HOST:PORT KEYS    KEYS: a directory with the client's certificate.pem, key.pem and authority.pem
"""
import collections
import json
import math
import os
import re
import selectors
import socket
import ssl
import struct
import sys
import time
import urllib.request

KINDS = ("changes", "reads nothing", "random bytes")
OF_KIND = 64
AGAIN_S = 0.1  # after which one that was turned away comes again
AT_ONCE = 8  # calls of a connection that have no answer yet
DATA, HEADERS, SETTINGS, PING, GO_AWAY, WINDOW_UPDATE = 0, 1, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
NAMES = 16


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def varint(value):
    return bytes((value,)) if value < 128 else bytes((value & 127 | 128,)) + varint(value >> 7)


def field(number, value):
    """Of a protobuf message: a whole number, text, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def begin_call(stream, method):
    """The headers of a gRPC call, in HPACK's plainest form."""
    text = lambda words: bytes((len(words),)) + words.encode()
    return frame(HEADERS, END_HEADERS, stream, b"\x83\x86\x04" + text("/tessera.control.v1." + method) + b"\x01" + text("localhost") +
                 b"\x0f\x10" + text("application/grpc") + b"\x00" + text("te") + text("trailers"))


def say(stream, message, flags=0):
    """A message of a call that has begun."""
    return frame(DATA, flags, stream, b"\0" + struct.pack(">I", len(message)) + message)


def call(stream, method, message):
    return begin_call(stream, method) + say(stream, message, END_STREAM)


# All the window that there can be: nobody has to be told later what was read.
BEGIN = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 2**31 - 1)) + frame(
    WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 1 - 65535))


class Client:
    def __init__(self, flood, kind, number):
        self.flood, self.kind, self.number = flood, kind, number
        self.socket, self.again_at = None, 0.0

    def connect(self):
        self.socket = self.flood.connect()
        self.out, self.got = b"", b""
        self.stream, self.open, self.calls = 1, 0, 0
        if self.kind != "random bytes" or self.number % 2:
            self.out = BEGIN
        self.flood.counts[self.kind]["connections"] += 1
        self.flood.selector.register(self.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)

    def close(self):
        self.flood.selector.unregister(self.socket)
        self.socket.close()
        self.socket, self.again_at = None, time.monotonic() + AGAIN_S
        self.flood.counts[self.kind]["closed"] += 1

    def more(self):
        """What it says next, when all before that is sent."""
        if self.kind == "random bytes":
            return os.urandom(4096)
        if self.kind == "changes" and self.open >= AT_ONCE:
            return b""
        self.calls += 1
        self.open += 1
        stream, self.stream = self.stream, self.stream + 2
        if self.kind == "reads nothing":
            return call(stream, "PlacementService/ListServers" if self.flood.is_placer else "VgpuService/List", b"")
        if self.flood.is_placer:
            # For more GPUs than there are.
            return call(stream, "PlacementService/Place", field(1, f"flood{self.number}-{self.calls}") + field(2, 64))
        name = field(2, f"flood{(self.number + self.calls) % NAMES}")
        # Create with a thousandth of the time; Update to a limit of a half or one.
        if self.calls % 4 == 0:
            return call(stream, "VgpuService/Create", name + field(4, b"\x09" + struct.pack("<d", 0.001)))
        return call(stream, "VgpuService/Update", name + field(4, b"\x11" + struct.pack("<d", 0.5 + 0.5 * (self.calls % 2))))

    def turn(self, events):
        try:
            if events & selectors.EVENT_READ and self.kind != "reads nothing":
                self.read()
            if self.socket and events & selectors.EVENT_WRITE:
                self.out = self.out or self.more()
                if self.out:
                    self.out = self.out[self.socket.send(self.out):]
            if self.socket and self.kind == "changes":
                writes = self.out or self.open < AT_ONCE
                self.flood.selector.modify(self.socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0), self)
            elif self.socket and self.kind == "reads nothing":
                self.flood.selector.modify(self.socket, selectors.EVENT_WRITE, self)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            self.close()

    def read(self):
        some = self.socket.recv(65536)
        if not some:
            return self.close()
        if self.kind == "random bytes":
            return
        self.got += some
        while len(self.got) >= 9:
            length = int.from_bytes(self.got[:3], "big")
            if len(self.got) < 9 + length:
                break
            kind, flags, payload, self.got = self.got[3], self.got[4], self.got[9:9 + length], self.got[9 + length:]
            if kind == SETTINGS and not flags & ACK:
                self.out += frame(SETTINGS, ACK, 0)
            elif kind == PING and not flags & ACK:
                self.out += frame(PING, ACK, 0, payload)
            elif kind == GO_AWAY:
                return self.close()
            elif kind == HEADERS and flags & END_STREAM:
                self.open -= 1
                self.flood.counts[self.kind]["answers"] += 1


class Flood:
    def __init__(self, url, keys=None, is_placer=False):
        self.is_placer = is_placer
        self.selector = selectors.DefaultSelector()
        self.counts = {kind: collections.Counter(connections=0, closed=0, answers=0) for kind in KINDS}
        self.url, self.context = url, None
        if keys:
            self.context = ssl.create_default_context(cafile=f"{keys}/authority.pem")
            self.context.load_cert_chain(f"{keys}/certificate.pem", f"{keys}/key.pem")
            self.context.set_alpn_protocols(["h2"])

    def connect(self):
        if self.url.startswith("unix:"):
            peer = socket.socket(socket.AF_UNIX)
            peer.setblocking(False)
            peer.connect(self.url[5:])
            return peer
        host, port = self.url.removeprefix("tls://").rsplit(":", 1)
        peer = socket.create_connection((host, int(port)), 5)
        peer = self.context.wrap_socket(peer, server_hostname=host)
        peer.setblocking(False)
        return peer

    def run(self):
        # One of each kind after the other: all kinds are among those for whom there is room.
        clients = [Client(self, kind, number) for number in range(OF_KIND) for kind in KINDS]
        self.selector.register(sys.stdin, selectors.EVENT_READ)
        print("begins", flush=True)
        while True:
            for client in clients:
                if client.socket is None and time.monotonic() >= client.again_at:
                    try:
                        client.connect()
                    except OSError:  # too many at once
                        client.again_at = time.monotonic() + AGAIN_S
            for key, events in self.selector.select(AGAIN_S):
                if key.data is None:
                    return
                if key.data.socket:
                    key.data.turn(events)


def hand_overs(metrics):
    """Of a server's metrics: how many changes of a GPU's holder took so many seconds at most, by these seconds."""
    found = re.findall(r'^tessera_gpu_hand_over_seconds_bucket\{.*le="([^"]+)".*\} (\S+)$', metrics, re.M)
    return {float(le): float(count) for le, count in found}


def percentile(before, after, percent):
    """Of those between two readings, in ms; within a bucket all times are as likely. Also how many they are."""
    counts = {le: after[le] - before.get(le, 0) for le in sorted(after)}
    total, low, low_count = counts[math.inf], 0.0, 0.0
    for le, count in counts.items():
        if count >= total * percent / 100 and count > low_count:
            part = (total * percent / 100 - low_count) / (count - low_count)
            return (1000 * (low + part * (le - low)) if le < math.inf else math.inf), total
        low, low_count = le, count
    return math.nan, total


def watch(port, seconds):
    """The time in ms that 99 of 100 changes take at most in the next seconds, and how many they are; the server's metrics are at `port`."""
    def read():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            return hand_overs(answer.read().decode())
    time.sleep(1.5)  # what they tell is a second old
    before = read()
    time.sleep(seconds)
    return percentile(before, read(), 99)


if __name__ == "__main__":
    if sys.argv[1] == "--user":
        os.setgroups([])
        os.setresuid(*3 * [int(sys.argv[2])])
        del sys.argv[1:3]
    is_placer = sys.argv[1] == "--placer"
    flood = Flood(*sys.argv[2 if is_placer else 1:], is_placer=is_placer)
    flood.run()
    print(json.dumps(flood.counts), flush=True)
