"""What the soak tests share: clients that check their results, what a server holds, the command line.

The first argument of every test is the build directory. Everything random comes from --seed, which is printed.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))
from product import BUILD, CLIENT, HAS_CONTROL_API, TESSERA, Agent, Gateway, Part, Server, alive, environment, program, the_server, wait_for  # noqa: E402,F401

SANITIZED = any(line.startswith("TESSERA_SANITIZE:STRING=") and line.rstrip().endswith(("undefined", "thread"))
                for line in open(os.path.join(BUILD, "CMakeCache.txt")))

# Exit codes of the program `load`.
OK, WRONG, LOST = 0, 1, 3


def command_line(description, **defaults):
    """Reads the command line, prints it as it would have to be typed to repeat the run, seeds `random`. Defaults are (value, text), or
    (values, text) where there are these alone; the first one is the default."""
    parser = argparse.ArgumentParser(description=description)
    for name, (default, text) in defaults.items():
        choices = default if isinstance(default, tuple) else None
        default = choices[0] if choices else default
        flags = ["--" + name.replace("_", "-"), *(["-o"] if name == "output" else [])]
        parser.add_argument(*flags, type=type(default), default=default, choices=choices, help=f"{text} ({default})")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="of everything random")
    options = parser.parse_args()
    random.seed(options.seed)
    print("options:", " ".join(f"--{name.replace('_', '-')} {value}" for name, value in vars(options).items()), flush=True,
          file=sys.stderr if getattr(options, "output", "") == "json" else sys.stdout)
    return options


class Client:
    """A `load` that finds its server by its environment alone, and its vGPU. `bound_s`: how long it may take, from now on."""

    def __init__(self, url, *words, vgpu="", bound_s=60.0):
        self.url = url
        self.began_at = time.monotonic()
        self.bound_s = bound_s
        self.killed = False
        self.process = subprocess.Popen([program("load"), "--seed", str(random.randrange(1 << 30)), *words], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment(LD_LIBRARY_PATH=CLIENT, TESSERA_SERVER=url, TESSERA_VGPU=vgpu))
        self.pid = self.process.pid

    def kill(self):
        self.killed = True
        self.process.kill()

    def overdue(self):
        return self.process.poll() is None and time.monotonic() > self.began_at + self.bound_s

    def finish(self):
        """Waits for its end: the exit code, and what it printed. A client that does not end in time fails the test."""
        try:
            out, err = self.process.communicate(timeout=max(0.1, self.began_at + self.bound_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the client with pid {self.pid} is stuck: it has not ended within {self.bound_s:.0f} s") from None
        return self.process.returncode, out + err


def check_ok(client):
    code, text = client.finish()
    assert (code, text) == (OK, "ok\n"), f"the client with pid {client.pid} ended with {code}: {text}"


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1])


def descriptors(pid):
    """What the process has open: (all, those that are memory files)."""
    found = memory = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            memory += os.readlink(f"/proc/{pid}/fd/{fd}").startswith("/memfd:")
        except OSError:
            continue
        found += 1
    return found, memory


def threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def status(server):
    done = subprocess.run([TESSERA, "status", "--server", server.url, "-o", "json"], capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 0, done.stderr
    return the_server(done.stdout)


def device_bytes(server):
    """What all devices of the server have in use."""
    return sum(device["memory_used_bytes"] for device in status(server)["devices"])


def memory_files():
    """In /dev/shm, and in the directories that servers have there for their workers."""
    return {os.path.join(above, name) for above, _, names in os.walk("/dev/shm") for name in names}


class Held:
    """What a server without sessions holds: everything that a session must give back, and the memory of tesserad."""

    def __init__(self, server):
        wait_for(lambda: not server.workers(), 20, "the end of all workers")
        self.device_bytes = device_bytes(server)  # asked first: the first question starts a process that stays
        self.children = len(server.children())
        self.descriptors = descriptors(server.process.pid)
        self.memory_files = memory_files()
        self.resident_kib = resident_kib(server.process.pid)

    def __str__(self):
        all_of_them, memory = self.descriptors
        return (f"{self.resident_kib} KiB, {all_of_them} descriptors ({memory} of memory files), {self.children} children, "
                f"{len(self.memory_files)} files in /dev/shm, {self.device_bytes} bytes of device memory")

    def check_no_more_than(self, before, growth_kib):
        growth_kib *= 16 if SANITIZED else 1  # memory that was freed stays with a sanitizer for a while
        # Other programs of this machine have such files too, but not for long.
        wait_for(lambda: memory_files() <= before.memory_files, 20, "the end of all new files in /dev/shm")
        for name in ("device_bytes", "children", "descriptors"):
            assert getattr(self, name) <= getattr(before, name), f"{name} grew: before {before}; after {self}"
        assert self.resident_kib <= before.resident_kib + growth_kib, f"tesserad grew: before {before}; after {self}"
