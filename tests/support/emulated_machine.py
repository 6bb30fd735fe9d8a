"""A machine in QEMU that runs Debian's kernel: what tests/rdma and tests/deploy/guest_test.py have in common.

The kernel is that of the package linux-image-amd64 depends on, downloaded with apt-get and unpacked into a cache; nothing is
installed. It needs no KVM: it is slow, and its times mean nothing.
"""

import fcntl
import glob
import os
import re
import shutil
import subprocess
import tempfile

# What of the package's modules virtio, 9p, ext4 and soft-RoCE need, directly and through others.
MODULE_FOLDERS = ("arch/x86/crypto", "crypto", "drivers/block/virtio_blk.ko", "drivers/infiniband/core", "drivers/infiniband/sw",
                  "drivers/net/net_failover.ko", "drivers/net/virtio_net.ko", "drivers/virtio", "fs/9p", "fs/configfs", "fs/ext4", "fs/fscache",
                  "fs/jbd2", "fs/mbcache.ko", "fs/netfs", "lib", "net/9p", "net/core", "net/ipv4", "net/ipv6")
TOOLS = ("qemu-system-x86_64", "busybox", "cpio", "depmod", "modprobe", "apt-get", "apt-cache", "dpkg")


class NotPossible(Exception):
    """Why there is no such machine here."""


def need(*tools):
    """Raises NotPossible where one of them is missing."""
    for tool in tools:
        if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            raise NotPossible(f"{tool} is missing: deploy/install-dependencies installs it")


def check(words, **more):
    """What the command writes; NotPossible when it fails."""
    done = subprocess.run(words, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise NotPossible(f"{' '.join(words[:3])} failed: {done.stderr.strip()[-300:]}")
    return done.stdout


def kernel_package():
    """The name changes with every security update."""
    found = re.search(r"Depends: (linux-image-\S+-amd64)\n", check(["apt-cache", "depends", "linux-image-amd64"]))
    if not found:
        raise NotPossible("apt knows no package linux-image-amd64: this is no Debian, or apt-get update was never run")
    return found.group(1)


def fetch_kernel(cache):
    """Downloads and unpacks what is needed of the kernel, once; its folder in `cache`, which is made."""
    need(*TOOLS)
    package = kernel_package()
    folder = os.path.join(cache, package)
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(folder):
            with tempfile.TemporaryDirectory(dir=cache) as work:
                os.rename(unpack_kernel(package, work), folder)
    return folder


def unpack_kernel(package, work):
    check(["apt-get", "download", package], cwd=work, timeout=60)
    archive = glob.glob(os.path.join(work, "*.deb"))[0]
    made = os.path.join(work, "made")
    os.mkdir(made)
    wanted = ["./boot/vmlinuz-*", "./lib/modules/*/modules.builtin*", "./lib/modules/*/modules.order"]
    wanted += [f"./lib/modules/*/kernel/{name}*" for name in MODULE_FOLDERS]
    unpack = subprocess.Popen(["dpkg", "--fsys-tarfile", archive], stdout=subprocess.PIPE)
    check(["tar", "-C", made, "-x", "--wildcards", *wanted], stdin=unpack.stdout)
    unpack.stdout.close()
    unpack.wait()
    check(["depmod", "-b", made, package[len("linux-image-"):]])
    return made


def make_initramfs(kernel, init, modules, work, texts=()):
    """What the kernel starts, as a file in `work`: busybox, `modules` as /modules/NN.ko in the order in which they are loaded (there is
    no modprobe yet), `init`, a script that is the first process, and `texts`: pairs of the name of a file in / and what it contains."""
    version = os.listdir(os.path.join(kernel, "lib/modules"))[0]
    root = os.path.join(work, "root")
    os.makedirs(os.path.join(root, "bin"))
    shutil.copy(shutil.which("busybox"), os.path.join(root, "bin"))
    shutil.copy(init, os.path.join(root, "init"))
    files = []
    for name in modules:
        for line in check(["modprobe", "-d", kernel, "-S", version, "--show-depends", name]).splitlines():
            file = re.match(r"insmod (.*\.ko\S*)", line)
            if file and file.group(1) not in files:
                files.append(file.group(1))
    os.mkdir(os.path.join(root, "modules"))
    for number, name in enumerate(files):
        shutil.copy(name, os.path.join(root, "modules", f"{number:02}.ko"))
    for name, text in texts:
        with open(os.path.join(root, name), "w") as out:
            out.write(text)
    archive = os.path.join(work, "initramfs")
    with open(archive, "wb") as out:
        names = subprocess.run(["find", "."], cwd=root, capture_output=True, check=True).stdout
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, stdout=out, check=True)
    return archive


def command(kernel, initramfs, append, *more):
    """The words that start QEMU: two processors, no screen; it ends when the machine is switched off or wants to start anew."""
    return ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2048", "-nographic", "-no-reboot",
            "-kernel", glob.glob(os.path.join(kernel, "boot/vmlinuz-*"))[0], "-initrd", initramfs,
            "-append", f"console=ttyS0 quiet panic=-1 mitigations=off {append}", *more]
