#!/usr/bin/env python3
"""Who may include whom, and where each foreign library lives."""

import re
import unittest

import sources

# What every kind of link is made of.
LINK = [f"protocol/link/{name}" for name in ("link.h", "link_address.h", "link_listener.h", "link_options.h", "link_supply.h",
                                             "preamble.h", "resume_messages.h", "stream_link.h", "typed_address.h")]

# Folder of the including file -> prefixes of our own headers that it may include. The longest folder that matches counts.
OWN = {
    "protocol/base": ["protocol/base/"],
    "protocol/wire": ["protocol/base/", "protocol/wire/"],
    "protocol/memory": ["protocol/base/", "protocol/memory/"],
    "protocol/image": ["protocol/base/", "protocol/image/"],
    "protocol/channel": ["protocol/base/", "protocol/wire/", "protocol/channel/"],
    "protocol/link": ["protocol/base/", "protocol/wire/", "protocol/channel/", *LINK, "protocol/link/in_process_link.h"],
    "protocol/link/connect": ["protocol/base/", "protocol/link/"],
    "protocol/link/tls": ["protocol/base/", "protocol/channel/", *LINK, "protocol/link/tcp/", "protocol/link/tls/", "protocol/wire/holder.h"],
    "protocol/keeper": ["protocol/base/", "protocol/channel/", "protocol/keeper/"],
    "protocol/relay": ["protocol/base/", "protocol/channel/", "protocol/wire/", *LINK, "protocol/keeper/", "protocol/relay/"],
    "programs": ["protocol/base/", "protocol/link/link_options.h", "programs/"],
    "protocol/runtime": ["protocol/base/", "protocol/wire/", "protocol/runtime/"],
    "protocol/control": ["protocol/base/", "protocol/control/", "generated/control/"],
    "protocol/rpc": ["protocol/base/", "protocol/channel/", "protocol/wire/holder.h", *LINK, "protocol/link/tcp/tcp_stream.h", "protocol/link/tls/", "protocol/relay/strangers.h", "protocol/rpc/"],
    "protocol/node": ["protocol/base/", "protocol/wire/", "protocol/node/"],
    "protocol/ticket": ["protocol/base/", "protocol/wire/", "protocol/ticket/"],
    "client-stub": ["client-stub/", "protocol/base/", "protocol/wire/", "protocol/memory/", "protocol/image/", "protocol/channel/",
                    "protocol/runtime/", "generated/client", "generated/messages/", "generated/spec_hash.h"],
    "client-stub/agent": ["client-stub/agent/", "programs/", "protocol/", "server/sandbox/sandbox.h", "server/sandbox/service_sandbox.h", "generated/control/", "generated/spec_hash.h"],
    "server": ["server/", "protocol/", "generated/server", "generated/messages/", "generated/driver_", "generated/mock/",
               "generated/control/", "generated/spec_hash.h"],
    "server/gate": ["server/gate/", "protocol/base/", "protocol/wire/"],
    "server/broker": ["server/broker/", "server/gate/", "server/sandbox/", "server/usage/", "scheduler/", "programs/", "protocol/base/", "protocol/channel/", "protocol/wire/"],
    "server/broker/usage": ["server/broker/", "server/gate/", "server/usage/usage_line.h", "protocol/base/", "protocol/channel/", "protocol/wire/"],
    "server/broker/metrics": ["server/broker/", "scheduler/", "protocol/base/"],
    "server/broker/control": ["server/broker/", "server/gate/", "protocol/base/", "protocol/channel/", "protocol/wire/", "protocol/link/tls/", "protocol/rpc/", "generated/control/"],
    "server/holders": ["server/holders/", "protocol/base/"],
    "server/usage": ["server/usage/", "protocol/base/", "protocol/channel/", "protocol/wire/"],
    "server/shares": ["server/shares/", "server/holders/", "protocol/base/", "protocol/channel/"],
    "server/code_image": ["server/code_image/", "protocol/base/"],
    "server/images": ["server/images/", "protocol/base/", "protocol/image/", "protocol/channel/"],
    "server/worker": ["server/worker/", "server/driver/", "server/shares/", "server/images/", "server/code_image/", "server/gate/", "scheduler/", "protocol/base/",
                      "protocol/wire/", "protocol/memory/", "protocol/image/", "protocol/channel/", "protocol/runtime/", "generated/server", "generated/messages/",
                      "generated/driver_table.h", "generated/spec_hash.h"],
    "server/driver": ["server/driver/", "protocol/base/", "protocol/wire/", "protocol/runtime/",
                      "generated/driver_", "generated/mock/"],
    "server/emulator": ["server/emulator/", "server/device_page.h", "protocol/base/", "generated/driver_"],
    "scheduler": ["scheduler/", "protocol/base/"],
    "scheduler/simulate": ["scheduler/", "programs/completion.h", "programs/manual.h", "protocol/base/"],
    "netaware": ["netaware/", "scheduler/", "protocol/base/", "protocol/wire/", "protocol/link/", "protocol/control/",
                 "generated/control/"],
    "netaware/inventory": ["netaware/inventory/", "protocol/base/"],
    "netaware/grants": ["netaware/grants/", "netaware/inventory/", "netaware/placer/", "protocol/base/", "protocol/rpc/holder_shares.h",
                        "protocol/ticket/ticket.h"],
    "netaware/ledger": ["netaware/ledger/", "netaware/store/store.h", "protocol/base/", "protocol/ticket/", "protocol/wire/"],
    "netaware/identity": ["netaware/identity/", "protocol/base/", "protocol/link/link_options.h", "protocol/link/tls/key_files.h",
                          "protocol/link/tls/tls_certificate.h", "protocol/link/tls/tls_identity.h", "protocol/link/tls/tls_keys.h",
                          "protocol/rpc/rpc_client.h", "generated/control/"],
    "netaware/node": ["netaware/identity/", "netaware/ledger/", "netaware/node/", "netaware/store/", "programs/", "protocol/base/", "protocol/channel/", "protocol/keeper/helper.h",
                      "protocol/link/link_options.h", "protocol/link/typed_address.h", "protocol/link/tls/key_files.h", "protocol/link/tls/tls_certificate.h", "protocol/node/",
                      "protocol/rpc/", "protocol/ticket/", "protocol/wire/", "server/sandbox/sandbox.h", "server/sandbox/service_sandbox.h",
                      "generated/control/", "generated/spec_hash.h"],
    "netaware/placer": ["netaware/inventory/", "netaware/placer/", "protocol/base/"],
    "netaware/store": ["netaware/store/", "protocol/base/"],
    "netaware/vgpu": ["netaware/vgpu/", "protocol/base/"],
    "netaware/job": ["netaware/job/", "programs/config_lines.h", "programs/default_socket.h", "programs/settings_file.h", "protocol/base/", "protocol/link/typed_address.h"],
    "netaware/pool": ["netaware/pool/", "netaware/job/", "netaware/vgpu/usage_time.h", "protocol/base/"],
    "netaware/service": ["netaware/service/", "netaware/grants/", "netaware/inventory/", "netaware/placer/", "netaware/store/",
                         "programs/", "protocol/base/", "protocol/wire/", "protocol/ticket/", "protocol/rpc/", "protocol/channel/unix_socket.h",
                         "protocol/keeper/helper.h", "protocol/link/", "server/sandbox/capabilities.h", "server/sandbox/sandbox.h",
                         "server/sandbox/service_sandbox.h", "generated/control/"],
    "netaware/lease": ["netaware/lease/", "netaware/job/", "netaware/cli/exit_codes.h", "programs/", "protocol/base/", "protocol/wire/holder.h",
                       "protocol/rpc/request_id.h", "protocol/rpc/rpc_client.h", "protocol/link/link_options.h", "generated/control/"],
    "netaware/admin": ["netaware/admin/", "netaware/identity/", "netaware/vgpu/", "netaware/pool/", "netaware/job/", "netaware/cli/exit_codes.h", "programs/repeated_view.h", "programs/service_options.h", "protocol/base/",
                       "protocol/wire/holder.h", "protocol/link/link_address.h", "protocol/link/typed_address.h", "protocol/rpc/request_id.h", "protocol/rpc/rpc_client.h", "generated/control/"],
    "netaware/trace": ["netaware/trace/", "protocol/base/"],
    "netaware/cli": ["netaware/cli/", "netaware/trace/", "netaware/vgpu/", "netaware/pool/", "netaware/job/", "protocol/base/", "protocol/wire/", "protocol/channel/", "programs/",
                     "protocol/link/impaired/impaired_link.h", "protocol/link/link_address.h", "protocol/link/link_options.h", "protocol/link/typed_address.h",
                     "protocol/link/tls/tls_certificate.h", "protocol/link/tls/tls_identity.h", "protocol/link/tls/tls_keys.h", "protocol/ticket/ticket_keys.h",
                     "protocol/runtime/stub_note.h", "protocol/memory/window_table.h", "protocol/control/", "generated/control/", "generated/spec_hash.h"],
}

