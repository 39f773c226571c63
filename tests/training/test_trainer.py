"""The trainer: its batches, LARS, weights on the disk, and losses that are no numbers."""

from __future__ import annotations

import os
import resource
import stat
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from hypersphere import processes
from hypersphere.cli.app import app
from hypersphere.training.trainer import LARS, Batches, Loader, save_weights
from tests.training import worlds


def write_peak(folder: Path) -> None:
    """How many kilobytes of memory it takes to write 67 MB of weights, measured in a process of its own."""
    save_weights(torch.nn.Linear(2, 2), folder / "weights")
    module = torch.nn.Linear(4096, 4096)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    save_weights(module, folder / "weights")
    (folder / "peak").write_text(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))


def test_weights_are_readable_by_all_like_everything_else(trained: Path) -> None:
    files = [trained / "objective.safetensors", trained / "recipe.yaml", *(trained / "best").iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o644}


def test_weights_reach_the_disk_before_their_name_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library that writes them puts one file in the place of another: the one that stays must be synced."""

    synced: list[tuple[int, bool]] = []
    real = os.fsync

    def noted(handle: int) -> None:
        synced.append((os.fstat(handle).st_ino, (tmp_path / "w").exists()))
        real(handle)

    monkeypatch.setattr(os, "fsync", noted)
    save_weights(torch.nn.Linear(2, 2), tmp_path / "w")
    assert synced == [((tmp_path / "w").stat().st_ino, False), (tmp_path.stat().st_ino, True)]


def test_weights_are_written_without_a_copy_of_the_file_in_memory(tmp_path: Path) -> None:
    """67 MB of weights: they are cloned, since two names may share memory, and no more."""
    processes.start(write_peak, tmp_path).join()
    assert 0.9 * 4096 * 4097 * 4 < 1000 * int((tmp_path / "peak").read_text()) < 1.5 * 4096 * 4097 * 4


def test_batches_are_the_same_however_many_processes_share_them() -> None:
    alone = list(Batches(100, 9, seed=1))
    assert len(alone) == 11 and len({row for batch in alone for row in batch}) == 99
    shared = [list(Batches(100, 9, seed=1, rank=rank, world=2)) for rank in range(2)]
    assert [a + b for a, b in zip(*shared, strict=True)] == alone
    assert {len(batch) for batch in shared[0]} == {5} and {len(batch) for batch in shared[1]} == {4}


def test_every_epoch_and_every_seed_has_an_order_of_its_own() -> None:
    batches = Batches(100, 10, seed=1)
    first = list(batches)
    batches.set_epoch(1)
    assert list(batches) != first != list(Batches(100, 10, seed=2))
    batches.set_epoch(0)
    assert list(batches) == first


def test_loading_leaves_the_random_generator_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert len(list(Loader(list(range(20)), Batches(20, 5, seed=0), list))) == 4  # type: ignore[arg-type]
    assert torch.equal(before, torch.get_rng_state())


def test_too_few_rows_or_too_many_processes_are_refused() -> None:
    with pytest.raises(ValueError, match="3 rows to train on, fewer than one batch of 4"):
        Batches(3, 4, seed=0)
    with pytest.raises(ValueError, match="leaves 3 processes"):
        Batches(100, 4, seed=0, world=3)


def test_lars_steps_by_the_trust_ratio() -> None:
    """Two steps of one matrix and one bias, written out."""
    weight, bias = torch.nn.Parameter(torch.tensor([[3.0, 4.0]])), torch.nn.Parameter(torch.tensor([1.0]))
    optimizer = LARS([weight, bias], lr=0.1, momentum=0.9, weight_decay=0.5, trust=0.01)
    w, b, v, u = [3.0, 4.0], 1.0, [0.0, 0.0], 0.0
    for gradient in ([1.0, 2.0], [-1.0, 0.5]):
        weight.grad, bias.grad = torch.tensor([gradient]), torch.tensor([2.0])
        optimizer.step()
        decayed = [g + 0.5 * x for g, x in zip(gradient, w, strict=True)]
        ratio = 0.01 * (w[0] ** 2 + w[1] ** 2) ** 0.5 / (decayed[0] ** 2 + decayed[1] ** 2) ** 0.5
        v = [0.9 * old + ratio * g for old, g in zip(v, decayed, strict=True)]
        w = [x - 0.1 * change for x, change in zip(w, v, strict=True)]
        u = 0.9 * u + 2.0
        b -= 0.1 * u
    assert weight.tolist()[0] == pytest.approx(w, rel=1e-6)
    assert bias.item() == pytest.approx(b, rel=1e-6)


def test_a_full_disk_costs_a_checkpoint_and_not_the_run(tmp_path: Path) -> None:
    """No file may pass 60 kB: the weights fit, the optimiser's state does not."""
    tree = worlds.digits_recipe(tmp_path, steps=4, checkpoint={"every": 2}, encoder={"width": 8}, loggers=[])
    path = worlds.recipe_file(tmp_path, **tree)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    try:
        done = CliRunner().invoke(app, ["train", str(path)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.exit_code == 0, done.output
    assert "Checkpoint of step 2 could not be written" in done.stdout
    assert not list((tmp_path / "run" / "checkpoints").glob("checkpoint-*"))
    assert (tmp_path / "run" / "model" / "encoder.safetensors").is_file()


def test_a_loss_that_is_no_number_stops_the_run_with_its_rows(tmp_path: Path) -> None:
    tree = worlds.text_recipe(tmp_path, optimizer={"lr": 1e30, "max_grad_norm": 0.0}, steps=6)
    path = worlds.recipe_file(tmp_path, **tree)
    done = CliRunner().invoke(app, ["train", str(path)])
    assert done.exit_code == 1
    assert "not finite at step" in done.stderr and "rows of the batch: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run" / "results.json").exists()


def test_a_head_whose_output_is_no_number_stops_the_run_too(tmp_path: Path) -> None:
    """The encoder's rows are finite still when the head's are not any more."""
    words = ["digits", "optimizer.name=sgd", "optimizer.lr=1e6", "steps=30", f"output={tmp_path / 'run'}"]
    done = CliRunner().invoke(app, ["train", *words])
    assert done.exit_code == 1
    assert "not finite at step" in done.stderr and "rows of the batch: " in done.stderr
    assert "Traceback" not in done.stderr
