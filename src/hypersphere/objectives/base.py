"""What every objective is: a module with declared settings, called on two views."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any, ClassVar, NoReturn, get_args

import torch
from torch import Tensor, nn
from typing_extensions import dataclass_transform

from hypersphere.engine import Anchors, Inputs, Read, Statistics, evaluate, evaluate_features
from hypersphere.engine.distributed import agree_on_labels, raise_on_all_ranks, world_size
from hypersphere.geometry import unit, widened
from hypersphere.names import did_you_mean
from hypersphere.objectives.settings import (
    REQUIRED,
    Number,
    Setting,
    anything,
    as_setting,
    choice,
    flag,
    gathering,
    is_sharded,
    number,
)
from hypersphere.torch_internals import uncompiled

READS = get_args(Read)
SHOWN_IF_CHANGED = ("extra_negatives", "pool", "hardness", "anchors", "reads", "reduction", "gather", "learnable")


def _declare(cls: type) -> None:
    """Turns the annotated defaults of a class body into settings."""
    for name, kind in inspect.get_annotations(cls).items():
        if name in vars(cls) and "ClassVar" not in str(kind) and not name.startswith("_"):
            setting = as_setting(vars(cls)[name])
            setting.__set_name__(cls, name)
            setattr(cls, name, setting)


@dataclass_transform(kw_only_default=True, field_specifiers=(number, choice, flag, gathering, anything))
class Objective(nn.Module):
    """A loss on two views of a batch.

    reduction: "mean" over anchors, "sum", or "none" (one number per anchor, where anchors are not coupled).
    gather: contrast with the rows of all processes, or with those of a group of torch.distributed if it is one; after
        DDP's averaging the gradient is exactly that of one process holding the whole batch, and the value is the same
        on every process.
    learnable: make the settings that may be learned (a temperature, a bias) parameters of the module, vectors of one
        number each.
    """

    name: ClassVar[str] = "objective"
    final: ClassVar[tuple[str, ...]] = ()  # settings that cannot be changed later
    source: ClassVar[str] = ""  # paper and equation
    reductions: ClassVar[tuple[str, ...]] = ("mean", "sum", "none")
    fewest: ClassVar[int] = 1  # so many instances a batch has at least
    raw_rows: ClassVar[Any] = False  # True: works on raw features, so huge rows may overflow
    takes: ClassVar[Any] = frozenset()  # of negatives, ids, guide, scores, views: what a call may give
    labelled: ClassVar[Any] = False  # whether the formula reads labels
    needs: ClassVar[Any] = frozenset()  # those it cannot do without, and "labels"
    nature: ClassVar[str] = ""  # why it takes no more, as in "compares features, not pairs"

    reduction: str = choice("mean", "sum", "none", default="mean")
    gather: Any = gathering()
    learnable: bool = flag(default=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _declare(cls)

    def __init__(self, **given: Any) -> None:
        super().__init__()
        settings = self.settings()
        for unknown in given.keys() - settings.keys():
            hint = did_you_mean(unknown, settings)
            raise ValueError(f"{self.name} has no parameter {unknown!r}{hint} (it takes {', '.join(settings)})")
        for name, setting in settings.items():
            value = given.get(name, setting.default)
            if value is REQUIRED:
                raise ValueError(f"{self.name} needs {name}: {setting.allowed()}")
            setattr(self, name, value)
        self._check_reduction()
        self._given = set(given)
        self.check()
        self._learn(settings)
        self.build()
        self._ready = True

    def _check_reduction(self) -> None:
        possible = self._possible_reductions()
        if self.reduction not in possible:
            raise ValueError(
                f"{self.name} has no reduction {self.reduction!r}, only {' or '.join(map(repr, possible))}: "
                "its loss is not a list of independent numbers"
            )

    def _possible_reductions(self) -> tuple[str, ...]:
        return self.reductions

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.final and self.__dict__.get("_ready"):  # torch registers a module before a setting is asked
            if value is getattr(self, name):
                return
            raise ValueError(f"{self.name}'s {name} is fixed when it is created; create a new one")
        super().__setattr__(name, value)

    def recheck(self, changed: str) -> None:
        """Checks all settings together after one was changed; inner objectives follow."""
        if changed == "learnable":
            raise ValueError(f"{self.name}'s {changed} is fixed when it is created; create a new one")
        self._ready = False
        try:
            self._check_reduction()
            self.check()
            self.follow()
        finally:
            self._ready = True

    def follow(self) -> None:
        """Called when a setting was changed; for an objective made of others."""

    def _learn(self, settings: dict[str, Setting]) -> None:
        if self.learnable:
            learned = [s for s in settings.values() if isinstance(s, Number) and s.learnable]
            if not learned:
                raise ValueError(f"{self.name} has nothing to learn: learnable must be False")
            for setting in learned:
                setting.learn(self)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name, parameter in self._parameters.items():
            saved = state_dict.get(f"{prefix}{name}")
            if isinstance(saved, Tensor) and saved.ndim == 0 and parameter is not None:  # a scalar, of an older version
                state_dict[f"{prefix}{name}"] = saved.reshape(parameter.shape)
        super()._load_from_state_dict(state_dict, prefix, *args)

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """The declared parameters by name: the objective's own first, then those common to all."""
        declared: dict[str, Setting] = {}
        for owner in reversed(cls.__mro__):  # a subclass may redeclare a setting, which keeps its place
            declared.update({name: value for name, value in vars(owner).items() if isinstance(value, Setting)})
        common = ("reduction", "gather", "learnable")
        return {**{k: v for k, v in declared.items() if k not in common}, **{k: declared[k] for k in common}}

    @classmethod
    def citation(cls) -> str:
        """Paper and equation."""
        return cls.source

    def check(self) -> None:
        """Called when the settings are in place; for what concerns several of them."""

    def passed_on(self) -> dict[str, Any]:
        """Common settings that a wrapper hands to a base it creates."""
        return {"learnable": True} if self.learnable else {}

    def build(self) -> None:
        """Called last; for an objective made of others."""

    def map_pairwise(self, change: Callable[[PairwiseObjective], Any]) -> Any:
        """The same objective with ``change`` applied to each of its pairwise parts; parameters stay shared."""
        seen = copy.copy(self)
        seen._modules = {}
        for name, part in self._modules.items():
            if not isinstance(part, Objective):
                raise ValueError(f"{self.name}'s {name} is a {type(part).__name__}, whose negatives are not known")
            seen._modules[name] = part.map_pairwise(change)
        return seen

    @uncompiled
    def forward(
        self,
        z1: Tensor,
        z2: Tensor | None = None,
        labels: Tensor | None = None,
        *,
        negatives: Tensor | None = None,
        views: Sequence[Tensor] = (),
        ids: Tensor | None = None,
        ids_negatives: Tensor | None = None,
        guide: Tensor | tuple[Tensor, ...] | None = None,
        guide_negatives: Tensor | None = None,
        scores: Tensor | None = None,
        in_batch: bool = True,
    ) -> Tensor:
        """The loss of two views (N, D) of N instances, raw rows; ``supcon`` also takes a single labelled one.

        labels: (N,) the classes of the instances, -1 if unknown.
        negatives: (M, D) further columns, such as a queue; or (N, M, D), each anchor's own.
        views: (N, D) each, further views of the same instances.
        ids, ids_negatives: (N,), (M,) or (N, M), rows of equal ids are no negatives of each other; -1 equals nothing.
        guide, guide_negatives: (N, G) or one for each view, (M, G): what another model makes of the same rows. A column
            that it finds more similar to an anchor than the anchor's positive is no negative; see ``guided``.
        scores: (N,) how similar the two rows of each instance are; for ``cosent``.
        in_batch: whether the other instances are negatives. False: ``negatives`` alone are, as in MoCo.
        """
        masks = ids, ids_negatives, guide, guide_negatives
        inputs = Inputs(z1, as_second(z2), labels, negatives, as_views(views), *masks, scores, in_batch)
        return self._evaluated(inputs, terms=False)["loss"]

    @uncompiled
    def terms(
        self,
        z1: Tensor,
        z2: Tensor | None = None,
        labels: Tensor | None = None,
        *,
        negatives: Tensor | None = None,
        views: Sequence[Tensor] = (),
        ids: Tensor | None = None,
        ids_negatives: Tensor | None = None,
        guide: Tensor | tuple[Tensor, ...] | None = None,
        guide_negatives: Tensor | None = None,
        scores: Tensor | None = None,
        in_batch: bool = True,
    ) -> Statistics:
        """The loss and its named parts (alignment, energy, …), each differentiable; arguments as in a call."""
        masks = ids, ids_negatives, guide, guide_negatives
        inputs = Inputs(z1, as_second(z2), labels, negatives, as_views(views), *masks, scores, in_batch)
        return self._evaluated(inputs, terms=True)

    def _evaluated(self, inputs: Inputs, terms: bool) -> Statistics:
        with raise_on_all_ranks(self.gather, self.described):
            self.refuse_missing(inputs)
            return self.evaluate(inputs, terms)

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        raise TypeError(f"{type(self).__name__} must derive from PairwiseObjective or define evaluate")

    def refuse_missing(self, inputs: Inputs) -> None:
        """Raises if a call lacks an argument that this objective cannot do without."""
        for name in sorted(self.needs):
            if getattr(inputs, name) is None:
                raise ValueError(f"{self.name} needs {name}: give {name}= in its call")

    def refuse_unused(self, inputs: Inputs) -> None:
        """Raises if a call gives an argument that this objective cannot use."""
        if not inputs.in_batch and "negatives" not in self.takes:
            raise ValueError(f"{self.name} {self.nature}: it takes no in_batch=False")
        for name in inputs.given:
            if name == "labels" or name in self.takes or name.removesuffix("_negatives") in self.takes:
                continue
            if name == "views":
                raise ValueError(
                    f"{self.name} compares two views; for more take the objective 'pairwise' with base={self.name!r}"
                )
            if name == "scores":
                raise ValueError(f"{self.name} does not grade pairs: it takes no scores (cosent does)")
            raise ValueError(f"{self.name} {self.nature}: it takes no {name}")

    def described(self) -> list[str]:
        """The objective's name and its settings as they were given, to be compared with those of other processes; a
        learned setting counts by its start."""
        starts: dict[str, float] = self.__dict__.get("_starts", {})
        given = {name: starts[name] if name in starts else getattr(self, name) for name in self.settings()}
        return [type(self).__name__, *(f"{name}={_described(value)}" for name, value in given.items())]

    def __repr__(self) -> str:
        shown = []
        for name, setting in self.settings().items():
            value = getattr(self, name)
            if isinstance(value, Tensor):  # other processes would have to be asked for a part of it
                value = "sharded" if is_sharded(value) else float(f"{value.item():.6g}")
            if name not in SHOWN_IF_CHANGED or value != setting.default:
                shown.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def as_second(z2: Tensor | None) -> Any:
    """The second view; one that is absent is refused when the batch is assembled, unless the objective needs none."""
    return z2


