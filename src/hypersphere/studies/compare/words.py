"""The results of a study in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from hypersphere.studies.compare import statistics
from hypersphere.studies.compare.cells import UNTRAINED
from hypersphere.studies.compare.results import Comparison
from hypersphere.studies.compare.statistics import Difference


def verdict(comparison: Comparison) -> list[str]:
    """The answer, most important sentence first."""
    sentences = []
    if not comparison.complete:
        sentences.append("The study is not over; what follows is what its finished runs show.")
    best = next((row for row in comparison.ranking if row.name != UNTRAINED and row.summary), None)
    if best is None or best.summary is None:
        return [*sentences, "No objective has a test score yet."]
    sentences.append(_leader(comparison))
    sentences += _against_reference(comparison)
    gain = comparison.gain
    if gain is not None:
        sentences.append(_gain(gain))
    sentences += [sentence + "." for row in comparison.contestants for sentence in row.at_bound.values()]
    return sentences


def difference_in_words(difference: Difference) -> str:
    """One comparison as a sentence without its full stop."""
    name, reference, seeds = difference.name, difference.reference, difference.count
    if difference.decided:
        verb = "beats" if difference.better else "falls behind"
        return (
            f"{name} {verb} {reference} by {abs(difference.mean):.2f}{spread(difference)} points "
            f"(p = {difference.adjusted:.3g})"
        )
    said = f"{name} and {reference} cannot be told apart with {seeds} seed{'s' if seeds != 1 else ''}"
    if seeds < 2:
        return said
    if difference.needed is None:
        return f"{said}, and {statistics.MOST_SEEDS} would not be enough for a difference as small as theirs"
    if difference.needed > seeds:
        return f"{said}, {difference.needed} could"
    return f"{said} ({difference.mean:+.2f}{spread(difference)} points, p = {difference.adjusted:.2g})"


def spread(difference: Difference) -> str:
    """Half the width of the interval; empty for one seed, which has no interval."""
    return f" ± {(difference.high - difference.low) / 2:.2f}" if difference.count > 1 else ""


def floor_in_words(seeds: int, comparisons: int) -> str:
    """The strongest result that this number of seeds can show."""
    fewest = statistics.fewest_seeds(comparisons)
    if seeds >= fewest:
        return ""
    several = f"corrected for {comparisons} comparisons " if comparisons > 1 else ""
    return (
        f"With {seeds} seed{'s' if seeds != 1 else ''} p cannot be below {statistics.smallest_p(seeds):.3g}: "
        f"{several}no difference can be shown, however large; {fewest} seeds could."
    )


def _leader(comparison: Comparison) -> str:
    best = next(row for row in comparison.ranking if row.name != UNTRAINED)
    summary = best.summary
    assert summary is not None
    first = f"{best.name} has the highest mean: {summary.mean:.2f}"
    first += f" ({summary.low:.2f} to {summary.high:.2f})" if summary.count > 1 else ""
    if floor_in_words(comparison.plan.study.seeds, len(comparison.pairs)):  # then no pair can be told apart
        return f"{first}."
    group = next((group for group in comparison.groups if best.name in group), [])
    others = [name for name in group if name != best.name]
    if not others:
        return first + ("; it can be told apart from all others." if len(comparison.contestants) > 1 else ".")
    return f"{first}; over all pairs it cannot be told apart from {listed(others)}."


def _against_reference(comparison: Comparison) -> list[str]:
    differences = comparison.differences
    seeds = comparison.plan.study.seeds
    said = [difference_in_words(each) for each in sorted(differences, key=lambda each: -each.mean)]
    floor = floor_in_words(seeds, len(differences)) if differences else ""
    return ([floor] if floor else []) + [f"{words}." for words in said]


def _gain(gain: Difference) -> str:
    more = "above" if gain.mean >= 0 else "below"
    return f"{gain.name} ends {abs(gain.mean):.2f}{spread(gain)} points {more} the untrained encoder" + (
        "." if gain.decided else " (undecided)."
    )


def listed(names: Sequence[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
