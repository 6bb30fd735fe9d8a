"""The ledger of a server's node, read while the node has it: what it promised, for each GPU and grant.

The node has its file for itself, so a copy is read; of a log that is being written SQLite takes the transactions that are whole.
The form is that of netaware/ledger/stored_grant.cc and protocol/ticket/ticket.cc.
"""

import os
import sqlite3
import struct
import tempfile
import threading

WHOLE = 1_000_000
STATES = ("held", "granted", "released")
VGPU = struct.Struct("<16sIIIQBBBQ")


def copied(path):
    """The bytes of a store's file and its log, of one moment: no log was begun anew in between."""
    while True:
        try:
            with open(path + "-wal", "rb") as log:
                before = log.read()
        except FileNotFoundError:
            before = b""
        with open(path, "rb") as file:
            main = file.read()
        try:
            with open(path + "-wal", "rb") as log:
                after = log.read(32)
        except FileNotFoundError:
            after = b""
        if before[:32] == after:
            return main, before


def entries(path):
    """Keys and values of a store."""
    main, log = copied(path)
    with tempfile.TemporaryDirectory() as place:
        copy = os.path.join(place, "copy")
        for name, data in ((copy, main), (copy + "-wal", log)):
            with open(name, "wb") as file:
                file.write(data)
        with sqlite3.connect(copy) as store:
            rows = store.execute("SELECT key, value FROM entries").fetchall()
        store.close()
    return {bytes(key).decode(): bytes(value) for key, value in rows}


def uuid_text(uuid):
    digits = uuid.hex()
    return "GPU-" + "-".join(digits[begin:end] for begin, end in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))


def vgpus_of(ticket):
    """A ticket's rows: GPU, share in millionths, bytes of memory."""
    at = 0

    def take(count):
        nonlocal at
        at += count
        assert at <= len(ticket), "a ticket is cut off"
        return ticket[at - count:at]

    def text():
        return take(struct.unpack("<I", take(4))[0])

    text()  # cluster
    take(16 + 4)  # grant, part
    text(), text()  # server, holder
    take(8 + 4 + 8 + 8 + 4)  # epoch, renewal, issued, expires, processes
    rows = []
    for _ in range(struct.unpack("<I", take(4))[0]):
        gpu, request, _, _, memory, *_ = VGPU.unpack(take(VGPU.size))
        rows.append((uuid_text(gpu), request, memory))
    assert at == len(ticket), "a ticket is longer than it says"
    return rows


def promises(path):
    """Grants that are held or granted: id to (state, rows of vgpus_of())."""
    there = {}
    for key, value in entries(path).items():
        if not key.startswith("grants/"):
            continue
        form, state, _ = struct.unpack_from("<IBq", value)
        assert form == 2, f"a grant of the ledger has form {form}"
        if STATES[state] == "released":
            continue
        size, = struct.unpack_from("<Q", value, 13)
        there[key[len("grants/"):]] = STATES[state], vgpus_of(value[21:21 + size])
    return there


class Watch:
    """Looks at the ledgers of servers every 50 ms, in a thread, until stop(): which GPU was promised more than once, or more memory than it has."""

    PAUSE = 0.05

    def __init__(self, servers, memory_bytes):
        self.servers, self.memory_bytes = list(servers), memory_bytes
        self.looks, self.most, self.wrong, self.ends = 0, 0, [], threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        while not self.ends.wait(self.PAUSE):
            try:
                for server in self.servers:
                    self.look(server)
                self.looks += 1
            except Exception as problem:  # told by stop()
                self.wrong.append(repr(problem))
                return

    def look(self, server):
        shares, memory = {}, {}
        for _, rows in promises(server.ledger()).values():
            for gpu, share, size in rows:
                shares[gpu] = shares.get(gpu, 0) + share
                memory[gpu] = memory.get(gpu, 0) + size
        self.most = max([self.most, *shares.values()])
        self.wrong += [(server.number, gpu, share) for gpu, share in shares.items() if share > WHOLE]
        self.wrong += [(server.number, gpu, size) for gpu, size in memory.items() if size > self.memory_bytes]

    def stop(self):
        self.ends.set()
        self.thread.join()
        assert self.wrong == [], self.wrong
        return self.looks
