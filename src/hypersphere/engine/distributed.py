"""Every collective of the engine. The rows of all processes form one batch, and backward runs no collective.

Each process holds a shard of the batch, of any size including 0. With ``gather=True`` the engine uses the default
group of torch.distributed, and another one if ``gather`` is that group. Without one, or with ``gather=False``, the
batch is the caller's own and nothing here communicates.

The protocol of one evaluation, the same on every rank:

| step | collective | carries |
|---|---|---|
| labels | ``exchange`` | whether there are labels, of an objective that reads them |
| shapes | ``exchange`` | sizes, dimensions, dtype, presence of labels, ids and scores, which gradients are needed |
| rows | ``gather_rows`` | unit rows of views and negatives, labels, ids, guides, scores; padded to the longest shard |
| blocks | none | each rank differentiates its own anchors against all columns |
| check | ``exchange`` | nothing: every rank has finished its blocks |
| losses | ``gather_statistics`` | the loss of every anchor; every statistic if anchors are coupled or for terms |
| gradients | ``sum_over_ranks`` | gradients of rows and parameters that some rank needs |
| end | ``exchange`` | nothing: every rank has finished |

A coupled objective repeats blocks and check: the weights of its anchors follow from all losses.

A rank that fails sends its status in place of the numbers of the next ``exchange``, then its error message, which
every rank raises. Therefore a rank must call ``exchange`` between work of its own and the next collective. A rank that
dies leaves the others waiting until the group's timeout, which is raised as one sentence. Each ``exchange`` also
carries a fingerprint of the objective's settings; if ranks differ in it, all raise.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

MESSAGE = 16  # numbers in a message, so that an error can take the place of any
TEXT = 1000  # bytes of a sentence
TIMEOUT = "HYPERSPHERE_TIMEOUT"
_BAD_INPUT, _OTHER_ERROR = 1, 2  # what a process announces; 0: that it goes on


@dataclass(frozen=True)
class Shard:
    """The rows of the whole batch that belong to this process; ``sizes`` counts the rows of every rank."""

    sizes: tuple[int, ...]
    rank: int

    @property
    def world_size(self) -> int:
        return len(self.sizes)

    @property
    def start(self) -> int:
        return sum(self.sizes[: self.rank])

    @property
    def size(self) -> int:
        return self.sizes[self.rank]

    @property
    def stop(self) -> int:
        return self.start + self.size

    @property
    def total(self) -> int:
        return sum(self.sizes)

    def local(self, rows: Tensor) -> Tensor:
        """This process's part of rows that stand for the whole batch."""
        return rows[self.start : self.stop]

    def within(self, block: slice) -> slice:
        """A block of this process's rows, counted in the whole batch, as it is counted in the part."""
        return slice(block.start - self.start, block.stop - self.start)


Gather = Any  # True: the batch is that of the default group. A ProcessGroup: that of this group


def is_group(gather: object) -> bool:
    return not isinstance(gather, bool) and dist.is_available() and isinstance(gather, dist.ProcessGroup)


def world_size(gather: Gather) -> int:
    """How many processes share the batch."""
    if gather is False or not dist.is_available() or not dist.is_initialized():
        return 1
    return dist.get_world_size(None if gather is True else gather)


@dataclass
class _Joint:
    """An evaluation in which all processes take part."""

    settings: list[str]  # of the objective, which must be the same everywhere
    group: dist.ProcessGroup | None = None  # None: the default one
    over: bool = False  # all have been told of an error, or the group is broken: there is nothing left to exchange

    @cached_property
    def fingerprint(self) -> int:
        text = "\n".join(self.settings).encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "big")


_joint: ContextVar[_Joint | None] = ContextVar("joint", default=None)


def _group() -> dist.ProcessGroup | None:
    """The group of the evaluation that is under way."""
    joint = _joint.get()
    return None if joint is None else joint.group


def own_rank() -> int:
    """The number of this process in that group."""
    return dist.get_rank(_group())


