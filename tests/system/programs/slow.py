#!/usr/bin/env python3
"""Runs programs on an emulated device whose copies, sets and kernels take time (TESSERA_EMULATOR_SLOW).

Everything that programs and the product take from a fast device is found: whoever reads too early finds the old bytes. Each
program must end with 0 and print what it prints on a fast device: the expected file's content, or a last line "ok".

usage: slow.py TESSERA_COMMAND MB_PER_S AT_ONCE PROGRAM[=EXPECTED_FILE]...
"""
import concurrent.futures
import os
import subprocess
import sys
import time


def run(tessera, rate, word):
    """Whether the program succeeded; prints how to repeat a failure."""
    words, _, expected = word.partition("=")
    setting = {"TESSERA_EMULATOR_SLOW": rate}
    command = [tessera, "run", "--driver", "emulator", "--quiet", "--", *words.split()]
    begin = time.monotonic()
    try:
        done = subprocess.run(command, env={**os.environ, **setting}, stdout=subprocess.PIPE, text=True, timeout=100, check=False)
        output, ended = done.stdout, f"exit code {done.returncode}"
        if expected:
            with open(expected, encoding="utf-8") as file:
                good = output == file.read()
        else:
            good = output.splitlines()[-1:] == ["ok"]
        good = good and done.returncode == 0
    except subprocess.TimeoutExpired as expired:
        output, ended, good = str(expired.stdout), "not ended after 100 s", False
    print(f"{time.monotonic() - begin:5.1f} s {os.path.basename(words)}", flush=True)
    if not good:
        print(output)
        print("failed:", ended, "of", f"TESSERA_EMULATOR_SLOW={rate}", " ".join(command), flush=True)
    return good


def main():
    tessera, rate, at_once, programs = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        results = list(pool.map(lambda word: run(tessera, rate, word), programs))
    print(f"{len(results)} programs, {results.count(False)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
