"""What the system tests share: the product's programs, a server of its own on the emulator, waiting.

The first argument of every test that imports this is the build directory.
"""

import atexit
import json
import mmap
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv.pop(1))
PROGRAMS = os.path.join(BUILD, "tests/system/programs")
TESSERA = os.path.join(BUILD, "bin/tessera")
DAEMON = os.path.join(BUILD, "bin/tesserad")
AGENT = os.path.join(BUILD, "bin/tessera-agent")
GATEWAY = os.path.join(BUILD, "bin/tessera-gateway")
CLIENT = os.path.join(BUILD, "lib/client")
# Whether the build has what needs gRPC, metrics and usage records too; the thread sanitizer's has not.
HAS_CONTROL_API = os.path.exists(os.path.join(BUILD, "bin/tessera-admin"))


def program(name):
    return os.path.join(PROGRAMS, name)


def free_port():
    """Of the loopback device, for a program that takes a port and cannot choose it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def closed(peer):
    """Whether the other end has closed this non-blocking connection."""
    try:
        return peer.recv(4096) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def wait_for(condition, seconds, what):
    """Polls until condition() is true; fails the test after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {seconds} s")


def state(pid):
    """Of a process, as ps has it; Z also of one that is gone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def alive(pid):
    return state(pid) != "Z"


# What servers of tests keep for later ones (images, usage records) is none of this user's.
os.environ.setdefault("XDG_CACHE_HOME", os.path.join(tempfile.gettempdir(), f"tessera-tests-{os.getuid()}"))
os.environ.setdefault("XDG_STATE_HOME", os.path.join(tempfile.gettempdir(), f"tessera-tests-{os.getuid()}/state"))


def environment(**changes):
    """This process's environment without anything of Tessera's; None removes a variable."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
    env["XDG_CONFIG_HOME"] = "/nonexistent"  # keys and settings of whoever runs the tests
    env["TESSERA_SOCKET_DIR"] = "/nonexistent/sockets"  # servers and placers of this machine
    for name, value in changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def the_server(text):
    """The only one of what `tessera status -o json`, or a line of `top`, has printed."""
    told = json.loads(text)
    assert told["schema_version"] == 1, text
    server, = told["servers"]
    return server


def have_ucx():
    """In a process of its own: what UCX does to one that loads it is not wanted here."""
    return subprocess.run(["python3", "-c", "import ctypes; ctypes.CDLL('libucp.so.0')"], capture_output=True).returncode == 0


def check_no_finding(words):
    """Fails the test when a sanitizer that the product was built with has found something. Workers write where tesserad does."""
    assert not re.search("Sanitizer|runtime error:|exited with code 86", words), words


def end_with_test(process):
    """A test that fails before it stops what it has started leaves nothing behind."""
    atexit.register(lambda: process.poll() is None and process.kill())


class Session:
    """A program with a session at `url`, which is there once this is, until end()."""

    def __init__(self, url):
        self.process = subprocess.Popen([TESSERA, "run", "-q", "--server", url, "--", program("count"), "wait"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment())
        end_with_test(self.process)
        line = self.process.stdout.readline()
        assert line == "1\n", line

    def end(self):
        """Its exit code."""
        self.process.communicate("\n", timeout=60)
        return self.process.returncode


def has_threads(pid):
    """Whether any thread of it is left to keep its descriptors open: the first may be gone before the others."""
    try:
        return alive(pid) or len(os.listdir(f"/proc/{pid}/task")) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as listed:
            return [int(child) for child in listed.read().split()]
    except FileNotFoundError:
        return []


def words_of(pid):
    """Its command line."""
    try:
        with open(f"/proc/{pid}/cmdline", errors="replace") as cmdline:  # programs of other tests have any bytes there
            return cmdline.read().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def status_of(pid):
    """What /proc says of it, by name."""
    with open(f"/proc/{pid}/status") as status:
        return dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)


HEAPS_MAX = 4  # of a service: protocol/base/few_heaps.h


def as_with_many_processors():
    """From now on the C library of what this starts makes as many heaps as on a machine with sixteen processors, but where it may not."""
    os.environ["MALLOC_ARENA_MAX"] = "128"


