#!/usr/bin/env python3
"""nvtop on the libnvidia-ml.so.1 of a server with an emulated device: what it shows, where it is installed (Debian: contrib, Ubuntu:
universe), and everywhere what it asks for.

usage: nvtop_test.py BUILD_DIRECTORY
"""

import ctypes
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import time
import unittest
from fcntl import ioctl
from termios import TIOCSWINSZ

from product import CLIENT, TESSERA, Server, environment, program

# What nvtop 3.0.1 looks up by name; of those that have a version it takes the newest that is there.
NAMES = """nvmlInit_v2 nvmlInit nvmlShutdown nvmlErrorString nvmlDeviceGetCount_v2 nvmlDeviceGetCount nvmlDeviceGetHandleByIndex_v2
nvmlDeviceGetHandleByIndex nvmlDeviceGetName nvmlDeviceGetPciInfo_v3 nvmlDeviceGetPciInfo_v2 nvmlDeviceGetPciInfo
nvmlDeviceGetMaxPcieLinkGeneration nvmlDeviceGetMaxPcieLinkWidth nvmlDeviceGetCurrPcieLinkGeneration nvmlDeviceGetCurrPcieLinkWidth
nvmlDeviceGetPcieThroughput nvmlDeviceGetClockInfo nvmlDeviceGetMaxClockInfo nvmlDeviceGetUtilizationRates nvmlDeviceGetMemoryInfo
nvmlDeviceGetFanSpeed nvmlDeviceGetTemperature nvmlDeviceGetTemperatureThreshold nvmlDeviceGetPowerUsage
nvmlDeviceGetEnforcedPowerLimit nvmlDeviceGetEncoderUtilization nvmlDeviceGetDecoderUtilization
nvmlDeviceGetGraphicsRunningProcesses nvmlDeviceGetComputeRunningProcesses nvmlDeviceGetProcessUtilization""".split()


def screen(command, seconds, wanted):
    """What a program wrote to its terminal, without colours and positions, until it has written `wanted`."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", LANG="C.UTF-8")
        os.execvp(command[0], command)
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    text, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                text += os.read(terminal, 65536)
            except OSError:  # it has ended
                break
        plain = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][0-9A-B]|\x1b[=>]", b" ", text).decode(errors="replace")
        if re.search(wanted, plain):
            break
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(terminal)
    return plain


class Nvtop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_what_it_asks_for_is_there(self):
        nvml = ctypes.CDLL(os.path.join(CLIENT, "libnvidia-ml.so.1"))
        self.assertEqual([name for name in NAMES if not hasattr(nvml, name)], [])

    @unittest.skipUnless(shutil.which("nvtop"), "nvtop is not installed")
    def test_what_it_shows(self):
        client = subprocess.Popen([TESSERA, "run", "--quiet", "--server", self.server.url, "--", program("spin")], stdout=subprocess.PIPE,
                                  env=environment())
        self.addCleanup(client.communicate)
        self.addCleanup(client.kill)
        self.assertEqual(client.stdout.readline(), b"spinning\n")
        row = rf"{client.pid} +\S+ +0 +Compute +\d+% +\d+MiB .*spin"
        shown = screen([TESSERA, "run", "--quiet", "--server", self.server.url, "--", "nvtop"], 20, row)
        self.assertRegex(shown, row)
        self.assertRegex(shown, r"Tessera emulated GPU \(software\)")
        self.assertRegex(shown, r"MEM.*?Gi/4\.000Gi")
        self.assertNotRegex(shown, "[Ee]rror|[Ww]arning")


if __name__ == "__main__":
    unittest.main()
