"""What strangers, users of the host, tenants and a server that was taken over do to the services of a pool. Each flood is a process that
goes on until stop(). The pool that they flood is a `Field` of flood.py.
"""

import ctypes
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import time
import uuid

TESTS = pathlib.Path(__file__).resolve().parent.parent
for folder in ("system", "system/pool", "support"):
    sys.path.append(str(TESTS / folder))

import control_flood  # noqa: E402
from control_flood import BEGIN, begin_call, call, field, say  # noqa: E402
from pool_others_test import Crowd, be_idle, say_parts, wait_with_many  # noqa: E402
from product import end_with_test, environment  # noqa: E402
from users import ALICE, BOB, can_be_another  # noqa: E402

# A crowd counts as work of other machines, as far as that can be: what is measured has the processor before it.
NICE = 10
GPUS_OF_A_GHOST = 64
# Of hosts in documentation (RFC 5737).
FAR_ADDRESSES = [f"198.51.100.{number}" for number in range(1, 17)]


def far_addresses():
    """From now on this process and its children have a network of their own, in which these addresses are theirs: who floods is of another
    host than who works. None where that cannot be had: then all of them are of this host."""
    if os.geteuid() != 0 or shutil.which("ip") is None or ctypes.CDLL(None).unshare(0x40000000) != 0:  # CLONE_NEWNET
        return []
    commands = "link set lo up\n" + "".join(f"address add {address}/32 dev lo\n" for address in FAR_ADDRESSES)
    subprocess.run(["ip", "-batch", "-"], input=commands, text=True, check=True)
    return FAR_ADDRESSES


def address_of(url):
    host, port = url.removeprefix("tls://").rsplit(":", 1)
    return host, int(port)


class FarCrowd(Crowd):
    """As Crowd, at a port of tls://, from one address; with the files of `keys` each connection has proved that name before more is done
    with it. `facts`: what the work wants to know."""

    def __init__(self, url, work, address, keys=None, **facts):
        self.context, self.address, self.facts = None, address, facts
        if keys:
            self.context = ssl.create_default_context(cafile=f"{keys}/authority.pem")
            self.context.load_cert_chain(f"{keys}/certificate.pem", f"{keys}/key.pem")
            self.context.set_alpn_protocols(["h2"])
        super().__init__(None, address_of(url), work)

    def run(self, user):
        os.nice(NICE)
        super().run(user)

    def connect(self):
        peer = socket.socket()
        try:
            if self.address:
                peer.setsockopt(socket.IPPROTO_IP, socket.IP_BIND_ADDRESS_NO_PORT, 1)
                peer.bind((self.address, 0))
            if self.context is None:
                peer.setblocking(False)
                peer.connect_ex(self.path)
                return peer
            peer.settimeout(5)
            peer.connect(self.path)
            proved = self.context.wrap_socket(peer, server_hostname=self.path[0])
            proved.setblocking(False)
            return proved
        except OSError:
            peer.close()
            return None


def left(peer):
    """As product.closed(), also under TLS, with all that has come read."""
    try:
        while peer.recv(65536):
            pass
        return True
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return False
    except OSError:
        return True


def send(peer, words):
    try:
        peer.send(words)
    except OSError:
        pass


def renew(crowd, connections, count, words=b""):
    """Those that were ended are made again, until there are `count`; each begins with these words."""
    for peer in [peer for peer in connections if left(peer)]:
        connections.remove(peer)
        peer.close()
    while len(connections) < count and crowd.going_on.value:
        peer = crowd.connect()
        if peer is None:
            return
        connections.append(peer)
        send(peer, words)


def come_and_say(crowd, connections, words):
    """So many newcomers, some 18 times a second; those that came a while before go."""
    for peer in connections[:-600]:
        peer.close()
    del connections[:-600]
    newcomers = [peer for peer in (crowd.connect() for _ in range(crowd.facts["newcomers"])) if peer]
    connections += newcomers
    if words:
        time.sleep(0.02)  # until they are connected
        for peer in newcomers:
            send(peer, words(crowd))


def be_silent(crowd, connections):
    come_and_say(crowd, connections, None)


def say_garbage(crowd, connections):
    come_and_say(crowd, connections, lambda _: os.urandom(64))


def say_half_a_hello(crowd, connections):
    """Of TLS: the rest never comes."""
    come_and_say(crowd, connections, lambda _: b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + bytes(2000))


def watch_events(crowd, connections):
    """64 connections, each with as many watches as it may have, of which nobody ever reads what they tell."""
    renew(crowd, connections, 64, BEGIN + b"".join(call(2 * i + 1, "EventService/WatchEvents", b"") for i in range(60)))
    time.sleep(0.2)