def raise_on_all_ranks(gather: Gather, settings: Callable[[], list[str]] = list) -> AbstractContextManager[None]:
    """Wraps an evaluation that all processes share: an error on one of them is raised on all, and so is a difference
    in the objective's ``settings``, so that none waits for ever.

    A process that fails announces its error in place of the message that the others exchange next. Inside, a process
    must therefore call ``exchange`` between work of its own and the next collective.
    """
    if world_size(gather) == 1 or _joint.get() is not None:
        return nullcontext()
    return _announcing(_Joint(settings(), None if gather is True or gather is False else gather))


@contextmanager
def _announcing(joint: _Joint) -> Iterator[None]:
    token = _joint.set(joint)
    try:
        yield
        exchange([])
    except Exception as error:
        if not joint.over:
            _announce(joint, error)
        raise
    finally:
        _joint.reset(token)


def exchange(numbers: list[int]) -> list[list[int]]:
    """Every rank's short list of whole numbers, by rank."""
    joint = _joint.get() or _Joint([])
    everyone = _gathered_messages(0, joint, numbers)
    failed = next((rank for rank, each in enumerate(everyone) if each[0]), None)
    other = next((rank for rank, each in enumerate(everyone) if each[1] != joint.fingerprint), None)
    if failed is None and other is None:
        return [each[2 : 2 + len(numbers)] for each in everyone]
    joint.over = True
    if failed is not None:
        kind = ValueError if everyone[failed][0] == _BAD_INPUT else RuntimeError
        raise kind(f"process {failed} failed: {_gathered_texts('')[failed]}")
    texts = [text.split("\n") for text in _gathered_texts("\n".join(joint.settings))]
    other = next(rank for rank, each in enumerate(everyone) if each[1] != everyone[0][1])
    raise ValueError(
        "processes differ in the objective or its settings: "
        f"process 0 has {_beyond(texts[0], texts[other])}, process {other} has {_beyond(texts[other], texts[0])}"
    )


def _announce(joint: _Joint, error: Exception) -> None:
    """Sends an error of this process to all others, in place of the numbers they wait for."""
    joint.over = True
    bad_input = isinstance(error, ValueError)
    with suppress(RuntimeError):  # it is the first error that counts
        _gathered_messages(_BAD_INPUT if bad_input else _OTHER_ERROR, joint, [])
        _gathered_texts(str(error) if bad_input else f"{type(error).__name__}: {error}")


def _gathered_messages(status: int, joint: _Joint, numbers: list[int]) -> list[list[int]]:
    """Every rank's status, fingerprint of its settings, and numbers, padded to one length."""
    message = [status, joint.fingerprint, *numbers]
    assert len(message) <= MESSAGE, "a longer message would not meet that of a process that failed"
    message += [0] * (MESSAGE - len(message))
    everyone: list[list[int]] = _gathered(torch.tensor(message, dtype=torch.int64)).tolist()
    return everyone


def _beyond(settings: list[str], others: list[str]) -> str:
    """The settings that are not among the others; the name of the objective comes first."""
    return ", ".join(each for each in settings if each not in others) or "no other"


def _gathered(message: Tensor) -> Tensor:
    """Every rank's message, of one shape, stacked by rank."""
    # Where the group takes messages: in a processor's memory if it can.
    devices = [each.split(":")[0] for each in dist.get_backend_config(_group()).split(",")]
    message = message.to("cpu" if "cpu" in devices else devices[0])
    everyone = [torch.empty_like(message) for _ in range(dist.get_world_size(_group()))]
    with _waiting():
        dist.all_gather(everyone, message, group=_group())
    return torch.stack(everyone).cpu()


def _gathered_texts(text: str) -> list[str]:
    """Every rank's text, cut to a fixed length."""
    line = text.encode()[:TEXT].ljust(TEXT, b"\0")
    everyone = _gathered(torch.tensor(list(line), dtype=torch.uint8))
    return [bytes(each.tolist()).rstrip(b"\0").decode(errors="ignore") for each in everyone]


