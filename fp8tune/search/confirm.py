"""Choose the confirmation runs at the end of a search, and their order.

Settings run in new processes and interleaved, so that drift of the machine affects all
alike. Each worker interleaves by itself, and the pairs of all workers count. First come
the best settings and the baseline, until the verdict is settled. Then the chosen
setting is compared with its bf16 counterpart and with the fastest bf16 setting that ran
(or with FP8, if bf16 was chosen).
"""

from __future__ import annotations

from collections.abc import Sequence

from fp8tune.search.answer.choice import MOST, choose, compare_fp8
from fp8tune.search.history import NEAR, History
from fp8tune.search.statistics import settled, verdict
from fp8tune.trials.space import Point

BEST = 3
"""Settings that are confirmed, not counting the baseline."""
CLOSE = 0.97
"""Share of their speed that settings may have lost since the search."""
BAD = 0.9
"""What one bad run may show of a setting's speed: of 40 runs of the rehearsal the worst
reached 0.906 of their median (benchmarks/results/runs_cpu.jsonl). No published table
repeats runs on H100 or H200; the same is taken for them."""
ROUNDS = 2
PAIRS = 6
"""Pairs of runs of FP8 and of the best bf16 setting, until FP8's gain is clear."""


def again(history: History) -> Point | None:
    """Return the next setting to repeat; ``None`` when every comparison is settled."""
    return unconfirmed(history) or _fp8_gain(history)


def reason(history: History, point: Point) -> str:
    """Return the kind of run: a setting that never ran is needed to compare."""
    return "confirmation run" if history.runs(point).ran else "comparison run"


def unconfirmed(history: History) -> Point | None:
    """Return the next run that the choice needs; ``None`` if the choice is settled."""
    points = settings(history.before_confirmation)
    candidate = overlooked(history, points)
    if points == [history.baseline] and candidate is None:
        return None
    candidates = _candidates(history.before_confirmation)
    turns_with_bf16 = len(candidates) == 1 and points != candidates
    return (
        _in_turn(history, candidates, 1 if turns_with_bf16 else ROUNDS)
        or _once_more(history, candidate)
        or _passed_over(history, candidate)
        or _doubtful(history)
        or _counterpart(history)
    )


def overlooked(history: History, points: Sequence[Point]) -> Point | None:
    """Return the best setting that ran once, if one bad run may explain its speed.

    It is judged by the trials before the confirmation. ``None`` if it is one of
    ``points``, which are confirmed anyway.
    """
    found = history.before_confirmation
    others = [point for point in found.eligible if point != found.baseline]
    runs = {point: found.runs(point).succeeded for point in others}
    ran = {p: own[0].tokens_per_second for p, own in runs.items() if len(own) == 1}
    best = max(ran, key=lambda p: ran[p], default=None)
    mine = found.speed(found.baseline)
    if best is None or mine is None or best in points:
        return None
    return best if ran[best] >= BAD * mine.value else None


def _in_turn(history: History, points: list[Point], rounds: int) -> Point | None:
    """Return the next setting of a round robin; ``None`` after that many rounds.

    Every round has the same order. In the reverse order, a GPU that is slow for two or
    three trials could slow both runs of one setting and none of another, unnoticed.
    A worker that has begun a round ends it.
    """
    left = [point for point in points if not _lost(history, point)]
    own = [_confirmations(history, point) for point in left]
    if not left or min(own) >= rounds:
        return None
    point = left[own.index(min(own))]
    begun = max(own) > min(own) or history.runs(point).confirmations < rounds
    return point if begun else None


def _confirmations(history: History, point: Point) -> int:
    """Return the number of confirmation runs of a setting by the worker."""
    runs = history.runs(point)
    return sum(t.stage == "confirm" and t.worker == history.worker for t in runs)


def settings(history: History) -> list[Point]:
    """Return the points to confirm after a search with these trials, by importance.

    The counterpart in the other precision comes last: the verdict does not need it.
    """
    points = _candidates(history)
    if points and (other := _other_precision(history, points[0])):
        return list(dict.fromkeys([*points, other]))
    return points


