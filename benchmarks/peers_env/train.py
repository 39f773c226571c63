"""Trains small models with open_clip, lightly and stable-pretraining themselves, with our losses in place of theirs.

    benchmarks/peers_env/venv/bin/python benchmarks/peers_env/train.py

Model, loop and optimiser are the library's; everything is float64. Each loss is trained with from the same weights on
the same rows:

- on one process with the library's loss and with ours, where both compute the same objective;
- with ours on one process that holds the whole batch, and on two that share it (gloo, DistributedDataParallel).

The losses of all steps and the weights at the end have to agree. It prints a table and fails if they do not. It takes
about two minutes.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, StackDataset

import hypersphere as hs

STEPS, ROWS, DIM = 6, 16, 32  # rows of the whole batch, dimensions of the embeddings
RATE, TOLERANCE = 0.02, 1e-9  # of the losses, and of the weights relative to how far training moved them
RANK, PROCESSES = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))

Build = Callable[[], nn.Module]
Case = tuple[Build | None, Build]  # the library's loss, if it has this objective, and ours


@dataclass(frozen=True)
class Library:
    create: Build  # a model of the library
    fit: Callable[[Any, nn.Module], None]  # trains it with a loss
    cases: dict[str, Case]


class Recorded(nn.Module):
    """A loss that keeps the values it returned."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        self.values: list[float] = []

    def forward(self, *views: Tensor, **given: Any) -> Any:
        out = self.loss(*views, **given)
        self.values.append((out["contrastive_loss"] if isinstance(out, dict) else out).item())
        return out


def loader(data: Dataset[Any]) -> DataLoader[Any]:
    """This process's rows of every batch: the first ones are those of the first process."""
    own = ROWS // PROCESSES
    starts = [step * ROWS + RANK * own for step in range(STEPS)]
    return DataLoader(data, batch_sampler=[list(range(start, start + own)) for start in starts])


def on_all_processes(model: nn.Module) -> nn.Module:
    return DistributedDataParallel(model) if PROCESSES > 1 else model


def pictures() -> Tensor:
    return torch.rand(STEPS * ROWS, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def backbone() -> nn.Module:
    """Without batch normalisation, whose statistics would be those of each process."""
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 64), nn.GELU())


# ----------------------------------------------------------------------------------------------------------- open_clip


def open_clip() -> Library:
    """A CLIP with two small transformers, in open_clip's own ``train_one_epoch``."""
    from open_clip.loss import ClipLoss, SigLipLoss
    from open_clip.model import CLIP
    from open_clip_train.train import train_one_epoch

    vision = {"layers": 2, "width": 32, "head_width": 16, "patch_size": 8, "image_size": 16}
    text = {"layers": 2, "width": 32, "heads": 2, "context_length": 6, "vocab_size": 50}

    def create() -> nn.Module:
        return CLIP(DIM, vision, text, init_logit_bias=-2.0, output_dict=True)

    def fit(model: nn.Module, loss: nn.Module) -> None:
        texts = torch.randint(50, (STEPS * ROWS, 6), generator=torch.Generator().manual_seed(2))
        batches: Any = loader(StackDataset(pictures() - 0.5, texts))
        batches.num_batches, batches.num_samples = STEPS, STEPS * ROWS
        data = {"train": SimpleNamespace(dataloader=batches, set_epoch=lambda _: None)}
        settings = {"device": "cpu", "precision": "fp32", "accum_freq": 1, "grad_clip_norm": None, "rank": RANK}
        silent = {"distill": False, "skip_scheduler": True, "wandb": False, "log_every_n_steps": STEPS}
        args = SimpleNamespace(**settings, **silent, batch_size=ROWS, world_size=PROCESSES)
        sgd = torch.optim.SGD(model.parameters(), RATE)
        train_one_epoch(on_all_processes(model), data, loss, 0, sgd, None, None, None, args)

    ours = partial(hs.integrations.open_clip.Loss, gather=True)
    cases: dict[str, Case] = {
        "ClipLoss": (ClipLoss, partial(ours, "infonce")),
        "SigLipLoss": (SigLipLoss, partial(ours, "siglip")),
        "dhel": (None, partial(ours, "dhel")),
        "met": (None, partial(ours, "met")),
    }
    return Library(create, fit, cases)


