"""Figures 1 to 3 in worlds that were made up."""

from __future__ import annotations

import math

import pytest

from tests.studies.reproduce.cloa2024.worlds import (
    as_published,
    judge,
    only_noise,
    rate_of,
    reversed_rates,
    scored,
)


@pytest.mark.parametrize("item", ["fig1", "fig2", "fig3"])
def test_a_world_as_published_agrees(item: str) -> None:
    finding = judge(item, as_published)
    assert finding.verdict == "agrees", finding.clauses
    assert not finding.fault


@pytest.mark.parametrize("item", ["fig2", "fig3"])
def test_a_world_that_runs_the_other_way_does_not_agree(item: str) -> None:
    finding = judge(item, reversed_rates)
    assert set(finding.clauses.values()) == {False}, finding.clauses
    assert finding.verdict == "does not agree"
    assert "cale" in finding.fault or "laim" in finding.fault


def test_accuracy_that_only_rises_or_only_falls_is_figure_1_in_part() -> None:
    for sign in (1, -1):
        finding = judge("fig1", lambda cell, sign=sign: scored(40 + sign * 5 * math.log10(rate_of(cell))))
        assert list(finding.clauses.values()) == [False, sign == 1, sign == -1]
        assert finding.verdict == "partly"
        assert finding.fault.startswith("Scale or claim")


@pytest.mark.parametrize("item", ["fig1", "fig2", "fig3"])
def test_noise_decides_nothing(item: str) -> None:
    finding = judge(item, only_noise)
    assert set(finding.clauses.values()) == {None}, finding.clauses
    assert finding.verdict == "undecided"
    assert not finding.fault
