"""Temperatures that follow a schedule."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import hypersphere as hs
from hypersphere.studies.compare.cells import cell_id
from hypersphere.training import monitor
from hypersphere.training.load import parse_recipe, write_recipe
from hypersphere.training.run import train
from hypersphere.training.temperature import CosineTemperature, set_temperature
from hypersphere.training.trainer import ViewLoss
from tests.training import worlds
from tests.training.worlds import quiet

GOLDEN = json.loads((Path(__file__).parents[1] / "golden2026.json").read_text())["temperature_schedule"]
SCHEDULE = {"schedule": "cosine", "low": 0.1, "high": 0.5, "period": 4}


def recipe_of(folder: Path, objective: dict[str, Any], **changes: Any) -> Any:
    return parse_recipe(worlds.digits_recipe(folder, objective=objective, **changes))


def test_it_has_the_published_temperatures() -> None:
    schedule = CosineTemperature(GOLDEN["low"], GOLDEN["high"], GOLDEN["period"])
    for epoch, temperature in GOLDEN["values"]:
        assert schedule.at(epoch) == pytest.approx(temperature, abs=1e-12)
    assert [schedule.at(epoch + 400) for epoch in range(5)] == pytest.approx([schedule.at(epoch) for epoch in range(5)])


def test_the_temperature_of_a_base_follows_its_own_schedule() -> None:
    given = {"name": "pairwise", "base": {"name": "guided", "base": {"name": "infonce", "temperature": SCHEDULE}}}
    objective = hs.create_objective("pairwise", base={"name": "guided", "base": {"name": "infonce"}})
    set_temperature(objective, given, 1)
    assert objective.base.base.temperature == pytest.approx(0.3)


def test_what_is_added_to_a_base_has_a_schedule_of_its_own(tmp_path: Path) -> None:
    parts = {"base": {"name": "dcl", "temperature": 0.7}, "extra": {"name": "dhel", "temperature": SCHEDULE}}
    recipe = recipe_of(tmp_path, {"name": "plus", "base": {"name": "plus", **parts}, "extra": "koleo"})
    objective: Any = recipe.create_objective()
    assert objective.base.extra.temperature == 0.5
    set_temperature(objective, recipe.objective, 1)
    assert objective.base.extra.temperature == pytest.approx(0.3) and objective.base.base.temperature == 0.7
    assert recipe.resolved()["objective"]["base"]["extra"]["temperature"] == SCHEDULE


def test_every_step_of_an_epoch_has_its_temperature_and_so_has_a_resumed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []
    measured: list[tuple[int, float]] = []
    forward, measure = ViewLoss.forward, monitor.measure_batches

    def noted(self: ViewLoss, *given: Any) -> Any:
        if self.training:
            seen.append(self.objective.temperature)  # type: ignore[arg-type]
        return forward(self, *given)

    def measuring(objective: Any, *given: Any, **more: Any) -> Any:
        measured.append((len(seen), objective.temperature))
        return measure(objective, *given, **more)

    monkeypatch.setattr(ViewLoss, "forward", noted)
    monkeypatch.setattr(monitor, "measure_batches", measuring)
    objective = {"name": "ntxent", "temperature": SCHEDULE}
    recipe = recipe_of(tmp_path, objective, batch={"size": 80})  # two steps in an epoch
    run = train(recipe, echo=quiet).folder
    expected = [0.5, 0.5, 0.3, 0.3, 0.1, 0.1]
    assert seen == pytest.approx(expected)
    for step, temperature in measured:
        assert temperature == pytest.approx(expected[max(0, step - 1)])
    assert {step for step, _ in measured} == {0, 3, 6}

    shutil.copytree(run, tmp_path / "whole")
    (run / "results.json").unlink()
    shutil.rmtree(run / "checkpoints" / "checkpoint-6")
    seen.clear()
    train(recipe, resume=True, echo=quiet)
    assert seen == pytest.approx(expected[5:])
    worlds.assert_same(tmp_path / "whole", run)


def test_a_recipe_keeps_its_schedule_and_a_study_tells_schedules_apart(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, {"name": "ntxent", "temperature": SCHEDULE})
    assert parse_recipe(yaml.safe_load(write_recipe(recipe))) == recipe
    assert recipe.resolved()["objective"]["temperature"] == SCHEDULE
    inner = recipe_of(tmp_path, {"name": "cloa", "base": {"name": "ntxent", "temperature": SCHEDULE}})
    assert inner.resolved()["objective"]["base"]["temperature"] == SCHEDULE
    others = [0.5, {**SCHEDULE, "low": 0.2}, {**SCHEDULE, "period": 5}]
    ids = {cell_id(recipe_of(tmp_path, {"name": "ntxent", "temperature": each})) for each in (SCHEDULE, *others)}
    assert len(ids) == 4


@pytest.mark.parametrize(
    ("objective", "sentence"),
    [
        ({"temperature": {**SCHEDULE, "low": 0.6}}, "objective.temperature.low must be at most .*, not 0.6 beside 0.5"),
        ({"temperature": {**SCHEDULE, "period": 0}}, "objective.temperature.period must be a number above 0, not 0"),
        ({"temperature": {**SCHEDULE, "low": 0}}, "objective.temperature.low must be a number above 0, not 0"),
        ({"temperature": {**SCHEDULE, "high": "x"}}, "objective.temperature.high must be a number above 0, not 'x'"),
        ({"temperature": {**SCHEDULE, "schedule": "linear"}}, "schedule must be 'cosine', not 'linear'"),
        ({"temperature": {"schedule": "cosine"}}, "needs objective.temperature.low: it takes schedule, low, high"),
        ({"temperature": {**SCHEDULE, "top": 1}}, "a schedule of objective.temperature has no key 'top'"),
        ({"temperature": SCHEDULE, "learnable": True}, "ntxent's temperature has a schedule: learnable must be False"),
        ({"name": "vicreg", "temperature": SCHEDULE}, "vicreg has no parameter 'temperature'"),
        (
            {"name": "cloa", "learnable": True, "base": {"name": "ntxent", "temperature": SCHEDULE}},
            "ntxent's temperature has a schedule: learnable must be False",
        ),
        (
            {"name": "plus", "temperature": 1, "extra": {"name": "dcl", "temperature": {**SCHEDULE, "low": 0}}},
            "objective.extra.temperature.low must be a number above 0, not 0",
        ),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_in_one_sentence(
    tmp_path: Path, objective: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        recipe_of(tmp_path, {"name": "ntxent", **objective})
