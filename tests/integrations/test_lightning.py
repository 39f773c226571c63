"""Lightning: a module with the mixin gives the weights of a plain loop; loggers get terms and held-out numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import hypersphere as hs
from tests.integrations import planted, small

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*isinstance.treespec, LeafSpec.:FutureWarning",  # Lightning's own, of torch
    "ignore:The 'train_dataloader' does not have many workers",
    "ignore:The number of training batches",
)


def logger() -> Any:
    from lightning.pytorch.loggers import Logger

    class Kept(Logger):
        """Keeps what it is given."""

        name, version = "kept", 0

        def __init__(self) -> None:
            super().__init__()
            self.lines: list[dict[str, Any]] = []

        def log_hyperparams(self, *given: Any) -> None: ...

        def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
            self.lines.append({"step": step, **metrics})

    return Kept()


def test_a_module_ends_with_the_weights_of_a_plain_loop_and_logs_its_terms() -> None:
    kept = logger()
    small.assert_same(small.with_lightning(logger=kept), small.expected())
    lines = [line for line in kept.lines if "train/loss" in line]
    assert len(lines) == small.STEPS
    batch = next(iter(small.batches()))
    terms = small.objective().terms(*small.Encoder()(**batch))
    assert len(terms) > 1
    for name, value in terms.items():
        assert lines[0][f"train/{name}"] == pytest.approx(value.item(), rel=1e-5)


def test_held_out_numbers_are_logged_and_a_collapse_is_reported_once() -> None:
    from lightning.pytorch import Callback

    said: list[str] = []
    seen: list[float] = []

    class Sees(Callback):
        """As EarlyStopping does."""

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            assert module.training
            seen.append(float(trainer.callback_metrics["held_out/effective_rank"]))

    kept = logger()
    callback = hs.integrations.lightning.HeldOutCallback(planted.Collapsing(), every=1, echo=said.append)
    weights = small.with_lightning(callbacks=[callback, Sees()], logger=kept)
    numbers = [line for line in kept.lines if "held_out/alignment" in line]
    assert [line["step"] for line in numbers] == [0, 1, 2, 3]
    planted.check(numbers, said, "held_out/")
    assert seen == [pytest.approx(numbers[-1]["held_out/effective_rank"])]
    small.assert_same(weights, small.expected())


def test_what_cannot_work_is_answered_with_one_sentence() -> None:
    module = hs.integrations.lightning
    with pytest.raises(TypeError, match="needs LightningModule among its bases"):
        module.ContrastiveMixin().set_objective("infonce")
    with pytest.raises(ValueError, match="embed must be a function of the model that returns two views, not a tuple"):
        module.HeldOutCallback((torch.eye(3), torch.eye(3)))
    with pytest.raises(ValueError, match="at least 1, not 0"):
        module.HeldOutCallback(lambda model: None, every=0)

    class Module(module.ContrastiveMixin, torch.nn.Module):  # type: ignore[misc, name-defined]
        pass

    ours = Module()
    with pytest.raises(ValueError, match=r"Module has no objective yet: call set_objective\(name, …\) in its __init__"):
        ours.contrastive_step(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(
        ValueError, match="objective must be a name or an objective of hypersphere, not builtin_function_or_method"
    ):
        ours.set_objective(torch.relu)
    with pytest.raises(ValueError, match="settings go with the name"):
        ours.set_objective(hs.create_objective("met"), margin=0.3)
    ours.set_objective("met", margin=0.3, gather=False)
    with pytest.raises(ValueError, match=r"met reads no labels: call contrastive_step\(z1, z2\) without them"):
        ours.contrastive_step(torch.ones(2, 3), torch.ones(2, 3), torch.tensor([0, 1]))
    assert repr(ours.objective) == "MET(margin=0.3)" and list(ours.children()) == [ours.objective]
    ours.set_objective("met")
    assert ours.objective.gather


def test_the_lines_of_the_page_run_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(small.section("Lightning"), names)
    assert names["held_out"].held_out.records[-1]["step"] == 7
