#!/usr/bin/env python3
"""The packages on a machine of their own that systemd has booted: a guest in QEMU whose root is fresh. README.md says what it needs.

usage: guest_test.py BUILD_DIRECTORY
What is looked at there is in units_in_guest.py. Exits with 77, which ctest calls skipped, where there can be no such guest.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from fresh_root import PACKAGES, FreshRoot, built_packages, compile_programs, next_revision, run, skip, skip_without

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import emulated_machine  # noqa: E402

HERE = ROOT / "tests/deploy"
GUEST_SECONDS_MAX = int(os.environ.get("TESSERA_GUEST_SECONDS", "600"))
BOOT_MODULES = ("virtio_pci", "virtio_blk", "ext4")
# The tests are a service like any other, whose end is the machine's.
UNIT = """[Unit]
Description=What is tested of Tessera's units
After=tesserad.service
SuccessAction=poweroff-force
FailureAction=poweroff-force

[Service]
Type=oneshot
ExecStart=/usr/bin/python3 -B /guest/units_in_guest.py
Environment=HOME=/root LC_ALL=C.UTF-8 PYTHONUNBUFFERED=1
StandardOutput=file:/dev/ttyS1
StandardError=file:/dev/ttyS1
TimeoutStartSec=infinity

[Install]
WantedBy=multi-user.target
"""


def furnish(root, packages):
    """Installs systemd and Tessera into the fresh root, with two users and what the tests want."""
    guest = root.path / "guest"
    shutil.rmtree(guest, ignore_errors=True)
    guest.mkdir()
    (guest / "next").mkdir()
    for package in packages:
        shutil.copy(package, guest)
        next_revision(package, guest / "next")
    compile_programs(ROOT, pathlib.Path(sys.argv[1]).resolve(), guest)
    shutil.copy(HERE / "units_in_guest.py", guest)
    for file in ("tests/docs/marked.py", *(f"docs/{page}" for page in ("server-at-boot.md", "upgrade.md"))):
        shutil.copy(ROOT / file, guest)
    shutil.copy(ROOT / "deploy/systemd/README.md", guest / "exposure.md")
    root.inside("apt-get", "update", "-q")
    root.install("systemd-sysv", "libpam-systemd", "dbus", "python3", *(f"/guest/{package.name}" for package in packages))
    (root.path / "etc/systemd/system/guest-test.service").write_text(UNIT)
    for words in (("groupadd", "--force", "gpu"), ("useradd", "--create-home", "--groups", "gpu", "alice"), ("useradd", "--create-home", "bob"),
                  # Nobody is asked for a password, and no device has a name of udev's that a terminal would wait for.
                  ("systemctl", "mask", "getty.target", "serial-getty@ttyS0.service", "systemd-firstboot.service"),
                  ("systemctl", "enable", "tesserad", "guest-test")):
        root.inside(*words)
    (root.path / "etc/hostname").write_text("gpu7\n")


def strip(root):
    """What a root that is kept had not before."""
    root.inside("systemctl", "disable", "tesserad", "guest-test")
    root.inside("dpkg", "--purge", *reversed(PACKAGES))
    root.inside("sh", "-c", "userdel -r alice; userdel -r bob; rm -rf /guest /etc/systemd/system/guest-test.service")


def make_disk(root, work):
    """An image with the root as ext4, and room."""
    disk = work / "disk"
    run("truncate", "--size=3G", disk)
    run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-d", root.path, disk)
    return disk


def boot(kernel, disk, work):
    """What the kernel and systemd said, and what the tests said."""
    initramfs = emulated_machine.make_initramfs(kernel, HERE / "guest_init", BOOT_MODULES, work)
    console, told = work / "console", work / "told"
    qemu = emulated_machine.command(kernel, initramfs, "systemd.show_status=error systemd.setenv=SYSTEMD_COLORS=0", "-drive", f"file={disk},format=raw,if=virtio,cache=unsafe",
                                    "-nic", "none", "-serial", f"file:{console}", "-serial", f"file:{told}", "-monitor", "none")
    late = ""
    try:
        done = subprocess.run(qemu, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=GUEST_SECONDS_MAX)
        late = done.stderr
    except subprocess.TimeoutExpired:
        late = f"the guest was stopped after {GUEST_SECONDS_MAX} s\n"
    words = [path.read_text(errors="replace") if path.exists() else "" for path in (console, told)]
    return words[0] + late, words[1]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    skip_without("debootstrap", "mkfs.ext4", "nsenter", "unshare", "g++", *emulated_machine.TOOLS)
    packages = built_packages(build)
    try:
        kernel = emulated_machine.fetch_kernel(build / "tests/kernels")
    except emulated_machine.NotPossible as why:
        skip(why)
    with tempfile.TemporaryDirectory(prefix="tessera_guest_") as work:
        work = pathlib.Path(work)
        root = FreshRoot()
        try:
            furnish(root, packages)
            disk = make_disk(root, work)
            if root.kept:
                strip(root)
        finally:
            root.close()
        console, told = boot(kernel, disk, work)
    print(told)
    if not re.search(r"^guest: all is well\s*$", told, re.MULTILINE):
        print(f"failed; the guest's console:\n{console}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
