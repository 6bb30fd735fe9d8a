"""A Slurm cluster of one node, this machine, seen by nobody else: the distribution's Slurm, in namespaces with a network, an /etc and a /usr of
their own, where the packages `tessera` and `tessera-placer` are installed by CMake's rules. For slurm_pages_test.py.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

NEEDED = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "unshare", "nsenter", "setpriv", "ip")
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
ADDRESS = "10.78.0.1"
# No account of this machine has it.
ALICE = 72000 + os.getpid() % 20000

# The node says of itself that it has more cores than there may be.
SETTINGS = """ClusterName=tessera
SlurmctldHost=node1
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
StateSaveLocation={work}/state
SlurmdSpoolDir={work}/spool
SlurmctldLogFile={work}/slurmctld.log
SlurmdLogFile={work}/slurmd.log
"""
NODES = """
NodeName=node1 CPUs=16
PartitionName=all Nodes=ALL Default=YES State=UP
"""

# Addresses of lo alone are no addresses to getaddrinfo() (AI_ADDRCONFIG). munged wants a directory that is its user's.
START = """set -e
for place in etc usr; do mount -t overlay overlay -o lowerdir=/$place,upperdir={work}/upper/$place,workdir={work}/overlay/$place /$place; done
mount -t tmpfs tmpfs /run
mkdir -p /etc/slurm
cp {work}/slurm.conf /etc/slurm/
hostname node1
ip link set lo up
ip addr add {address}/32 dev lo
echo '{address} node1 {names}' > /etc/hosts
echo 'alice:x:{alice}:{alice}::{home}:/bin/bash' >> /etc/passwd
echo 'alice:x:{alice}:' >> /etc/group
install -d -o munge -m 755 /run/munge
install -d -o munge -m 700 {work}/munge
head -c 1024 /dev/urandom > /etc/munge/munge.key
chown munge: /etc/munge /etc/munge/munge.key
chmod 400 /etc/munge/munge.key
setpriv --reuid=munge --regid=munge --clear-groups munged --log-file={work}/munge/log --seed-file={work}/munge/seed --pid-file={work}/munge/pid
slurmctld
slurmd
echo ready
exec sleep 3600
"""


def missing():
    """The programs that a cluster needs and this machine lacks."""
    return [name for name in NEEDED if shutil.which(name, path=SYSTEM_PATH) is None]


class Cluster:
    """`settings`: lines of slurm.conf besides; `home`: Alice's; `names`: hosts that this machine is called there too. A context manager."""

    def __init__(self, build, settings, home, *names):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="tessera_slurm_"))
        os.chmod(self.work, 0o711)
        for name in ("upper/etc", "upper/usr", "overlay/etc", "overlay/usr", "state", "spool"):
            (self.work / name).mkdir(parents=True)
        for package in ("tessera", "tessera-placer"):
            subprocess.run(["cmake", "--install", build, "--component", package, "--prefix", "/usr"], check=True, stdout=subprocess.DEVNULL,
                           env={**os.environ, "DESTDIR": str(self.work / "upper")})
        (self.work / "slurm.conf").write_text(SETTINGS.format(work=self.work) + settings + NODES)
        script = START.format(work=self.work, address=ADDRESS, names=" ".join(names), alice=ALICE, home=home)
        # What is started there ends with the first process of its process namespace.
        self._first = subprocess.Popen(["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script],
                                       env={"PATH": SYSTEM_PATH}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        if self._first.stdout.readline() != "ready\n":
            said = self.words()
            self.__exit__()
            raise AssertionError(f"the cluster does not start\n{said}")
        return self

    def __exit__(self, *_):
        self._first.kill()
        self._first.communicate()
        shutil.rmtree(self.work)

    def words(self):
        """What Slurm's daemons have logged."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.work.glob("*.log")))

    def inside(self, user=0):
        """The words that run a command there."""
        # unshare(1) waits for the first process there, which has forked it.
        with open(f"/proc/{self._first.pid}/task/{self._first.pid}/children", encoding="ascii") as children:
            first = children.read().split()[0]
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        return ["nsenter", f"--target={first}", "--mount", "--net", "--uts", "--pid", "--wd=.", "--", *become]
