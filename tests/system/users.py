"""Other users of this host, for tests that root runs."""

import ctypes
import os
import subprocess

from product import CLIENT, TESSERA, end_with_test, environment

# Users and a group that no account has.
ALICE, BOB, CAROL, GROUP, NO_GROUP = 71001, 71002, 71003, 71010, 71011

# Numbers of capabilities(7).
SETGID, SETUID, SYS_ADMIN = 6, 7, 21
ALL = range(41)


def without(*capabilities):
    """For a process before it starts tesserad: root's programs lack these, as in containers."""
    def drop():
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in capabilities:
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
    return drop


def in_user_namespace():
    """As root of containers without root: no other user is there."""
    user, group = os.geteuid(), os.getegid()
    if ctypes.CDLL(None).unshare(0x10000000) != 0:  # CLONE_NEWUSER
        raise OSError("no user namespace")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def may_have_user_namespaces():
    """Whether the kernel lets programs have user namespaces of their own."""
    try:
        return subprocess.run(["true"], preexec_fn=in_user_namespace).returncode == 0
    except subprocess.SubprocessError:
        return False


def become(user, group=NO_GROUP):
    def change():
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    return change


def can_be_another():
    """Whether programs can be run as users without rights, from where they were built."""
    try:
        return os.geteuid() == 0 and subprocess.run([TESSERA, "--version"], stdout=subprocess.DEVNULL, preexec_fn=become(ALICE)).returncode == 0
    except PermissionError:
        return False


def start_as(user, url, *words, stdout=subprocess.PIPE):
    """A program of this user, with the client library by itself."""
    client = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.PIPE, text=True, cwd="/", preexec_fn=become(user),
                              env=environment(TESSERA_SERVER=url, LD_LIBRARY_PATH=CLIENT, HOME="/nonexistent"))
    end_with_test(client)
    return client
