#!/usr/bin/env python3
"""What pairs of measurements decide."""
import random
import unittest

import pairs


def around(value, spread, count=24, seed=7):
    draw = random.Random(seed)
    return [value + draw.uniform(-spread, spread) for _ in range(count)]


def judge(values, same=None, bar=1.01, same_value=1, width=0.02):
    return pairs.judge(values, around(same_value, 0.001, seed=8) if same is None else same, bar, same_value, width)


class Pairs(unittest.TestCase):
    def test_what_drifts_counts_for_both(self):
        clock = iter(range(1, 100))

        def way():
            now = next(clock)
            return {"row": now, "first": now} if now == 1 else {"row": now}

        self.assertEqual(pairs.in_turns(way, way), {"row": (2.5, 2.5)})
        self.assertEqual(pairs.ratio((2, 3)), 1.5)
        self.assertEqual(pairs.difference((2, 3)), 1)

    def test_the_same_values_have_the_same_interval(self):
        values = around(1, 0.1)
        low, high = pairs.interval(values)
        self.assertEqual((low, high), pairs.interval(values))
        self.assertTrue(min(values) < low < high < max(values))
        self.assertEqual(pairs.interval([3] * 20), (3, 3))

    def test_an_interval_has_the_median_in_it_nearly_always(self):
        inside = 0
        for seed in range(100):
            low, high = pairs.interval(around(5, 1, seed=seed), seed)
            inside += low <= 5 <= high
        self.assertGreaterEqual(inside, 88)

    def test_it_passes(self):
        for value in (0.9, 1.0, 1.008):
            found = judge(around(value, 0.004))
            self.assertEqual((found["verdict"], found["why"]), (pairs.PASS, ""))
            self.assertAlmostEqual(found["figure"], value, delta=0.004)
        self.assertEqual(judge([0.15] * 24, [0.0] * 24, bar=0.2, same_value=0, width=0.2)["verdict"], pairs.PASS)
        # Which side of the bar it is on is not known, and it is at the bar or below as far as that goes.
        self.assertEqual(judge(around(1.0105, 0.004))["verdict"], pairs.PASS)

    def test_it_misses(self):
        self.assertEqual(judge(around(1.03, 0.004))["verdict"], pairs.MISSED)
        self.assertEqual(judge([0.35] * 24, [0.0] * 24, bar=0.2, same_value=0, width=0.2)["verdict"], pairs.MISSED)
        # As wide as it is, all of it is above.
        self.assertEqual(judge(around(1.5, 0.1))["verdict"], pairs.MISSED)

    def test_it_is_not_decided(self):
        for found in (judge(around(1.0, 0.1)),  # too wide
                      judge(around(0.9, 0.1)),
                      judge(around(1.0, 0.004, count=19)),  # too few
                      judge(around(1.5, 0.004, count=4)),
                      judge([], []),
                      judge(around(1.0, 0.004), around(1.0, 0.1)),  # one way differs from itself
                      judge(around(1.03, 0.004), around(1.03, 0.004)),
                      judge(around(1.0, 0.004), around(0.97, 0.004))):
            self.assertEqual(found["verdict"], pairs.NOT_DECIDED)
            self.assertNotEqual(found["why"], "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