@contextmanager
def _waiting() -> Iterator[None]:
    """Wraps a collective; if it fails, no process is left to announce the error to."""
    try:
        yield
    except RuntimeError as error:
        if joint := _joint.get():
            joint.over = True
        raise RuntimeError(
            "a process of the group has ended, or did not answer within the time that the group allows "
            f"({TIMEOUT}, where hypersphere starts the group): {error}"
        ) from error


def timeout() -> timedelta:
    """How long the processes of a group started here wait for each other: ``$HYPERSPHERE_TIMEOUT`` seconds, by default
    ten minutes."""
    given = os.environ.get(TIMEOUT) or "600"
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 1e8:
        raise ValueError(f"{TIMEOUT} must be a number of seconds above 0, not {given!r}")
    return timedelta(seconds=seconds)


def agree_on_labels(labels: object) -> None:
    """Raises on all processes if some have labels and others have none."""
    given = [bool(each[0]) for each in exchange([int(labels is not None)])]
    if len(set(given)) > 1:
        raise ValueError(f"processes differ in the presence of labels: {given}")


def agree_on_shapes(
    rows: list[Tensor],
    labels: Tensor | None,
    ids: Tensor | None,
    guide: list[Tensor],
    scores: Tensor | None,
    num_own: int,
    in_batch: bool,
    requests: list[int],
) -> tuple[Shard, Shard, list[list[int]]]:
    """The shards of instances and of extra negatives, and every rank's requests; raises on all ranks if views do not
    fit together. ``rows`` and ``guide`` hold those of each view, then those of the extra negatives."""
    shapes = {
        "number of rows": len(rows[0]),
        "number of negatives": len(rows[-1]),
        "dimension of embeddings": rows[0].shape[1],
        "presence of labels": int(labels is not None),
        "bytes of a number": rows[0].dtype.itemsize,
        "number of views": len(rows) - 1,
        "presence of ids": int(ids is not None),
        "dimension of the guide": guide[0].shape[1] * guide[0].dtype.itemsize if guide else 0,
        "bytes of a score": 0 if scores is None else scores.dtype.itemsize,
        "number of negatives of each anchor": num_own,
        "use of the batch's own instances as negatives": int(in_batch),
    }
    own = list(shapes.values())
    everyone = exchange([*own, *requests])
    for place, what in list(enumerate(shapes))[2:]:
        given = [each[place] for each in everyone]
        if len(set(given)) > 1:
            raise ValueError(f"processes differ in the {what}: {given}")
    rank = own_rank()
    shard, extras = (Shard(tuple(each[place] for each in everyone), rank) for place in (0, 1))
    return shard, extras, [each[len(own) :] for each in everyone]


def wait_for_all(shard: Shard) -> None:
    """Returns when every rank has called it; raises the error of a rank that failed before."""
    if shard.world_size > 1:
        exchange([])


def gather_rows(rows: Tensor, shard: Shard) -> Tensor:
    """The rows of all ranks in rank order; shards may be uneven or empty."""
    if shard.world_size == 1 or not shard.total:
        return rows
    padded = rows.new_zeros(max(shard.sizes), *rows.shape[1:])
    padded[: len(rows)] = rows
    everyone = [torch.empty_like(padded) for _ in shard.sizes]
    with _waiting():
        dist.all_gather(everyone, padded, group=_group())
    return torch.cat([part[:size] for part, size in zip(everyone, shard.sizes, strict=True)])


def gather_statistics(statistics: list[dict[str, Tensor]], shard: Shard) -> list[dict[str, Tensor]]:
    """The statistics of the anchors of all ranks, by direction."""
    return [{name: gather_rows(value, shard) for name, value in each.items()} for each in statistics]


def sum_over_ranks(tensors: list[Tensor], shard: Shard) -> None:
    """Adds up each tensor over all ranks, in place."""
    if shard.world_size > 1:
        for tensor in tensors:
            with _waiting():
                dist.all_reduce(tensor, group=_group())
