"""Cell of tests/gpu/quota for two GPUs: programs that need both at once."""
from tenants import row, share, spec, words_of

US = 1000


def sets_cell(machine):
    """Programs whose steps are a kernel of 1 ms on each of two GPUs: two with half of each GPU, and one beside a tenant of GPU 1."""
    def program(name, first):
        return (name, US, "--lockstep", str(first))

    def halves(name):
        return [spec(f"{name}{gpu}", 0.5) + f"gpu = {gpu}\n" for gpu in (0, 1)]

    alone = share(machine.run([program("", 0)])[0], US)
    row("sets", "steps of 1 ms on two GPUs: one program alone", f"{alone:.1f}", "told", True)
    for what, second in ("the same GPU first", 0), ("crosswise", 1):
        tenants = [program("a0+a1", 0), program("b0+b1", second)]
        native, got, without = ([share(one, US) for one in machine.run(tenants, *more)]
                                for more in ((), (halves("a") + halves("b"),), (halves("a") + halves("b"), ("--default", "none", "--policy", "fixed"))))
        row("sets", f"two programs, {what}", f"{words_of(got)} natively {words_of(native)} fixed {words_of(without)}",
            "sum >= 0.97 natively", sum(got) >= 0.97 * sum(native) and max(got) <= 1.1 * min(got))
    got = [share(one, US) for one in machine.run([program("a0+a1", 0), ("b0", US)], halves("a") + halves("b"))]
    row("sets", "one program beside a tenant of one GPU", words_of(got), "told", True)
