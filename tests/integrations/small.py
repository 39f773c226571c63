"""One small training in every trainer: the same encoder, batches and optimizer, so that weights can be compared."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import hypersphere as hs

STEPS, BATCH, RATE = 3, 8, 0.1
Weights = list[Tensor]


def objective(**settings: Any) -> Any:
    return hs.create_objective("ntxent", temperature=0.5, gather=True, **settings)


def section(heading: str) -> str:
    """The code of a section of the page of integrations."""
    page = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text(encoding="utf-8")
    text = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 10
    return str(code)


class Pairs(Dataset[dict[str, Tensor]]):
    """Two views of 24 rows; ``part`` of ``parts``: every batch's rows of one process."""

    def __init__(self, part: int = 0, parts: int = 1, labelled: bool = False) -> None:
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(STEPS, BATCH, 6, generator=generator)
        noise = torch.randn(2, STEPS, BATCH, 6, generator=generator)
        views = (x + 0.3 * noise).unflatten(2, (parts, -1))[:, :, part].flatten(1, 2)  # (2, rows, 6)
        self.first, self.second = views
        self.labelled = labelled

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        labels = {"labels": torch.tensor(row % 3)} if self.labelled else {}
        return {"first": self.first[row], "second": self.second[row], **labels}


class Encoder(nn.Module):
    """Embeds the two views of a batch."""

    def __init__(self) -> None:
        super().__init__()
        generator_state = torch.get_rng_state()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))
        torch.set_rng_state(generator_state)

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        return self.layers(first), self.layers(second)


def batches(rank: int = 0, world: int = 1, split: int = 1) -> DataLoader[Any]:
    return DataLoader(Pairs(rank, world), batch_size=BATCH // world // split)


def weights(module: nn.Module) -> Weights:
    return [parameter.detach().clone() for parameter in module.parameters()]


def in_a_loop(rank: int = 0, world: int = 1) -> Weights:
    """A plain loop; DDP if there are several processes. The temperature is learned too."""
    encoder: nn.Module = Encoder()
    loss = objective(learnable=True)
    embed = DistributedDataParallel(encoder) if world > 1 else encoder
    optimizer = torch.optim.SGD([*encoder.parameters(), *loss.parameters()], lr=RATE)
    for batch in batches(rank, world):
        optimizer.zero_grad()
        loss(*embed(**batch)).backward()
        optimizer.step()
    return [*weights(encoder), *weights(loss)]


def with_accelerate(rank: int = 0, world: int = 1) -> Weights:
    """accelerate cuts every batch itself: process r gets every world-th batch of BATCH / world rows."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    encoder, loss = Encoder(), objective(learnable=True)
    optimizer = torch.optim.SGD([*encoder.parameters(), *loss.parameters()], lr=RATE)
    data = DataLoader(Pairs(), batch_size=BATCH // world)
    embed, optimizer, data = accelerator.prepare(encoder, optimizer, data)
    for batch in data:
        optimizer.zero_grad()
        accelerator.backward(loss(*embed(**batch)))
        optimizer.step()
    return [*weights(encoder), *weights(loss)]


def with_lightning(rank: int = 0, world: int = 1, callbacks: Any = (), logger: Any = False) -> Weights:
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.plugins.environments import TorchElasticEnvironment

    class Module(hs.integrations.lightning.ContrastiveMixin, LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.encoder = Encoder()
            self.set_objective("ntxent", temperature=0.5, learnable=True)

        def training_step(self, batch: Any, _: int) -> Tensor:
            loss: Tensor = self.contrastive_step(*self.encoder(**batch))
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=RATE)

    module = Module()
    several: dict[str, Any] = {"strategy": "ddp", "plugins": [TorchElasticEnvironment()]} if world > 1 else {}
    trainer = Trainer(
        accelerator="cpu", devices=world, max_epochs=1, logger=logger, enable_checkpointing=False, callbacks=callbacks,
        enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False, log_every_n_steps=1,
        **several,
    )  # fmt: skip
    trainer.fit(module, batches(rank, world))
    return weights(module)


def with_transformers(
    folder: str,
    rank: int = 0,
    world: int = 1,
    split: int = 1,
    labelled: bool = False,
    callback: Any = None,
    **more: Any,
) -> tuple[Weights, Any]:
    """split: so many batches are accumulated in a step."""
    from transformers import Trainer, TrainingArguments

    args = TrainingArguments(
        folder, per_device_train_batch_size=BATCH // world // split, gradient_accumulation_steps=split, max_steps=STEPS,
        optim="sgd", learning_rate=RATE, lr_scheduler_type="constant", max_grad_norm=0, use_cpu=True, report_to=[],
        train_sampling_strategy="sequential", save_strategy="no", logging_steps=1, disable_tqdm=True,
        remove_unused_columns=False, dataloader_pin_memory=False, label_names=["labels"] * labelled,
        **more,
    )  # fmt: skip
    encoder = Encoder()
    loss = hs.integrations.transformers.Loss(objective(), args)
    data = Pairs(labelled=labelled)
    trainer = Trainer(encoder, args, train_dataset=data, eval_dataset=data, compute_loss_func=loss)
    if callback is not None:
        callback.join(trainer)
    trainer.train()
    return weights(encoder), trainer


def expected(split: int = 1, learnable: bool = True) -> Weights:
    """The weights of one process, by torch alone: NT-Xent written out, the mean of ``split`` losses in every step."""
    encoder, log_temperature = Encoder(), nn.Parameter(torch.tensor(0.5).log(), requires_grad=learnable)
    optimizer = torch.optim.SGD([*encoder.parameters(), log_temperature], lr=RATE)
    for number, batch in enumerate(batches(split=split)):
        z = nn.functional.normalize(torch.cat(encoder(**batch)), dim=1)
        logits = (z @ z.T / log_temperature.exp()).fill_diagonal_(-torch.inf)
        loss = nn.functional.cross_entropy(logits, torch.arange(len(z)).roll(len(z) // 2))
        (loss / split).backward()
        if (number + 1) % split == 0:
            optimizer.step()
            optimizer.zero_grad()
    return [*weights(encoder), *([log_temperature.detach().reshape(1)] if learnable else [])]


def assert_same(actual: Weights, reference: Weights) -> None:
    assert len(actual) == len(reference)
    for one, other in zip(actual, reference, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    start = weights(Encoder())
    assert max(float((a - b).abs().max()) for a, b in zip(start, reference, strict=False)) > 0.01  # it has trained


def losses_of_an_encoder(call: Callable[[Tensor, Tensor, Tensor], Tensor], *learned: nn.Parameter) -> list[float]:
    """An encoder's losses on 20 rows of four classes, seen twice."""
    torch.manual_seed(0)
    encoder, x, labels, values = nn.Linear(8, 4), torch.randn(20, 8), torch.arange(20) % 4, []
    optimiser = torch.optim.Adam([*encoder.parameters(), *learned], lr=0.03)
    for _ in range(30):
        optimiser.zero_grad()
        loss = call(encoder(x), encoder(x + 0.3 * torch.randn_like(x)), labels)
        loss.backward()
        optimiser.step()
        values.append(loss.item())
    return values


@contextmanager
def launched(rank: int, world: int) -> Iterator[None]:
    """The environment that torchrun gives a process."""
    before = dict(os.environ)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")  # the group is there already
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
