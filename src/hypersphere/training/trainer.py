"""Additions to a Trainer for training on views: head and objective, exact sharding, verified checkpoints.

``ObjectiveTraining`` is mixed into transformers' Trainer (images, synthetic worlds) or sentence-transformers' (text).
The encoder is the Trainer's model; head and objective are ``self.loss``, trained beside it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
import torch.distributed as dist
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Dataset, Sampler
from transformers import Trainer

from hypersphere.engine import Statistics
from hypersphere.engine.distributed import Shard
from hypersphere.geometry.unit import NotFiniteRowsError
from hypersphere.objectives.base import Objective
from hypersphere.report import atomic_write
from hypersphere.training import checkpoints
from hypersphere.training.folder import OBJECTIVE
from hypersphere.training.recipe import Recipe
from hypersphere.training.sections import AdamW
from hypersphere.training.temperature import set_temperature

Inputs = dict[str, Any]  # a batch from the collator: tensors by name, and for text its chunks


class NotFiniteError(ArithmeticError):
    """A loss or gradient is not finite; the message names the place."""


class ViewLoss(nn.Module):
    """Head and objective: from the embeddings of the views to the loss."""

    masked_pairs: Tensor  # (): how many pairs of equal texts the run has met; a buffer where they are masked

    def __init__(self, objective: Objective, head: nn.Module | None = None, hard_negatives: bool = False) -> None:
        """hard_negatives: the third view is that of hard negatives, not of the instances."""
        super().__init__()
        self.objective = objective
        self.hard_negatives = hard_negatives
        self.head = head if head is not None else nn.Identity()

    def project(self, views: Tensor) -> Tensor:
        """Embeddings (V, N, D) through the head, all views in one pass: (V, N, P)."""
        flat: Tensor = self.head(views.flatten(0, 1))
        return flat.view(*views.shape[:2], -1)

    def forward(self, views: Tensor, labels: Tensor | None = None, **known: Any) -> Tensor:
        """``known``: what else is known of the rows, as the objective's call takes it."""
        return self._call(views, labels, known, parts=False)["loss"]

    def terms(self, views: Tensor, labels: Tensor | None = None, **known: Any) -> Statistics:
        return self._call(views, labels, known, parts=True)

    def _call(self, views: Tensor, labels: Tensor | None, known: dict[str, Any], parts: bool) -> Statistics:
        z = self.project(views)
        if self.hard_negatives:  # which are further columns for every anchor
            known = {**known, "negatives": z[2]}
        elif len(z) > 2:
            known = {**known, "views": tuple(z[2:])}
        call = self.objective.terms if parts else self.objective
        loss_or_terms = call(z[0], z[1], labels, **known)
        return loss_or_terms if isinstance(loss_or_terms, dict) else {"loss": loss_or_terms}


if TYPE_CHECKING:
    _Base = Trainer
else:
    _Base = object


