#!/usr/bin/env python3
"""Which files the Debian packages have, by CMake's rules for installing; no package is built.

usage: package_files_test.py BUILD_DIRECTORY
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()

# Package -> programs in PATH, other programs, libraries.
PACKAGES = {
    "tessera": (["tessera", "tessera-agent"], ["tessera-lease"],
                ["client/libcuda.so", "client/libcuda.so.1", "client/libnvidia-ml.so", "client/libnvidia-ml.so.1"]),
    "tessera-server": (["tesserad", "tessera-gateway", "tessera-node", "tessera-replay"], ["tessera-broker"], ["libtessera-emulator.so"]),
    "tessera-placer": (["tessera-placer"], ["tessera-admin"], []),
}
UNITS = {
    "tessera": [],
    "tessera-server": ["system/tesserad.service", "system/tessera-node.service", "user/tesserad.service"],
    "tessera-placer": ["system/tessera-placer.service"],
}
SCRIPTS = {"tessera": ["slurm/prolog"]}
SETTINGS = {"tessera-server": {"etc/tessera/tesserad.toml"}}  # conffiles
# Packages whose headers are no code of ours to speak of: the system's, and those of libraries that are linked dynamically or not at all.
LINKED = re.compile(r"libc6-dev|libc6-dev-.*|libstdc\+\+-.*|libgcc-.*|linux-libc-dev|libabsl-dev|libgrpc\+\+-dev|libgrpc-dev|liblz4-dev|"
                    r"libprotobuf-dev|libseccomp-dev|libsqlite3-dev|libzstd-dev|libucx-dev|prometheus-cpp-dev|libgtest-dev|"
                    r"libgoogletest-dev|libgmock-dev|libbenchmark-dev|cuda-.*|google.*")


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class PackageFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = {}
        directory = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, directory)
        run(ROOT / "deploy/packages/make-files", BUILD, BUILD / "packages/files", "0.0-1~test", "Somebody <somebody@test.invalid>")
        cls.directory = directory
        for package in PACKAGES:
            run("cmake", "--install", BUILD, "--component", package, "--prefix", "/usr", env={**os.environ, "DESTDIR": str(directory / package)})
            cls.files[package] = {str(path.relative_to(directory / package)) for path in (directory / package).rglob("*")
                                  if path.is_symlink() or not path.is_dir()}

    def private(self, package):
        (folder,) = (self.directory / package / "usr/lib").glob("*/tessera")
        return str(folder.relative_to(self.directory / package))

    def test_programs_and_libraries(self):
        for package, (linked, others, libraries) in PACKAGES.items():
            private = self.private(package)
            wanted = {f"usr/bin/{name}" for name in linked} | {f"{private}/bin/{name}" for name in linked + others}
            wanted |= {f"{private}/{name}" for name in SCRIPTS.get(package, [])}
            wanted |= {f"{private}/lib/{name}" for name in libraries} | {f"usr/lib/systemd/{name}" for name in UNITS[package]} | SETTINGS.get(package, set())
            self.assertEqual({name for name in self.files[package] if not name.startswith("usr/share/")}, wanted)
            for name in linked:
                link = os.readlink(self.directory / package / "usr/bin" / name)
                self.assertEqual(os.path.normpath(os.path.join("usr/bin", link)), f"{private}/bin/{name}")

    def test_nothing_is_where_the_linker_looks(self):
        for package, names in self.files.items():
            for name in names:
                self.assertFalse(".so" in name and os.path.basename(os.path.dirname(name)) not in ("lib", "client"), name)
                self.assertFalse(".so" in name and "/tessera/lib" not in name, name)

    def test_pages_and_completion(self):
        for package, (linked, others, _) in PACKAGES.items():
            names = self.files[package]
            for name in linked:
                self.assertTrue({f"usr/share/man/man1/{name}.1.gz", f"usr/share/man/man8/{name}.8.gz"} & names, name)
                for path in (f"bash-completion/completions/{name}", f"zsh/vendor-completions/_{name}", f"fish/vendor_completions.d/{name}.fish"):
                    self.assertIn(f"usr/share/{path}", names)
            for name in ("copyright", "changelog.gz", "changelog.Debian.gz"):
                self.assertIn(f"usr/share/doc/{package}/{name}", names)
        self.assertIn("usr/share/man/man1/tessera-run.1.gz", self.files["tessera"])

    def test_no_file_is_in_two_packages(self):
        self.assertEqual(len(set().union(*self.files.values())), sum(len(names) for names in self.files.values()))

    def test_what_is_compiled_in_has_its_licence(self):
        headers = sorted(set(re.findall(r"^ +(/usr/(?:include|lib)/\S+\.h(?:pp)?)$", run("ninja", "-C", BUILD, "-t", "deps"), re.MULTILINE)))
        self.assertGreater(len(headers), 100)

        owners = subprocess.run(["dpkg-query", "-S", *headers], capture_output=True, text=True, timeout=60).stdout
        packages = {name.split(":")[0] for line in owners.splitlines() for name in line.split(": /")[0].split(", ")}
        copyright = (self.directory / "tessera/usr/share/doc/tessera/copyright").read_text(encoding="utf-8")
        named = set(re.findall(r"^======== ([\w+.-]+): ", copyright, re.MULTILINE))
        self.assertIn("libcli11-dev", packages & named)
        self.assertEqual({name for name in packages - named if not LINKED.fullmatch(name)}, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