# ------------------------------------------------------------------------------------------------------------- lightly


def lightly() -> Library:
    """lightly's transform, projection head and momentum encoder, in the loop of its MoCo example."""
    from lightly import loss as losses
    from lightly.models.modules import MoCoProjectionHead
    from lightly.models.utils import deactivate_requires_grad, update_momentum
    from lightly.transforms import SimCLRTransform
    from torchvision.transforms.functional import to_pil_image

    transform = SimCLRTransform(input_size=16)
    torch.manual_seed(3), random.seed(3), np.random.seed(3)
    views = [transform(to_pil_image(picture)) for picture in pictures()]  # once, so that all runs see the same

    def create() -> nn.Module:
        return nn.Sequential(backbone(), MoCoProjectionHead(64, 64, DIM))

    def fit(query: nn.Module, loss: nn.Module) -> None:
        key = deepcopy(query)
        deactivate_requires_grad(key)
        sgd, wrapped = torch.optim.SGD(query.parameters(), RATE), on_all_processes(query)
        for first, second in loader(views):  # type: ignore[arg-type]
            update_momentum(query, key, m=0.9)
            value = loss(wrapped(first.double()), key(second.double()))
            value.backward()
            sgd.step()
            sgd.zero_grad()

    def with_bank() -> nn.Module:
        theirs = losses.NTXentLoss(memory_bank_size=bank)
        theirs.memory_bank.bank = hs.integrations.lightly.Loss(memory_bank_size=bank).bank  # both begin alike
        return theirs

    bank = (40, DIM)  # not a multiple of the batch: the bank wraps around
    ours = partial(hs.integrations.lightly.Loss, gather_distributed=True)
    cases: dict[str, Case] = {
        "NTXentLoss": (losses.NTXentLoss, partial(ours, "ntxent")),
        "NTXentLoss with a bank": (with_bank, partial(ours, "ntxent", memory_bank_size=bank)),
        "DCLLoss": (losses.DCLLoss, partial(ours, "dcl")),
        "DCLWLoss": (losses.DCLWLoss, partial(ours, "dclw")),
        "BarlowTwinsLoss": (losses.BarlowTwinsLoss, partial(ours, "barlow")),
        "VICRegLoss": (losses.VICRegLoss, partial(ours, "vicreg")),
        "dhel": (None, partial(ours, "dhel")),
        "met with a bank": (None, partial(ours, "met", memory_bank_size=bank)),
    }
    return Library(create, fit, cases)


# -------------------------------------------------------------------------------------------------- stable-pretraining


def stable_pretraining() -> Library:
    """stable-pretraining's ``Module`` with its ``simclr`` forward, in Lightning's trainer, as its users run it."""
    from lightning.pytorch import Trainer
    from stable_pretraining import losses
    from stable_pretraining.forward import simclr
    from stable_pretraining.module import Module

    first = pictures() - 0.5
    second = first + 0.1 * torch.randn(first.shape, generator=torch.Generator().manual_seed(4))

    def collate(rows: list[dict[str, Tensor]]) -> dict[str, Any]:
        return {"views": [{"image": torch.stack([row[name] for row in rows])} for name in ("first", "second")]}

    def create() -> nn.Module:
        optim = {"optimizer": {"type": "SGD", "lr": RATE}, "scheduler": {"type": "ConstantLR", "factor": 1.0}}
        return Module(forward=simclr, backbone=backbone(), projector=nn.Linear(64, DIM), optim=optim)

    def fit(model: Any, loss: nn.Module) -> None:
        model.simclr_loss = loss
        batches = loader(StackDataset(first=first, second=second))
        batches.collate_fn = collate
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        parallel = {"devices": PROCESSES, "strategy": "ddp" if PROCESSES > 1 else "auto"}
        trainer = Trainer(max_epochs=1, accelerator="cpu", precision="64-true", use_distributed_sampler=False,
                          enable_model_summary=False, **quiet, **parallel)  # fmt: skip
        trainer.fit(model, batches)

    ours = partial(hs.integrations.stable_pretraining.Loss, gather=True)
    cases: dict[str, Case] = {
        "NTXEntLoss": (losses.NTXEntLoss, partial(ours, "ntxent")),
        "CLIPLoss": (losses.CLIPLoss, partial(ours, "infonce", symmetric=True)),
        "VICRegLoss": (losses.VICRegLoss, partial(ours, "vicreg")),
        "dhel": (None, partial(ours, "dhel")),
        "met": (None, partial(ours, "met")),
    }
    return Library(create, fit, cases)


