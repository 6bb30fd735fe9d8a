#!/usr/bin/env python3
"""Runs programs whose results depend on order under many orders.

The emulator pauses at random before each operation of a stream and picks the order of a graph's nodes and a grid's blocks
at random, all from one seed. Every program runs under every setting below, then under further seeds until the time is over.

usage: sweep.py TESSERA_COMMAND SECONDS PROGRAM...
"""
import itertools
import os
import subprocess
import sys
import time

# Seed and longest pause in microseconds: none, so that the host is always behind; some; and pauses long enough for the host
# to run far ahead of the device.
SETTINGS = [(1, 0), (2, 20), (3, 200), (4, 2000)]
PAUSES_US = itertools.cycle([50, 0, 500, 1000])


def run(tessera, program, seed, pause_us):
    """Whether the program succeeded; prints how to repeat a failure."""
    setting = {"TESSERA_EMULATOR_SEED": str(seed), "TESSERA_EMULATOR_DELAY_US": str(pause_us)}
    command = [tessera, "run", "--driver", "emulator", "--quiet", "--", program]
    try:
        done = subprocess.run(command, env={**os.environ, **setting}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=120, check=False)
        output, ended = done.stdout, f"exit code {done.returncode}"
        if done.returncode == 0 and output.splitlines()[-1:] == ["ok"]:
            return True
    except subprocess.TimeoutExpired as expired:
        output, ended = str(expired.stdout), "not ended after 120 s"
    print(output)
    print("failed:", ended, "of", " ".join(f"{k}={v}" for k, v in setting.items()), " ".join(command), flush=True)
    return False


def main():
    tessera, seconds, programs = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    end = time.monotonic() + seconds
    runs = failures = 0
    further = ((seed, next(PAUSES_US)) for seed in itertools.count(5))
    for count, (seed, pause_us) in enumerate(itertools.chain(SETTINGS, further)):
        for program in programs:
            if count >= len(SETTINGS) and time.monotonic() > end:
                print(f"{runs} runs of {len(programs)} programs, {failures} failed")
                return 1 if failures else 0
            runs += 1
            failures += not run(tessera, program, seed, pause_us)


if __name__ == "__main__":
    sys.exit(main())
