"""Cells of tests/gpu/quota: what happens while tenants run."""
import os
import signal
import time

import ways
from tenants import SETTLE_S, row, share, spec, stamped, words_of


def change_cell(machine):
    def during(server, processes):
        time.sleep(SETTLE_S + machine.seconds / 2)
        machine.write([spec("a", 0.2), spec("b", 0.8)])
    samples = machine.run([("a", 200), ("b", 200)], [spec("a", 0.7), spec("b", 0.3)], during=during)
    middle = SETTLE_S + machine.seconds / 2
    before = share(samples[0], 200, until=middle - 0.5) / sum(share(one, 200, until=middle - 0.5) for one in samples)
    after = share(samples[0], 200, since=middle + 1.5) / sum(share(one, 200, since=middle + 1.5) for one in samples)
    row("change", "70/30, then 20/80", f"{100 * before:.1f}, {100 * after:.1f}", "error <= 3",
        abs(before - 0.7) <= 0.03 and abs(after - 0.2) <= 0.03)


def often_cell(machine):
    """Shares that change five times a second: nobody ends, and what all get stays."""
    def during(server, processes):
        for i in range(int(5 * (machine.seconds + SETTLE_S))):
            time.sleep(0.2)
            machine.write([spec("a", 0.2 + 0.6 * (i % 2)), spec("b", 0.8 - 0.6 * (i % 2))])
    samples = machine.run([("a", 200), ("b", 200)], [spec("a", 0.7), spec("b", 0.3)], during=during)
    got = [share(one, 200) for one in samples]
    kept = [one.status for one in samples] == [0, 0] and sum(got) >= 95 and abs(got[0] - got[1]) <= 10
    row("often", "changed each 200 ms between 20/80 and 80/20", f"{words_of(got)} sum {sum(got):.1f}", "sum >= 95, half each", kept)


def faults_cell(machine):
    def during(server, processes):
        time.sleep(SETTLE_S + machine.seconds / 2)
        processes[0].send_signal(signal.SIGKILL)
    samples = machine.run([("a", 200), ("b", 200)], [spec("a", 0.7), spec("b", 0.3)], during=during)
    middle = SETTLE_S + machine.seconds / 2
    row("faults", "b after a was killed", f"{share(samples[1], 200, since=middle + 1.5):.1f}", ">= 90",
        share(samples[1], 200, since=middle + 1.5) >= 90)

    def kill_broker(server, processes):
        time.sleep(SETTLE_S + machine.seconds / 3)
        os.kill(server.broker(), signal.SIGKILL)
    samples = machine.run([("a", 200), ("b", 200)], [spec("a", 0.7), spec("b", 0.3)], during=kill_broker)
    got = [share(one, 200) for one in samples]
    row("faults", "70/30, the broker killed meanwhile", words_of([100 * value / sum(got) for value in got]), "error <= 3",
        abs(100 * got[0] / sum(got) - 70) <= 3)


def longest_pause_ms(path):
    kernels = stamped(path)
    return max((after[0] - before[1]) / 1e6 for before, after in zip(kernels, kernels[1:]))


def strangers_cell(machine):
    """What two tenants see of a third whose kernel fails, never ends, or whose program is killed; natively beside it."""
    names, request = "abc", 0.33
    paths = [machine.out / f"stamps-{name}" for name in names]
    usual_ms = None
    for fault in "none", "trap", "address", "endless", "ended", "kill":
        kernel = "endless" if fault == "ended" else fault
        words = ("--fault", kernel) if fault not in ("none", "kill") else ()
        def during(server, processes, fault=fault):
            if fault in ("endless", "kill"):
                time.sleep(SETTLE_S + machine.seconds * (0.9 if fault == "endless" else 0.5))
                processes[0].kill()
        tenants = [("a", 200, *words), *((name, 200, "--stamps", path) for name, path in zip(names[1:], paths[1:]))]
        native_ms = 0
        if ways.GPU and fault in ("address", "endless"):
            machine.run(tenants, during=during)
            native_ms = max(longest_pause_ms(path) for path in paths[1:])
        specs = [spec(name, request, overrun="end" if fault == "ended" and name == "a" else "bill") for name in names]
        samples = machine.run(tenants, specs, ("--default", "none", "--overrun-after", "1"), during=during)
        pause_ms = max(longest_pause_ms(path) for path in paths[1:])
        usual_ms = usual_ms or pause_ms
        well = [one.status for one in samples[1:]] == [0, 0] and (fault != "ended" or samples[0].status == 3)
        row("strangers", f"a third tenant: {fault}", f"{samples[0].status}, {'well' if well else 'FAILED'}, pause {pause_ms:.1f} ms (natively {native_ms:.1f})",
            "well, + <= 10 ms", well and pause_ms <= max(usual_ms, native_ms) + 10)


def protected_cell(machine):
    """How long a small kernel takes beside one that has everything, by the driver's slices and with a vGPU that is protected."""
    for us in 200, 20000:
        tenants = [("a", 20, "--blocks", "16", "--pause", "500", "--latency"), ("b", us)]
        native = machine.run(tenants)[0].p99_us if ways.GPU else 0
        specs = [spec("a", 0.3, priority="protected"), spec("b", 0.7)]
        got = machine.run(tenants, specs, ("--default", "none", "--policy", "priority"))[0].p99_us
        row("protected", f"16 blocks beside kernels of {us} us, p99", f"{got:.0f} us, natively {native:.0f}", "<= 1.15",
            not ways.GPU or got <= 1.15 * native)
