"""Two ways compared in pairs, and what may be said of them: passed, missed, or not decided.

A pair is A B B A: what drifts steadily meanwhile counts for both alike. Beside the pairs of the two ways stand pairs of A with
itself, in the same run, which say what no difference looks like on this machine at this time.
"""
import random
import statistics

PASS, MISSED, NOT_DECIDED = "pass", "MISSED", "not decided"
# Of fewer pairs an interval says too little.
LEAST = 20
RESAMPLES = 4000


def in_turns(a, b):
    """One pair: {row: (time of a, time of b)}, each the mean of its two turns. `a`, `b`: measure one turn, as {row: time}. Rows
    that a turn lacks are left out."""
    first, second, third, fourth = a(), b(), b(), a()
    return {row: ((first[row] + fourth[row]) / 2, (second[row] + third[row]) / 2)
            for row in first if row in second and row in third and row in fourth}


def ratio(pair):
    return pair[1] / pair[0]


def difference(pair):
    return pair[1] - pair[0]


def interval(values, seed=1):
    """95 per cent of the medians of samples drawn from these lie in it (percentile bootstrap). The same for the same values."""
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[round(0.025 * (RESAMPLES - 1))], medians[round(0.975 * (RESAMPLES - 1))]


def judge(values, same, bar, same_value, width):
    """What `values`, one of each pair, say of a bar, and `same`, one of each pair of A with itself, which are about `same_value`
    where nothing disturbs: a dict with figure, interval, interval_same, verdict, why.

    Passed: the interval begins at the bar or below, and is narrower than `width`. Missed: it begins above. Neither of them counts
    when A differs from itself as B must not, or by an interval as wide."""
    found = {"figure": None, "interval": None, "interval_same": None, "verdict": NOT_DECIDED, "why": ""}
    if values:
        found.update(figure=statistics.median(values), interval=interval(values))
    if same:
        found["interval_same"] = interval(same)
    if min(len(values), len(same)) < LEAST:
        found["why"] = f"{min(len(values), len(same))} pairs, {LEAST} are needed"
        return found
    low, high = found["interval"]
    same_low, same_high = found["interval_same"]
    room = bar - same_value
    if same_high - same_low >= width:
        found["why"] = "one way differs from itself too much"
    elif same_low > same_value + room or same_high < same_value - room:
        found["why"] = "one way differs from itself as the other must not"
    elif low > bar:
        found["verdict"] = MISSED
    elif high - low >= width:
        found["why"] = "the interval is too wide"
    else:
        found["verdict"] = PASS
    return found