# What the worker's core stands on.
for folder, below in (("threads", ()), ("gate", ("threads",))):
    OWN[f"server/worker/{folder}"] = [prefix for prefix in OWN["server/worker"] if prefix != "server/worker/"] + \
                                     [f"server/worker/{name}/" for name in (folder, *below)]

OWN["server/daemon/readings"] = [*(prefix for prefix in OWN["server"] if prefix != "server/"), "server/daemon/readings/", "server/gate/", "server/driver/",
                                 "server/emulator/", "server/device_page.h"]

OWN["server/daemon/children"] = [*(prefix for prefix in OWN["server"] if prefix != "server/"), "server/daemon/children/", "server/worker/room_maker.h",
                                 "programs/service_options.h"]

# Kinds of links do not know each other, but for the connections of TCP.
for folder in sorted(path.name for path in (sources.ROOT / "protocol/link").iterdir() if path.is_dir()):
    OWN.setdefault(f"protocol/link/{folder}", ["protocol/base/", "protocol/channel/", *LINK, "protocol/link/tcp/", f"protocol/link/{folder}/"])

for program in ("daemon", "gateway"):
    OWN[f"server/{program}"] = [*OWN["server"], "programs/"]

# Rooms of the client library, from the ground up: each includes rooms before it in this list, and none behind it.
ROOMS = ("process", "session", "streams", "sharing", "memory", "code", "call", "transfers", "managed", "device_work", "graphs", "copies", "servers",
         "hidden_tables", "calls", "root")
