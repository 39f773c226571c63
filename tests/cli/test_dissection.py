"""The answer of ``hypersphere dissect``: tables, JSON, figures."""

import json

import numpy as np
import pytest

from tests.cli.command import refused, run


def test_two_objectives_side_by_side_on_own_embeddings(views, tmp_path):
    answer = run("dissect", "mhe", "siglip", "--embeddings", views, "--out", tmp_path / "out")
    assert answer.exit_code == 0, answer.output
    assert "12 pairs in 6 dimensions" in answer.output
    assert "mean ratio" in answer.output and "Conventions" in answer.output
    assert "No maps of siglip" in answer.stderr
    assert (tmp_path / "out" / "maps.png").stat().st_size > 10_000
    assert (tmp_path / "out" / "anatomy.png").stat().st_size > 10_000
    assert not (tmp_path / "out" / "anatomy.pdf").exists()
    assert "gradient kept: how much" in answer.output


def test_several_values_of_a_setting_are_swept(views, tmp_path, monkeypatch):
    words = ("dissect", "infonce", "met", "temperature=0.05,0.5", "--embeddings", views, "--out", tmp_path / "out")
    answer = run(*words)
    assert answer.exit_code == 0, answer.output
    rows = [line.split() for line in answer.stdout.splitlines() if line.startswith(("infonce", "met"))]
    assert [row[:-7] for row in rows] == [["infonce", "temperature=0.05"], ["infonce", "temperature=0.5"], ["met"]]
    assert (tmp_path / "out" / "sweep.png").stat().st_size > 10_000
    monkeypatch.setattr("hypersphere.cli.dissect.draw", lambda *_: [])
    tree = json.loads(run(*words, "--json").stdout)
    assert tree["swept"] == {"setting": "temperature", "values": [0.05, 0.5]}
    one = json.loads(run("dissect", "infonce", "temperature=0.5", "--embeddings", views, "--json").stdout)
    assert tree["objectives"][1]["numbers"] == one["objectives"][0]["numbers"]
    assert float(rows[1][2]) == pytest.approx(
        one["objectives"][0]["numbers"]["gradient kept (1: all, 0: none)"], abs=1e-4
    )
    refused(run("dissect", "arccon", "temperature=0.1,0.2", "angle=0.1,0.2"), "one setting at a time")


def test_the_lower_end_of_lemma_one_is_that_of_the_interval(views, tmp_path, without_figures):
    import torch

    import hypersphere as hs

    with np.load(views) as arrays:
        z1, z2 = (torch.from_numpy(arrays[name]) for name in ("z1", "z2"))
    answer = run("dissect", "infonce", "--embeddings", views, "--out", tmp_path, "--json")
    numbers = json.loads(answer.stdout)["objectives"][0]["numbers"]
    low = sorted(hs.dissect(hs.create_objective("infonce"), z1, z2).lemma1_interval()[0].tolist())
    assert numbers["Lemma 1's lower end, median"] == pytest.approx((low[5] + low[6]) / 2)
    assert numbers["Lemma 1's lower end, 10%"] < numbers["Lemma 1's lower end, 90%"]
