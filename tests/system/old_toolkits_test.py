#!/usr/bin/env python3
"""Programs of older toolkits: compiles test programs with each nvcc it is given and runs them on the emulator.

TESSERA_OLD_TOOLKITS: directories of toolkits, separated by colons, each with bin/nvcc, include and lib64 (of CUDA 11 or
later). Without any the test is skipped (exit status 77).

usage: old_toolkits_test.py TESSERA PROGRAM_SOURCES
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
# Source, further flags. Left out are programs that use what older toolkits do not have.
PROGRAMS = [
    ("copies.cu", []),
    ("streams.cu", []),
    ("streams.cu", ["-cudart", "shared"]),
    ("copies.cu", ["--default-stream", "per-thread"]),
    ("host_functions.cu", []),
    ("errors.cu", []),
    ("textures.cu", []),
    ("kernels.cu", ["-gencode", "arch=compute_80,code=compute_80"]),
    ("printing.cu", []),
    ("old_runtime.cu", ["-cudart", "none", "-lcuda"]),
    ("separate_a.cu separate_b.cu", ["-rdc=true"]),
]


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **more)


def check(toolkit, tessera, sources):
    """Names of the programs that failed."""
    nvcc = toolkit / "bin/nvcc"
    version = re.search(r"release (\S+),", run([nvcc, "--version"]).stdout).group(1)
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        for files, flags in PROGRAMS:
            name, program = f"CUDA {version}: {files} {' '.join(flags)}", f"{scratch}/program"
            architecture = [] if "-gencode" in flags else ["-gencode", "arch=compute_75,code=compute_75"]
            stubs = [f"-L{toolkit}/lib64/stubs", f"-L{tessera.parent.parent}/lib/client"]
            built = run([nvcc, "-std=c++17", "-allow-unsupported-compiler", *architecture, *flags, "-o", program,
                         *(str(sources / file) for file in files.split()), *stubs])
            if built.returncode != 0:
                print(f"{name}: does not compile\n{built.stderr[-2000:]}")
                failed.append(name)
                continue
            environment = {**os.environ, "LD_LIBRARY_PATH": f"{toolkit}/lib64"}
            ran = run([tessera, "run", "--driver", "emulator", "--quiet", "--", program], env=environment)
            print(f"{name}: exit status {ran.returncode}")
            if ran.returncode != 0 or not ran.stdout.rstrip().endswith("ok"):
                print(ran.stdout[-1000:] + ran.stderr[-1000:])
                failed.append(name)
    return failed


def main():
    toolkits = [pathlib.Path(path) for path in os.environ.get("TESSERA_OLD_TOOLKITS", "").split(":") if path]
    if not toolkits:
        print("TESSERA_OLD_TOOLKITS names no toolkit: nothing was tried")
        return SKIPPED
    failed = [name for toolkit in toolkits for name in check(toolkit, pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))]
    print(f"{len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
