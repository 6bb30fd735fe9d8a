#!/usr/bin/env python3
"""No unit reaches itself by includes, nor does a folder. A unit is a .cc with its .h."""

import pathlib
import unittest

import sources

PRODUCT = ("client-stub", "server", "protocol", "programs", "scheduler", "netaware")

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
    def test_units(self):
        graph = units()
        self.assertGreater(len(graph), 400)
        self.assertEqual(sorted(in_circles(graph)), [], "these units include themselves, by way of others")

    def test_folders(self):
        self.assertEqual(sorted(in_circles(folders(units()))), [], "these folders include themselves, by way of others")

    def test_the_test_would_notice(self):
        self.assertEqual(in_circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}), {"b", "c"})
        self.assertEqual(in_circles({"a": {"b"}, "b": {"a", "x"}, "x": {"c"}, "c": {"d"}, "d": {"c"}}), {"a", "b", "c", "d"})
        self.assertEqual(in_circles({"a": {"b"}, "b": {"c"}, "c": set()}), set())


if __name__ == "__main__":
    unittest.main()
