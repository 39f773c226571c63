"""A plugin of pytest for suites.py: it runs each test with a library's losses, and with ours under their names."""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from _pytest.runner import runtestprotocol
from torch import Tensor

LIBRARY = os.environ["SUITE_LIBRARY"]
BUILT: list[str] = []  # names of our losses that the running test has built
RUN = {"losses": "theirs"}  # or "ours"

Classes = dict[str, type]


def named(name: str, kind: type, settings: Callable[..., dict[str, Any]]) -> type:
    """A class of the library's name whose arguments ``settings`` turns into ours."""

    def build(self: Any, *args: Any, **given: Any) -> None:
        kind.__init__(self, **settings(*args, **given))

    return type(name, (kind,), {"__init__": build})


def either(theirs: type, ours: type) -> type:
    """A class that builds theirs or ours, as the run asks."""

    def build(cls: type, *args: Any, **given: Any) -> Any:
        BUILT.append(theirs.__name__)
        return {"theirs": theirs, "ours": ours}[RUN["losses"]](*args, **given)

    return type(theirs.__name__, (), {"__new__": build})


# ----------------------------------------------------------------------------------------------------------- libraries


def lightly() -> Classes:
    from lightly.loss.dcl_loss import negative_mises_fisher_weights

    from hypersphere.integrations.lightly import Loss

    def ntxent(temperature: float = 0.5, memory_bank_size: Any = 0, gather_distributed: bool = False) -> Any:
        given = {"temperature": temperature, "memory_bank_size": memory_bank_size}
        return {"objective": "ntxent", **given, "gather_distributed": gather_distributed}

    def dcl(temperature: float = 0.1, weight_fn: Any = None, gather_distributed: bool = False) -> Any:
        if weight_fn not in (None, negative_mises_fisher_weights):
            raise NotImplementedError("a weight_fn of one's own")
        name = "dcl" if weight_fn is None else "dclw"
        return {"objective": name, "temperature": temperature, "gather_distributed": gather_distributed}

    def dclw(temperature: float = 0.1, sigma: float = 0.5, gather_distributed: bool = False) -> Any:
        given = {"temperature": temperature, "sigma": sigma}
        return {"objective": "dclw", **given, "gather_distributed": gather_distributed}

    def barlow(lambda_param: float = 5e-3, gather_distributed: bool = False) -> Any:
        return {"objective": "barlow", "weight": lambda_param, "gather_distributed": gather_distributed}

    def vicreg(
        lambda_param: float = 25.0,
        mu_param: float = 25.0,
        nu_param: float = 1.0,
        gather_distributed: bool = False,
        eps: float = 1e-4,
    ) -> Any:
        given = {"invariance": lambda_param, "variance": mu_param, "covariance": nu_param, "eps": eps}
        return {"objective": "vicreg", **given, "gather_distributed": gather_distributed}

    forms = {"NTXentLoss": ntxent, "DCLLoss": dcl, "DCLWLoss": dclw, "BarlowTwinsLoss": barlow, "VICRegLoss": vicreg}
    return {name: named(name, Loss, settings) for name, settings in forms.items()}


def pytorch_metric_learning() -> Classes:
    from hypersphere.integrations.pytorch_metric_learning import NTXentLoss, SupConLoss

    def settings(temperature: float | None = None, **given: Any) -> Any:
        return given if temperature is None else {"temperature": temperature, **given}

    return {kind.__name__: named(kind.__name__, kind, settings) for kind in (NTXentLoss, SupConLoss)}


def open_clip() -> Classes:
    from hypersphere.integrations.open_clip import Loss

    class OfLoss(Loss):
        """With the private method of SigLipLoss that its tests call."""

        def _loss(
            self, image: Tensor, text: Tensor, scale: Tensor, bias: Any = None, negative_only: bool = False
        ) -> Any:
            if negative_only:
                raise NotImplementedError("negative_only: a block without positives")
            return self(image, text, scale, bias)

    def clip(**of_several_processes: Any) -> Any:
        return {"objective": "infonce"}

    def siglip(chunk_size: int = 0, **of_several_processes: Any) -> Any:
        return {"objective": "siglip"}

    return {"ClipLoss": named("ClipLoss", OfLoss, clip), "SigLipLoss": named("SigLipLoss", OfLoss, siglip)}


