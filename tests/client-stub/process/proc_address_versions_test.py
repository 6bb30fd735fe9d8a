#!/usr/bin/env python3
"""cuGetProcAddress for programs of every toolkit: each name, version and flag against what driver 580 answered.

usage: proc_address_versions_test.py LIBCUDA [--print]

proc_address_versions.txt has one line per name: `flags:version=answer` wherever the answer changes, versions and flags in
the order below. An answer is the export whose address came back, or none(CUresult,status) of cuGetProcAddress_v2;
[v1 CUresult] where the form of CUDA 11.3 returns another code. With --print the lines of this library go to stdout.
"""

import ctypes
import pathlib
import sys

VERSIONS = (2000, 3020, 4000, 7000, 10000, 10010, 11000, 11030, 11080, 12000, 12020, 12030, 12040, 12050, 12080, 12090, 13000)
SUFFIXES = ("", "_v2", "_v3", "_v4", "_ptsz", "_ptds", "_v2_ptsz", "_v2_ptds", "_v3_ptsz", "_v3_ptds")


class Library:
    def __init__(self, path):
        self.handle = ctypes.CDLL(path)
        self.v1 = self.handle.cuGetProcAddress
        self.v1.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64)
        self.v2 = self.handle.cuGetProcAddress_v2
        self.v2.argtypes = (*self.v1.argtypes, ctypes.c_void_p)

    def exports(self, name):
        found = {}
        for suffix in SUFFIXES:
            if hasattr(self.handle, name + suffix):
                address = ctypes.cast(getattr(self.handle, name + suffix), ctypes.c_void_p).value
                found.setdefault(address, name + suffix)
        return found

    def answer(self, exports, name, version, flags):
        new, old, status = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int(7)
        code = self.v2(name.encode(), ctypes.byref(new), version, flags, ctypes.byref(status))
        old_code = self.v1(name.encode(), ctypes.byref(old), version, flags)
        text = exports.get(new.value, "?") if new.value else "none"
        if code or status.value:
            text += f"({code},{status.value})"
        if old_code != code or old.value != new.value:
            text += f"[v1 {old_code}{'' if old.value == new.value else ' another'}]"
        return text

    def line(self, name):
        exports, last, parts = self.exports(name), "", [name]
        for flags in (0, 1, 2):
            for version in VERSIONS:
                answer = self.answer(exports, name, version, flags)
                if answer != last:
                    parts.append(f"{flags}:{version}={answer}")
                last = answer
        return " ".join(parts)


def main():
    library = Library(sys.argv[1])
    wanted = (pathlib.Path(__file__).parent / "proc_address_versions.txt").read_text().splitlines()
    lines = [library.line(line.split(" ", 1)[0]) for line in wanted]
    if "--print" in sys.argv:
        print("\n".join(lines))
        return 0
    wrong = [(mine, theirs) for mine, theirs in zip(lines, wanted) if mine != theirs]
    for mine, theirs in wrong:
        print(f"is  {mine}\nwas {theirs}")
    print(f"{len(wanted) - len(wrong)} of {len(wanted)} names are answered as by driver 580")
    return 1 if wrong or len(wanted) < 400 else 0


if __name__ == "__main__":
    sys.exit(main())
