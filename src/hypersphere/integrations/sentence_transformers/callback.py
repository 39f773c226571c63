"""The monitor as a callback of sentence-transformers' trainer; it also keeps the loss's own parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from hypersphere.integrations.sentence_transformers.embed import unwrapped
from hypersphere.integrations.sentence_transformers.evaluator import CheckUp, Evaluator
from hypersphere.integrations.sentence_transformers.loss import Loss
from hypersphere.objectives import Objective, create_objective
from hypersphere.objectives.base import within
from hypersphere.report import atomic_write
from hypersphere.training.journal import Record
from hypersphere.training.measurements import Views
from hypersphere.training.monitor import Monitor
from hypersphere.training.seeding import drawn_order
from hypersphere.training.verdicts import THRESHOLDS, Verdict

STATE = "loss.safetensors"  # beside the model in a checkpoint
RETRIEVAL = "retrieval"  # the journal's split for ranks of held-out positives


class Callback(Monitor):
    """Measures held-out texts and a sample of the training data while the trainer runs, and prints a verdict with a
    remedy when something goes wrong: the embeddings collapse or all point one way, the run overfits, or retrieval on
    the held-out pairs is worse than before training.

    loss: the trainer's. A checkpoint gets its own parameters (a learned temperature) as loss.safetensors, and a
        resumed run reads them. It gets the trainer's prompts, see ``Loss``.
    held_out: an ``Evaluator``, whose texts are measured; the trainer may have the same one.
    training: an ``Evaluator`` with training texts; None: a sample of the trainer's dataset.
    every: steps between measurements; 0: as often as a twentieth of the time allows (see ``Monitor``).
    path: metrics.jsonl; None: in the trainer's output_dir.
    """

    def __init__(
        self,
        loss: nn.Module | Mapping[str, nn.Module],
        held_out: Evaluator,
        *,
        training: Evaluator | None = None,
        every: int = 0,
        rows: int = 256,
        path: Path | str | None = None,
        echo: Callable[[str], None] | None = None,
        seed: int = 0,
    ) -> None:
        if isinstance(loss, Mapping):  # one for each dataset
            loss = nn.ModuleDict(loss)
        if not isinstance(loss, nn.Module) or not isinstance(held_out, Evaluator):
            raise ValueError(
                "a callback is given the trainer's loss and an Evaluator of held-out texts, not "
                f"{type(loss).__name__} and {type(held_out).__name__}"
            )
        self.loss, self.held_out, self.training = loss, held_out, training
        self.own = next((each for each in loss.modules() if isinstance(each, Loss)), None)
        self.model: Any = None
        self.check_up: CheckUp | None = None
        self.findings: set[str] = set()  # names of those that were announced
        self.worse = False  # whether it was said that retrieval is
        super().__init__(
            _measured(self.own),
            training=self._training_views,
            held_out=self._held_out_views,
            every=every,
            rows=rows,
            path=path,
            echo=echo,
            seed=seed,
        )

    # --- views of the texts

    def _training_views(self) -> Views | None:
        return None if self.training is None else self._views(self.training, self.training.check_up(self.model))

    def _held_out_views(self) -> Views:
        self.check_up = self.held_out.check_up(self.model)
        return self._views(self.held_out, self.check_up)

    def _views(self, evaluator: Evaluator, check_up: CheckUp) -> Views:
        """The embeddings of pairs; for texts alone, two by different dropout."""
        if len(check_up.views) == 2:
            return check_up.views[0], check_up.views[1], None
        self.model.train()
        texts = evaluator.anchors[: self.rows]
        tokens = self.model.preprocess(texts, prompt=evaluator.anchor_prompt)
        tokens = {
            name: each.to(self.model.device) if isinstance(each, Tensor) else each for name, each in tokens.items()
        }
        first, second = (self.model(dict(tokens))["sentence_embedding"] for _ in range(2))
        return first, second, None

    # --- verdicts beyond the monitor's

    def _measure(self, step: int, model: nn.Module | None, brief: bool, more: dict[str, float]) -> list[Verdict]:
        verdicts = super()._measure(step, model, brief, more)
        if self.check_up is not None:
            self._announce_findings(self.check_up, step)
            if self.check_up.reciprocal_ranks is not None:
                self._write_down([_record(step, self.check_up.reciprocal_ranks)])
            if not self.worse and (verdict := worse_retrieval(self.journal.records)) is not None:
                self.worse = True
                self.echo(str(verdict))
        return verdicts

    def _announce_findings(self, check_up: CheckUp, step: int) -> None:
        for finding in check_up.diagnosis.findings:
            if finding.name not in self.findings:
                score = check_up.metrics["mean_cosine"]
                self.echo(f"Held-out texts at step {step}, any two of which score {score:.2f} on average: {finding}")
        self.findings |= {finding.name for finding in check_up.diagnosis.findings}

    # --- in the trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.model = unwrapped(kwargs["model"])
        for each in self.loss.modules():
            if isinstance(each, Loss) and args.prompts:
                each.set_prompts(args.prompts)
        if self.journal.path is None:
            self.journal.path = Path(args.output_dir) / "metrics.jsonl"
        if self.training is None:
            self.training = _sample(kwargs.get("train_dataloader"), self.rows, self.seed)
        if state.global_step:
            self._resume(args, state)
        super().on_train_begin(args, state, control, **kwargs)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        folder = Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
        own = own_state(self.loss)
        if state.is_world_process_zero and own and folder.is_dir():
            atomic_write(folder / STATE, lambda place: save_file(own, place))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if args.load_best_model_at_end and state.best_model_checkpoint:
            self._restore(Path(state.best_model_checkpoint))
        super().on_train_end(args, state, control, **kwargs)

    def _resume(self, args: Any, state: Any) -> None:
        """Reads the loss's own parameters from the checkpoint that the trainer has resumed from, whose path it does not
        pass on: the one in output_dir, or the one that the arguments name."""
        folders = [Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"]
        if isinstance(args.resume_from_checkpoint, str):
            folders.insert(0, Path(args.resume_from_checkpoint))
        for folder in folders:
            if _is_of(state, folder / TRAINER_STATE_NAME):
                self._restore(folder)
                return
        if own_state(self.loss) and state.is_world_process_zero:
            self.echo(
                f"The checkpoint of step {state.global_step} is not in {args.output_dir}, so the loss's own parameters "
                "start anew: give its path as resume_from_checkpoint= of the training arguments too."
            )

    def _restore(self, folder: Path) -> None:
        if not own_state(self.loss):
            return
        if (folder / STATE).is_file():
            restore_state(self.loss, load_file(folder / STATE))
        else:
            self.echo(f"{folder} has no {STATE}, so the loss's own parameters keep their values.")


def _is_of(state: Any, file: Path) -> bool:
    """Whether the trainer has read its state from this file; other callbacks may have logged since."""
    if not file.is_file():
        return False
    saved = TrainerState.load_from_json(str(file))
    logged = [json.dumps(each[: len(saved.log_history)]) for each in (saved.log_history, state.log_history)]
    return saved.global_step == state.global_step and logged[0] == logged[1]  # as texts: NaN is not equal to itself


def _measured(loss: Loss | None) -> Objective:
    """The objective that the monitor measures: the loss's, without what needs more than two views of the texts."""
    usable = [] if loss is None else [each for each in within(loss.objective) if not each.needs]
    return usable[0] if usable else create_objective("infonce")


