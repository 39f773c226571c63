"""Measuring a run changes nothing, costs little and survives a kill."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

import hypersphere as hs
from hypersphere.geometry import unit
from hypersphere.training.journal import Journal, read_journal
from hypersphere.training.load import parse_recipe
from hypersphere.training.monitor import Monitor, measure, measure_batches, multiples, watch
from hypersphere.training.run import create_task
from tests.training import worlds
from tests.training.two_views import trainer_of, watched
from tests.training.worlds import views


class Slow(TrainerCallback):
    """A step that takes its time, so that timing does not depend on the machine."""

    def __init__(self, clock: list[float], seconds: float) -> None:
        self.clock, self.seconds = clock, seconds

    def on_pre_optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        self.clock[0] += self.seconds


def costly_anatomy(monkeypatch: pytest.MonkeyPatch, clock: list[float], seconds: float) -> None:
    """A whole measurement takes its time; a brief one takes none."""

    def slow(*args: Any, brief: bool = False, **kwargs: Any) -> Any:
        clock[0] += 0 if brief else seconds / 2  # for each of two splits
        return measure_batches(*args, brief=brief, **kwargs)

    monkeypatch.setattr("hypersphere.training.monitor.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("hypersphere.training.monitor.measure_batches", slow)


def line(step: int, **more: Any) -> dict[str, Any]:
    return {"step": step, "split": "training", **more}


def test_measuring_does_not_change_the_training(tmp_path: Path) -> None:
    plain = trainer_of(tmp_path / "a", 20, disable_tqdm=True)
    plain.train()
    seen = trainer_of(tmp_path / "b", 20, disable_tqdm=True)
    monitor = watched(seen, tmp_path / "metrics.jsonl", echo=lambda words: None)
    seen.train()
    assert monitor.measured == 5  # steps 0, 5, 10, 15, 20
    ours, theirs = plain.model.state_dict(), seen.model.state_dict()  # type: ignore[union-attr]
    assert ours.keys() == theirs.keys()
    assert any("running_mean" in name for name in ours)
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name


def test_metrics_hold_both_splits_and_the_gradient_norm_before_clipping(tmp_path: Path) -> None:
    norms: list[float] = []

    class Heard(TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            norms.extend([logs["grad_norm"]] if "grad_norm" in logs else [])

    trainer = trainer_of(tmp_path, 10, disable_tqdm=True, max_grad_norm=1e-3)
    watched(trainer, tmp_path / "metrics.jsonl", echo=lambda words: None)
    trainer.add_callback(Heard())
    trainer.train()
    records = read_journal(tmp_path / "metrics.jsonl")
    assert [(r["step"], r["split"]) for r in records] == [
        (step, split) for step in (0, 5, 10) for split in ("training", "held_out")
    ]
    measured = [r["gradient_norm"] for r in records if r["split"] == "training"]
    assert math.isnan(measured[0])
    assert measured[1:] == pytest.approx(norms, rel=1e-6)
    assert min(norms) > 1e-2  # far above what it was clipped to


def test_a_resumed_run_drops_the_lines_after_its_checkpoint_and_measures_them_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = trainer_of(tmp_path, 15, disable_tqdm=True)
    watched(first, path, echo=lambda words: None)
    first.train()
    before = read_journal(path)
    with path.open("a") as file:
        file.write('{"step": 15, "split": "trai')  # the kill came in the middle of a line
    second = trainer_of(tmp_path, 15, disable_tqdm=True)
    monitor = watched(second, path, echo=lambda words: None)
    second.train(resume_from_checkpoint=str(tmp_path / "checkpoint-10"))
    after = read_journal(path)
    assert [(r["step"], r["split"]) for r in after] == [(r["step"], r["split"]) for r in before]
    assert monitor.measured == 1
    timing = {"monitor_seconds", "monitor_share", "step_seconds"}
    texts = [[json.dumps({k: v for k, v in r.items() if k not in timing}) for r in each] for each in (before, after)]
    assert texts[0] == texts[1]  # to the last digit


@pytest.mark.parametrize(
    ("steps", "whole", "brief"),
    [(200, [0, 200], [50, 100, 150]), (400, [0, 140, 270, 400], [100, 240, 370])],
)
def test_left_to_itself_it_keeps_within_a_twentieth_of_the_step_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, whole: list[int], brief: list[int]
) -> None:
    clock = [0.0]
    costly_anatomy(monkeypatch, clock, 0.5)  # as long as five steps
    trainer = trainer_of(tmp_path, steps, disable_tqdm=True, save_strategy="no")
    said: list[str] = []
    monitor = watched(trainer, tmp_path / "metrics.jsonl", every=0, echo=said.append)
    trainer.add_callback(Slow(clock, 0.1))
    trainer.train()
    records = [record for record in read_journal(tmp_path / "metrics.jsonl") if record["split"] == "training"]
    assert [record["step"] for record in records if not record.get("brief")] == whole
    assert [record["step"] for record in records if record.get("brief")] == brief
    assert monitor.share == pytest.approx(0.05)  # all of the budget, and no more
    assert said[-1].startswith(f"Measuring took {steps / 200:.1f} s, 5.0% of the {steps / 10:.1f} s spent in steps")
    assert f"({len(whole) + 3} measurements, 3 of them without the anatomy)" in said[-1]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [(3, [0, 1, 2, 3]), (9, [0, 2, 4, 6, 8, 9]), (43, [0, 10, 20, 30, 40, 43])],
)
def test_every_run_is_measured_four_times_after_its_start_whatever_it_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, expected: list[int]
) -> None:
    clock = [0.0]
    costly_anatomy(monkeypatch, clock, 1000.0)
    trainer = trainer_of(tmp_path, steps, disable_tqdm=True, save_strategy="no")
    monitor = watched(trainer, None, every=0, echo=lambda words: None)
    trainer.add_callback(Slow(clock, 0.1))
    trainer.train()
    assert sorted({record["step"] for record in monitor.journal.records}) == expected
    assert monitor.brief == len(expected) - 2


def test_a_collapse_is_told_though_the_budget_pays_for_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From step 50 on every row is the same one."""
    clock = [0.0]
    said: list[str] = []
    costly_anatomy(monkeypatch, clock, 1000.0)
    trainer = trainer_of(tmp_path, 100, disable_tqdm=True, save_strategy="no")
    monitor = watched(trainer, None, every=0, echo=said.append)
    usual = monitor.sources["training"]

    def collapsing() -> Any:
        z1, z2, _ = usual()  # type: ignore[misc]
        return (z1, z2, None) if trainer.state.global_step < 50 else (1 + 1e-4 * z1, 1 + 1e-4 * z2, None)

    monitor.sources["training"] = collapsing
    trainer.add_callback(Slow(clock, 0.1))
    trainer.train()
    assert any(sentence.startswith("over-fusion at step 80") for sentence in said)
    assert any(sentence.startswith("No verdict on dissipation: it was measured 2 times") for sentence in said)


