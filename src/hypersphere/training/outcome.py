"""What a run made of its model, in a sentence or two: the last line of ``train``, and part of the card."""

from __future__ import annotations

import math
from typing import Any


def outcome(results: dict[str, Any]) -> str:
    """Better or worse than the model as it was given, or nothing learned; empty if there is nothing to compare.

    >>> print(outcome({"best_step": 60, "given": {"stsb_test": 82.03}, "scores": {"stsb_test": 77.0}}))
    Worse than the model as given: stsb_test 77.00, as given 82.03.
    """
    given, scores = results["given"], results["scores"]
    known = [name for name in scores if name in given and not math.isnan(given[name])]
    worse = [name for name in known if not round(scores[name], 2) >= round(given[name], 2)]  # NaN is worse
    better = [name for name in known if round(scores[name], 2) > round(given[name], 2)]

    def listed(names: list[str]) -> str:
        return "; ".join(f"{name} {scores[name]:.2f}, as given {given[name]:.2f}" for name in names)

    sentences = []
    if results["best_step"] == 0 and results.get("steps") != 0:  # without steps nothing was meant to be learned
        unchanged = given and not worse and not better
        start = "the model as given" if unchanged else "the weights at step 0"
        sentences.append(f"Nothing was learned: no step was better than {start}, which the run kept.")
    if worse:
        sentences.append(f"Worse than the model as given: {listed(worse)}.")
    if better:
        sentences.append(f"Better than the model as given: {listed(better)}.")
    return " ".join(sentences) or ("Neither better nor worse than the model as given." if known else "")
