"""Lightning: any objective in a LightningModule, and a callback that measures held-out data.

class Model(hs.integrations.lightning.ContrastiveMixin, LightningModule):
    def __init__(self):
        super().__init__()
        self.set_objective("dhel", temperature=0.1)

    def training_step(self, batch, _):
        return self.contrastive_step(self(batch[0]), self(batch[1]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from typing_extensions import Self

from hypersphere.integrations import refuse_old
from hypersphere.integrations.held_out import HeldOut, require_embed
from hypersphere.objectives import Objective, create_objective
from hypersphere.training.objective import reads_labels

refuse_old("lightning", "lightning", "pytorch-lightning")

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer

    _Base = LightningModule
else:
    try:
        from lightning.pytorch import Callback, LightningModule
    except ModuleNotFoundError:
        try:
            from pytorch_lightning import Callback, LightningModule
        except ModuleNotFoundError:
            raise ModuleNotFoundError("No module named 'lightning'", name="lightning") from None

    _Base = object


class ContrastiveMixin(_Base):
    """Before LightningModule among the bases of a module: its objective, and a step that logs."""

    objective: Objective

    def set_objective(self, objective: Objective | str, **settings: Any) -> Self:
        """Call it once, in ``__init__`` or after it. A name is created with ``gather=True``: negatives of all
        processes, and the gradient of one process with the whole batch. What the objective learns is trained with the
        module."""
        if not isinstance(self, nn.Module):
            raise TypeError(f"{type(self).__name__} needs LightningModule among its bases, after ContrastiveMixin")
        if isinstance(objective, str):
            objective = create_objective(objective, **{"gather": True, **settings})
        elif not isinstance(objective, Objective):
            raise ValueError(f"objective must be a name or an objective of hypersphere, not {type(objective).__name__}")
        elif settings:
            raise ValueError(f"settings go with the name of an objective, and {objective!r} has its own")
        self.objective = objective
        return self

    def contrastive_step(
        self,
        z1: Tensor,
        z2: Tensor,
        labels: Tensor | None = None,
        *,
        stage: str = "train",
        terms: bool = True,
        **more: Any,
    ) -> Tensor:
        """The loss of two views (N, D), to be returned by ``training_step``; logs it as "train/loss" and its terms.

        terms: False logs the loss alone, which is cheaper for a batch that is streamed. more: as the objective's call.
        """
        if not hasattr(self, "objective"):
            raise ValueError(f"{type(self).__name__} has no objective yet: call set_objective(name, …) in its __init__")
        if labels is not None and not (reads_labels(self.objective) or "labels" in self.objective.needs):
            raise ValueError(
                f"{self.objective.name} reads no labels: call contrastive_step(z1, z2) without them, or take an "
                "objective that reads them (supcon, cloa)"
            )
        if terms:
            values = self.objective.terms(z1, z2, labels, **more)
        else:
            values = {"loss": self.objective(z1, z2, labels, **more)}
        # With gather=True the values are those of the whole batch on every process already.
        synchronised = self.objective.gather
        self.log_dict(
            {f"{stage}/{name}": value.detach() for name, value in values.items()},
            batch_size=len(z1),
            sync_dist=not synchronised,
        )
        return values["loss"]


class HeldOutCallback(Callback):
    """Logs alignment, uniformity, effective rank, gap and more of held-out data as held_out/…, and prints verdicts.

    embed: a function of the module that returns the views (z1, z2) of the held-out rows, see ``HeldOut``. Every process
        calls it with the same data, so that a sharded module can gather its weights.
    every: optimizer steps between measurements; the start and the end are measured too.

    ModelCheckpoint and EarlyStopping may monitor the numbers.
    """

    def __init__(
        self,
        embed: Callable[[Any], tuple[Tensor, Tensor]],
        objective: Callable[..., Any] | str | None = None,
        *,
        every: int = 50,
        rows: int = 256,
        echo: Callable[[str], None] = print,
    ) -> None:
        require_embed(embed)
        if every < 1:
            raise ValueError(f"every is a number of steps of at least 1, not {every}")
        self.embed, self.objective, self.every, self.rows, self.echo = embed, objective, every, rows, echo
        self.held_out: HeldOut | None = None
        self._last = -1

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        objective = self.objective or getattr(pl_module, "objective", None) or "infonce"
        self.held_out = HeldOut(lambda: self.embed(pl_module), objective, self.rows)
        self._measure(trainer, pl_module)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if trainer.global_step % self.every == 0 and trainer.global_step != self._last:
            numbers = self._measure(trainer, pl_module)
            pl_module.log_dict(numbers, logger=False, batch_size=1)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.global_step != self._last:
            self._measure(trainer, pl_module)
        assert self.held_out is not None
        self._print(trainer, self.held_out.finish())

    def _measure(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, float]:
        assert self.held_out is not None
        self._last = trainer.global_step
        numbers, sentences = self.held_out.measure(trainer.global_step, [pl_module])
        named = {f"held_out/{name}": value for name, value in numbers.items()}
        for logger in trainer.loggers:  # at once: Lightning itself writes every log_every_n_steps alone
            logger.log_metrics(named, step=trainer.global_step)
        self._print(trainer, sentences)
        return named

    def _print(self, trainer: Trainer, sentences: list[str]) -> None:
        if trainer.is_global_zero:
            for sentence in sentences:
                self.echo(sentence)