def test_a_brief_measurement_is_a_whole_one_without_its_anatomy() -> None:
    z1, z2 = views(16, 8)
    whole, brief = (measure(hs.create_objective("infonce"), z1, z2, brief=each) for each in (False, True))
    left_out = {"dissipation", "with_gradient", "hardest_weight", "ratio", "lemma1"}
    for name, value in whole.to_dict().items():
        number = getattr(brief, name)
        if name in left_out:
            assert math.isnan(number) and name in brief.reasons
        else:
            assert number == value or math.isnan(value)


def test_a_resumed_run_counts_whole_and_brief_measurements_from_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    Journal(path).append([line(0), line(10, brief=True)])
    monitor = Monitor(hs.create_objective("infonce"), path=path, echo=lambda words: None)
    monitor.on_train_begin(None, SimpleNamespace(global_step=10, is_world_process_zero=True), None)
    assert (monitor._last_step, monitor._last_whole) == (10, 0)


def test_cheap_measurements_come_every_ten_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("hypersphere.training.monitor.time.perf_counter", lambda: clock[0])
    trainer = trainer_of(tmp_path, 40, disable_tqdm=True, save_strategy="no")
    monitor = watched(trainer, tmp_path / "metrics.jsonl", every=0, echo=lambda words: None)
    trainer.add_callback(Slow(clock, 0.1))
    trainer.train()
    assert sorted({r["step"] for r in read_journal(tmp_path / "metrics.jsonl")}) == [0, 10, 20, 30, 40]
    assert monitor.brief == 0


