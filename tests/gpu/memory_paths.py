"""Cells of tests/gpu/memory that need no framework: contexts, ways of getting memory, memory that is given back, residue."""
import ctypes
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import ways
from tenants import row, spec
from ways import product

LIMITS = pathlib.Path(__file__).resolve().parent / "limits"
MAKES_CONTEXTS = pathlib.Path(__file__).resolve().parents[1] / "support" / "makes_contexts.py"
MIB = 1 << 20
PATHS = ["blocks", "small-blocks", "pitched", "physical", "mapped", "exported",
         "exported-pool", "pool", "destroyed-pool", "arrays", "volumes", "mipmaps", "heap", "variables", "graph-memory",
         "local-memory", "graph-local-memory"]
SESSIONS = 4
CRASHES = 10
BACK_S = 1.0  # bar


def limited(name, bytes_, request=0.3):
    return spec(name, request) + f"memory = {bytes_}\n"


def device(server):
    """What `tessera status` tells of the first one."""
    told = subprocess.run([product.TESSERA, "status", "--server", server.url, "--output", "json"], capture_output=True, text=True, timeout=60,
                          env=product.environment(), check=True)
    return product.the_server(told.stdout)["devices"][0]


def forward(server, vgpu, command, **streams):
    """A command in a vGPU of this server, with pipes for what it says."""
    words = [*ways.HIDE_GPU, product.TESSERA, "run", "--quiet", "--server", server.url, "--vgpu", vgpu, "--", *map(str, command)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=product.environment(),
                            **streams)


def end_of(process, timeout=120):
    """Its exit status and what it said, as (status, stdout, stderr)."""
    try:
        out, error = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, error = process.communicate()
        return None, out, error
    return process.returncode, out, error


class Used:
    """Memory in use on GPU 0, as NVML tells it here, outside of every vGPU; `most` while it is watched."""

    def __init__(self):
        self.most = 0
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1") if ways.GPU else None
        if self.nvml:
            self.handle = ctypes.c_void_p()
            if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)):
                sys.exit("NVML does not tell of GPU 0")

    def now(self):
        memory = (ctypes.c_ulonglong * 3)()
        if self.nvml and self.nvml.nvmlDeviceGetMemoryInfo(self.handle, memory):
            sys.exit("NVML does not tell of the memory of GPU 0")
        return memory[2]

    def __enter__(self):
        self.most, self.stopped = 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.stopped.wait(0.01):
            self.most = max(self.most, self.now())

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()


def hold(machine, server, vgpu, mebibytes):
    process = forward(server, vgpu, [ways.program("memory_limit"), "hold", mebibytes])
    if process.stdout.readline() != "held\n":
        raise RuntimeError(f"nothing was held: {end_of(process)} {server.words()[-500:]}")
    return process


def context_cell(machine):
    """What the server told of a context, beside what sessions that hold 64 MiB each take on the GPU."""
    server = machine.serve([limited("a", machine.limit)])
    told, used = device(server).get("context_bytes", 0), Used()
    time.sleep(1)
    before, taken, holders = used.now(), [], []
    for _ in range(SESSIONS):
        holders.append(hold(machine, server, "a", 64))
        time.sleep(0.5)  # until another worker waits
        taken.append(used.now() - before - 64 * MIB)
        before = used.now()
    for holder in holders:
        holder.kill()
        holder.communicate()
    server.stop()
    true = statistics.median(taken)
    row("context", "told / taken of the GPU, each MiB", f"{told / MIB:.0f} / {' '.join(f'{one / MIB:.0f}' for one in taken)}", "0.95 to 1.10",
        0.95 * true <= told <= 1.10 * true)


def paths_cell(machine):
    """Each way of getting memory until it is refused: what a program had, and what the GPU had less meanwhile."""
    server = machine.serve([limited("a", machine.limit)], "--warm-workers", "0")
    context, used = device(server).get("context_bytes", 0), Used()
    for path in PATHS:
        time.sleep(0.3)
        before = used.now()
        with used:
            status, out, error = end_of(forward(server, "a", [ways.program("memory_limit"), path]))
        (machine.out / f"path-{path}.log").write_text(out + error)
        words = out.split()
        had = int(words[1]) / machine.limit if len(words) == 4 else 0
        beyond = (used.most - before - machine.limit - context) / MIB
        row("paths", path, f"{'right' if status == 0 else f'FAILED ({status})'} {100 * had:.2f} %, beyond it {beyond:+.0f} MiB", ">= 99.8 %, <= +64",
            status == 0 and 0.998 <= had <= 1 and beyond <= 64)
    server.stop()


