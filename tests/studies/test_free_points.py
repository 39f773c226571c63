"""What the free points study claims, at a size that takes a moment."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from hypersphere.geometry import cross_polytope, simplex, uniform_points
from hypersphere.objectives import create_objective
from hypersphere.studies.free_points import (
    CONTESTANTS,
    aligned,
    clustered_points,
    gaussian_energy,
    gradient_left,
    largest_smallest_angle,
    main,
    nearest_angles,
    places,
    spread,
    uniform_energy,
    upright,
)


@pytest.mark.parametrize("seed", [0, 1])
def test_infonce_spreads_four_points_to_the_tetrahedron(seed: int) -> None:
    points = spread(create_objective("infonce", temperature=0.5), clustered_points(4, 3, seed), steps=200)
    assert nearest_angles(points).tolist() == pytest.approx([math.acos(-1 / 3)] * 4, abs=1e-2)


def test_kcl_spreads_six_points_to_the_octahedron() -> None:
    points = spread(create_objective("kcl"), clustered_points(6, 3, 0), steps=300)
    assert gaussian_energy(points) == pytest.approx(gaussian_energy(cross_polytope(3)), abs=1e-4)


def test_met_stops_as_soon_as_its_margin_holds() -> None:
    objective = create_objective("met", margin=0.45)
    points = spread(objective, clustered_points(4, 3, 0), steps=200)
    smallest = float(nearest_angles(points).min())
    assert 2 * math.asin(0.225) < smallest < math.radians(40)  # beyond the margin, far from 109.5°
    assert gradient_left(objective, points) == 0


def test_points_stay_on_the_sphere_and_the_start_is_left_alone() -> None:
    start = uniform_points(5, 3)
    before = start.clone()
    points = spread(create_objective("ntxent"), start, steps=5)
    assert torch.equal(start, before)
    torch.testing.assert_close(points.norm(dim=1), torch.ones(5, dtype=points.dtype))


def test_no_random_set_is_below_the_uniform_measure_and_a_large_one_comes_near() -> None:
    energies = [gaussian_energy(uniform_points(30, 3, seed)) for seed in range(20)]
    assert min(energies) > uniform_energy()
    assert gaussian_energy(uniform_points(3000, 3)) == pytest.approx(uniform_energy(), abs=2e-3)


@pytest.mark.parametrize(("points", "count"), [(simplex(4, 3), 4), (cross_polytope(3), 6)])
def test_the_bound_on_the_smallest_angle_is_met_by_the_platonic_sets(points: torch.Tensor, count: int) -> None:
    assert largest_smallest_angle(count) == pytest.approx(float(nearest_angles(points).min()))


def test_places_counts_groups_that_hang_together() -> None:
    pole = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)
    turn = torch.tensor([0.0, 0.3, 0.6, 5.0, 5.1]).deg2rad().double()  # a chain of three, a pair
    chain = torch.stack([turn.sin(), torch.zeros(5).double(), turn.cos()], dim=1)
    assert places(chain) == 2
    assert places(torch.cat([chain, -pole])) == 3


def test_alignment_undoes_a_turn_and_a_renumbering() -> None:
    best = upright(simplex(4, 3))
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(0)).double()).Q
    torch.testing.assert_close(aligned((best @ turn)[[2, 0, 3, 1]], best), best)


def test_upright_puts_the_first_point_on_top() -> None:
    best = upright(simplex(4, 3))
    torch.testing.assert_close(best[0], torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64))
    assert best[1, 0] > 0
    torch.testing.assert_close(best @ best.T, simplex(4, 3) @ simplex(4, 3).T)


def test_the_command_writes_a_report_with_its_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "demo"
    assert main(["--out", str(out), "--steps", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"report: {out / 'report.md'}"
    written = (out / "report.md").read_text()
    assert all(contestant.label in written for contestant in CONTESTANTS)
    assert "](free_points.png)" in written
    assert (out / "free_points.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(file.name for file in out.iterdir()) == ["free_points.png", "report.md"]  # nothing half-written


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--steps", "0"], "--steps"),
        (["--seed", "x"], "--seed"),
        (["--bogus"], "--bogus"),
        (["--out", "FILE"], "--out"),
    ],
)
def test_a_bad_argument_gets_one_sentence_and_exit_code_2(
    arguments: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file, not a folder")
    with pytest.raises(SystemExit) as stopped:
        main([str(taken) if argument == "FILE" else argument for argument in arguments])
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert named in said
    assert said.count("\n") == 1
