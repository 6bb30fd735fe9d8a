"""Tenants of one GPU, natively and as vGPUs of a server: what tests/gpu/quota measures with.

What a tenant gets is counted by its kernels: kernels that ran x what one takes alone / the time that passed. The first SETTLE_S
of each run are left out.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import ways
from ways import product

SETTLE_S = 2
ROWS = []


def spec(name, request, limit=1.0, priority="normal", overrun="bill"):
    return (f'[[vgpu]]\nname = "{name}"\nrequest = {request}\nlimit = {limit}\npriority = "{priority}"\n'
            f'overrun = "{overrun}"\n')


class Samples(list):
    """What a tenant said: (seconds, kernels) each 100 ms; how it ended; p99_us of its launches, if it was asked for that."""
    def __init__(self, output, status):
        lines = [json.loads(line) for line in output.splitlines()]
        super().__init__((line["s"], line["kernels"]) for line in lines if "s" in line)
        self.status = status
        self.p99_us = next((line["p99_us"] for line in lines if "p99_us" in line), None)


class Machine:
    def __init__(self, out, seconds):
        self.out, self.seconds = out, seconds
        self.tenant_path = ways.program("tenant")
        done = subprocess.run([self.tenant_path, "--calibrate"] if ways.GPU else
                              [product.TESSERA, "run", "-q", "--driver", "emulator", "--", self.tenant_path, "--calibrate"],
                              capture_output=True, text=True, check=True)
        self.per_us = float(done.stdout)
        self.logs = self.servers = 0

    def iterations(self, us):
        return str(max(1, int(us * self.per_us)))

    def start(self, words, server=None, vgpu=None):
        before = []
        if server is not None:
            before = [*ways.HIDE_GPU, product.TESSERA, "run", "--server", server.url, *(["--vgpu", vgpu] if vgpu else []), "--"]
        self.logs += 1
        log = open(self.out / f"tenant-{self.logs}.log", "w")
        return subprocess.Popen([*before, self.tenant_path, *words], stdout=subprocess.PIPE, stderr=log, text=True,
                                env=product.environment())

    def serve(self, specs, *options, log="info"):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False)
        self.write(specs)
        driver = "cuda" if ways.GPU else "emulator"
        self.servers += 1
        self.record = self.out / f"broker-{self.servers}.trace"
        for of_before in self.out.glob(self.record.name + "*"):
            of_before.unlink()
        server = product.Server("--vgpus", self.file.name, "--record", str(self.record), *options, driver=driver, log=log)
        if not server.ready:
            sys.exit("tesserad did not start: " + server.words())
        return server

    @property
    def trace(self):
        """What the last server's broker has written down of the first GPU: of several, each has a file."""
        of_first = self.record.with_name(self.record.name + ".0")
        return of_first if of_first.exists() else self.record

    def hand_overs(self):
        """Of the last server's broker: times from the end of one tenant's work to the begin of another's that waited, in us."""
        replayed = subprocess.run([pathlib.Path(product.TESSERA).parent / "tessera-replay", self.trace, "-o", "json"],
                                  capture_output=True, text=True)
        told = json.loads(replayed.stdout or "{}").get("hand_overs") or {"count": 0, "p50_ns": 0, "p99_ns": 0}
        return told["count"], told["p50_ns"] / 1000, told["p99_ns"] / 1000, replayed.stderr.strip()

    def write(self, specs):
        with open(self.file.name, "w") as file:
            file.write("\n".join(specs))

    def run(self, tenants, specs=None, options=("--default", "none"), during=None, log="info"):
        """Of each (vgpu, us, more words): its Samples. Natively without `specs`."""
        server = self.serve(specs, *options, log=log) if specs else None
        processes = [self.start([self.iterations(us), str(self.seconds + SETTLE_S), *more], server, vgpu if server else None)
                     for vgpu, us, *more in tenants]
        if during:
            during(server, processes)
        samples = []
        for process in processes:
            output, _ = process.communicate(timeout=self.seconds + 60)
            samples.append(Samples(output, process.returncode))
        if server:
            self.words = server.words()
            (self.out / f"server-{self.logs}.log").write_text(self.words)
            server.stop()
            os.unlink(self.file.name)
        return samples


def share(samples, us, since=SETTLE_S, until=None):
    window = [sample for sample in samples if sample[0] >= since and (until is None or sample[0] <= until)]
    (first_s, first), (last_s, last) = window[0], window[-1]
    return 100 * (last - first) * us / 1e6 / (last_s - first_s)


def windows(samples, us, length):
    """The share in each window of that many samples (of 100 ms)."""
    kept = [sample for sample in samples if sample[0] >= SETTLE_S]
    return [100 * (b[1] - a[1]) * us / 1e6 / (b[0] - a[0]) for a, b in zip(kept, kept[length:])]


def stamped(path):
    """(begin, end) of each kernel of a tenant with --stamps, in ns of the GPU's clock."""
    return sorted(struct.iter_unpack("=QQ", path.read_bytes()))


def jain(values):
    """1 when all are equal (Jain, Chiu, Hawe 1984)."""
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def row(cell, what, figure, bar, kept):
    ROWS.append({"cell": cell, "what": what, "figure": figure, "bar": bar, "kept": kept})
    print(f"{cell:10}{what:44}{figure:>34}  {bar:22}{'' if kept else ' MISSED'}", flush=True)


def words_of(values):
    return " ".join(f"{value:.1f}" for value in values)
