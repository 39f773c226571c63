"""transformers' Trainer: any objective as its loss, and a callback that measures held-out data.

objective = hs.create_objective("dhel", temperature=0.1, gather=True)
trainer = Trainer(model, args, …, compute_loss_func=hs.integrations.transformers.Loss(objective, args))
hs.integrations.transformers.HeldOutCallback(embed, objective).join(trainer)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from hypersphere.integrations import refuse_old
from hypersphere.integrations.held_out import HeldOut, require_embed
from hypersphere.objectives import create_objective

refuse_old("transformers", "transformers")

from transformers import TrainerCallback, TrainingArguments  # noqa: E402

Views = tuple[Tensor, Tensor]


def halves(outputs: Any) -> Views:
    """The two views in what a model returned: a pair of tensors (N, D), or one of 2N rows, the first view first."""
    if isinstance(outputs, Tensor) and outputs.ndim == 2 and len(outputs) % 2 == 0:
        return outputs[: len(outputs) // 2], outputs[len(outputs) // 2 :]
    if isinstance(outputs, (tuple, list)) and len(outputs) == 2:
        return outputs[0], outputs[1]
    raise ValueError(
        f"the model returned a {type(outputs).__name__}, in which the two views are not known: "
        "Loss(objective, args, views=…) takes a function from this to (z1, z2)"
    )


class _LabelsAreOptional(logging.Filter):
    """Drops the warning at every step that a batch has no labels, which most objectives do not read."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "`compute_loss_func` is defined but `labels=None`" not in record.getMessage()


_LABELS_ARE_OPTIONAL = _LabelsAreOptional()


class Loss:
    """The ``compute_loss_func`` of a Trainer: an objective of the two views in the model's outputs.

    objective: a function of two views, and of labels where the batch has them; a name is created with ``gather=True``.
    views: a function from the model's outputs to (z1, z2); by default a pair, or a tensor of 2N rows.

    The loss of an accumulated step is the mean of its batches, on any number of processes: the Trainer leaves the
    division to this function and, where the data has labels, multiplies by the number of processes. A last step of
    fewer batches counts in proportion.

    An objective with parameters (``learnable=True``) is refused, because no optimizer would update them. It belongs
    into the model: let its ``forward`` return {"loss": …}, and give the Trainer no ``compute_loss_func``.
    """

    def __init__(
        self, objective: Callable[..., Tensor] | str, args: TrainingArguments, views: Callable[[Any], Views] = halves
    ) -> None:
        if not isinstance(args, TrainingArguments):
            raise ValueError(f"the second argument is the Trainer's TrainingArguments, not {type(args).__name__}")
        self.objective = create_objective(objective, gather=True) if isinstance(objective, str) else objective
        if not callable(self.objective):
            raise ValueError(f"objective must be a name or a function of two views, not {type(objective).__name__}")
        if isinstance(self.objective, nn.Module) and any(each.requires_grad for each in self.objective.parameters()):
            raise ValueError(
                "no optimizer of the Trainer updates what this objective learns: keep it in the model, let the model's "
                'forward return {"loss": objective(z1, z2)}, and leave compute_loss_func out'
            )
        self.args, self.views = args, views
        logging.getLogger("transformers.trainer").addFilter(_LABELS_ARE_OPTIONAL)

    def __call__(self, outputs: Any, labels: Tensor | None = None, num_items_in_batch: Any = None) -> Tensor:
        if isinstance(self.objective, nn.Module):
            self.objective.to(self.args.device)
        z1, z2 = self.views(outputs)
        loss = self.objective(z1, z2) if labels is None else self.objective(z1, z2, labels)
        if num_items_in_batch is not None and self.args.average_tokens_across_devices:
            loss = loss / (self.args.n_gpu if self.args.n_gpu > 1 else self.args.world_size)
        return loss / self.args.gradient_accumulation_steps if torch.is_grad_enabled() else loss


class HeldOutCallback(TrainerCallback):
    """Logs alignment, uniformity, effective rank, gap and more of held-out data as eval_…, and prints verdicts.

    embed: a function of the model that returns the views (z1, z2) of the held-out rows, see ``HeldOut``. Every process
        calls it with the same data, so that a sharded model can gather its weights.
    every: steps between measurements; the start and the end are measured too.

    ``join(trainer)`` installs it.
    """

    def __init__(
        self,
        embed: Callable[[Any], Views],
        objective: Callable[..., Any] | str = "infonce",
        *,
        every: int = 50,
        rows: int = 256,
        echo: Callable[[str], None] = print,
    ) -> None:
        require_embed(embed)
        if every < 1:
            raise ValueError(f"every is a number of steps of at least 1, not {every}")
        self.held_out = HeldOut(lambda: embed(self._model), objective, rows)
        self.every, self.echo = every, echo
        self._trainer: Any = None
        self._model: Any = None
        self._last = -1

    def join(self, trainer: Any) -> HeldOutCallback:
        """Adds itself to a Trainer, whose loggers get the numbers."""
        self._trainer = trainer
        trainer.add_callback(self)
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if self._trainer is None:
            raise ValueError("HeldOutCallback is installed by HeldOutCallback(…).join(trainer), not by callbacks=[…]")
        self._measure(state, given["model"])

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if state.global_step % self.every == 0:
            self._measure(state, given["model"])

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if self._last != state.global_step:
            self._measure(state, given["model"])
        self._print(self.held_out.finish())

    def _measure(self, state: Any, model: nn.Module) -> None:
        self._model, self._last = model, state.global_step
        numbers, sentences = self.held_out.measure(state.global_step, [model])
        due = self._trainer.control.should_log
        self._trainer.log({f"eval_{name}": value for name, value in numbers.items()})
        self._trainer.control.should_log = due  # the step's own loss is still to be logged
        self._print(sentences)

    def _print(self, sentences: list[str]) -> None:
        if self._trainer.is_world_process_zero():
            for sentence in sentences:
                self.echo(sentence)
