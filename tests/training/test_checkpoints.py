"""Checkpoints: how often, and that only whole ones are used."""

from __future__ import annotations

from pathlib import Path

from hypersphere.training.checkpoints import newest_whole, steps_between, trouble
from hypersphere.training.load import parse_recipe
from hypersphere.training.run import train
from tests.training import worlds
from tests.training.worlds import assert_same, quiet


def test_every_run_is_saved_four_times() -> None:
    for steps in range(1, 400):
        for every in (1, 2, 5, 50, 200, 500):
            chosen = steps_between(every, steps)
            times = {*range(chosen, steps + 1, chosen), steps}
            assert len(times) >= min(4, steps) and chosen <= every
            assert chosen == every or len({*range(every, steps + 1, every), steps}) < 4


def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path: Path) -> None:
    tree = worlds.digits_recipe(tmp_path, steps=8, checkpoint={"every": 2, "keep": 3})
    train(parse_recipe({**tree, "output": str(tmp_path / "whole")}), echo=quiet)
    train(parse_recipe(tree), echo=quiet)
    run = tmp_path / "run"
    (run / "results.json").unlink()  # as if it had died just before the end
    newest, before = run / "checkpoints" / "checkpoint-8", run / "checkpoints" / "checkpoint-6"
    file = newest / "optimizer.pt"
    file.write_bytes(file.read_bytes()[:-100])
    (before / "sealed.json").unlink()
    assert trouble(newest) == "has a damaged optimizer.pt"
    checkpoint, said = newest_whole(run / "checkpoints")
    assert checkpoint is not None and checkpoint.name == "checkpoint-4" and len(said) == 2
    heard: list[str] = []
    train(parse_recipe(tree), resume=True, echo=heard.append)
    assert any("damaged optimizer.pt" in sentence for sentence in heard)
    assert any("Checkpoint-6 was not finished" in sentence for sentence in heard)
    assert_same(tmp_path / "whole", run)
