"""Cells of tests/gpu/quota: what is billed, beside what the GPU's own clock says, and who is busy and who only waits."""
import statistics

import ways
from quota_audit import figures_of, points_above
from tenants import row, share, spec, stamped, words_of

HELD_US, SLEEP_US = 5000, 45_000
AUDITED_S = 18


def billed(trace, session_of):
    """The spans (begin, end) of a vGPU in which its session was busy, as the broker has written them down; in ns."""
    names, sessions, begins, spans = {}, {}, {}, []
    for line in trace.read_text().splitlines():
        words = line.split()
        if words[1:2] == ["vgpu"]:
            names[words[2]] = words[-1]
        elif words[1:2] == ["came"]:
            sessions[words[2]] = names[words[3]]
        elif words[1:2] == ["busy"] and sessions[words[2]] == session_of:
            if words[3] == "1":
                begins[words[2]] = int(words[0])
            elif words[2] in begins:
                spans.append((begins.pop(words[2]), int(words[0])))
    return spans


def bill_cell(machine):
    """One tenant that waits for each kernel, beside one that does nearly nothing, so that its spans are its kernels."""
    path = machine.out / "stamps-bill"
    for us, bar in (2000, True), (5000, True), (20, False):
        tenants = [("a", us, "--pause", str(us), "--stamps", path), ("b", 20, "--pause", "100000")]
        machine.run(tenants, [spec("a", 0.5), spec("b", 0.5)])
        spans = sorted(end - begin for begin, end in billed(machine.trace, "a"))
        kernels = sorted(end - begin for begin, end in stamped(path))
        if not spans:
            row("bill", f"kernels of {us} us", "no span", "some", False)
            continue
        # A span is a kernel; those before the GPU was shared are in no span.
        ratio = statistics.fmean(spans) / statistics.fmean(kernels)
        more_us = (statistics.median(spans) - statistics.median(kernels)) / 1000
        row("bill", f"kernels of {us} us, billed / true time", f"{ratio:.4f}, median +{more_us:.1f} us ({len(spans)})",
            "0.98 to 1.02" if bar else "<= 10 us more", 0.98 <= ratio <= 1.02 if bar else more_us <= 10)


def held_cell(machine):
    """Who waits for its own host functions is not busy: the GPU is another's meanwhile."""
    tenants = [("a", HELD_US, "--host-function", str(SLEEP_US)), ("b", 200)]
    native = [share(one, us) for one, us in zip(machine.run(tenants), (HELD_US, 200))] if ways.GPU else [0]
    got = [share(one, us) for one, us in zip(machine.run(tenants, [spec("a", 0.5), spec("b", 0.5)]), (HELD_US, 200))]
    count, median, p99, words = machine.hand_overs()
    row("held", f"a: {HELD_US} us, host function of {SLEEP_US} us; b", f"{words_of(got)} natively {words_of(native)}",
        "sum >= 0.97 natively", sum(got) >= 0.97 * sum(native))
    row("held", "gap between holders", words or f"{median:.0f}, p99 {p99:.0f} us ({count})", "told", True)


def streams_cell(machine):
    """A stream for each kernel, destroyed at once, hides nothing from the bill."""
    for us in machine.kernels:
        tenants = [("a", us, "--stream-each"), ("b", us)]
        native = [share(one, us) for one in machine.run(tenants)] if ways.GPU else [0]
        got = [share(one, us) for one in machine.run(tenants, [spec("a", 0.5), spec("b", 0.5)])]
        part = 100 * got[0] / sum(got)
        row("streams", f"{us} us: a with a stream for each kernel, 50/50", f"{words_of(got)} natively {words_of(native)}",
            "error <= 10", abs(part - 50) <= 10)


def audit_cell(machine):
    """Whoever reports what it does is not suspected."""
    if not ways.GPU:
        return row("audit", "honest tenants", "no GPU", "told", True)
    tenants = [("a", 200), ("b", 5000, "--pause", "5000"), ("c", 20, "--stream-each")]
    seconds, machine.seconds = machine.seconds, max(machine.seconds, AUDITED_S)
    machine.run(tenants, [spec("a", 0.3), spec("b", 0.3), spec("c", 0.3)], log="debug")
    machine.seconds = seconds
    times, _ = figures_of(machine.words)
    above = [round(points) for seconds in times.values() for points in points_above(seconds)]
    found = machine.words.count("without reporting it")
    row("audit", "honest tenants: points of NVML above the worker's", f"at most {max(above, default=-1)} points ({len(above)}), {found} found",
        "none found, some compared", bool(above) and found == 0)
