"""Cells of tests/gpu/memory that need PyTorch, JAX and CuPy: each in a vGPU of a third of the memory, all three at once; and a language
model that says the same words alone and beside others.
"""
import pathlib
import subprocess
import sys

import ways
from memory_paths import LIMITS, device, end_of, forward, limited
from tenants import row
from ways import product

GIB = 1 << 30
PRODUCT = 1024 ** 3
NAMES = ("torch", "jax", "cupy")
DECODE = pathlib.Path(__file__).resolve().parent / "frameworks" / "transformer_generation.py"


def third(server):
    """Of the memory of the GPU, in whole GiB, with room for four contexts."""
    told = device(server)
    return (told["memory_bytes"] - 4 * told.get("context_bytes", 0) - GIB) // 3 // GIB * GIB


def told_by(out):
    return {words[0]: int(words[1]) for words in map(str.split, out.splitlines()) if len(words) == 2 and words[1].isdigit()}


def frameworks_cell(machine):
    server = machine.serve([])
    bytes_ = third(server)
    server.stop()
    server = machine.serve([limited(name, bytes_) for name in NAMES])
    smi = end_of(forward(server, "torch", ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]))
    row("frameworks", "nvidia-smi: memory.total", smi[1].strip() + " MiB", f"{bytes_ >> 20} MiB", smi[1].strip() == str(bytes_ >> 20))
    processes = {name: forward(server, name, [sys.executable, LIMITS / f"{name}_limit.py"]) for name in NAMES}
    ends = {name: end_of(process, 150) for name, process in processes.items()}
    for name, (status, out, error) in ends.items():
        (machine.out / f"limit-{name}.log").write_text(out + error)
        told = told_by(out)
        well = status == 0 and told.get("refused") == 1 and told.get("product") == PRODUCT
        # JAX takes three quarters of what it sees, and has no more.
        part, sees = (0.75, told.get("limit", 0) / 0.75) if name == "jax" else (1, told.get("total", 0))
        had = told.get("had", 0) / bytes_
        row("frameworks", f"{name}: sees, had", f"{sees / GIB:.2f} GiB, {100 * had:.1f} %" if well else f"FAILED ({status})",
            f"{bytes_ / GIB:.0f} GiB, {100 * part:.0f} - 3 %", well and abs(sees / bytes_ - 1) < 0.001 and part - 0.03 <= had <= part)
        if name != "jax":
            again = told.get("free_again", 0) / bytes_
            row("frameworks", f"{name}: free behind it", f"{100 * again:.2f} %", ">= 99 %", again >= 0.99)
    server.stop()


def decode_cell(machine):
    """The same script natively, and in two vGPUs at once beside a tenant that wants all of the GPU."""
    natively = subprocess.run([sys.executable, DECODE], capture_output=True, text=True, timeout=150, env=product.environment())
    server = machine.serve([limited(name, 8 * GIB) for name in "abc"])
    tenant = machine.start([machine.iterations(1000), "300"], server, "c")
    processes = [forward(server, name, [sys.executable, DECODE]) for name in "ab"]
    ends = [end_of(process, 200) for process in processes]
    tenant.kill()
    tenant.communicate()
    server.stop()
    words = [natively.stdout, *(out for _, out, _ in ends)]
    (machine.out / "decode.log").write_text("\n".join(words) + natively.stderr + "".join(error for _, _, error in ends))
    same = bool(words[0]) and len(set(words)) == 1
    row("decode", "two beside a tenant, and natively", "equal" if same else "DIFFERENT", "equal", same)