def watch_vgpus(crowd, connections):
    renew(crowd, connections, 64, BEGIN + b"".join(call(2 * i + 1, "VgpuService/Watch", b"") for i in range(16)))
    time.sleep(0.2)


def ask_what_never_fits(crowd, connections):
    """A few connections with some hundred asks a second."""
    for peer in connections:
        peer.close()
    connections.clear()
    asks = b"".join(call(2 * i + 1, "PlacementService/Place", field(1, f"{crowd.rounds.value}-{i}") + field(2, 64)) for i in range(60))
    renew(crowd, connections, 4, BEGIN + asks)
    time.sleep(0.15)


def ghost(name, number, addresses, gpus):
    """What a node says first: a server with GPUs that are nowhere."""
    rows = b"".join(field(3, field(1, gpu) + field(2, "Ghost") + field(3, 80 << 30)) for gpu in gpus)
    others = b"".join(field(1, b"") for _ in gpus)
    return field(1, field(1, name) + b"".join(field(2, address) for address in addresses) + rows + field(4, f"ghost {number}") +
                 field(5, others) + field(6, "nowhere"))


def be_ghosts(crowd, connections):
    """A server of the pool registers others, with new names and with that of one that is there, with new GPUs and with another's."""
    facts = crowd.facts
    for peer in [peer for peer in connections if left(peer)]:
        connections.remove(peer)
        peer.close()
    while len(connections) < 32 and crowd.going_on.value:
        peer = crowd.connect()
        if peer is None:
            return
        connections.append(peer)
        number = facts["count"] = facts.get("count", 0) + 1
        name = facts["server"] if number % 3 == 0 else f"ghost-{number}"
        gpus = facts["gpus"] if number % 4 == 0 else [f"GPU-{uuid.uuid4()}" for _ in range(GPUS_OF_A_GHOST)]
        send(peer, BEGIN + begin_call(1, "NodeService/Attach") + say(1, ghost(name, number, facts["addresses"], gpus)))
    beat = say(1, field(2, b"".join(field(1, b"") for _ in range(GPUS_OF_A_GHOST))))
    for peer in connections[::2]:
        send(peer, beat)
    for peer in connections[:4]:  # they leave, others come
        peer.close()
    del connections[:4]
    time.sleep(0.3)


class Program:
    """control_flood.py with a certificate."""

    def __init__(self, *words):
        self.process = subprocess.Popen([sys.executable, control_flood.__file__, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment(), preexec_fn=lambda: os.nice(NICE))
        end_with_test(self.process)
        assert self.process.stdout.readline() == "begins\n"

    def stop(self):
        self.process.communicate(timeout=60)


class NearCrowd(Crowd):
    """Of a user of this host."""

    def run(self, user):
        os.nice(NICE)
        super().run(user)


def kinds(pool, addresses, newcomers, choices):
    """By name: what begins a flood of that kind, from one of these addresses, chosen by `choices`; so many strangers come at a time."""
    far = lambda url, work, keys=None, **facts: lambda: FarCrowd(url, work, choices.choice(addresses or [None]), keys, **facts)
    ports = {"placer": pool.placer_url, "gateway": pool.gateway_url, "control API": pool.control_url}
    found = {f"strangers who {what}, at the {where}": far(url, work, newcomers=newcomers) for where, url in ports.items()
             for what, work in (("say nothing", be_silent), ("say garbage", say_garbage), ("say half a hello", say_half_a_hello))}
    mallory, taken_over = pool.keys.of("client", "mallory"), pool.keys.of("client", "taken-over")
    found |= {
        "a tenant with many jobs that wait": far(pool.placer_url, wait_with_many, mallory),
        "a tenant with watches, at the placer": far(pool.placer_url, watch_events, mallory),
        "a tenant with watches, at the control API": far(pool.control_url, watch_vgpus, mallory),
        "a tenant who asks for what never fits": far(pool.placer_url, ask_what_never_fits, mallory),
        "a tenant who does three things, at the placer": lambda: Program("--placer", pool.placer_url, mallory),
        "a tenant who does three things, at the control API": lambda: Program(pool.control_url, mallory),
        "a server that registers ghosts": far(pool.placer_url, be_ghosts, taken_over, server=pool.server_name, gpus=pool.gpus,
                                             addresses=["tls://127.0.0.1:1"]),
    }
    if can_be_another():
        near = lambda user, work: lambda: NearCrowd(user, pool.local_path, work)
        found |= {
            "nobody with idle connections": near(BOB, be_idle),
            "nobody with parts of calls": near(BOB, say_parts),
            "a user of the host with many jobs that wait": near(ALICE, wait_with_many),
        }
    return found
