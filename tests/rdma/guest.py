"""A machine with RDMA: Debian's kernel in QEMU, with the host's files and soft-RoCE on its network card.

The guest's / is the host's, read-only by 9p, so that what was built here runs there. It needs no KVM: it is slow, and its times
mean nothing.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))

import emulated_machine  # noqa: E402
from emulated_machine import NotPossible  # noqa: E402, F401

ADDRESS = "10.0.2.15"  # of the guest's network card: the first address of QEMU's user network
BOOT_MODULES = ("virtio_pci", "9pnet_virtio", "9p")


def run(command, cache, timeout_s, *kept):
    """Runs a shell command as root in the guest, and returns what it wrote and its exit code (None: it did not get that far).

    The guest has file systems of its own in /tmp, /var/tmp, /run and /dev; what of the host's is beneath them is there only where it lies
    in one of the directories `kept` or in `cache`.
    """
    emulated_machine.need("rdma", "ip")
    kernel = emulated_machine.fetch_kernel(cache)
    with tempfile.TemporaryDirectory() as work:
        texts = [("command", f"modules={shlex.quote(kernel)}\n{command}\n"), ("kept", "".join(f"{place}\n" for place in (cache, *kept)))]
        initramfs = emulated_machine.make_initramfs(kernel, os.path.join(HERE, "guest_init"), BOOT_MODULES, work, texts)
        qemu = emulated_machine.command(kernel, initramfs, "",
                                        "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
                                        "-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net")
        try:
            done = subprocess.run(qemu, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout_s)
            output = done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            output = (late.stdout or b"").decode(errors="replace") + f"\nthe guest was stopped after {timeout_s} s\n"
    ended = re.search(r"^guest: command ended with (\d+)", output, re.MULTILINE)
    return output, int(ended.group(1)) if ended else None