for number, room in enumerate(ROOMS):
    OWN[f"client-stub/{room}"] = [prefix for prefix in OWN["client-stub"] if prefix != "client-stub/"] + \
                                 [f"client-stub/{name}/" for name in ROOMS[:number + 1]]

# Folders of the emulated driver, from the ground up -> folders below that they include.
EMULATED_DRIVER = {
    "base": [],
    "device": ["base"],
    "core": ["base", "device"],
    "memory": ["base", "device", "core"],
    "code": ["base", "device", "core", "memory"],
    "graphs": ["base", "device", "core", "memory", "code"],
}
for folder, below in EMULATED_DRIVER.items():
    OWN[f"server/emulator/driver/{folder}"] = ["protocol/base/", "server/device_page.h", "server/code_image/", "server/emulator/ptx/",
                                               *(f"server/emulator/driver/{name}/" for name in (folder, *below))]

# Header of a foreign library -> files that may include it. Tests may include anything.
FOREIGN = {
    r"cuda\.h|cuda\w*Typedefs\.h|cudaProfiler\.h": r"client-stub/|server/(driver|worker|emulator)/|protocol/runtime/|deploy/demo/",
    r"cuda_runtime.*|cu(blas|fft|dnn|solver|sparse|rand).*": r"deploy/demo/",
    r"nvml\.h": r"client-stub/nvml/",
    r"uc[pst]/.*": r"protocol/link/ucx/",
    r"CLI/.*": r"programs/|netaware/cli/(main|\w+_command_line)\.cc|netaware/(vgpu|trace|pool|job)/|netaware/admin/main\.cc|scheduler/simulate/main\.cc",
    r"openssl/.*": r"protocol/link/tls/|protocol/image/|protocol/ticket/ticket_keys\.cc|netaware/service/placer_core\.cc",
    r"spdlog/.*": r"protocol/base/log\.",
    r"fmt/(?!core\.h).*": r"protocol/base/fmt\.",  # seconds of compilation each
    r"google/protobuf/.*|grpc.*|.*\.pb\.h": r"server/broker/control/|netaware/(admin|identity|lease|node|service)/|protocol/rpc/",
    r"prometheus/.*": r"server/broker/metrics/",
    r"sqlite3\.h": r"server/usage/usage_store\.cc|netaware/store/",
    r"etcd/.*": r"netaware/store/",
    r"toml\+\+/.*": r"server/broker/vgpu_file_toml\.cc|netaware/service/roles\.cc",
    r"seccomp\.h": r"server/sandbox/make_call_programs\.cc",
    r"dlfcn\.h": r"protocol/link/ucx/ucx_library\.cc|server/driver/(loader|nvml)\.cc|server/emulator/driver/|client-stub/",
}

