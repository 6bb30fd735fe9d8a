"""Cells of tests/gpu/quota that need PyTorch: what a vGPU costs a model that is alone, and whether strangers' faults reach products."""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import ways
from tenants import SETTLE_S, row, spec
from ways import product

PROGRAMS = pathlib.Path(__file__).resolve().parent / "frameworks"
STEPS_S = 3
FAULTS = ("none", "trap", "address", "endless", "kill")
TURNS = "ABBAABBA"  # with a vGPU, without a broker


def forwarded(server, vgpu=None):
    named = ["--vgpu", vgpu] if vgpu else []
    return [*ways.HIDE_GPU, product.TESSERA, "run", "--quiet", "--server", server.url, *named, "--", sys.executable]


def frameworks_cell(machine):
    """The models of frameworks/steps.py, alone: a step in a vGPU / a step on a server without a broker."""
    with_vgpu = machine.serve([spec("a", 0.5)])
    without = product.Server("--no-vgpus", driver="cuda" if ways.GPU else "emulator")
    times = {"A": [], "B": []}
    for turn in TURNS:
        words = forwarded(with_vgpu, "a") if turn == "A" else forwarded(without)
        done = subprocess.run([*words, PROGRAMS / "steps.py", str(STEPS_S)], capture_output=True, text=True, timeout=120,
                              env=product.environment(), check=True)
        times[turn].append({line.split()[0]: float(line.split()[1]) for line in done.stdout.splitlines()})
    with_vgpu.stop()
    without.stop()
    for name in times["A"][0]:
        # Neighbours in time: A B, B A, ...
        ratios = [a[name] / b[name] for a, b in zip(times["A"], times["B"])]
        same = [two[name] / one[name] for one, two in zip(times["B"][::2], times["B"][1::2])]
        row("frameworks", f"{name}, alone in a vGPU / no broker", f"{statistics.median(ratios):.4f} ({min(ratios):.4f} to {max(ratios):.4f})",
            "<= 1.01", statistics.median(ratios) <= 1.01)
        row("frameworks", f"{name}, no broker with itself", " ".join(f"{one:.4f}" for one in same), "told", True)


def beside_fault(machine, fault, server):
    """Three programs that look at each product, beside a tenant that fails in the middle: (all went well, products, longest pause in ms)."""
    words = [[*forwarded(server, name)] if server else [sys.executable] for name in "abc"]
    programs = [subprocess.Popen([*one, PROGRAMS / "checked_gemms.py", str(machine.seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, env=product.environment()) for one in words]
    for program in programs:
        program.stdout.readline()
    # It is there before the others begin, since a new process stops all of them natively, too, and fails half way.
    manner = ("--fault", fault) if fault not in ("none", "kill") else ()
    stranger = machine.start([machine.iterations(200), str(2 * SETTLE_S + machine.seconds), *manner], server, "d" if server else None)
    time.sleep(SETTLE_S)
    for program in programs:
        program.stdin.write("begin\n")
        program.stdin.flush()
    time.sleep(machine.seconds * (0.5 if fault == "kill" else 0.8))
    if fault in ("kill", "endless"):
        stranger.kill()
    ends = [program.communicate(timeout=60) for program in programs]
    stranger.kill()
    stranger.communicate()
    found = [re.search(r"(\d+) products, 0 wrong, longest ([\d.]+)", out) for out, _ in ends]
    well = all(found) and [program.returncode for program in programs] == [0, 0, 0]
    (machine.out / f"gemms-{fault}{'' if server else '-natively'}.log").write_text("".join(out + error for out, error in ends))
    return well, sum(int(one[1]) for one in found if one), max((float(one[2]) for one in found if one), default=-1)


def gemms_cell(machine):
    usual_ms = None
    for fault in machine.faults:
        native_well, _, native_ms = beside_fault(machine, fault, None)
        server = machine.serve([spec(name, 0.25) for name in "abcd"], "--default", "none", "--overrun-after", "1")
        well, products, pause_ms = beside_fault(machine, fault, server)
        server.stop()
        os.unlink(machine.file.name)
        usual_ms = usual_ms or pause_ms
        row("gemms", f"three beside a stranger: {fault}", f"{'right' if well else 'WRONG'} {products}, {pause_ms:.1f} ms "
            f"(natively {'' if native_well else 'WRONG '}{native_ms:.1f})", "right, + <= 10 ms", well and pause_ms <= max(usual_ms, native_ms) + 10)