# -------------------------------------------------------------------------------------------------- runs and the table

LIBRARIES = {"open_clip_torch": open_clip, "lightly": lightly, "stable-pretraining": stable_pretraining}

Run = dict[str, Tensor]


def run(library: Library, build: Build) -> Run:
    """The losses of all steps, the weights at the end, and how far they moved."""
    torch.manual_seed(0)
    model, loss = library.create(), Recorded(build())
    parameters = list(model.parameters())
    start = torch.cat([each.detach().flatten() for each in parameters])
    library.fit(model, loss)
    weights = torch.cat([each.detach().flatten() for each in parameters])
    return {"losses": torch.tensor(loss.values), "weights": weights, "moved": (weights - start).norm()}


def work(name: str, file: str) -> None:
    """All runs of one library on this number of processes."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    if PROCESSES > 1:
        torch.distributed.init_process_group("gloo")
    library = LIBRARIES[name]()
    runs = {
        (case, who): run(library, build)
        for case, (theirs, ours) in library.cases.items()
        for who, build in (("theirs", theirs), ("ours", ours))
        if build is not None and (who == "ours" or PROCESSES == 1)
    }
    if RANK == 0:
        torch.save(runs, file)


def runs_of(name: str, processes: int) -> dict[tuple[str, str], Run]:
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "runs.pt"))
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [sys.executable, "-W", "ignore", *(launch if processes > 1 else []), __file__, name, file]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode:
            sys.exit(f"{done.stderr[-3000:]}\n{name} on {processes} process(es) failed, see above")
        runs: dict[tuple[str, str], Run] = torch.load(file)
        return runs


def difference(one: Run, other: Run) -> float:
    """The larger one of the differences of losses and of weights, the latter relative to how far they moved."""
    losses, weights = (one[each] - other[each] for each in ("losses", "weights"))
    return max(losses.abs().max().item(), (weights.norm() / one["moved"]).item())


def main() -> int:
    shape = "{:<24} {:<23} {:>8} {:>8} {:>12} {:>12}"
    print(shape.format("library", "loss", "first", "last", "theirs-ours", "two-one"))
    wrong = 0
    for name in LIBRARIES:
        one, two = runs_of(name, 1), runs_of(name, 2)
        for case, who in one:
            if who == "theirs":
                continue
            ours, theirs = one[case, "ours"], one.get((case, "theirs"))
            differences = [difference(ours, theirs) if theirs else None, difference(ours, two[case, "ours"])]
            wrong += sum(each is not None and not each < TOLERANCE for each in differences)
            shown = ["" if each is None else f"{each:.0e}" for each in differences]
            ends = [f"{ours['losses'][step]:.4f}" for step in (0, -1)]
            print(shape.format(f"{name} {version(name)}", case, *ends, *shown))
    print(f"{wrong} differences above {TOLERANCE:g}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(work(*sys.argv[1:]) if len(sys.argv) > 1 else main())
