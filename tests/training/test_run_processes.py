"""Runs on two processes: the run of one process with the same batch, and stopped together."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hypersphere import processes
from hypersphere.cli import main
from hypersphere.training.checkpoints import last_sealed, trouble
from hypersphere.training.load import parse_recipe
from hypersphere.training.run import train
from hypersphere.training.trainer import ObjectiveTraining
from tests.training import worlds
from tests.training.worlds import ENVIRONMENT, assert_same, quiet

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
ACCELERATE = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2",
              "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no",
              "--main_process_port", "0"]  # fmt: skip


def recipe(folder: Path, world: str) -> dict[str, Any]:
    """Negatives of both, uneven shares (a batch of 9), a head and a learned temperature beside the encoder, texts that
    are equal on both, and a model that guides both."""
    changes: dict[str, Any] = {
        "steps": 5,
        "checkpoint": {"every": 5},
        "batch": {"size": 9, "chunk": 4} if world == "text" else {"size": 17},
        "objective": {"name": "infonce", "temperature": 0.2, "learnable": True},
        "optimizer": {"name": "sgd", "lr": 0.1},
        "output": str(folder / "two"),
    }
    if world == "digits":
        return worlds.digits_recipe(folder, augmentation={"name": "none"}, **changes)
    changes["objective"] |= {"guide": str(worlds.sentence_model(folder)), "guide_margin": 0.02}
    data = {"source": str(worlds.pairs(folder, different=16)), "views": "pairs"}
    return worlds.text_recipe(folder, data=data, encoder={"dropout": 0.0}, **changes)


def launch(launcher: list[str], *words: str) -> str:
    """What ``hypersphere train`` prints, and to where."""
    command = [*launcher, "-m", "hypersphere", "train", *words]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Encoder: " in (done.stderr if "--json" in words else done.stdout)
    return done.stdout


def run_signalled(rank: int, port: int, folder: Path) -> None:
    """The command on one of two processes, of which the second hears a signal. A launcher would set the same."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ.update(place, RANK=str(rank), LOCAL_RANK=str(rank))
    usual = ObjectiveTraining.training_step

    def hit(self: Any, *given: Any, **more: Any) -> Any:
        if self.state.global_step == 2 and rank == 1:
            signal.raise_signal(signal.SIGTERM)
        return usual(self, *given, **more)

    ObjectiveTraining.training_step = hit  # type: ignore[method-assign]
    sys.argv = ["hypersphere", "train", str(folder / "recipe.yaml")]
    with (folder / f"printed{rank}").open("w") as sys.stdout, (folder / f"said{rank}").open("w") as sys.stderr:
        main()


def losses(run: Path, step: int) -> list[float]:
    state = json.loads((run / "checkpoints" / f"checkpoint-{step}" / "trainer_state.json").read_text())
    return [entry["loss"] for entry in state["log_history"] if "loss" in entry]


def assert_as_on_one_process(folder: Path, world: str) -> None:
    one, two = folder / "one", folder / "two"
    train(parse_recipe({**recipe(folder, world), "output": str(one)}), echo=quiet)
    assert losses(two, 5) == pytest.approx(losses(one, 5), rel=1e-5)
    assert len(losses(one, 5)) == 5
    assert abs(losses(one, 5)[-1] - losses(one, 5)[0]) > 0.05  # it did move
    assert_same(one, two, tolerance=2e-6)
    masked = [json.loads((run / "results.json").read_text()).get("masked_pairs") for run in (one, two)]
    assert masked[0] == masked[1] and bool(masked[0]) == (world == "text")


def test_two_processes_of_torchrun_are_one_with_the_same_global_batch(tmp_path: Path) -> None:
    launch(TORCHRUN, str(worlds.recipe_file(tmp_path, **recipe(tmp_path, "text"))))
    assert_as_on_one_process(tmp_path, "text")


def test_two_processes_of_accelerate_are_one_and_print_json_alone(tmp_path: Path) -> None:
    printed = launch(ACCELERATE, str(worlds.recipe_file(tmp_path, **recipe(tmp_path, "digits"))), "--json")
    assert json.loads(printed)["steps"] == 5
    assert_as_on_one_process(tmp_path, "digits")


def test_of_two_processes_one_hears_the_signal_and_both_save(tmp_path: Path) -> None:
    changes = {
        "steps": 9,
        "checkpoint": {"every": 500},
        "schedule": {"name": "constant"},
        "evaluation": {"best": False, "every": 4},
    }
    worlds.recipe_file(tmp_path, **worlds.digits_recipe(tmp_path, **changes))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    both = [processes.start(run_signalled, rank, port, tmp_path, daemon=True) for rank in (0, 1)]
    for process in both:
        process.join()
    said = "".join((tmp_path / f"said{rank}").read_text() for rank in (0, 1))
    assert said.count("Interrupted; step 3 is saved, and the same command with --resume continues it.") == 1
    checkpoints = tmp_path / "run" / "checkpoints"
    assert last_sealed(checkpoints) == 3 and trouble(checkpoints / "checkpoint-3") == ""
    assert {f"rng_state_{rank}.pth" for rank in (0, 1)} <= {
        each.name for each in (checkpoints / "checkpoint-3").iterdir()
    }
    assert [process.exitcode for process in both] == [143, 143]
