"""Cells of tests/gpu/quota: shares, limits, and what they cost."""
import json

import ways
from tenants import SETTLE_S, jain, row, share, spec, stamped, windows, words_of
from ways import product


def shares_cell(machine):
    for us in machine.kernels:
        alone, = machine.run([("a", us)])
        alone_share = share(alone, us)
        native = [share(samples, us) for samples in machine.run([("a", us), ("b", us)])] if ways.GPU else []
        row("shares", f"{us} us: alone natively", f"{alone_share:.1f}", "", True)
        if native:
            row("shares", f"{us} us: two natively (driver slices)", f"{words_of(native)} sum {sum(native):.1f}", "", True)
        for wanted in ((50, 50), (70, 30), (60, 30, 10)):
            names = "abc"[:len(wanted)]
            specs = [spec(name, want / 100) for name, want in zip(names, wanted)]
            got = [share(samples, us) for samples in machine.run([(name, us) for name in names], specs)]
            parts = [100 * value / sum(got) for value in got]
            error = max(abs(part - want) for part, want in zip(parts, wanted))
            row("shares", f"{us} us: {'/'.join(map(str, wanted))}", f"{words_of(parts)} sum {sum(got) / alone_share:.3f}",
                "error <= 2, sum >= 0.97", error <= 2 and sum(got) >= 0.97 * alone_share)
            if wanted == (50, 50):
                count, median, p99, words = machine.hand_overs()
                row("shares", f"{us} us: gap between holders", words or f"{median:.0f}, p99 {p99:.0f} us ({count})",
                    "<= 80, p99 <= 250", count > 0 and median <= 80 and p99 <= 250)
    mixed = machine.run([("a", 20), ("b", 5000)], [spec("a", 0.5), spec("b", 0.5)])
    got = [share(samples, us) for samples, us in zip(mixed, (20, 5000))]
    row("shares", "20 us beside 5 ms, 50/50", words_of(got), "told", True)


def changes_of_holder(paths):
    """The GPU's idle us from one tenant's last kernel to the other's first, in order; below 0: they overlapped."""
    kernels = sorted((begin, end, tenant) for tenant, path in enumerate(paths) for begin, end in stamped(path))
    first = max(next(begin for begin, _, tenant in kernels if tenant == each) for each in range(len(paths)))
    gaps, last_end, last_tenant = [], 0, None
    for begin, end, tenant in kernels:
        if last_tenant not in (None, tenant) and begin > first + SETTLE_S * 10**9:
            gaps.append((begin - last_end) / 1000)
        last_end, last_tenant = max(last_end, end), tenant
    return sorted(gaps)


def changes_row(what, paths):
    gaps = changes_of_holder(paths)
    if not gaps:
        return row("changes", what, "none", "told", True)
    at = [gaps[int(len(gaps) * part)] for part in (0.1, 0.5, 0.9, 0.99)]
    row("changes", what, " ".join(f"{value:.0f}" for value in at) + f" us ({len(gaps)})", "told", True)