class ObjectiveTraining(_Base):
    """Mixed into a Trainer; each task defines ``embed``."""

    recipe: Recipe
    loss: ViewLoss
    echo: Callable[[str], None] = staticmethod(print)

    @property
    def encoder(self) -> nn.Module:
        """The encoder itself, without the wrapper for several processes."""
        assert self.model is not None
        return self.model

    def epoch_of(self, step: int) -> int:
        """The epoch of a step, both counted from 0."""
        rows = len(self.train_dataset)  # type: ignore[arg-type]
        return step // max(1, rows // self.recipe.batch.size)

    def embed(self, model: nn.Module, inputs: Inputs) -> Tensor:
        """Embeddings of the views of a batch, (V, N, D)."""
        raise NotImplementedError

    def known(self, inputs: Inputs) -> dict[str, Any]:
        """What else the objective's call is given of a batch; all processes call it together."""
        return {}

    def known_alone(self, inputs: Inputs) -> dict[str, Any]:
        """The same of a batch that this process alone looks at."""
        return {}

    def compute_loss(
        self, model: nn.Module, inputs: Inputs, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        set_temperature(self.loss.objective, self.recipe.objective, self.epoch_of(self.state.global_step))
        views = self.embed(model, inputs)
        self._rows = inputs["rows"]
        known = self.known(inputs)
        try:
            value = self.loss(views, inputs.get("labels"), **known)
        except NotFiniteRowsError:  # rows of the encoder or of the head
            self._stop(views, inputs, known)
        if not bool(torch.isfinite(value)):
            self._stop(views, inputs, known)
        return (value, {}) if return_outputs else value

    def _stop(self, views: Tensor, inputs: Inputs, known: dict[str, Any]) -> NoReturn:
        bad = (~torch.isfinite(views).all(dim=2)).any(dim=0)
        rows = inputs["rows"]
        which = rows[bad] if bool(bad.any()) else rows
        try:
            values = self.loss.terms(views, inputs.get("labels"), **known)
            terms = ", ".join(f"{name} {float(value.detach()):.4g}" for name, value in values.items())
        except ValueError as error:  # rows that are not finite are refused before any term is computed
            terms = str(error)
        raise NotFiniteError(
            f"the loss is not finite at step {self.state.global_step + 1}; rows of the batch: {_listed(which)}; {terms}"
        )

    def training_step(self, model: nn.Module, inputs: Inputs, num_items_in_batch: Any = None) -> Tensor:
        if self.args.world_size > 1 and not isinstance(model, DistributedDataParallel):
            raise RuntimeError("several processes share this run, but nothing averages their encoders' gradients")
        self.loss.train()
        self.loss.zero_grad()
        value: Tensor = super().training_step(model, inputs, num_items_in_batch)
        if dist.is_available() and dist.is_initialized():
            for parameter in self.loss.parameters():  # DDP averages the encoder's gradients
                if parameter.grad is not None:
                    dist.all_reduce(parameter.grad)
                    parameter.grad /= dist.get_world_size()
        return value

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        return self.accelerator.clip_grad_norm_(self._parameters(), self.args.max_grad_norm)

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """The norm before clipping. Called before every step of the optimiser, so that NaN never reaches it."""
        norm = self.accelerator.clip_grad_norm_(self._parameters(), float("inf")) if grad_norm is None else grad_norm
        if not bool(torch.isfinite(torch.as_tensor(norm))) and not self.args.fp16:  # fp16's scaler skips such steps
            step = self.state.global_step + 1
            raise NotFiniteError(f"the gradient is not finite at step {step}; rows of the batch: {_listed(self._rows)}")
        return norm

    def _parameters(self) -> list[nn.Parameter]:
        return [*self.encoder.parameters(), *self.loss.parameters()]

    def create_optimizer(self, model: nn.Module | None = None) -> Any:
        if self.optimizer is None:
            wanted = self.recipe.optimizer
            named = [p for p in self._parameters() if p.requires_grad]
            groups = [
                {"params": [p for p in named if p.ndim > 1], "weight_decay": wanted.weight_decay},
                {"params": [p for p in named if p.ndim <= 1], "weight_decay": 0.0},  # biases, norms, temperature
            ]
            if isinstance(wanted, AdamW):
                self.optimizer = torch.optim.AdamW(groups, lr=wanted.lr, fused=True)
            elif wanted.name == "sgd":
                self.optimizer = torch.optim.SGD(groups, lr=wanted.lr, momentum=wanted.momentum)
            else:
                self.optimizer = LARS(groups, lr=wanted.lr, momentum=wanted.momentum)
        return self.optimizer

    def get_train_dataloader(self) -> DataLoader[Any]:
        batches = Batches(
            len(self.train_dataset),  # type: ignore[arg-type]
            self.recipe.batch.size,
            self.recipe.seed,
            self.args.process_index,
            self.args.world_size,
        )
        return Loader(self.train_dataset, batches, self.data_collator)  # type: ignore[arg-type]

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        folder = Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}"
        try:
            super()._save_checkpoint(model, trial)
            if self.args.should_save:
                save_weights(self.loss, folder / OBJECTIVE)
            if dist.is_available() and dist.is_initialized():
                dist.barrier()  # every process has written its random state
            if self.args.should_save:
                checkpoints.seal(folder)
            if dist.is_available() and dist.is_initialized():
                dist.barrier()  # no process ends the run before the seal is written
        except (OSError, RuntimeError, SafetensorError) as error:
            if self.args.world_size > 1:
                raise  # the others wait for this one
            shutil.rmtree(folder, ignore_errors=True)
            self.echo(
                f"Checkpoint of step {self.state.global_step} could not be written ({error}); the last one stays."
            )

    def _load_from_checkpoint(self, resume_from_checkpoint: str, *args: Any, **kwargs: Any) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, *args, **kwargs)
        self.loss.load_state_dict(load_file(Path(resume_from_checkpoint) / OBJECTIVE))


