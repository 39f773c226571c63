"""The result of a check-up: its answer, its table, its dictionary."""

import dataclasses
import json
import math

import numpy as np
import pytest
import torch

from hypersphere.diagnostics import diagnose
from hypersphere.diagnostics.diagnosis import Finding, Sampling, shown
from hypersphere.diagnostics.notable import Notable
from tests.diagnostics.drawn import cone, noise, two_views


def test_to_dict_is_json_without_nan():
    diagnosis = diagnose(*two_views(), labels=torch.arange(400) % 3)
    plain = json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))
    assert plain["pairs"]["alignment"] == pytest.approx(diagnosis.pairs.alignment)
    assert plain["views"][1]["name"] == "z2" and len(plain["views"][0]["variance"]) == 32
    assert plain["sampling"]["sample"] == 400 and plain["classes"]["classes"] == 3
    assert "length one" in plain["note"]


def test_print_has_every_number_and_says_it_normalised():
    words = str(diagnose(*two_views()))
    single = ("uniformity", "Wasserstein", "effective rank", "participation ratio", "anisotropy", "total variance",
              "hubness", "repeated rows", "dead dimensions", "energy")  # fmt: skip
    for name in (*single, "alignment", "distance gap"):
        assert name in words
    assert "scaled to length one" in words and "Verdict:" in words


def test_the_spread_of_lengths_is_of_both_views():
    z1, z2 = two_views()
    diagnosis = diagnose(z1, z2)
    spreads = [np.linalg.norm(z.numpy(), axis=1).std() for z in (z1, z2)]
    said = next(said for word, _, said in diagnosis.table() if word == "mean length")
    numbers = [float(word) for word in said.split("spread ")[1].split(" and ")]
    assert numbers == pytest.approx(spreads, rel=5e-3)


def test_one_collapsed_view_of_two_is_a_collapse():
    good, bad = noise(), torch.ones_like(noise())
    for views in ((good, bad), (bad, good)):
        diagnosis = diagnose(*views)
        assert diagnosis.collapsed and diagnosis.answer.startswith("Yes: ")
    assert not diagnose(good).collapsed and str(diagnose(good)).splitlines()[1].startswith("Has it collapsed? No: ")
    assert not diagnose(cone()).collapsed  # worth knowing, but the rows still differ


@pytest.mark.parametrize(
    ("value", "words"),
    [(12.0, "12"), (1e6, "1,000,000"), (0.01234567, "0.0123"), (999.99999, "1000.0000"), (1234.5678, "1235"),
     (-0.00012345, "-0.0001234"), (math.nan, "-"), (math.inf, "inf")],
)  # fmt: skip
def test_a_number_is_shown_short(value, words):
    assert shown(value) == words


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((9, 9, 9), ["Exact: all 9 rows, all pairs."]),
        ((3000, 3000, 2048), ["of all 4,498,500 pairs", "of 2,048 of these rows, drawn at random (seed 5)."]),
        ((9000, 50, 50), ["all 9,000 rows", "of 50 rows drawn at random (seed 5), all 1,225 pairs."]),
        ((9000, 4096, 2048), ["of 4,096 rows drawn at random (seed 5)", "of these rows, drawn at random."]),
    ],
)
def test_how_many_rows_were_compared_is_said(numbers, words):
    said = str(Sampling(*numbers, seed=5, neighbours=10))
    assert all(each in said for each in words)


def test_rows_that_need_no_look_are_not_listed():
    """Hubs only where they are a finding; after a collapse no near copies, since all rows are."""
    diagnosis = diagnose(noise())
    notable = [Notable("hub", [3], 1, "among the 10 nearest of 99", ["a" * 61]), Notable("copies", [1, 2], 7, "7", []),
               Notable("near copies", [4, 5], 2, "cosine 0.999999", [])]  # fmt: skip
    diagnosis = dataclasses.replace(diagnosis, views=(dataclasses.replace(diagnosis.views[0], notable=notable),))
    copies, near = ("copies", "rows 1, 2, …: 7", ""), ("near copies", "rows 4, 5: cosine 0.999999", "")
    assert diagnosis.rows_to_look_at() == [copies, near]
    hubs, point = Finding("hubs", False, "", "", ""), Finding("rank-1 over-fusion", True, "", "", "", collapse=True)
    said = ("hub", "row 3: among the 10 nearest of 99", f"“{'a' * 59}…”")
    assert dataclasses.replace(diagnosis, findings=(hubs,)).rows_to_look_at() == [said, copies, near]
    assert dataclasses.replace(diagnosis, findings=(point, hubs)).rows_to_look_at() == [copies]
