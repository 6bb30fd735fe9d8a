"""The ways in which a program gets a GPU here, for measurements: natively, and forwarded over the channel and over each kind of
link, all to one server of this script's own. Also what every script of this directory does with its figures.

The first argument of every script that imports this is BUILD: a build directory, or an unpacked bundle. On a machine with an
NVIDIA driver the server has its GPU, which is hidden from forwarded programs where that can be done (as root); elsewhere it is
the emulated one, and there is no native way.
"""
import contextlib
import ctypes.util
import datetime
import json
import math
import os
import platform
import re
import shlex
import signal
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
    print(sys.modules["__main__"].__doc__.strip())
    sys.exit(0 if sys.argv[1:2] in (["-h"], ["--help"]) else 2)
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
import product  # noqa: E402: takes BUILD from the command line

GPU = os.path.exists("/dev/nvidiactl") and ctypes.util.find_library("cuda") is not None
HIDE_GPU = [os.path.join(ROOT, "tests", "gpu", "hide_gpu")] if GPU and os.geteuid() == 0 else []
WAYS = ("native", "channel", "tcp", "tls", "ucx")
_programs = os.path.join(product.BUILD, "bin")


def add_options(parser, links):
    """--programs, and --links with its default, to a parser; see use()."""
    parser.add_argument("--programs", metavar="DIR", help="the programs of tests/bench, where BUILD/bin does not have them")
    parser.add_argument("--links", default=links, metavar="WAY,...",
                        help=f"of {', '.join(WAYS[1:])} (default: {links}); native comes by itself where there is a GPU")


def use(options):
    """Takes note of --programs; returns the names in --links."""
    global _programs
    if options.programs:
        _programs = os.path.abspath(options.programs)
    names = [name for name in options.links.split(",") if name]
    for name in names:
        if name not in WAYS[1:]:
            sys.exit(f"--links does not know {name}: write some of {','.join(WAYS[1:])}")
    return names


def programs():
    """Where the programs of tests/bench are."""
    return _programs


def program(name):
    """A program of tests/bench."""
    path = os.path.join(_programs, name)
    if not os.access(path, os.X_OK):
        sys.exit(f"{path} is missing: build it (cmake --build BUILD --target {name}), or say where it is with --programs")
    return path


class Server:
    """A server with a gateway for each kind of link, and what to put before a program so that it gets its GPU there. What a
    link needs and this machine has not is said, and the way left out. `urls`: of other servers; with them alone, none is
    started."""

    def __init__(self, links, urls=(), warm_workers=1):
        self.daemon = None
        if links or not urls:
            driver = "cuda" if GPU else "emulator"
            warm = [] if warm_workers is None else ["--warm-workers", str(warm_workers)]
            self.daemon = product.Server(*warm, driver=driver, log="warning")
            if not self.daemon.ready:
                sys.exit("tesserad did not start: " + self.daemon.words())
        self.gateways = {}
        self.words = {}
        for link in links:
            if link == "channel":
                self.words[link] = ["--server", self.daemon.url]
                continue
            keys = product.Keys() if link == "tls" else None
            of_server, of_client = (keys.options("server", "127.0.0.1"), keys.options("client", "bench")) if keys else ([], [])
            gateway = product.Gateway(self.daemon.path, *of_server, listen=f"{link}://127.0.0.1:0")
            if gateway.ready:
                self.gateways[link] = gateway
                self.words[link] = ["--server", gateway.url, *of_client]
            else:
                say(f"no {link} way here: {gateway.words().strip()}")
                gateway.process.wait(20)
        for url in urls:
            self.words[url] = ["--server", url]

    def ways(self, native=True):
        """Their names, in the order in which they are measured."""
        return (["native"] if GPU and native else []) + list(self.words)

    def prefix(self, way, *options):
        """What stands before a command that goes this way; `options`: more words for `tessera run`."""
        return [] if way == "native" else [*HIDE_GPU, product.TESSERA, "run", "--quiet", *self.words[way], *options, "--"]

    def stop(self):
        """What does not end in order is said; the figures are what they are."""
        for part in (*self.gateways.values(), *([self.daemon] if self.daemon else [])):
            try:
                part.stop()
            except (subprocess.TimeoutExpired, AssertionError) as why:
                part.process.kill()
                say(f"{part.process.args[0]} did not end in order: {why}")