def heaps(pid):
    """How many heaps its C library has made for its threads, beside the first: each begins at a multiple of 64 MiB."""
    with open(f"/proc/{pid}/maps") as maps:
        ranges = [line.split("-")[0] for line in maps if " rw-p " in line and line.rstrip().endswith(" 0")]
    return sum(int(begin, 16) % (64 << 20) == 0 for begin in ranges)


def uids_of(pid):
    return {int(uid) for uid in status_of(pid)["Uid"].split()}


class Part:
    """An agent or a gateway: it prints a line when it is ready, its log is kept. It is several processes, of which `process` starts the one
    that carries the sessions. `before` runs in its process before it starts."""

    def __init__(self, *words, before=None):
        self.log = tempfile.NamedTemporaryFile("w+")
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment(), preexec_fn=before)
        end_with_test(self.process)
        self.ready = self.process.stdout.readline()

    def words(self):
        with open(self.log.name) as log:
            return log.read()

    def carriers(self):
        """The processes that carry the sessions: one, or none that has begun. Beside it an agent has one that connects."""
        return [pid for pid in children(self.process.pid) if "--carry-fd" in words_of(pid)]

    def carrier(self):
        found = []

        def is_there():
            # Looked at once: it may end before a second look.
            found[:] = self.carriers()
            return len(found) == 1

        wait_for(is_there, 10, "a process that carries sessions")
        return found[0]

    def pids(self):
        return [self.process.pid, self.carrier()]

    def kill(self):
        """Both are gone when this returns, and their address is free."""
        self.process.send_signal(signal.SIGSTOP)  # it starts no other meanwhile
        wait_for(lambda: state(self.process.pid) in "TZ", 10, "the stop of a process")
        carriers = children(self.process.pid)
        self.process.kill()
        self.process.wait()
        wait_for(lambda: not any(map(has_threads, carriers)), 10, "the end of the process that carries sessions")

    def stop(self):
        self.process.terminate()
        code = self.process.wait(20)
        self.process.stdout.close()
        check_no_finding(self.words())
        self.log.close()
        return code