def test_loggers_get_every_number_and_checkpoints_do_not(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trainer = trainer_of(tmp_path, 10, disable_tqdm=True, save_strategy="no", report_to=["tensorboard"])
    watched(trainer, None, echo=lambda words: None)
    trainer.train()
    event = next(tmp_path.rglob("events.out.tfevents*"))
    events = EventAccumulator(str(event.parent))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert {"train/uniformity", "eval/uniformity", "train/effective_rank", "train/loss"} <= tags
    assert [scalar.step for scalar in events.Scalars("eval/gap")] == [0, 5, 10]
    assert not any("uniformity" in entry for entry in trainer.state.log_history)


def test_a_full_disk_is_said_once_and_the_run_goes_on() -> None:
    said: list[str] = []
    z1, z2 = views()
    monitor = Monitor(
        hs.create_objective("infonce"), training=lambda: (z1, z2, None), path="/dev/full", echo=said.append
    )
    for step in range(3):
        monitor.observe(step)
    assert len(said) == 1
    assert "cannot be written" in said[0]
    assert "No space left" in said[0]
    assert [r["step"] for r in monitor.journal.records] == [0, 1, 2]


def test_what_is_still_to_come_is_counted_step_by_step() -> None:
    for every in (1, 3, 7, 50):
        for most in (1, 9, 21):
            due = [step for step in range(1, most + 1) if step % every == 0 or step == most]
            assert all(multiples(at, most, every) == sum(step > at for step in due) for at in range(most + 1))


@pytest.mark.parametrize("guided", [False, True])
def test_a_run_measures_with_the_ids_and_the_guide_it_trains_with(tmp_path: Path, guided: bool) -> None:
    source = worlds.pairs(tmp_path, different=5)
    objective = {"name": "infonce", "temperature": 0.1}
    if guided:
        objective |= {"guide": str(worlds.sentence_model(tmp_path)), "guide_margin": 0.02}
    tree = worlds.text_recipe(
        tmp_path,
        data={"source": str(source), "views": "pairs", "held_out": 8},
        encoder={"dropout": 0.0},
        objective=objective,
    )
    task = create_task(parse_recipe(tree), tmp_path / "run", print)
    monitor = watch(task, parse_recipe(tree), tmp_path / "metrics.jsonl", print)
    monitor.observe(0)
    journal = {line["split"]: line for line in read_journal(tmp_path / "metrics.jsonl")}
    for split, batch in (("training", task.sample), ("held_out", task.held_out[0])):
        known = task.trainer.known(batch)
        assert "ids" in known and ("guide" in known) == guided
        with torch.no_grad():
            z = task.trainer.loss.project(task.trainer.embed(task.trainer.encoder, batch))
            value = task.trainer.loss.objective(z[0], z[1], **known).item()
            plain = hs.create_objective("infonce", temperature=0.1)(z[0], z[1]).item()
        assert journal[split]["objective"] == pytest.approx(value, rel=1e-5) and value < plain - 0.05
        anatomy = hs.dissect(task.trainer.loss.objective, z[0], z[1], **known)
        assert journal[split]["dissipation"] == pytest.approx(anatomy.dissipation.nanmean().item(), rel=1e-5)
        ids, cosines = known["ids"], unit(z[0]) @ unit(z[1]).T
        gaps = []
        for i in range(len(ids)):
            left = [j for j in range(len(ids)) if bool(anatomy.counted[i, j])]
            assert not any(ids[i] == ids[j] for j in left)
            gaps += [float(cosines[i, i]) - max(float(cosines[i, j]) for j in left)] if left else []
        assert journal[split]["hardest_gap"] == pytest.approx(sum(gaps) / len(gaps), rel=1e-4)
