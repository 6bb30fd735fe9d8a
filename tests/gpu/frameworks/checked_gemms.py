"""Multiplies matrices of small whole numbers, whose products are exact in any order, and looks at each of them.

usage: checked_gemms.py [SECONDS]   (5)

Says "ready", begins with the next line that it reads, and says how many products there were, how many were wrong, and the longest time
in ms from one to the next. Exit status 1: some were wrong.
"""
import sys
import time

import torch


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    a, b = (torch.randint(-2, 3, (2048, 2048), device="cuda").half() for _ in range(2))
    right = (a.float() @ b.float()).half()
    wrong = torch.zeros((), device="cuda", dtype=torch.int64)

    def multiply():
        wrong.add_((a @ b != right).any())
        torch.cuda.synchronize()
    for _ in range(3):  # what the libraries do once
        multiply()
    print("ready", flush=True)
    sys.stdin.readline()
    done = longest = 0
    begin = last = time.perf_counter()
    while last - begin < seconds:
        multiply()
        now = time.perf_counter()
        longest, last, done = max(longest, now - last), now, done + 1
    print(f"{done} products, {int(wrong)} wrong, longest {1000 * longest:.1f} ms")
    sys.exit(int(wrong) > 0)


main()
