"""Changes of vGPUs whose answer was lost with the broker: `tessera vgpu` asks again, and is told what was done."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from product import TESSERA, end_with_test, environment, wait_for
from vgpu_control_case import VgpuControlCase

FRAME_HEADER_BYTES = 9  # of HTTP/2 (RFC 9113, 4.1)


class DeafRelay:
    """A socket in front of the control API. Of the first connection it hands on what the client says, and of what the server says
    only what belongs to no call. Later ones it hands on whole."""

    def __init__(self, test, path, control):
        self.control, self.connections, self.sockets = control, 0, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        test.addCleanup(lambda: [each.close() for each in (self.listener, *self.sockets)])
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            server = socket.socket(socket.AF_UNIX)
            self.sockets += [client, server]
            try:
                server.connect(self.control)
            except OSError:
                client.close()
                continue
            for source, sink, way in ((client, server, self.copy), (server, client, self.copy_deaf if self.connections == 1 else self.copy)):
                threading.Thread(target=self.relay, args=(way, source, sink), daemon=True).start()

    def relay(self, way, source, sink):
        try:
            way(source, sink)
        except OSError:
            pass
        for each in (source, sink):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def copy(self, source, sink):
        while data := source.recv(65536):
            sink.sendall(data)

    def copy_deaf(self, source, sink):
        pipe = source.makefile("rb")
        while len(header := pipe.read(FRAME_HEADER_BYTES)) == FRAME_HEADER_BYTES:
            length, stream = int.from_bytes(header[:3], "big"), struct.unpack(">I", header[5:])[0]
            body = pipe.read(length)
            if stream == 0:
                sink.sendall(header + body)


class VgpuAgain(VgpuControlCase):
    def relayed(self, *words):
        """A command whose first connection is deaf, and the relay."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "relay")
        relay = DeafRelay(self, path, self.server.path + ".control")
        command = subprocess.Popen([TESSERA, "vgpu", *map(str, words), "--control", f"unix:{path}"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment())
        end_with_test(command)
        return command, relay

    def kill_broker(self):
        broker = self.server.broker()
        os.kill(broker, signal.SIGKILL)
        wait_for(lambda: self.server.broker() not in (None, broker), 30, "another broker")

    def test_a_change_whose_answer_was_lost_is_done_once(self):
        self.serve()
        self.vgpu("create", "b", "--request", 0.1)
        for words, is_done in ((("create", "a", "--request", 0.3), lambda: "a" in self.names()),
                               (("resize", "a", "--limit", 0.5, "--revision", self.revision_after("a")), lambda: self.json("show", "a")["limit"] == 0.5),
                               (("delete", "a"), lambda: "a" not in self.names())):
            words = [word() if callable(word) else word for word in words]
            with self.subTest(words=words):
                command, relay = self.relayed(*words, "-o", "json")
                wait_for(is_done, 30, "the change")
                self.kill_broker()
                said, complaint = command.communicate(timeout=60)
                self.assertEqual(command.returncode, 0, complaint)
                self.assertEqual(json.loads(said)["name"], "a")
                self.assertGreater(relay.connections, 1)
        self.assertEqual(self.names(), ["b"])

    def revision_after(self, name):
        return lambda: self.json("show", name)["revision"]

    def test_an_id_outlives_the_broker_and_the_server(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        state = os.path.join(directory.name, "state")
        self.serve("--state", state)
        first = self.json("create", "a", "--request", 0.3, "--request-id", "mine")
        self.vgpu("delete", "a")
        refused = self.vgpu("delete", "nothere", "--request-id", "gone", code=79)
        def check():
            self.assertEqual(self.json("create", "a", "--request", 0.3, "--request-id", "mine"), first)
            self.assertIn("request_id 'mine' was that of another request, about vGPU 'a'",
                          self.vgpu("create", "a", "--request", 0.4, "--request-id", "mine", code=79))
            self.assertEqual(self.vgpu("delete", "nothere", "--request-id", "gone", code=79), refused)
            self.assertEqual(self.names(), [])
        check()
        self.kill_broker()
        check()
        self.server.process.terminate()
        self.server.process.wait(30)
        self.serve("--state", state)
        check()

    def test_nobody_who_answers(self):
        self.serve()
        command, _ = self.relayed("create", "a")
        wait_for(lambda: "a" in self.names(), 30, "the change")
        self.server.process.kill()
        self.server.process.wait(30)
        said, complaint = command.communicate(timeout=60)
        self.assertEqual((command.returncode, said), (72, ""))
        self.assertRegex(complaint, r"\Atessera: the control API does not answer \([^\n]+\): asked again for 10 s\n"
                                    r"tessera: the control API does not answer: [^\n]+\n\Z")


if __name__ == "__main__":
    unittest.main(verbosity=2)
