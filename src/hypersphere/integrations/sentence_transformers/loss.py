"""Any objective as a loss of sentence-transformers' trainer."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any
from weakref import ref

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import embed_columns
from torch import Tensor, nn

from hypersphere.engine import Inputs
from hypersphere.engine.distributed import Shard, exchange, gather_rows, own_rank, raise_on_all_ranks, world_size
from hypersphere.integrations.sentence_transformers.embed import attach, embed_in_chunks, refuse_layers, unwrapped
from hypersphere.integrations.sentence_transformers.guide import Guide
from hypersphere.integrations.sentence_transformers.terms import Terms
from hypersphere.integrations.sentence_transformers.texts import Unprompted, equal_text_ids, text_hashes
from hypersphere.integrations.sentence_transformers.weights import Weighting
from hypersphere.objectives import Objective, create_objective
from hypersphere.objectives.base import within
from hypersphere.objectives.supervised import SupCon

logger = logging.getLogger(__name__)
Column = dict[str, Any]  # the tokens of one column of a batch, as the model takes them
Reps = list[list[Tensor]]  # the embeddings of each column, in parts
_PREFIX = "Hypersphere"


class Loss(nn.Module):
    """An objective on the columns of a dataset: anchor, positive, and any number of hard negatives.

    objective: its name, with ``settings`` as ``create_objective`` takes them, or an objective. ``scale`` is accepted
        for 1 / temperature. Unless ``gather=False`` is given, several processes contrast with the rows of all, and the
        gradient is that of one process with the whole batch.
    mask_duplicates: rows that share a text, directly or through other rows, are no negatives of each other, and a hard
        negative is none where its text is the anchor's or its positive's. Texts are compared by their tokens.
    prompts: the trainer's. A text under two prompts is one text, if they are given here or by our ``Callback``.
    guide: a SentenceTransformer, a function from texts to embeddings, or "self": drops negatives that it finds more
        similar to the anchor than the positive less ``guide_margin`` (``guide_strategy`` "absolute" or "relative").
    hard_negative_weight: SimCSE's; added to the logit of an anchor's own hard negatives.
    hardness, hardness_on: see ``Weighting``.
    mini_batch_size: embeds so many rows at a time and again in backward, so that memory does not limit the batch.
    mini_batch_num_tokens: the same with so many tokens at a time, for texts of very different lengths.
    twice: the dataset has one column of texts, and each text is encoded twice with different dropout.
    temperature_bounds: limits of a learned temperature (``learnable=True``).
    terms: returns the objective's terms for the trainer's log (one more evaluation of the objective, without gradient).

    A column named label or score holds classes (supcon, cloa) or scores (cosent). Other objectives refuse it. supcon
    also takes one column of texts with a label: the positives are the other texts of the label.

    A model card keeps one citation for each class of losses, so a loss gets a class named after its objective, such as
    ``HypersphereDHEL``: a subclass of this one that adds nothing.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        objective: str | Objective = "infonce",
        *,
        mask_duplicates: bool = True,
        prompts: str | Mapping[str, Any] | None = None,
        guide: SentenceTransformer | Callable[[list[str]], Any] | str | None = None,
        guide_margin: float = 0.0,
        guide_strategy: str = "absolute",
        hard_negative_weight: float = 0.0,
        hardness: float = 0.0,
        hardness_on: str = "in_batch",
        mini_batch_size: int | None = None,
        mini_batch_num_tokens: int | None = None,
        twice: bool = False,
        temperature_bounds: tuple[float, float] = (0.01, 1.0),
        terms: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__()
        if not isinstance(unwrapped(model), SentenceTransformer):
            raise ValueError(f"the first argument is the SentenceTransformer to train, not {type(model).__name__}")
        limits = {"mini_batch_size": mini_batch_size, "mini_batch_num_tokens": mini_batch_num_tokens}
        for name, limit in limits.items():
            if limit is not None and (type(limit) is not int or limit < 1):
                raise ValueError(f"{name} must be a whole number of at least 1, or None for all, not {limit!r}")
        if None not in limits.values():
            raise ValueError("mini_batch_size and mini_batch_num_tokens both limit a mini-batch: give one of them")
        self.model = model
        self.mask_duplicates, self.twice, self.terms = mask_duplicates, twice, terms
        self.mini_batch_size, self.mini_batch_num_tokens = mini_batch_size, mini_batch_num_tokens
        self.uses_gradient_cache = any(limits.values())  # MatryoshkaLoss then decorates calculate_loss
        self.weighting = Weighting(hard_negative_weight, hardness, hardness_on)
        if isinstance(guide, str) and guide != "self":
            raise ValueError(f"guide must be a SentenceTransformer, a function of texts or 'self', not {guide!r}")
        rule: dict[str, Any] = {"margin": guide_margin, "strategy": guide_strategy}
        self.objective = _guided(_created(objective, settings), guide, rule)
        self._guide = None if guide is None or isinstance(guide, str) else Guide(guide, unwrapped(model))
        if self.weighting:
            self.weighting.check(self.objective)
        self.temperature_bounds = _checked_bounds(self.objective, temperature_bounds)
        self._known: tuple[list[Any], dict[str, Any]] = ([], {})
        self._reported: set[str] = set()  # what was said of the texts
        self._unprompted: Unprompted | None = None
        self.set_prompts(prompts)
        if type(self) is Loss:
            self.__class__ = _class_named(_PREFIX + "".join(type(each).__name__ for each in within(self.objective)))

    def set_prompts(self, prompts: str | Mapping[str, Any] | None) -> None:
        """Compares texts without these prompts from now on."""
        unprompted = Unprompted(getattr(unwrapped(self.model), "tokenizer", None), prompts)
        self._unprompted = unprompted if unprompted.prompts else None

    # --- called by the trainer

    def forward(self, sentence_features: Iterable[Column], labels: Tensor | None = None) -> Tensor | Terms:
        columns = list(sentence_features)
        self._keep_in_bounds()
        with raise_on_all_ranks(self.objective.gather, self.objective.described):
            self._check_columns(columns, labels)
            known = {**self._known_of_labels(labels), **self._known_of_texts(columns)}
        if not self.uses_gradient_cache:
            return self._evaluate(self._embed(columns), known)
        limits = self.mini_batch_size, self.mini_batch_num_tokens
        embeddings = embed_in_chunks(self.model, columns * 2 if self.twice else columns, *limits)
        if not torch.is_grad_enabled():
            return self.calculate_loss([[z] for z in embeddings], known)
        rows = [z.detach().to(torch.promote_types(z.dtype, torch.float32)).requires_grad_() for z in embeddings]
        value = self.calculate_loss([[z] for z in rows], known, with_backward=True)
        attached: Tensor | Terms = attach(value, embeddings, [z.grad for z in rows])
        return attached

    def calculate_loss(self, reps: Reps, known: dict[str, Any], *, with_backward: bool = False) -> Tensor | Terms:
        """The loss of the columns' embeddings, each a list of parts. ``with_backward`` puts their gradients into
        ``grad``; the loss then carries a gradient to the objective's own parameters alone."""
        value = self._evaluate([torch.cat(parts) for parts in reps], known)
        if not with_backward:
            return value
        rows = [part for parts in reps for part in parts]
        parameters = [each for each in self.objective.parameters() if each.requires_grad]
        loss = value.loss if isinstance(value, Terms) else value
        with torch.autocast(loss.device.type, enabled=False):  # the trainer's, which does not surround a backward
            grads = torch.autograd.grad(loss, [*rows, *parameters], allow_unused=True)
        for row, grad in zip(rows, grads, strict=False):
            row.grad = torch.zeros_like(row) if grad is None else grad
        detached = Terms(loss.detach(), dict(value.items())) if isinstance(value, Terms) else loss.detach()
        attached: Tensor | Terms = attach(detached, parameters, grads[len(rows) :])
        return attached

    def get_config_dict(self) -> dict[str, Any]:
        """The objective and the settings of the loss, for the model card."""
        own: dict[str, Any] = {
            "mask_duplicates": self.mask_duplicates,
            "guide": None if self._guide is None else self._guide.name,
            "hard_negative_weight": self.weighting.own,
            "hardness": self.weighting.hardness,
            "hardness_on": self.weighting.hardness_on,
            "mini_batch_size": self.mini_batch_size,
            "mini_batch_num_tokens": self.mini_batch_num_tokens,
            "twice": self.twice,
        }
        if not self.weighting.hardness:
            del own["hardness_on"]
        if self.mini_batch_num_tokens is None:
            del own["mini_batch_num_tokens"]
        if any(each.learnable for each in within(self.objective)):
            own["temperature_bounds"] = self.temperature_bounds
        return {"objective": repr(self.objective), "gather": self.objective.gather, **own}

    @property
    def citation(self) -> str:
        sources = "; ".join(dict.fromkeys(each.citation() for each in within(self.objective) if each.citation()))
        names = [each.name for each in within(self.objective)]
        note = f"    note = {{Objective {' of '.join(names)}: {sources}}},\n" if sources else ""
        return (
            f"\n@software{{hypersphere-{'-'.join(names).replace('/', '-')},\n    title = {{hypersphere}},\n"
            f"    author = {{{{The hypersphere authors}}}},\n{note}}}\n"
        )

    # --- what the objective is given

    def _embed(self, columns: list[Column]) -> list[Tensor]:
        if self.twice:
            refuse_layers(unwrapped(self.model), "twice=True", "give the texts as two equal columns")
            columns = [columns[0], dict(columns[0])]  # the model writes into its input
        embeddings: list[Tensor] = embed_columns(self.model, columns)  # positives and hard negatives in one pass
        return embeddings

    def _check_columns(self, columns: list[Column], labels: Tensor | None) -> None:
        name, takes, given = self.objective.name, self.objective.takes, len(columns)
        learned = any(each.requires_grad for each in self.objective.parameters())
        if learned and not self.objective.gather and world_size(True) > 1:
            raise ValueError(
                "with gather=False every process learns a temperature of its own: leave out gather=False or learnable"
            )
        if self.twice and given != 1:
            raise ValueError(f"twice=True encodes one column of texts twice, but the dataset has {given}: leave it out")
        by_label = isinstance(self.objective, SupCon) and not self.weighting
        if given == 1 and not self.twice and (labels is None or not by_label):
            named = ", one named label" if by_label else ""
            raise ValueError(
                f"one column of texts has no positives: give the dataset a column of positives{named}, or twice=True, "
                "which encodes each text twice with different dropout (SimCSE)"
            )
        if given > 2 and not takes & {"negatives", "views"}:
            raise ValueError(
                f"{name} takes pairs (anchor, positive), but the dataset has {given} columns of texts: remove the hard "
                "negatives, or take an objective that has negatives, such as infonce"
            )
        if self.weighting.own and given < 3:
            raise ValueError(
                f"hard_negative_weight weighs hard negatives, but the dataset has only {given} columns of texts: add a "
                "column of them, or leave the weight out"
            )

    def _known_of_labels(self, labels: Tensor | None) -> dict[str, Any]:
        name = self.objective.name
        if "scores" in self.objective.needs:
            if labels is None:
                raise ValueError(f"{name} needs the score of each pair: give the dataset a column named score")
            return {"scores": labels if labels.is_floating_point() else labels.float()}
        if any(each.labelled or "labels" in each.needs for each in within(self.objective)):
            if labels is None and "labels" in self.objective.needs:
                raise ValueError(f"{name} needs the class of each row: give the dataset a column named label")
            return {} if labels is None else {"labels": labels}
        if labels is not None and labels.numel() and bool((labels != labels.flatten()[0]).any()):
            raise ValueError(
                f"{name} reads no labels, but the dataset has a column of labels or scores: remove it, or take an "
                "objective that reads it (supcon or cloa for classes, cosent for scores)"
            )
        return {}

    def _known_of_texts(self, columns: list[Column]) -> dict[str, Any]:
        """Ids of equal texts and the guide's embeddings. MatryoshkaLoss and AdaptiveLayerLoss call the loss several
        times with one batch, which is looked at once."""
        texts = [column.get("input_ids") for column in columns]
        before, known = self._known
        if len(texts) == len(before) and all(x is not None and x is y() for x, y in zip(texts, before, strict=True)):
            return known
        known = {**self._equal_texts(columns), **self._guide_rows(columns)}
        if all(isinstance(each, Tensor) for each in texts):
            self._known = ([ref(each) for each in texts], known)  # the batch itself is freed after its step
        return known

    def _hard(self, columns: Sequence[Any]) -> Sequence[Any]:
        """The columns, or what belongs to them, of hard negatives."""
        return columns[2:] if "negatives" in self.objective.takes else ()

    def _equal_texts(self, columns: list[Column]) -> dict[str, Any]:
        if not self.mask_duplicates or "ids" not in self.objective.takes:
            return {}
        lengths = {str(column.get("prompt_length")) for column in columns}  # a number, or a tensor of one
        if self._unprompted is None and len(lengths) > 1:
            self._report(
                "Columns have different prompts, so an equal text in two columns counts as two. "
                "Loss(…, prompts=args.prompts) compares texts without them, and so does our Callback."
            )
        hashes = [self._unprompted.hashes(each) if self._unprompted else text_hashes(each) for each in columns]
        known = [each for each in hashes if each is not None]
        if len(known) < len(hashes):  # pictures or sounds
            return {}
        ids = equal_text_ids(known[: len(known) - len(self._hard(known))], self._hard(known), self.objective.gather)
        if ids:
            self._report(
                "Some rows of a batch share a text, so they are no negatives of each other. "
                "batch_sampler=BatchSamplers.NO_DUPLICATES keeps them apart; mask_duplicates=False lets them count."
            )
        return ids

    def _report(self, sentence: str) -> None:
        if sentence not in self._reported:
            self._reported.add(sentence)
            logger.warning(sentence)

    def _guide_rows(self, columns: list[Column]) -> dict[str, Any]:
        if self._guide is None:
            return {}
        rows = [self._guide(column) for column in columns]
        hard = self._hard(rows)
        views = rows[: len(rows) - len(hard)]
        known: dict[str, Any] = {"guide": views[0] if len(views) == 1 else tuple(views)}
        return {**known, "guide_negatives": torch.cat(list(hard))} if hard else known

    def _owners(self, z1: Tensor, times: int) -> Tensor:
        """For each hard negative of all processes, the index of its instance in the batch; each has ``times``."""
        if world_size(self.objective.gather) == 1:
            return torch.arange(len(z1), device=z1.device).repeat(times)
        shard = Shard(tuple(each for (each,) in exchange([len(z1)])), own_rank())
        own = torch.arange(shard.start, shard.stop, device=z1.device).repeat(times)
        return gather_rows(own, Shard(tuple(times * each for each in shard.sizes), shard.rank))

    def _evaluate(self, embeddings: list[Tensor], known: dict[str, Any]) -> Tensor | Terms:
        columns: list[Any] = embeddings if len(embeddings) > 1 else [*embeddings, None]
        z1, z2, *further = columns
        if further and "negatives" in self.objective.takes:
            known = {**known, "negatives": torch.cat(further)}
        elif further:
            known = {**known, "views": tuple(further)}
        if not self.terms:
            return self._call(z1, z2, known, terms=False)["loss"]
        buffers = [(each, each.clone()) for each in self.objective.buffers()]
        with torch.no_grad():
            terms = self._call(z1, z2, known, terms=True)
            for buffer, before in buffers:  # such as the number of the step, which draws random directions
                buffer.copy_(before)
        loss = self._call(z1, z2, known, terms=False)["loss"]
        terms = {name: term for name, term in terms.items() if name != "loss" and term.ndim == 0}
        return Terms(loss, terms) if terms else loss

    def _call(self, z1: Tensor, z2: Any, known: dict[str, Any], terms: bool) -> dict[str, Tensor]:
        if not self.weighting:
            return self.objective.terms(z1, z2, **known) if terms else {"loss": self.objective(z1, z2, **known)}
        with raise_on_all_ranks(self.objective.gather, self.objective.described):
            owners = self._owners(z1, len(known.get("negatives", ())) // len(z1))
            return self.weighting.evaluate(self.objective, Inputs(z1, z2, **known), owners, terms)

    # --- a learned temperature

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        self._keep_in_bounds()
        return super().state_dict(*args, **kwargs)

    @torch.no_grad()
    def _keep_in_bounds(self) -> None:
        low, high = map(math.log, self.temperature_bounds)
        for temperature in _learned_temperatures(self.objective):
            temperature.clamp_(low, high)


@cache
def _class_named(name: str) -> type[Loss]:
    return type(name, (Loss,), {"__module__": __name__, "__doc__": Loss.__doc__})


def __getattr__(name: str) -> type[Loss]:
    """The class of a saved loss."""
    if not name.startswith(_PREFIX):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _class_named(name)


def _created(objective: str | Objective, settings: dict[str, Any]) -> Objective:
    if isinstance(objective, Objective):
        if settings:
            raise ValueError(f"{objective!r} has its settings: {', '.join(settings)} cannot be given once more")
        if "gather" not in objective._given:
            objective.gather = True
        created = objective
    else:
        if "scale" in settings and "temperature" not in settings and objective != "cosent":
            scale = settings.pop("scale")
            if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 0 < scale < math.inf:
                raise ValueError(f"scale is 1 / temperature, a number above 0, not {scale!r}")
            settings["temperature"] = 1 / scale
        created = create_objective(objective, **{"gather": True, **settings})
    if created.reduction != "mean":
        raise ValueError(f"the trainer needs one number, so the reduction must be 'mean', not {created.reduction!r}")
    return created


def _guided(objective: Objective, guide: object, rule: dict[str, Any]) -> Objective:
    """The objective with a guide around it, unless it has a use of its own for one or there is none."""
    if guide is not None and "guide" not in objective.needs:
        source = "self" if guide == "self" else "given"
        return create_objective("guided", base=objective, source=source, gather=objective.gather, **rule)
    if rule != {"margin": 0.0, "strategy": "absolute"}:
        raise ValueError("guide_margin and guide_strategy go with guide= and an objective that has no guide of its own")
    if "guide" in objective.needs and (guide is None or guide == "self"):
        raise ValueError(f"{objective.name} needs a guide: give guide= a SentenceTransformer")
    return objective


def _learned_temperatures(objective: Objective) -> list[nn.Parameter]:
    named = objective.named_parameters()
    return [parameter for name, parameter in named if name.rpartition(".")[2] == "log_temperature"]


def _checked_bounds(objective: Objective, bounds: tuple[float, float]) -> tuple[float, float]:
    numbers = isinstance(bounds, Sequence) and all(isinstance(each, (int, float)) for each in bounds)
    if not numbers or len(bounds) != 2 or not 0 < bounds[0] < bounds[1]:
        raise ValueError(f"temperature_bounds are two rising numbers above 0, not {bounds!r}")
    low, high = bounds
    for temperature in _learned_temperatures(objective):
        start = float(temperature.detach().exp())
        if not low * (1 - 1e-6) <= start <= high * (1 + 1e-6):
            raise ValueError(f"the temperature starts at {start:g}, outside temperature_bounds={bounds!r}: widen them")
    return low, high
