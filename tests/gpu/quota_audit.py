"""Cells of tests/gpu/quota: how far what NVML says of honest tenants is from what their workers report, as the audit compares the two.

The figures are lines of tesserad's log at `debug`, one of each kind for each session and second:
  audit of time: session 7, GPU 0: 331 of 1001 ms by NVML, 325 ms by its worker
  audit of memory: session 7, GPU 0: 812 MiB by NVML, 290 MiB by its worker, 520 MiB beside it
"""
import importlib.util
import pathlib
import re
import statistics
import subprocess
import sys

import ways
from tenants import SETTLE_S, row, spec
from ways import product

HERE = pathlib.Path(__file__).resolve().parent
WINDOW = 5  # figures
NOISE_S = 40
MIB = 1 << 20
HEAP_MIB = 512
MEMORY_MIB = 20 << 10
TIME = re.compile(r"audit of time: session (\d+), GPU (\d+): (\d+) of (\d+) ms by NVML, (\d+) ms by its worker")
MEMORY = re.compile(r"audit of memory: session (\d+), GPU (\d+): (\d+) MiB by NVML, (\d+) MiB by its worker, (\d+) MiB beside it")
FOUND = ("without reporting it", "than it reports")


def quantile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def figures_of(words):
    """By session: what each second had, (seen, passed, reported) in ms, and (used, held, beside) in MiB."""
    times, memories = {}, {}
    for line in words.splitlines():
        if found := TIME.search(line):
            session, _, *ms = map(int, found.groups())
            times.setdefault(session, []).append(ms)
        elif found := MEMORY.search(line):
            session, _, *mib = map(int, found.groups())
            memories.setdefault(session, []).append(mib)
    return times, memories


def points_above(seconds):
    """Of each WINDOW seconds: how many points NVML's figure is above the worker's."""
    sums = [[sum(part) for part in zip(*seconds[i:i + WINDOW])] for i in range(len(seconds) - WINDOW + 1)]
    return [100 * (seen - reported) / passed for seen, passed, reported in sums if passed]


def told(kind, times, memories):
    """A row for the time and one for the memory of each session."""
    for session in sorted(set(times) | set(memories)):
        if above := points_above(times.get(session, [])):
            share = statistics.fmean(ms[2] / ms[1] for ms in times[session] if ms[1])
            row("noise", f"{kind}, session {session} ({100 * share:.0f} %): points in {WINDOW} s",
                f"{statistics.median(above):+.1f}, p99 {quantile(above, 0.99):+.1f}, {min(above):+.1f} to {max(above):+.1f} ({len(above)})", "told", True)
            one = [100 * (seen - reported) / passed for seen, passed, reported in times[session] if passed]
            row("noise", f"{kind}, session {session}: points in a second",
                f"sd {statistics.pstdev(one):.1f}, {min(one):+.1f} to {max(one):+.1f}", "told", True)
        above = [used - held - beside for used, held, beside in memories.get(session, [])]
        if above:
            row("noise", f"{kind}, session {session}: MiB above", f"{statistics.median(above)}, p99 {quantile(above, 0.99)}, max {max(above)}", "told", True)


def run(machine, name_of_log, kind, tenants, programs=()):
    """Tenants (vgpu, us, more words) and programs (vgpu, words) beside each other, for NOISE_S; each vGPU has a limit of memory, since without
    one variables are not counted."""
    specs = [spec(name, 0.3) + f"memory = {MEMORY_MIB * MIB}\n" for name, *_ in (*tenants, *programs)]
    server = machine.serve(specs, "--default", "none", log="debug")
    processes = [machine.start([machine.iterations(us), str(NOISE_S + SETTLE_S), *more], server, name) for name, us, *more in tenants]
    for number, (name, words) in enumerate(programs):
        with open(machine.out / f"noise-{name_of_log}-{number}.log", "w") as log:
            processes.append(subprocess.Popen([*ways.HIDE_GPU, product.TESSERA, "run", "--quiet", "--server", server.url, "--vgpu", name, "--",
                                               sys.executable, *words], stdout=log, stderr=log, env=product.environment()))
    ended = []
    for process in processes:
        try:
            process.communicate(timeout=NOISE_S + 60)
        except subprocess.TimeoutExpired:
            process.kill()
        ended.append(process.returncode)
    words = server.words()
    (machine.out / f"noise-{name_of_log}.log").write_text(words)
    server.stop()
    times, memories = figures_of(words)
    told(kind, times, memories)
    found = sum(words.count(one) for one in FOUND)
    row("noise", f"{kind}: exit statuses {ended}", f"{len(times)} with times, {len(memories)} with memory, {found} found",
        "none found, some compared", found == 0 and bool(times) and bool(memories))


def noise_cell(machine):
    """Honest tenants of several kinds. Sessions are numbered in the order of the words below."""
    if not ways.GPU:
        return row("noise", "honest tenants", "no GPU", "told", True)
    run(machine, "tenants", "20 us, 200 us, 5 ms", [("a", 20), ("b", 200), ("c", 5000)])
    run(machine, "pauses", "5 ms + pause, streams of 20 us, 200 us + host", [("a", 5000, "--pause", "5000"), ("b", 20, "--stream-each"),
                                                                  ("c", 200, "--host-function", "2000")])
    run(machine, "two", "two of 5 ms", [("a", 5000), ("b", 5000)])
    heap = ("h", [HERE / "limits" / "large_heap.py", str(HEAP_MIB), str(NOISE_S)])
    torch = [("t", [HERE / "frameworks" / "steps.py", str(NOISE_S // 4)])] if importlib.util.find_spec("torch") else []
    run(machine, "programs", f"200 us, heap of {HEAP_MIB} MiB" + (", PyTorch" if torch else ""), [("a", 200)], [heap, *torch])
