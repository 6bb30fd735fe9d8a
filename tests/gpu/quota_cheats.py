"""A cell of tests/gpu/quota: programs that want more than their vGPU's limit, and what a tenant beside them loses by it."""
import subprocess

import ways
from tenants import SETTLE_S, Samples, row, share, spec
from ways import product

# Those of tests/system/programs/cheat.cc.
WAYS = ["capture", "legacy", "fork", "destroyed", "destroy", "kinds", "streams", "value", "stands"]
LIMITS = (0.2, 0.05)
TENANT_US = 200
MORE = 3  # points


def lost_to(machine, way, limit, alone):
    """What the tenant loses to a cheat, in per cent of what it gets alone; and the cheat's exit status if it ended by itself."""
    server = machine.serve([spec("tenant", 0.5), spec("cheat", limit, limit)], "--default", "none")
    words = [*ways.HIDE_GPU, product.TESSERA, "run", "--quiet", "--server", server.url, "--vgpu", "cheat", "--", ways.program("cheat"), way]
    with open(machine.out / f"cheat-{way}-{limit}.log", "w") as log:
        cheat = subprocess.Popen(words + ["spin"] * ways.GPU, stdout=log, stderr=log, env=product.environment())
    tenant = machine.start([machine.iterations(TENANT_US), str(machine.seconds + SETTLE_S)], server, "tenant")
    output, _ = tenant.communicate(timeout=machine.seconds + 60)
    ended = cheat.poll()
    cheat.kill()
    cheat.wait()
    server.stop()
    return 100 - 100 * share(Samples(output, tenant.returncode), TENANT_US) / alone, ended


def cheats_cell(machine):
    """One way and one limit at a time. What the tenant does not get, the cheat had, or the changes between them."""
    alone = share(machine.run([("tenant", TENANT_US)], [spec("tenant", 0.5)])[0], TENANT_US)
    for limit in LIMITS:
        for way in WAYS:
            lost, ended = lost_to(machine, way, limit, alone)
            row("cheats", f"{way}, limit {100 * limit:.0f}: the tenant loses", f"{lost:.1f}" + ("" if ended is None else f", ended: {ended}"),
                f"<= {100 * limit + MORE:.0f}", lost <= 100 * limit + MORE and ended is None)