def full_cell(machine):
    """A program that begins in a vGPU without room for its context: what its calls return, then, and when another has ended."""
    server = machine.serve([limited("a", machine.limit)], "--warm-workers", "1")
    context = device(server).get("context_bytes", 0)
    if context == 0:  # as on the emulated GPU
        server.stop()
        return
    holder = hold(machine, server, "a", (machine.limit - context // 2) // MIB)
    program = forward(server, "a", [sys.executable, MAKES_CONTEXTS])
    began = program.stdout.readline().strip()
    torch = end_of(forward(server, "a", [sys.executable, "-c", "import torch; torch.zeros(1, device='cuda')"]))
    holder.communicate("\n")

    def has_room():
        program.stdin.write("64\n")
        program.stdin.flush()
        return program.stdout.readline().strip()

    for _ in range(20):  # the holder's process is reaped
        later = has_room()
        if later == "[0, 0]":
            break
        time.sleep(0.1)
    status, _, error = end_of(program)
    (machine.out / "full.log").write_text(f"{began}\n{later}\n{error}\n{torch}")
    row("full", "a further program: cuInit ... , contexts; then with room", f"{began}; {later}", "0, 0, 0; 2, 2; 0, 0",
        status == 0 and began == f"[0, 0, 0] {machine.limit // MIB} [2, 2]" and later == "[0, 0]")
    if "No module named" not in torch[2]:
        row("full", "PyTorch's first tensor", torch[2].strip().splitlines()[-1][:80] if torch[2] else "fits", "out of memory", "out of memory" in torch[2])
    server.stop()


def back_cell(machine):
    """From the end of a program that held nearly all to that of another that had all, less what such a one takes by itself."""
    server = machine.serve([limited("a", machine.limit)], "--warm-workers", "1")
    everything = machine.limit // MIB

    def has_all():
        return end_of(forward(server, "a", [ways.program("memory_limit"), "try", everything]))[1] == "yes\n"

    def seconds_until_all():
        began_at = time.monotonic()
        while not has_all():
            if time.monotonic() - began_at > 20:
                return 20
        return time.monotonic() - began_at

    has_all()
    usual_s = statistics.median(seconds_until_all() for _ in range(5))
    for manner in "exit", "kill":
        longest_s = 0
        for _ in range(CRASHES):
            holder = hold(machine, server, "a", everything - 64)
            if manner == "kill":
                subprocess.run(["pkill", "-KILL", "-f", "memory_limit hold"], check=True)
                holder.communicate()
            else:
                holder.communicate("\n")
            longest_s = max(longest_s, seconds_until_all() - usual_s)
        row("back", f"after {manner}, longest of {CRASHES}", f"{longest_s:.2f} s (+ {usual_s:.2f} s)", f"<= {BACK_S:.0f} s", longest_s <= BACK_S)
    server.stop()


def residue_cell(machine):
    """Words that a program leaves in its memory, and whether another finds one of them in all of its own."""
    script = [sys.executable, LIMITS / "residue.py"]
    server = machine.serve([limited("a", machine.limit), limited("b", machine.limit)])
    for manner in "exit", "kill", "free":
        for vgpu in "a", "b":
            writer = forward(server, "a", [*script, "leave", manner])
            if writer.stdout.readline() != "left\n":
                raise RuntimeError(f"nothing was left: {end_of(writer)}")
            if manner != "free":
                writer.communicate()
            status, out, error = end_of(forward(server, vgpu, [*script, "look"]))
            if manner == "free":
                writer.communicate("\n")
            found = out.split()
            well = status == 0 and len(found) == 4 and found[0] == "0"
            row("residue", f"of a program's {manner}, in vGPU {vgpu} of a and b", out.strip() or f"FAILED ({status}) {error[-80:]}", "0 words",
                well)
    server.stop()
