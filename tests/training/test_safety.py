"""A run that is killed, starved of disk, fed with NaN or split over processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from hypersphere.training.checkpoints import newest_whole, trouble
from hypersphere.training.reading import parse_recipe
from hypersphere.training.run import NotPreparedError, train
from tests.training import worlds

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def quiet(sentence: str) -> None:
    """Nothing to say."""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "hypersphere", "train", *words]


def weights(run: Path) -> dict[str, torch.Tensor]:
    found = {}
    for path in [*(run / "model").rglob("*.safetensors"), run / "objective.safetensors"]:
        found.update({f"{path.name}:{name}": value for name, value in load_file(path).items()})
    return found


def assert_same(first: Path, second: Path, tolerance: float = 0.0) -> None:
    one, other = weights(first), weights(second)
    assert one.keys() == other.keys() and len(one) > 5
    for name in one:
        assert torch.allclose(one[name], other[name], rtol=0, atol=tolerance), name


@pytest.mark.parametrize(
    "world, moment, step",
    [
        ("text", "checkpoint-5/sealed.json", 5),
        ("digits", "checkpoint-10/sealed.json", 10),
        ("digits", "checkpoint-5", 0),
    ],
    ids=["text-after-5", "digits-after-10", "digits-while-5-is-written"],
)
def test_a_killed_run_resumes_to_the_weights_of_an_undisturbed_one(
    tmp_path: Path, world: str, moment: str, step: int
) -> None:
    """The schedule is constant: at a rate of zero, a step too many would not show. All in processes of their own, since
    another number of threads adds up in another order."""
    make = worlds.text_recipe if world == "text" else worlds.digits_recipe
    changes: dict[str, Any] = {"steps": 16, "checkpoint": {"every": 5}}
    if world == "digits":
        changes["evaluation"] = {"every": 4, "best": False}
    path = str(worlds.recipe_file(tmp_path, **make(tmp_path, **changes, schedule={"name": "constant"})))
    subprocess.run(command(path, f"output={tmp_path / 'whole'}"), env=ENVIRONMENT, capture_output=True, check=True)
    run, nowhere = tmp_path / "run", subprocess.DEVNULL
    with subprocess.Popen(command(path), env=ENVIRONMENT, stderr=nowhere, stdout=nowhere) as job:
        while not (run / "checkpoints" / moment).exists() and job.poll() is None:
            time.sleep(0.001)
        job.send_signal(signal.SIGKILL)
    assert not (run / "results.json").exists()
    done = subprocess.run(command(path, "--resume"), env=ENVIRONMENT, capture_output=True, check=True, text=True)
    continued = next(line for line in done.stdout.splitlines() if line.startswith("Continuing from step "))
    assert int(continued.split()[-1].strip(".")) >= step
    assert_same(tmp_path / "whole", run)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [(line["step"], line["split"]) for line in lines]
    assert len(steps) == len(set(steps)) > 2


def test_a_run_killed_after_its_last_step_is_not_trained_further(tmp_path: Path) -> None:
    changes = {"steps": 6, "checkpoint": {"every": 3}, "schedule": {"name": "constant"}, "evaluation": {"best": False}}
    tree = worlds.digits_recipe(tmp_path, **changes)
    train(parse_recipe({**tree, "output": str(tmp_path / "whole")}), say=quiet)
    train(parse_recipe(tree), say=quiet)
    (tmp_path / "run" / "results.json").unlink()
    finished = train(parse_recipe(tree), resume=True, say=quiet)
    assert finished.results["steps"] == 6
    assert set(finished.results["history"]) == {0, 3, 6}
    assert_same(tmp_path / "whole", tmp_path / "run")


def test_a_run_that_goes_on_cannot_be_resumed_by_another(tmp_path: Path) -> None:
    import fcntl

    tree = worlds.digits_recipe(tmp_path)
    train(parse_recipe(tree), say=quiet)
    (tmp_path / "run" / "results.json").unlink()
    with (tmp_path / "run" / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(NotPreparedError, match="being trained by another process"):
            train(parse_recipe(tree), resume=True, say=quiet)
    train(parse_recipe(tree), resume=True, say=quiet)


def test_somebody_elses_files_stay_where_they_are(tmp_path: Path) -> None:
    mine = tmp_path / "run" / "checkpoints" / "checkpoint-1" / "mine.bin"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(NotPreparedError, match="not empty and holds no run"):
        train(parse_recipe(worlds.digits_recipe(tmp_path)), say=quiet)
    assert mine.read_text() == "mine"


def test_the_weights_kept_as_best_are_those_of_the_best_step(tmp_path: Path) -> None:
    """Scores are planted; a run resumed from an earlier checkpoint finds the weights that were the best then."""
    from hypersphere.training.evaluating import Evaluation
    from hypersphere.training.images import prepare_images

    task = prepare_images(parse_recipe(worlds.digits_recipe(tmp_path)), tmp_path / "run", quiet)
    planted = iter([50.0, float("nan"), 70.0, 60.0, 80.0])
    task.score = lambda: {"knn": next(planted)}
    evaluation = Evaluation(task, tmp_path / "best", 1, True, quiet)
    weight = next(task.trainer.encoder.parameters())
    for step in range(5):
        task.trainer.state.global_step = step
        task.trainer.state.is_world_process_zero = True
        with torch.no_grad():
            weight.fill_(float(step))
        evaluation._evaluate(task.trainer.state)
        if step == 3:
            (tmp_path / "run" / "checkpoints" / "checkpoint-3").mkdir(parents=True)
    assert evaluation.best == 4
    evaluation.remember(3)
    assert evaluation.restore_best() == 2
    assert weight.flatten()[0].item() == 2.0


def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path: Path) -> None:
    tree = worlds.digits_recipe(tmp_path, steps=8, checkpoint={"every": 2, "keep": 3})
    train(parse_recipe({**tree, "output": str(tmp_path / "whole")}), say=quiet)
    train(parse_recipe(tree), say=quiet)
    run = tmp_path / "run"
    (run / "results.json").unlink()  # as if it had died just before the end
    newest, before = run / "checkpoints" / "checkpoint-8", run / "checkpoints" / "checkpoint-6"
    file = newest / "optimizer.pt"
    file.write_bytes(file.read_bytes()[:-100])
    (before / "sealed.json").unlink()
    assert trouble(newest) == "has a damaged optimizer.pt"
    found, said = newest_whole(run / "checkpoints")
    assert found is not None and found.name == "checkpoint-4" and len(said) == 2
    heard: list[str] = []
    train(parse_recipe(tree), resume=True, say=heard.append)
    assert any("damaged optimizer.pt" in sentence for sentence in heard)
    assert any("Checkpoint-6 was not finished" in sentence for sentence in heard)
    assert_same(tmp_path / "whole", run)


def test_a_full_disk_costs_a_checkpoint_and_not_the_run(tmp_path: Path) -> None:
    """No file may pass 60 kB in the child: the weights fit, the optimiser's state does not."""
    tree = worlds.digits_recipe(tmp_path, steps=4, checkpoint={"every": 2}, encoder={"width": 8}, loggers=[])
    path = worlds.recipe_file(tmp_path, **tree)
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)); "
        "from hypersphere.cli import main; sys.argv[1:] = ['train', sys.argv[1]]; main()"
    )
    done = subprocess.run([sys.executable, "-c", limited, str(path)], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Checkpoint of step 2 could not be written" in done.stdout
    assert not list((tmp_path / "run" / "checkpoints").glob("checkpoint-*"))
    assert (tmp_path / "run" / "model" / "encoder.safetensors").is_file()


def test_a_disk_that_takes_no_weights_costs_the_best_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hypersphere.training import evaluating

    def full(module: torch.nn.Module, path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(evaluating, "save_weights", full)
    said: list[str] = []
    finished = train(parse_recipe(worlds.digits_recipe(tmp_path)), say=said.append)
    assert any("could not be kept" in sentence and "No space left" in sentence for sentence in said)
    assert finished.results["best_step"] is None


def test_a_loss_that_is_no_number_stops_the_run_with_its_rows(tmp_path: Path) -> None:
    tree = worlds.text_recipe(tmp_path, optimizer={"lr": 1e30, "max_grad_norm": 0.0}, steps=6)
    path = worlds.recipe_file(tmp_path, **tree)
    done = subprocess.run(command(str(path)), env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "not finite at step" in done.stderr and "rows of the batch: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run" / "results.json").exists()


def test_a_head_whose_output_is_no_number_stops_the_run_too(tmp_path: Path) -> None:
    """The encoder's rows are finite still when the head's are not any more."""
    words = ["digits", "optimizer.name=sgd", "optimizer.lr=1e6", "steps=30", f"output={tmp_path / 'run'}"]
    done = subprocess.run(command(*words), env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "not finite at step" in done.stderr and "rows of the batch: " in done.stderr
    assert "Traceback" not in done.stderr


def test_json_alone_is_printed_where_it_is_asked_for(tmp_path: Path) -> None:
    path = worlds.recipe_file(tmp_path, **worlds.digits_recipe(tmp_path))
    done = subprocess.run(command(str(path), "--json"), env=ENVIRONMENT, capture_output=True, text=True)
    assert json.loads(done.stdout)["steps"] == 6
    assert "Encoder: " in done.stderr


def losses(run: Path, step: int) -> list[float]:
    state = json.loads((run / "checkpoints" / f"checkpoint-{step}" / "trainer_state.json").read_text())
    return [entry["loss"] for entry in state["log_history"] if "loss" in entry]


def launched(launcher: list[str], path: Path, *words: str) -> None:
    done = subprocess.run([*launcher, "-m", "hypersphere", "train", str(path), *words], env=ENVIRONMENT,
                          capture_output=True, text=True, timeout=110)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
ACCELERATE = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2",
              "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no",
              "--main_process_port", "0"]  # fmt: skip


@pytest.mark.parametrize(
    "world, launcher",
    [("text", TORCHRUN), ("digits", ACCELERATE)],
    ids=["text-torchrun", "digits-accelerate"],
)
def test_two_processes_are_one_with_the_same_global_batch(tmp_path: Path, world: str, launcher: list[str]) -> None:
    """Negatives of both, uneven shares (a batch of 9), a head and a learned temperature beside the encoder."""
    changes: dict[str, Any] = {
        "steps": 5,
        "checkpoint": {"every": 5},
        "batch": {"size": 9, "chunk": 4} if world == "text" else {"size": 17},
        "objective": {"name": "infonce", "temperature": 0.2, "learnable": True},
        "optimizer": {"name": "sgd", "lr": 0.1},
    }
    if world == "text":
        tree = worlds.text_recipe(
            tmp_path,
            data={"source": str(worlds.pairs(tmp_path)), "views": "pairs"},
            encoder={"dropout": 0.0},
            **changes,
        )
    else:
        tree = worlds.digits_recipe(tmp_path, augmentation={"name": "none"}, **changes)
    train(parse_recipe({**tree, "output": str(tmp_path / "one")}), say=quiet)
    launched(launcher, worlds.recipe_file(tmp_path, **tree), f"output={tmp_path / 'two'}")
    assert losses(tmp_path / "two", 5) == pytest.approx(losses(tmp_path / "one", 5), rel=1e-5)
    assert len(losses(tmp_path / "one", 5)) == 5
    assert abs(losses(tmp_path / "one", 5)[-1] - losses(tmp_path / "one", 5)[0]) > 0.05  # it did move
    assert_same(tmp_path / "one", tmp_path / "two", tolerance=2e-6)


def test_a_run_is_resumed_only_with_its_own_recipe(tmp_path: Path) -> None:
    tree = worlds.digits_recipe(tmp_path)
    train(parse_recipe(tree), say=quiet)
    (tmp_path / "run" / "results.json").unlink()
    with pytest.raises(NotPreparedError, match="--resume continues it"):
        train(parse_recipe(tree), say=quiet)
    with pytest.raises(NotPreparedError, match=r"optimizer.lr=0.001, now it is 0.5"):
        train(parse_recipe({**tree, "optimizer": {"lr": 0.5}}), resume=True, say=quiet)
    with pytest.raises(NotPreparedError, match="no run to resume"):
        train(parse_recipe({**tree, "output": str(tmp_path / "other")}), resume=True, say=quiet)