def shard_of(size: int, rank: int, world: int) -> Shard:
    """The rows of a batch that belong to a process: consecutive, and as many as others have, or one more."""
    return Shard(tuple(size // world + (each < size % world) for each in range(world)), rank)


class Batches(Sampler[list[int]]):
    """Rows of every batch of an epoch; each process takes a consecutive shard of each batch.

    The batches do not depend on the number of processes. An incomplete last batch is left out: its loss would have
    fewer negatives and its gradient another size.
    """

    def __init__(self, rows: int, size: int, seed: int, rank: int = 0, world: int = 1) -> None:
        if rows < size:
            raise ValueError(f"there are {rows} rows to train on, fewer than one batch of {size}; lower batch.size")
        if size < 2 * world:
            raise ValueError(f"a batch of {size} leaves {world} processes less than two instances each")
        self.rows, self.size, self.seed, self.rank, self.world = rows, size, seed, rank, world
        self.shard = shard_of(size, rank, world)
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.rows // self.size

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(self.rows, generator=generator)
        for start in range(0, len(self) * self.size, self.size):
            yield self.shard.local(order[start : start + self.size]).tolist()


class Loader(DataLoader[Any]):
    """A DataLoader over ``Batches`` that leaves torch's own random generator alone."""

    def __init__(self, data: Dataset[Any], batches: Batches, collate: Callable[[list[Any]], Any]) -> None:
        super().__init__(data, batch_sampler=batches, collate_fn=collate, generator=torch.Generator())
        self.batches = batches

    def set_epoch(self, epoch: int) -> None:
        self.batches.set_epoch(epoch)


class LARS(Optimizer):
    """v ← μ v + η ρ (g + β w),  w ← w - lr v,  with ρ = ‖w‖ / ‖g + β w‖ for every matrix or kernel.

    Vectors (biases, normalisation) take a plain step, without decay or adaptation, as in SimCLR.
    trust: η. The adapted gradient has norm η ‖w‖.
    """

    def __init__(
        self, params: Iterable[Any], lr: float, momentum: float = 0.9, weight_decay: float = 0.0, trust: float = 1e-3
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        value = None
        if closure is not None:
            with torch.enable_grad():
                value = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                change = weight.grad
                if weight.ndim > 1:
                    change = change.add(weight, alpha=group["weight_decay"])
                    size, length = weight.norm(), change.norm()
                    adapted = torch.where((size > 0) & (length > 0), group["trust"] * size / length, 1.0)
                    change = change * adapted
                state = self.state[weight]
                if "velocity" not in state:
                    state["velocity"] = torch.zeros_like(weight)
                state["velocity"].mul_(group["momentum"]).add_(change)
                weight.add_(state["velocity"], alpha=-group["lr"])
        return value


def save_weights(module: nn.Module, path: Path) -> None:
    """Writes a module's parameters and buffers as safetensors; the file appears complete or not at all."""
    state = {name: value.detach().cpu().clone().contiguous() for name, value in module.state_dict().items()}
    atomic_write(path, lambda place: save_file(state, place))


def _listed(rows: Tensor) -> str:
    few = ", ".join(str(row) for row in rows[:8].tolist())
    return f"{few}, … ({len(rows)} in all)" if len(rows) > 8 else few