# Parts of a folder that nobody else includes -> that folder.
INNER = {
    r"protocol/link/impaired/(?!impaired_link\.h).*": "protocol/link/impaired/",
    r"server/emulator/.*": "server/emulator/",
    r"server/worker/root/.*": "server/worker/root/",
    r"server/broker/root/.*": "server/broker/root/",
    r"server/broker/control/.*": "server/broker/",
    r"server/broker/metrics/.*": "server/broker/",
    r"server/broker/usage/.*": "server/broker/",
}

OUR_FOLDERS = ("protocol/", "programs/", "client-stub/", "server/", "scheduler/", "netaware/", "generated/", "tests/", "deploy/")


def allowed_prefixes(path):
    folders = [folder for folder in OWN if str(path).startswith(folder + "/")]
    return OWN[max(folders, key=len)] if folders else None


class IncludeRules(unittest.TestCase):
    def check(self, violates):
        found, files = [], 0
        for path in sources.source_files("protocol", "programs", "client-stub", "server", "scheduler", "netaware", "deploy"):
            files += 1
            for line, name in sources.includes(path):
                if why := violates(path, name):
                    found.append(f"{path}:{line}: includes {name}: {why}")
        self.assertGreater(files, 10)
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_own_headers(self):
        def violates(path, name):
            prefixes = allowed_prefixes(path)
            if prefixes is None or not name.startswith(OUR_FOLDERS):
                return None
            if any(name.startswith(prefix) for prefix in prefixes):
                return None
            return "this folder may include " + ", ".join(prefixes)
        self.check(violates)

    def test_every_room_has_its_place(self):
        rooms = {path.parts[1] for path in sources.source_files("client-stub")} - {"agent", "nvml"}
        self.assertEqual(rooms, set(ROOMS))

    def test_inner_headers(self):
        def violates(path, name):
            for header, home in INNER.items():
                if re.fullmatch(header, name) and not str(path).startswith(home):
                    return f"only {home} includes that"
            return None
        self.check(violates)

    def test_foreign_headers(self):
        def violates(path, name):
            for header, home in FOREIGN.items():
                if re.fullmatch(header, name) and not re.match(home, str(path)):
                    return f"that library lives in {home}"
            return None
        self.check(violates)

    def test_headers_are_included_from_the_root(self):
        def violates(path, name):
            if (sources.ROOT / path).parent.joinpath(name).is_file() and not (sources.ROOT / name).is_file():
                return "write the path from the repository's root"
            return None
        self.check(violates)

    def test_the_rules_would_notice(self):
        self.assertNotIn("server/", allowed_prefixes("client-stub/calls/event.cc"))
        self.assertNotIn("client-stub/calls/", allowed_prefixes("client-stub/memory/host_memory.h"))
        self.assertEqual(allowed_prefixes("protocol/channel/ring.h"), OWN["protocol/channel"])
        self.assertEqual(allowed_prefixes("server/worker/worker.h"), OWN["server/worker"])


if __name__ == "__main__":
    unittest.main()