def changes_cell(machine):
    """What it costs the GPU to go from one process to another, by its own clock: 10, 50, 90 and 99 of 100 are below."""
    paths = [machine.out / f"stamps-{name}" for name in "ab"]
    for turn_us in (500, 2000, 10000, 20000) if ways.GPU else ():
        (machine.out / "turns").unlink(missing_ok=True)
        processes = [machine.start([machine.iterations(100), "4", "--stamps", paths[i], "--turns", machine.out / "turns",
                                    "--index", str(i), "--kernels", str(turn_us // 100)]) for i in range(2)]
        for process in processes:
            process.communicate(timeout=60)
        changes_row(f"natively, turns of {turn_us} us taken by themselves", paths)
    for us in machine.kernels:
        tenants = [(name, us, "--stamps", path) for name, path in zip("ab", paths)]
        if ways.GPU:
            machine.run(tenants)
            changes_row(f"{us} us: natively (driver slices)", paths)
        machine.run(tenants, [spec("a", 0.5), spec("b", 0.5)])
        changes_row(f"{us} us: 50/50", paths)


def parts_of_time(paths):
    """Where the GPU's time goes, in per cent, once all tenants run: kernels, pauses between one tenant's, and from one tenant to another;
    and how long a kernel is, in us."""
    kernels = sorted((begin, end, tenant) for tenant, path in enumerate(paths) for begin, end in stamped(path))
    first = max(next(begin for begin, _, tenant in kernels if tenant == each) for each in range(len(paths))) + SETTLE_S * 10**9
    kernels = [kernel for kernel in kernels if kernel[0] > first]
    own = other = 0
    end_of_all = kernels[0][1]
    for (_, _, before), (begin, end, tenant) in zip(kernels, kernels[1:]):
        gap = max(0, begin - end_of_all)
        own, other = (own + gap, other) if before == tenant else (own, other + gap)
        end_of_all = max(end_of_all, end)
    whole = end_of_all - kernels[0][0]
    length = sum(end - begin for begin, end, _ in kernels) / len(kernels) / 1000
    return 100 * (whole - own - other) / whole, 100 * own / whole, 100 * other / whole, length


def where_cell(machine):
    """Where the time goes that two tenants do not get."""
    for us in machine.kernels:
        paths = [machine.out / f"stamps-{name}" for name in "ab"]
        ways_of = {"alone": ([("a", us, "--stamps", paths[0])], None), "alone in a vGPU": ([("a", us, "--stamps", paths[0])], [spec("a", 0.5)]),
                   "50/50": ([(name, us, "--stamps", path) for name, path in zip("ab", paths)], [spec("a", 0.5), spec("b", 0.5)])}
        if not ways.GPU:
            del ways_of["alone"]
        for what, (tenants, specs) in ways_of.items():
            machine.run(tenants, specs)
            busy, own, other, length = parts_of_time(paths[:len(tenants)])
            row("where", f"{us} us, {what}: kernels, own, others' pauses", f"{busy:.2f} {own:.2f} {other:.2f} %, {length:.1f} us", "told", True)


def limit_cell(machine):
    for us in machine.kernels:
        samples, = machine.run([("a", us)], [spec("a", 0.2, 0.3)])
        mean, worst = share(samples, us), max(windows(samples, us, 1))
        row("limit", f"{us} us: limit 30 alone", f"mean {mean:.1f}, worst 100 ms {worst:.1f}", "mean <= 31", mean <= 31)


def equal_cell(machine):
    """Eight of one request, with kernels of one length and of several."""
    names = "abcdefgh"
    for what, lengths in (("kernels of 200 us", [200] * 8), ("kernels of 20 us to 5 ms", [20, 50, 100, 200, 500, 1000, 2000, 5000])):
        samples = machine.run(list(zip(names, lengths)), [spec(name, 0.125) for name in names])
        got = [share(one, us) for one, us in zip(samples, lengths)]
        row("equal", f"eight, {what}", f"Jain {jain(got):.4f}, {min(got):.1f} to {max(got):.1f}", ">= 0.99", jain(got) >= 0.99)


def graphs_cell(machine):
    """Shares and limits of programs that launch nothing but graphs."""
    words = ("--graph", "10")
    for wanted in ((50, 50), (70, 30), (60, 30, 10)):
        names = "abc"[:len(wanted)]
        samples = machine.run([(name, 200, *words) for name in names], [spec(name, want / 100) for name, want in zip(names, wanted)])
        got = [share(one, 200) for one in samples]
        parts = [100 * value / sum(got) for value in got]
        row("graphs", f"graphs of 10 x 200 us, {'/'.join(map(str, wanted))}", words_of(parts), "error <= 2",
            max(abs(part - want) for part, want in zip(parts, wanted)) <= 2)
    samples, = machine.run([("a", 200, *words)], [spec("a", 0.2, 0.3)])
    row("graphs", "graphs of 10 x 200 us, limit 30 alone", f"{share(samples, 200):.1f}", "<= 31", share(samples, 200) <= 31)


def idle_cell(machine):
    """The second pair has the driver's own changes between processes in each millisecond: told beside them."""
    for us, b_us in (20000, 200), (500, 500):
        tenants = [("a", us, "--pause", str(us)), ("b", b_us)]
        native = [share(one, each) for one, each in zip(machine.run(tenants), (us, b_us))] if ways.GPU else [0]
        got = [share(one, each) for one, each in zip(machine.run(tenants, [spec("a", 0.5), spec("b", 0.5)]), (us, b_us))]
        count, median, p99, words = machine.hand_overs()
        row("idle", f"a: {us} us of work, {us} us of rest; b", f"{words_of(got)} natively {words_of(native)}",
            "sum >= 97" if us > 1000 else "told", us < 1000 or sum(got) >= 97)
        row("idle", "gap between holders", words or f"{median:.0f}, p99 {p99:.0f} us ({count})", "told", True)


def overhead_cell(machine):
    """One vGPU alone beside no broker, in turns."""
    ratios = []
    for _ in range(3):
        rates = {}
        for name, specs, options in (("vgpu", [spec("a", 0.5)], ()), ("none", [spec("a", 0.5)], ("--no-vgpus",))):
            if name == "none":
                server = product.Server("--no-vgpus", driver="cuda" if ways.GPU else "emulator", log="info")
                process = machine.start([machine.iterations(20), "4"], server)
                output, _ = process.communicate(timeout=60)
                server.stop()
                samples = [(line["s"], line["kernels"]) for line in map(json.loads, output.splitlines())]
            else:
                seconds, machine.seconds = machine.seconds, 2
                samples, = machine.run([("a", 20)], specs, options)
                machine.seconds = seconds
            rates[name] = share(samples, 20)
        ratios.append(rates["none"] / rates["vgpu"])
    row("overhead", "20 us kernels, alone in a vGPU / no broker", words_of(100 * ratio for ratio in ratios), "<= 101", min(ratios) <= 1.01)
