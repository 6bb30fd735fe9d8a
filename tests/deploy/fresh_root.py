"""A fresh root: the distribution of this machine, as debootstrap makes it, in a directory; commands run there as root.

For packages_test.py and guest_test.py. TESSERA_FRESH_ROOT=DIRECTORY keeps the root, or takes one that is there.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MIRRORS = {"debian": ("http://deb.debian.org/debian", "main"), "ubuntu": ("http://archive.ubuntu.com/ubuntu", "main,universe")}
PACKAGES = ("tessera", "tessera-server", "tessera-placer")


def skip(why):
    """Ends the test with 77, which ctest calls skipped."""
    print(f"skipped: {why}")
    sys.exit(77)


def skip_without(*programs):
    if os.geteuid() != 0:
        skip("root alone makes a fresh root")
    for program in programs:
        if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
            skip(f"{program} is not installed")


def distribution():
    """Its name and its release, as debian and bookworm."""
    words = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return words["ID"].strip('"'), words["VERSION_CODENAME"].strip('"')


def run(*words, timeout=300, **options):
    """What it writes; its exit code has to be 0."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout, **options)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def built_packages(build):
    """The three packages that `make packages` has put into the build directory; ends the test where they are not there."""
    found = [next((build / "packages").glob(f"{name}_*.deb"), None) for name in PACKAGES]
    if None in found:
        sys.exit("there are no packages: make packages")
    return found


def next_revision(deb, directory):
    """A package of the same content with a higher revision: all its files are written anew."""
    work = tempfile.mkdtemp(dir=directory)
    run("dpkg-deb", "-R", deb, work)
    control = pathlib.Path(work, "DEBIAN/control")
    control.write_text(re.sub(r"-1~", "-2~", control.read_text()))
    run("dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "-b", work, directory / os.path.basename(deb).replace("-1~", "-2~"))
    shutil.rmtree(work)


def compile_programs(source, build, directory):
    """The README's first program (saxpy, saxpy.ptx) and one that works for as long as it is told (load), for a root that has glibc."""
    # The library may be built for a newer glibc, as the root has it.
    include = os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include"
    for name, file in (("saxpy", "deploy/demo/saxpy_ptx.cc"), ("load", "tests/system/programs/load.cc")):
        run("g++", "-O1", "-std=c++20", f"-I{include}", f"-I{source}", "-o", directory / name, source / file, f"-L{build}/lib/client",
            "-l:libcuda.so.1", "-pthread", "-Wl,--allow-shlib-undefined")
    shutil.copy(source / "deploy/demo/saxpy.ptx", directory)


class FreshRoot:
    """`path` is its directory; `kept`: TESSERA_FRESH_ROOT names it, and close() does not remove it."""

    def __init__(self):
        given = os.environ.get("TESSERA_FRESH_ROOT")
        self.path = pathlib.Path(given or tempfile.mkdtemp(prefix="tessera_root_"))
        self.kept = bool(given)
        self._holder = None
        try:
            if not (self.path / "etc/os-release").exists():
                name, codename = distribution()
                mirror, components = MIRRORS[name]
                run("debootstrap", "--variant=minbase", f"--components={components}", codename, self.path, mirror, timeout=600)
            self._hold()
        except BaseException:
            self.close()
            raise

    def _hold(self):
        """Starts a process whose mounts are seen by nobody else; all others are started beside it."""
        self._holder = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                                         f"mount --bind {self.path} {self.path} && mount -t proc proc {self.path}/proc && "
                                         f"mount --rbind /dev {self.path}/dev && echo ready && exec sleep 3600"], stdout=subprocess.PIPE, text=True)
        assert self._holder.stdout.readline() == "ready\n"

    def start(self, *words, **options):
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "HOME": "/root"}
        return subprocess.Popen(["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "chroot", str(self.path), *words], env=env,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, **options)

    def inside(self, *words, code=0, timeout=300):
        """What the command writes; its exit code has to be `code`."""
        process = self.start(*words)
        out = process.communicate(timeout=timeout)[0]
        assert process.returncode == code, f"{words}: {process.returncode}\n{out}"
        return out

    def install(self, *names):
        """Packages by apt-get, by their names or as files of the root."""
        return self.inside("apt-get", "install", "-y", "-q", "--no-install-recommends", *names)

    def close(self):
        if self._holder:
            self._holder.kill()
            self._holder.communicate()
        if not self.kept:
            shutil.rmtree(self.path)
