"""Other users of this host, for tests that root runs."""

import os
import subprocess

from product import CLIENT, TESSERA, end_with_test, environment

# Users and a group that no account has.
ALICE, BOB, CAROL, GROUP, NO_GROUP = 71001, 71002, 71003, 71010, 71011


def become(user, group=NO_GROUP):
    def change():
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    return change


def can_be_another():
    """Whether programs can be run as users without rights, from where they were built."""
    return os.geteuid() == 0 and subprocess.run([TESSERA, "--version"], stdout=subprocess.DEVNULL, preexec_fn=become(ALICE)).returncode == 0


def start_as(user, url, *words, stdout=subprocess.PIPE):
    """A program of this user, with the client library by itself."""
    client = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.PIPE, text=True, cwd="/", preexec_fn=become(user),
                              env=environment(TESSERA_SERVER=url, LD_LIBRARY_PATH=CLIENT, HOME="/nonexistent"))
    end_with_test(client)
    return client