def _sample(loader: Any, rows: int, seed: int) -> Evaluator | None:
    """Texts of the trainer's dataset, the same for one seed; None if its rows cannot be chosen."""
    data = getattr(loader, "dataset", None)
    if data is None or not hasattr(data, "__getitem__") or not hasattr(data, "__len__") or len(data) < 2:
        return None
    chosen = [data[row] for row in sorted(drawn_order(len(data), seed)[:rows])]
    names = [name for name, value in chosen[0].items() if isinstance(value, str) and name != "dataset_name"][:2]
    if not names or any(not isinstance(row.get(name), str) for row in chosen for name in names):
        return None
    return Evaluator(*([row[name] for row in chosen] for name in names))


def _record(step: int, ranks: Tensor) -> Record:
    return {
        "step": step,
        "split": RETRIEVAL,
        "mean_reciprocal_rank": float(ranks.mean()),
        "recall_at_1": float((ranks == 1).double().mean()),
        "reciprocal_ranks": [round(rank, 6) for rank in ranks.tolist()],
    }


def worse_retrieval(records: list[Record]) -> Verdict | None:
    """The verdict that held-out retrieval is worse than before training: in each of the latest measurements by more
    than two standard errors of the difference, anchor by anchor."""
    history = [record for record in records if record["split"] == RETRIEVAL]
    start, latest = history[:1], history[1:][-THRESHOLDS.confirmed :]
    if len(latest) < THRESHOLDS.confirmed or start[0]["step"] != 0:
        return None
    before = torch.tensor(start[0]["reciprocal_ranks"])
    for record in latest:
        change = torch.tensor(record["reciprocal_ranks"]) - before
        if not change.mean() < -2 * change.std() / len(change) ** 0.5:
            return None
    first, now = start[0], latest[-1]
    best = max(history, key=lambda record: float(record["mean_reciprocal_rank"]))
    return Verdict(
        "worse retrieval", now["step"],
        f"the positive of a held-out anchor comes first for {now['recall_at_1']:.0%} of the anchors "
        f"({first['recall_at_1']:.0%} before training), mean reciprocal rank {now['mean_reciprocal_rank']:.3f} "
        f"({first['mean_reciprocal_rank']:.3f} before): fine-tuning has made the model worse.",
        f"the weights of step {best['step']}, a learning rate ten times smaller, fewer steps; a guide= against false "
        "negatives, a larger batch (mini_batch_size=), training pairs that resemble the held-out ones.",
    )  # fmt: skip


def own_state(loss: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of a loss that are not the model's."""
    state: Mapping[str, Tensor] = loss.state_dict()
    return {
        name: value.detach().cpu().clone().contiguous()
        for name, value in state.items()
        if not {"model", "guide"} & set(name.split("."))
    }


@torch.no_grad()
def restore_state(loss: nn.Module, saved: Mapping[str, Tensor]) -> None:
    state = loss.state_dict()
    for name, value in saved.items():
        if name not in state or state[name].shape != value.shape:
            raise ValueError(
                f"the checkpoint's {STATE} has {name}, which this loss has not: give the loss it was saved with"
            )
        state[name].copy_(value)
