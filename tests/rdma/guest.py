"""A machine with RDMA: Debian's kernel in QEMU, with the host's files and soft-RoCE on its network card.

The kernel is that of the package linux-image-amd64 depends on, downloaded with apt-get and unpacked into a cache; nothing is
installed. The guest's / is the host's, read-only by 9p, so that what was built here runs there. It needs no KVM: it is slow, and
its times mean nothing.
"""

import fcntl
import glob
import os
import re
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ADDRESS = "10.0.2.15"  # of the guest's network card: the first address of QEMU's user network

# What of the package's modules soft-RoCE, virtio and 9p need, directly and through others.
MODULE_FOLDERS = ("arch/x86/crypto", "crypto", "drivers/infiniband/core", "drivers/infiniband/sw", "drivers/net/net_failover.ko",
                  "drivers/net/virtio_net.ko", "drivers/virtio", "fs/9p", "fs/configfs", "fs/fscache", "fs/netfs", "lib", "net/9p", "net/core",
                  "net/ipv4", "net/ipv6")
# In this order: the guest has no modprobe before the host's / is there.
BOOT_MODULES = ("virtio_pci", "9pnet_virtio", "9p")
TOOLS = ("qemu-system-x86_64", "busybox", "cpio", "depmod", "modprobe", "rdma", "ip", "apt-get", "apt-cache", "dpkg")


class NotPossible(Exception):
    """Why there is no such guest on this machine."""


def check(words, **more):
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
    """Downloads and unpacks what is needed of the kernel, once; its folder."""
    package = kernel_package()
    folder = os.path.join(cache, package)
    if os.path.exists(folder):
        return folder
    with tempfile.TemporaryDirectory(dir=cache) as work:
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
        os.rename(made, folder)
    return folder


def make_initramfs(kernel, work):
    """What the kernel starts: busybox, the modules for virtio and 9p, and guest_init, which goes on in the host's /."""
    version = os.listdir(os.path.join(kernel, "lib/modules"))[0]
    root = os.path.join(work, "root")
    os.makedirs(os.path.join(root, "bin"))
    shutil.copy(shutil.which("busybox"), os.path.join(root, "bin"))
    shutil.copy(os.path.join(HERE, "guest_init"), os.path.join(root, "init"))
    files = []
    for name in BOOT_MODULES:
        for line in check(["modprobe", "-d", kernel, "-S", version, "--show-depends", name]).splitlines():
            words = line.split()
            if words[0] == "insmod" and words[1] not in files:
                files.append(words[1])
    os.mkdir(os.path.join(root, "modules"))
    for number, name in enumerate(files):
        shutil.copy(name, os.path.join(root, "modules", f"{number:02}.ko"))
    archive = os.path.join(work, "initramfs")
    with open(archive, "wb") as out:
        names = subprocess.run(["find", "."], cwd=root, capture_output=True, check=True).stdout
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, stdout=out, check=True)
    return archive


def run(command, cache, timeout_s):
    """Runs a shell command as root in the guest, and returns what it wrote and its exit code (None: it did not get that far)."""
    for tool in TOOLS:
        if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            raise NotPossible(f"{tool} is missing: deploy/install-dependencies installs it")
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, "lock"), "w") as lock, tempfile.TemporaryDirectory() as work:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kernel = fetch_kernel(cache)
        script = os.path.join(work, "command")
        with open(script, "w") as out:
            out.write(f"modules={kernel}\n{command}\n")
        qemu = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2048", "-nographic", "-no-reboot",
                "-kernel", glob.glob(os.path.join(kernel, "boot/vmlinuz-*"))[0], "-initrd", make_initramfs(kernel, work),
                "-append", f"console=ttyS0 quiet panic=-1 mitigations=off command={script}",
                "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
                "-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net"]
        try:
            done = subprocess.run(qemu, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout_s)
            output = done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            output = (late.stdout or b"").decode(errors="replace") + f"\nthe guest was stopped after {timeout_s} s\n"
    ended = re.search(r"^guest: command ended with (\d+)", output, re.MULTILINE)
    return output, int(ended.group(1)) if ended else None