def sentence_transformers() -> Classes:
    from torch.utils.checkpoint import set_checkpoint_early_stop

    from hypersphere.integrations.sentence_transformers import Loss
    from hypersphere.integrations.sentence_transformers.embed import unwrapped

    class Seen(Loss):
        """With the method that tests spy on to see each chunk, first in forward and then in backward, where we embed
        the last chunk first."""

        def embed_minibatch(self, rows: Tensor) -> tuple[Tensor, None]:
            return rows, None

        def forward(self, sentence_features: Any, labels: Tensor | None = None) -> Any:
            if "embed_minibatch" not in vars(self):
                return super().forward(sentence_features, labels)
            inner: Any = unwrapped(self.model)
            plain, again, done = inner.forward, [], []

            def report() -> None:
                for rows in reversed(again):
                    self.embed_minibatch(rows=rows)

            def embed(column: dict[str, Any]) -> dict[str, Tensor]:
                rows = plain(column)["sentence_embedding"]
                if not done:
                    self.embed_minibatch(rows=rows)
                else:
                    again.append(rows)
                    if len(again) == 1:
                        torch.autograd.Variable._execution_engine.queue_callback(report)
                return {"sentence_embedding": rows}

            inner.forward = embed
            try:
                with set_checkpoint_early_stop(False):  # so that a chunk is embedded to its end in backward too
                    return super().forward(sentence_features, labels)
            finally:
                inner.forward = plain
                done.append(True)

    def settings(
        model: Any,
        scale: float = 20.0,
        mini_batch_size: int | None = None,
        mini_batch_num_tokens: int | None = None,
        directions: tuple[str, ...] = ("query_to_doc",),
        partition_mode: str = "joint",
        hardness_mode: str | None = None,
        hardness_strength: float = 0.0,
        gather_across_devices: bool = False,
    ) -> Any:
        form: dict[str, Any] = {}
        if set(directions) == {"query_to_doc", "doc_to_query"} and partition_mode == "per_direction":
            form = {"symmetric": True}
        elif len(directions) == 4 and partition_mode == "joint":
            form = {"pool": "gte"}
        elif tuple(directions) != ("query_to_doc",):
            raise NotImplementedError(f"{partition_mode} over {directions}")
        if hardness_mode is not None:
            form["hardness"] = hardness_strength
            form["hardness_on"] = hardness_mode.removesuffix("_negatives")
        if mini_batch_num_tokens is not None:
            mini_batch_size = None
        chunks = {"mini_batch_size": mini_batch_size, "mini_batch_num_tokens": mini_batch_num_tokens}
        given = {"model": model, "objective": "infonce", "scale": scale, "gather": gather_across_devices}
        return {**given, **chunks, **form, "terms": False}

    def cached(model: Any, *args: Any, mini_batch_size: int = 32, **given: Any) -> Any:
        return settings(model, *args, mini_batch_size=mini_batch_size, **given)

    plain, chunked = "MultipleNegativesRankingLoss", "CachedMultipleNegativesRankingLoss"
    return {plain: named(plain, Seen, settings), chunked: named(chunked, Seen, cached)}


def stable_pretraining() -> Classes:
    from hypersphere.integrations.stable_pretraining import Loss

    class TwoViews(Loss):
        """With the names of CLIPLoss's arguments."""

        def forward(self, feats_i: Tensor, feats_j: Tensor, logit_scale: Any = None) -> Tensor:
            return super().forward(feats_i, feats_j, logit_scale=logit_scale)

    def ntxent(temperature: float = 0.5) -> Any:
        return {"objective": "ntxent", "temperature": temperature}

    def clip(temperature: float = 0.07) -> Any:
        return {"objective": "infonce", "temperature": temperature, "symmetric": True}

    return {"NTXEntLoss": named("NTXEntLoss", Loss, ntxent), "CLIPLoss": named("CLIPLoss", TwoViews, clip)}


LOSSES = {  # the library's module that has them, and ours
    "lightly": ("lightly.loss", lightly),
    "pytorch_metric_learning": ("pytorch_metric_learning.losses", pytorch_metric_learning),
    "open_clip": ("open_clip.loss", open_clip),
    "sentence_transformers": ("sentence_transformers.sentence_transformer.losses", sentence_transformers),
    "stable_pretraining": ("stable_pretraining.losses", stable_pretraining),
}


@contextmanager
def replaced() -> Iterator[None]:
    """A class that builds either, in every module of the library that has theirs: for the imports of the tests."""
    place, classes = LOSSES[LIBRARY]
    losses, before = importlib.import_module(place), []
    for name, ours in classes().items():
        theirs = getattr(losses, name)
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith(LIBRARY) and vars(module).get(name) is theirs:
                before.append((module, name, theirs))
                setattr(module, name, either(theirs, ours))
    yield
    for module, name, theirs in before:  # which names itself in its super()
        setattr(module, name, theirs)


# ------------------------------------------------------------------------------------------------------------ the tests


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    if LIBRARY == "sentence_transformers":
        stand_in_for_downloads()
    with replaced():
        return (yield)


def pytest_runtest_protocol(item: Any, nextitem: Any) -> bool:
    """Runs each test twice, and writes down what became of it."""
    lines = {}
    for losses in ("theirs", "ours"):
        RUN["losses"] = losses
        BUILT.clear()
        torch.manual_seed(0), np.random.seed(0), random.seed(0)
        item._initrequest()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        errors = [error_of(each) for each in reports if each.failed]
        lines[losses] = {"error": errors[0] if errors else "", "counts": bool(BUILT) and not reports[-2].skipped}
    with open(os.environ["SUITE_RECORD"], "a", encoding="utf-8") as file:
        file.write(json.dumps({"test": item.nodeid, **lines}) + "\n")
    return True


def error_of(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return " ".join((crash.message if crash else str(report.longrepr)).split())[:300]


# ---------------------------------------------------------------- small random models, in place of those of a download


def stand_in_for_downloads() -> None:
    from sentence_transformers import SentenceTransformer

    plain = SentenceTransformer.__init__

    def build(self: Any, name: Any = None, *args: Any, **given: Any) -> None:
        if isinstance(name, str) and not Path(name).exists():
            given["modules"], name = random_modules(), None
        plain(self, name, *args, **given)

    SentenceTransformer.__init__ = build


@pytest.fixture
def stsb_bert_tiny_model() -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer("random", device="cpu")


def random_modules() -> list[Any]:
    """A BERT of two layers, which reads letters."""
    import string
    import tempfile

    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = {letter: number for number, letter in enumerate([*special, *string.printable])}
    tokenizer = Tokenizer(models.WordLevel(letters, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{each.strip('[]').lower()}_token": each for each in special}
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(letters), hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128
    )
    with tempfile.TemporaryDirectory() as folder:
        BertModel(config).save_pretrained(folder)
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=128, **names).save_pretrained(folder)
        transformer = Transformer(folder)
    return [transformer, Pooling(128)]
