#!/usr/bin/env python3
"""No unit reaches itself by includes, nor does a folder. A unit is a .cc with its .h.

What is still in a circle is listed. A circle with anybody else fails, and so does a list that names somebody who is in none.
"""

import pathlib
import unittest

import sources

PRODUCT = ("client-stub", "server", "protocol", "scheduler", "netaware")

UNITS_IN_CIRCLES = set("""
client-stub/call/call
client-stub/code/blob
client-stub/code/image_load
client-stub/code/kernel_params
client-stub/copies/copy_box
client-stub/copies/copy_bytes
client-stub/copies/copy_in_order
client-stub/copies/staged_transfer
client-stub/graphs/device_graphs
client-stub/graphs/graph_nodes
client-stub/graphs/graph_shadow
client-stub/managed/managed_memory
client-stub/managed/managed_work
client-stub/managed/page_transfers
client-stub/memory/address_reservations
client-stub/memory/client_memory
client-stub/memory/deliveries
client-stub/memory/host_allocations
client-stub/memory/host_mirrors
client-stub/memory/host_pool
client-stub/memory/host_pools
client-stub/memory/memory_check
client-stub/memory/shadow_pool
client-stub/memory/staging
client-stub/process/statistics
client-stub/process/trace
client-stub/servers/address_owner
client-stub/servers/copy_across
client-stub/servers/library_copies
client-stub/servers/server_work
client-stub/session/client
client-stub/session/context
client-stub/session/context_scope
client-stub/session/deferred_errors
client-stub/session/host_function_thread
client-stub/session/mark_table
client-stub/session/poll_table
client-stub/session/server_plan
client-stub/session/session
client-stub/session/thread_state
client-stub/streams/capture_check
client-stub/streams/helper_streams
client-stub/streams/host_functions
client-stub/streams/idle_streams
client-stub/streams/stream_meeting
client-stub/streams/stream_state
client-stub/streams/stream_visit
protocol/link/tls/tls_handshake
protocol/link/tls/tls_identity
protocol/link/tls/tls_words
server/emulator/driver/core/kernel_command
server/emulator/driver/core/state
server/emulator/driver/core/stream
server/emulator/driver/graphs/device_graphs
server/emulator/driver/graphs/graph
server/emulator/driver/memory/memory_table
server/worker/answer_hub
server/worker/aside_executor
server/worker/call_context
server/worker/completion
server/worker/done_words
server/worker/driver_thread
server/worker/event_cache
server/worker/executor
server/worker/printf_flag
server/worker/reply_writer
server/worker/worker
""".split())

FOLDERS_IN_CIRCLES = set("""
client-stub/call
client-stub/code
client-stub/copies
client-stub/graphs
client-stub/managed
client-stub/memory
client-stub/process
client-stub/servers
client-stub/session
client-stub/streams
server/emulator/driver/core
server/emulator/driver/graphs
server/emulator/driver/memory
server/worker/memory
server/worker/streams
""".split())


def units():
    """unit -> the units that it includes."""
    known = {str(path.with_suffix("")) for path in sources.source_files(*PRODUCT)}
    graph = {unit: set() for unit in known}
    for path in sources.source_files(*PRODUCT):
        unit = str(path.with_suffix(""))
        included = {str(pathlib.PurePath(name).with_suffix("")) for _, name in sources.includes(path) if name.endswith(".h")}
        graph[unit] |= included & known - {unit}
    return graph


def folders(unit_graph):
    graph = {}
    for unit, included in unit_graph.items():
        folder = str(pathlib.PurePath(unit).parent)
        graph.setdefault(folder, set()).update(str(pathlib.PurePath(name).parent) for name in included)
    return {folder: included - {folder} for folder, included in graph.items()}


def in_circles(graph):
    """The nodes that reach themselves."""
    # What includes nobody who is left is in no circle, and what nobody who is left includes is in none: both go, until neither is there.
    left = {node: set(included) for node, included in graph.items()}
    while True:
        used = set().union(*left.values()) if left else set()
        gone = {node for node, included in left.items() if not included & left.keys() or node not in used}
        if not gone:
            break
        left = {node: included - gone for node, included in left.items() if node not in gone}
    # What lies between two circles is left: only who reaches itself counts.
    return {node for node in left if reaches(left, node)}


def reaches(graph, node):
    seen, to_see = set(), set(graph[node])
    while to_see:
        seen |= to_see
        to_see = set().union(*(graph.get(other, set()) for other in to_see)) - seen
    return node in seen


class NoCircles(unittest.TestCase):
    def check(self, found, known, what):
        self.assertEqual(sorted(found - known), [], f"these {what} include themselves, by way of others")
        self.assertEqual(sorted(known - found), [], f"these {what} are in no circle any more: take them off the list")

    def test_units(self):
        graph = units()
        self.assertGreater(len(graph), 400)
        self.check(in_circles(graph), UNITS_IN_CIRCLES, "units")

    def test_folders(self):
        self.check(in_circles(folders(units())), FOLDERS_IN_CIRCLES, "folders")

    def test_the_test_would_notice(self):
        self.assertEqual(in_circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}), {"b", "c"})
        self.assertEqual(in_circles({"a": {"b"}, "b": {"a", "x"}, "x": {"c"}, "c": {"d"}, "d": {"c"}}), {"a", "b", "c", "d"})
        self.assertEqual(in_circles({"a": {"b"}, "b": {"c"}, "c": set()}), set())


if __name__ == "__main__":
    unittest.main()