def _candidates(history: History) -> list[Point]:
    """Return the best setting, the baseline, and settings that were about as fast."""
    best = history.ranked
    if not best:
        return []
    same, baseline = history.noise.same, history.baseline
    near = [
        point
        for point in best[1:BEST]
        if (gain := history.measured_gap(point, best[0]))
        and verdict(gain, same) != "slower"
    ]
    has = history.space.has(baseline) and not _lost(history, baseline)
    return list(dict.fromkeys([best[0], *([baseline] if has else []), *near]))


def _other_precision(history: History, point: Point) -> Point | None:
    """Return the setting in the other precision; none in a rehearsal."""
    if history.is_rehearsal:
        return None
    return history.space.in_bf16(point) or _in_fp8(history, point)


def _bf16_probe(history: History, best: Point) -> Point | None:
    """Return a bf16 setting next to the best bf16 batch that only ran in FP8 so far."""
    space = history.space
    bf16 = space.in_bf16(best)
    if bf16 is None:
        return None
    fastest = _fastest_of(history, _same_cell(history, bf16)) or bf16
    ran = _same_cell(history, best)
    batches = sorted({space.batch(point) for point in ran})
    if space.batch(fastest) not in batches:
        return None
    place = batches.index(space.batch(fastest))
    near = batches[max(0, place - 1) : place + 2]
    in_bf16 = [space.in_bf16(point) for point in ran if space.batch(point) in near]
    return next((p for p in in_bf16 if p and not history.runs(p)), None)


def _fastest_bf16(history: History, point: Point) -> Point:
    """Return the fastest bf16 setting that ran; ``point`` if none did."""
    space = history.space
    in_bf16 = [p for p in _sound(history) if space.value(p, "precision") == "bf16"]
    return _fastest_of(history, in_bf16) or point


def _fastest_of(history: History, points: Sequence[Point]) -> Point | None:
    speeds = {p: known.value for p in points if (known := history.speed(p))}
    return max(speeds, key=lambda p: speeds[p], default=None)


def _same_cell(history: History, point: Point) -> list[Point]:
    """Return the reliable settings that differ from a point at most in the batch."""
    cell = history.space.cell
    return [other for other in _sound(history) if cell(other) == cell(point)]


def _sound(history: History) -> list[Point]:
    """Return the settings that ran, never failed for good and leave enough memory."""
    runs = history.settings.items()
    return [point for point, own in runs if own.ran and not own.is_unfit]


def _in_fp8(history: History, point: Point) -> Point | None:
    """Return a bf16 setting's FP8 counterpart, if FP8 could have been chosen."""
    other = history.space.with_precision(point, "fp8")
    return other if other and history.space.allows(other, history.baseline) else None


def _passed_over(history: History, known: Point | None) -> Point | None:
    """Return a setting that was faster in the search than the confirmed ones are now.

    Only some of the best are considered, and not ``known``, which runs again anyway.
    Their search speed is scaled by how much the confirmed settings slowed down, except
    after a large slowdown: then nobody knows when the GPU became slower.
    """
    before, baseline = history.before_confirmation, history.baseline
    seen = {p: own.value for p in before.settings if (own := before.speed(p))}
    every = before.others
    ours = [p for p in (baseline, *every) if history.runs(p).confirmations]
    sound = [p for p in ours if not history.runs(p).is_unfit]
    now = [own.value for p in sound if (own := history.speed(p))]
    best, lost = max(now, default=0.0), history.drift
    lost = lost if lost > CLOSE else 1.0
    candidates = [p for p in every[: 2 * BEST] if p != known]
    promising = [p for p in candidates if seen[p] * lost > best]
    return _with_baseline(history, candidates, promising)


def _once_more(history: History, candidate: Point | None) -> Point | None:
    """Return one more run of a candidate before the baseline is called the best."""
    if candidate is None or choose(history).point != history.baseline:
        return None
    return _alternate(history, candidate, history.baseline, 1)


