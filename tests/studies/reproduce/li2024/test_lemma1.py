"""Lemma 1 against steps: a lower end that is too high, or an upper end that is too low, is found."""

import pytest

from hypersphere.studies.reproduce.li2024 import lemma1


@pytest.mark.parametrize("shift, verdict", [((0.0, -0.5), "agrees"), ((0.5, 0.0), "does not agree")])
def test_an_interval_that_is_not_the_steps_is_found(shift, verdict, monkeypatch):
    """The paper states the lower end only: an upper end elsewhere is counted, and is no part of the claim."""
    interval = lemma1.ratio_interval
    monkeypatch.setattr(
        lemma1, "ratio_interval", lambda *given: tuple(map(sum, zip(interval(*given), shift, strict=True)))
    )
    monkeypatch.setattr(lemma1, "_draw_lemma", lambda rows: None)
    finding = lemma1.lemma1(quick=True)
    assert finding.verdict == verdict and sum(row["mismatches"] for row in finding.data["lemma1"]) > 0