@contextlib.contextmanager
def measuring(*servers):
    """Ends the servers in any case. Whoever is interrupted (SIGINT, SIGTERM) goes on behind it, with what there is by then."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # whether or not it was ignored: background jobs of shells do that
    try:
        yield
    except KeyboardInterrupt:
        say("ended early: the figures are those until now")
    finally:
        for server in servers:
            server.stop()


def say(sentence):
    print(sentence, file=sys.stderr, flush=True)


def run(command, timeout_s):
    """Its exit status (None: it was ended at the timeout), its stdout so far and its stderr."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=product.environment(),
                               start_new_session=True)
    try:
        out, err = process.communicate(timeout=max(timeout_s, 0.1))
        return process.returncode, out, err
    except BaseException as why:  # nothing is left behind, whatever ends this
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        if not isinstance(why, subprocess.TimeoutExpired):
            raise
        return None, out, err


def _ending(code, timeout_s):
    return f"was ended after {timeout_s:.0f} s" if code is None else f"ended with {code}"


def driver_rows(prefix, seconds, pattern, timeout_s):
    """What driver_bench says behind `prefix`: {name: {"median_us": ..., "bytes": ...}}. What it could not finish is missing, and
    said."""
    command = [*prefix, program("driver_bench"), "--seconds", str(seconds), "--filter", pattern]
    code, out, err = run(command, timeout_s)
    if code != 0:
        say(f"{shlex.join(command)} {_ending(code, timeout_s)}: {err.strip()[-300:]}")
    return {row["name"]: row for row in map(json.loads, filter(lambda line: line.endswith("}"), out.splitlines()))}


# A line of compare.py's table: a workload, milliseconds natively, milliseconds behind the prefix, their ratio.
_SUITE_ROW = re.compile(r"^(\S+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)$", re.M)


def suite_rows(directory, suite, prefix, timeout_s):
    """What `directory`/compare.py says of a suite of framework workloads, run natively and behind `prefix`:
    {workload: {"base_us": ..., "us": ..., "bytes": 0}}, and what is wrong with it, for people: empty when nothing is."""
    command = [sys.executable, os.path.join(directory, "compare.py"), "--timeout", str(round(timeout_s)),
               "--prefix", shlex.join(prefix), suite]
    code, out, err = run(command, 2 * timeout_s + 30)
    problem = "" if code == 0 else f"{suite}: compare.py {_ending(code, 2 * timeout_s + 30)}: {(out + err).strip()[-600:]}"
    rows = {row[0]: {"base_us": float(row[1]) * 1e3, "us": float(row[2]) * 1e3, "bytes": 0} for row in _SUITE_ROW.findall(out)}
    return rows, problem


def _first(command, otherwise=None):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else otherwise
    except (OSError, subprocess.TimeoutExpired):
        return otherwise


def about():
    """Where and when figures were measured."""
    with open("/proc/cpuinfo") as cpuinfo:
        processor = re.search(r"model name\s*: (.*)", cpuinfo.read())
    gpu, driver = ("emulated", None)
    if GPU:
        gpu, driver = _first(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], "unknown, unknown").split(", ")
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "gpu": gpu, "driver": driver, "gpu_hidden_from_programs": bool(HIDE_GPU),
            "processor": processor[1] if processor else platform.machine(), "cores": len(os.sched_getaffinity(0)),
            "version": _first([product.TESSERA, "--version"]),
            "commit": _first(["git", "-C", ROOT, "describe", "--always", "--dirty"])}


def headline(measured_at):
    where = "no NVIDIA GPU: figures of the emulated one"
    if measured_at["driver"]:
        where = f"{measured_at['gpu']}, driver {measured_at['driver']}"
    return f"{where}; {measured_at['cores']} cores of {measured_at['processor']}; {measured_at['date']}"


def write(path, figures):
    """Writes JSON, whole or not at all. No path: does nothing."""
    if not path:
        return
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".part", "w") as file:
        json.dump(figures, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)


def median(values):
    return statistics.median(values) if values else None


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else None