def _with_baseline(
    history: History, candidates: Sequence[Point], promising: Sequence[Point]
) -> Point | None:
    """Return the next run of the first candidate that is promising or was started."""
    begun = [p for p in candidates if history.runs(p).confirmations or p in promising]
    asked = (_alternate(history, p, history.baseline, ROUNDS) for p in begun)
    return next(filter(None, asked), None)


def _counterpart(history: History) -> Point | None:
    """Return the next run that compares the chosen setting with the other precision."""
    chosen = choose(history).point
    other = chosen and _other_precision(history, chosen)
    if not chosen or other in (None, chosen) or not history.runs(chosen).confirmations:
        return None
    if not (history.runs(other).confirmations or _lost(history, other)):
        return other
    if probe := _bf16_probe(history, chosen):
        return probe
    if other == history.space.in_bf16(chosen):
        other = _fastest_bf16(history, other)
    return _alternate(history, other, chosen, ROUNDS)


def _fp8_gain(history: History) -> Point | None:
    """Return the next run of FP8 or of the best bf16 until their gap is settled."""
    pair = compare_fp8(history, choose(history).point).pair
    if pair is None or not history.runs(pair.fp8).confirmations:
        return None
    gain = history.measured_gap(*pair)
    enough = len(history.every_pair(*pair)) >= ROUNDS
    if gain and enough and settled(gain, history.noise.same):
        return None
    return _alternate(history, pair.bf16, pair.fp8, PAIRS)


def _doubtful(history: History) -> Point | None:
    """Return the next run of the baseline or the best candidate until one is faster.

    If no candidate was confirmed because all were slower in the search, this is the
    best one that is no longer clearly slower, now that the noise is known.
    """
    others, baseline = history.others, history.baseline
    ours = [p for p in others if history.runs(p).confirmations] or others
    confirmed = history.runs(baseline).confirmations
    if not ours or not confirmed or _lost(history, baseline):
        return None
    gain, same = history.measured_gap(ours[0], baseline), history.noise.same
    slower = gain is not None and verdict(gain, same) == "slower"
    if slower and not history.runs(ours[0]).confirmations:
        return None
    enough = slower or len(history.every_pair(ours[0], baseline)) >= ROUNDS
    if gain and enough and settled(gain, same):
        return None
    return _alternate(history, ours[0], baseline, MOST)


def _alternate(history: History, one: Point, other: Point, times: int) -> Point | None:
    """Return which of two settings runs next, until they have that many pairs of runs.

    The order is A B A B B A A B, so that neither drift nor a passing slowdown favours
    one. If the other setting cannot run, the first one runs alone that often. Earlier
    runs of one setting without the other do not count. Each worker has its own order,
    and the pairs of all count.
    """
    runs = {point: history.runs(point) for point in (one, other)}
    if _lost(history, one):
        return None
    if _lost(history, other) or not runs[other]:
        return one if runs[one].confirmations < times else None
    positions = {
        point: [
            trial.position
            for trial in own
            if trial.stage == "confirm" and trial.worker == history.worker
        ]
        for point, own in runs.items()
    }
    if max(map(len, positions.values())) >= 2 * MOST:
        return None
    pairs = history.every_pair(one, other)
    if sum(a.worker != history.worker for a, _ in pairs) >= times:
        return None
    if missing := [point for point in positions if not positions[point]]:
        return missing[0]
    both = max(min(own) for own in positions.values())
    before = max(n for own in positions.values() for n in own if n < both)
    first = before if both - before <= NEAR else both
    if len(history.every_pair(one, other, first)) >= times:
        return None
    turns = sorted((n, p) for p, own in positions.items() for n in own if n >= first)
    last = [point for _, point in turns[-2:]]
    if len(set(last)) == 2:
        return last[0] if len(turns) < 2 * ROUNDS else last[-1]
    return other if last[-1] == one else one


def _lost(history: History, point: Point) -> bool:
    """Return whether a setting failed permanently, so that another run is useless."""
    own = history.runs(point)
    return own.failed or sum(not trial.record.ok for trial in own) > 1