def as_views(views: Any) -> tuple[Tensor, ...]:
    """The further views as a tuple; what cannot be gone through is refused as a view when the batch is assembled."""
    return tuple(views) if isinstance(views, Iterable) else (views,)


def _described(value: Any) -> str:
    """A text that is the same on all processes: without an address in memory."""
    if isinstance(value, Objective):
        name, *settings = value.described()
        return f"{name}({', '.join(settings)})"
    if isinstance(value, (bool, int, float, str, type(None))) or is_dataclass(value):
        return repr(value)
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def within(objective: Any) -> Iterator[Any]:
    """An objective, and those it is made of: first its base and the bases of that, then what is added to them."""
    if isinstance(objective, Objective):
        yield objective
        yield from within(getattr(objective, "base", None))
        yield from within(getattr(objective, "extra", None))


def like_negatives(objective: PairwiseObjective, values: tuple[Any, ...]) -> Any:
    """One value for each matrix, in the form of ``negatives``: alone if it names one matrix, else a tuple."""
    return values[0] if isinstance(objective.negatives, str) else values


class PairwiseObjective(Objective):
    """An objective that is a function of similarities: declare which ones, and define what one anchor makes of them.

    negatives: "cross" (the other view of the other instances), "same" (the anchor's own view), "both", "other"
        (both from the other view), "back" (the positive with the anchors' view), or a tuple of these; the matrices then
        arrive as a tuple in that order.
    anchors: "first" (rows of z1) or "both" (each view is the anchors once; the results are averaged, or added if
        ``sum_directions``).
    extra_negatives: the anchors that meet the ``negatives=`` of a call: "both", or "first" (rows of z1 alone).
    without_extra: the matrices of ``negatives`` that do not show these; by default all do.
    one_sided: only anchors move; keys and positives carry no gradient.
    rows: a method that maps raw rows to the vectors whose inner products are read; None: unit vectors.
    labelled: ``per_anchor`` gets a fourth argument, True at the other instances of the anchor's label.
    reads_guide: ``block`` reads the cosines of the call's guide in ``Anchors.guide``.
    farthest: the positive similarity that stands for an absent positive when the anatomy is measured; -1 if the formula
        turns it into an angle.
    """

    negatives: ClassVar[Any] = "cross"
    anchors: ClassVar[Any] = "first"
    extra_negatives: ClassVar[Any] = "both"
    without_extra: ClassVar[Any] = ()
    one_sided: ClassVar[Any] = False
    reads_guide: ClassVar[Any] = False
    sum_directions: ClassVar[Any] = False
    farthest: ClassVar[Any] = -math.inf
    takes: ClassVar[Any] = frozenset({"negatives", "ids", "guide"})

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor | Statistics:
        """The loss (B,) of B anchors from their positive similarity (B,) and their columns (B, M).

        ``mask`` is True where a column counts as a negative; it holds nowhere in a batch of one row, where the loss
        should come out as its limit (``masked_logsumexp`` and ``masked_max`` give -inf, sums and means 0).
        A dictionary may name several numbers: "loss" and parts of it, or statistics for ``combine``.
        """
        raise TypeError(f"{type(self).__name__} must define per_anchor")

    def combine(self, statistics: Statistics) -> Statistics:
        """The losses (N,) or a scalar under "loss", and parts under other names, from the statistics of all anchors.

        Objectives whose anchors are coupled override it; statistics have shape (N,).
        """
        return statistics

    def join(self, by_direction: list[Statistics]) -> Statistics:
        """The same from the statistics of all directions; objectives whose views are coupled override it."""
        raise TypeError(f"{type(self).__name__} must define join")

    def map_pairwise(self, change: Callable[[PairwiseObjective], Any]) -> Any:
        return change(self) if self.reads else self

    def scaled(self, vectors: Tensor) -> Tensor:
        """Sums of rows, scaled back to where rows are: to unit length."""
        return unit(vectors)

    def prepare(self, x: Tensor, y: Tensor) -> Any:
        """Anything that all anchors need of the whole views; ``block`` receives it as ``context``."""
        return None

    def metric(self, rows: Tensor) -> Tensor | None:
        """Weights (D,) of the coordinates in the inner product of two rows; None: all 1."""
        return None

    def block(self, anchors: Anchors) -> Statistics:
        """Calls ``per_anchor``; overridden only by an objective that needs more than similarities."""
        similarities, mask = like_negatives(self, anchors.negatives), like_negatives(self, anchors.masks)
        same_label = () if anchors.same_label is None else (like_negatives(self, anchors.same_label),)
        return self.finish_block(self.per_anchor(anchors.positive, similarities, mask, *same_label), anchors)

    def finish_block(self, losses: Tensor | Statistics, anchors: Anchors) -> Statistics:
        """The statistics of a block, checked, after ``adjust``."""
        return self.adjust(self._named(losses, anchors), anchors)

    def adjust(self, statistics: Statistics, anchors: Anchors) -> Statistics:
        """Overridden by an objective that also reads its rows or what ``prepare`` returned."""
        return statistics

    def _named(self, losses: Tensor | Statistics, anchors: Anchors) -> Statistics:
        """The losses of these anchors by name; raises if they are not one number for each anchor."""
        named, shape = {"loss": losses} if isinstance(losses, Tensor) else losses, anchors.positive.shape

        def fail(returned: str) -> NoReturn:
            what = f"{type(self).__name__}.per_anchor must return one number per anchor, of shape {tuple(shape)}"
            raise ValueError(f"{what}{returned}")

        if not isinstance(named, Mapping):
            fail(f", or several such by name; it returned {type(named).__name__}")
        for name, value in named.items():
            if not isinstance(value, Tensor):
                fail(f"; its {name!r} is {type(value).__name__}, not a tensor")
            if value.shape != shape:
                fail(f"; its {name!r} has shape {tuple(value.shape)}")
        if "loss" not in named and not self.coupled:
            raise ValueError(f"{type(self).__name__}.per_anchor names {', '.join(named)}, but no 'loss'")
        return named

    rows: ClassVar[Any] = None

    @property
    def only_similarities(self) -> bool:
        """Whether ``block`` looks at nothing but the positive and the negatives' similarities."""
        return True

    @property
    def sees(self) -> Any:
        """What the engine must compute of the negatives: "all", or a summary if the formula declares one."""
        return "all"

    @property
    def scale(self) -> Any:
        return None

    def defines(self, summary: str) -> bool:
        """Whether the method of a summary of negatives decides the loss: nothing nearer to this very object overrides
        how similarities are made or used."""
        by_pairs = min(self._definition(name) for name in ("per_anchor", "block"))
        return self._definition(summary) < by_pairs and type(self).metric is PairwiseObjective.metric

    def _definition(self, name: str) -> int:
        """How many steps above this very object the first definition of a name is."""
        return next(i for i, each in enumerate((self, *type(self).__mro__)) if name in vars(each))

    def block_from_logsumexp(
        self, anchors: Anchors, logsumexp: tuple[Tensor, ...], num_negatives: tuple[Tensor, ...]
    ) -> Statistics:
        raise TypeError(f"{type(self).__name__} is no LogSumObjective")

    def block_from_hardest(self, anchors: Anchors, hardest: tuple[Tensor, ...]) -> Statistics:
        raise TypeError(f"{type(self).__name__} is no HardestObjective")

    @property
    def reads(self) -> tuple[Read, ...]:
        reads: tuple[Any, ...] = (self.negatives,) if isinstance(self.negatives, str) else tuple(self.negatives)
        for read in reads:
            if read not in READS:
                raise ValueError(f"{self.name}'s negatives must be one of {READS}, not {read!r}")
        return reads

    @property
    def coupled(self) -> bool:
        return self.joined or type(self).combine is not PairwiseObjective.combine

    @property
    def joined(self) -> bool:
        return type(self).join is not PairwiseObjective.join

    def _possible_reductions(self) -> tuple[str, ...]:
        return tuple(each for each in self.reductions if each != "none" or not self.coupled)

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        self.refuse_unused(inputs)
        if self.labelled and world_size(self.gather) > 1:
            agree_on_labels(inputs.labels)
        if self.labelled and inputs.labels is None and isinstance(inputs.z1, Tensor) and inputs.z1.ndim:
            unlabelled = inputs.z1.new_full(inputs.z1.shape[:1], -1, dtype=torch.int64)
            inputs = replace(inputs, labels=unlabelled)
        return evaluate(self, inputs, terms)


class FeatureObjective(Objective):
    """An objective of the features of the whole batch, such as a covariance: no pairs, no negatives, no blocks."""

    reductions: ClassVar[tuple[str, ...]] = ("mean",)
    fewest: ClassVar[int] = 2
    raw_rows: ClassVar[Any] = True  # lengths of rows matter
    nature: ClassVar[str] = "compares features, not pairs"

    def features(self, *views: Tensor) -> Statistics:
        """Scalars from all raw views (N, D), two unless ``takes`` names "views": "loss" and its parts.

        If ``labelled``, it also gets ``labels`` (N,), -1 if unknown, where a call gives them.
        """
        raise TypeError(f"{type(self).__name__} must define features")

    def rows(self, z: Tensor) -> Tensor:
        return widened(z)

    def map_pairwise(self, change: Callable[[PairwiseObjective], Any]) -> Any:
        raise ValueError(f"{self.name} compares features, not pairs: it has no negatives to mix")

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        self.refuse_unused(inputs)
        return evaluate_features(self, inputs, terms)