class Keys:
    """An authority, and what it signs, made by `tessera keys`."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory()
        atexit.register(self.directory.cleanup)
        self.authority = os.path.join(self.directory.name, "authority")
        self.make("authority", self.authority)

    def make(self, *words):
        subprocess.run([TESSERA, "keys", *words], check=True, stdout=subprocess.DEVNULL, env=environment())

    def of(self, kind, name, *more):
        """The directory of the certificate of a `server` or a `client`."""
        place = os.path.join(self.authority, name.split(",")[0])
        if not os.path.exists(place):
            self.make(kind, name, "--authority", self.authority, *more)
        return place

    def options(self, kind, name):
        place = self.of(kind, name)
        return ["--certificate", f"{place}/certificate.pem", "--key", f"{place}/key.pem", "--authority", f"{place}/authority.pem"]

    def environment(self, kind, name):
        place = self.of(kind, name)
        return {f"TESSERA_{word.upper()}": f"{place}/{word}.pem" for word in ("certificate", "key", "authority")}


class Gateway(Part):
    """A tessera-gateway, as a rule on a free port of the loopback device."""

    def __init__(self, server_path, *options, listen="tcp://127.0.0.1:0", before=None):
        super().__init__(GATEWAY, "--listen", listen, "--server", "unix:" + server_path, "--log", "info", *options, before=before)
        self.url = self.ready.split()[3].rstrip(",") if self.ready else None


class Agent(Part):
    """A tessera-agent of its own for a gateway, as a rule at a new address."""

    def __init__(self, gateway_url, *options, url=None, before=None):
        self.directory = None if url else tempfile.TemporaryDirectory()
        self.url = url or "unix:" + os.path.join(self.directory.name, "agent.sock")
        super().__init__(AGENT, "--listen", self.url, "--server", gateway_url, "--log", "info", *options, before=before)

    def stop(self):
        code = super().stop()
        if self.directory:
            self.directory.cleanup()
        return code


class Server:
    """A tesserad of its own on the emulator. `before` runs in its process before it starts (limits); `owner` has its directory. `mirrored`: it is reached
    through channels whose two ends share no pages. `tcp`: its url is that of a gateway. `program`: the tesserad of another installation."""

    def __init__(self, *options, env=None, before=None, log="info", driver="emulator", mirrored=False, tcp=False, owner=None, grace=0, program=DAEMON):
        if "--warm-workers" not in options:
            options = (*options, "--warm-workers", "0")  # tests count processes
        self.directory = tempfile.TemporaryDirectory()
        if owner is not None:
            os.chown(self.directory.name, owner, owner)
        self.path = os.path.join(self.directory.name, "server.sock")
        self.url = "unix:" + self.path
        self.log = open(os.path.join(self.directory.name, "log"), "w+")
        self.process = subprocess.Popen(
            [program, "--listen", self.url, "--driver", driver, "--grace", str(grace), "--log", log, *options],
            stdout=subprocess.PIPE, stderr=self.log, text=True, env=env or environment(), preexec_fn=before)
        end_with_test(self.process)
        self.ready = self.process.stdout.readline()  # empty when it did not come up
        self.mirror = None
        if mirrored:
            path = os.path.join(self.directory.name, "mirror.sock")
            self.mirror = subprocess.Popen([os.path.join(BUILD, "tests/mirror_server"), path, self.path],
                                           stdout=subprocess.PIPE, text=True)
            assert self.mirror.stdout.readline()
            self.url = "unix:" + path
        self.gateway = None
        if tcp:
            self.gateway = Gateway(self.path)
            self.url = self.gateway.url

    def children(self):
        out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True).stdout
        return [int(pid) for pid in out.split()]

    def children_by_words(self):
        """The command lines of its children, by pid."""
        found = {}
        for pid in self.children():
            if words := words_of(pid):
                found[pid] = words
        return found

    def workers(self):
        """Its children without gateway, broker, the processes that keep images and usage records, and the monitor, which a server has that was asked for
        readings."""
        return [pid for pid, words in self.children_by_words().items()
                if not {"--monitor-fd", "--keeper-fd", "--line-fd", "--ready-fd", "--usage-fd"} & set(words)]

    def gateways(self):
        return [pid for pid, words in self.children_by_words().items() if "--ready-fd" in words]

    def broker(self):
        """The pid of its broker; None when it has none."""
        return next((pid for pid, words in self.children_by_words().items() if "--line-fd" in words), None)

    def words(self):
        """What it has logged so far."""
        with open(self.log.name) as log:
            return log.read()

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def discard(self):
        """Of one that has ended by itself."""
        self.process.stdout.close()
        self.log.close()
        self.directory.cleanup()

    def stop(self):
        if self.mirror:
            self.mirror.terminate()
            self.mirror.wait(20)
            self.mirror.stdout.close()
        if self.gateway:
            assert self.gateway.stop() == 0
        self.process.terminate()
        code = self.process.wait(20)
        check_no_finding(self.words())
        self.discard()
        return code


class DevicePage:
    """What the workers of a server use its emulated devices for (server/device_page.h)."""

    SLOT, DEVICE, DEVICES = 64, 64 + 1024 * 64, 4160

    def __init__(self, server):
        directory = f"/proc/{server.process.pid}/fd"
        files = [os.path.join(directory, name) for name in os.listdir(directory)]
        file = next(name for name in files if "tessera-device-page" in os.readlink(name))
        with open(file, "rb") as page:
            self.bytes = mmap.mmap(page.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)

    def row(self, worker, device=0):
        """Bytes used and asked for, and ns in which the device has worked for this worker."""
        owners = struct.unpack_from("<1024I", self.bytes, 4)
        return struct.unpack_from("<3Q", self.bytes, self.DEVICES + device * self.DEVICE + 64 + owners.index(worker) * self.SLOT)

    def used_bytes(self, worker):
        return self.row(worker)[0]

    def busy_ns(self, worker):
        return self.row(worker)[2]
