"""Objectives in sentence-transformers' trainer, against its own losses, plain loops and one process."""

from __future__ import annotations

import gc
import math
import os
import random
import re
import shutil
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs

pytest.importorskip("sentence_transformers")

from datasets import Dataset
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.losses.merged_forward import column_merging_disabled
from sentence_transformers.sentence_transformer.losses import (
    AdaptiveLayerLoss,
    CoSENTLoss,
    GISTEmbedLoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
)
from transformers import TrainerState

from hypersphere.encoders.text import _set_dropout
from hypersphere.integrations.sentence_transformers import Callback, Evaluator, Loss
from hypersphere.integrations.sentence_transformers.callback import worse_retrieval
from hypersphere.integrations.sentence_transformers.loss import Terms
from hypersphere.integrations.sentence_transformers.texts import equal_text_ids, text_hashes
from hypersphere.training.journal import read_journal
from tests.evaluation.tiny_model import WORDS, write_tiny_model

DIRECTIONS = ("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")
DIMS, DIM_WEIGHTS = [16, 8, 4], [1, 0.5, 2]


def texts(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choice(WORDS[:20]) for _ in range(draw.randint(3, 8))) for _ in range(count)]


A, P, N1, N2 = (texts(8, seed) for seed in range(4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny") / "model")


def opened(folder: Path, dropout: float = 0.0) -> SentenceTransformer:
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    _set_dropout(model, dropout)
    return model


@pytest.fixture(scope="module")
def model(folder: Path) -> SentenceTransformer:
    return opened(folder)


def features(model: SentenceTransformer, *columns: list[str]) -> list[dict[str, Any]]:
    return [dict(model.preprocess(column)) for column in columns]


def value_of(loss: Any) -> Tensor:
    return loss.loss if isinstance(loss, Terms) else loss


def step(loss: nn.Module, *columns: list[str], labels: Tensor | None = None, factor: float = 1.0) -> dict[str, Tensor]:
    """The value and every gradient of one step."""
    loss.zero_grad()
    model: Any = loss.model
    value = value_of(loss(features(model, *columns), labels))
    (factor * value).backward()
    named = {name.rpartition("model.")[2]: p.grad for name, p in loss.named_parameters() if p.grad is not None}
    return {"value": value.detach(), **{name: grad.clone() for name, grad in named.items()}}


def assert_same(ours: dict[str, Tensor], theirs: dict[str, Tensor], tolerance: float = 2e-5) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.allclose(value, theirs[name], rtol=tolerance, atol=tolerance), name


# --- against sentence-transformers' own losses


@pytest.mark.parametrize(
    ("objective", "settings", "theirs", "columns"),
    [
        ("infonce", {"scale": 20.0}, {}, (A, P)),
        ("infonce", {"scale": 20.0}, {}, (A, P, N1, N2)),
        ("infonce", {"temperature": 0.05, "symmetric": True},
         {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}, (A, P, N1)),
        ("infonce", {"temperature": 0.05, "hardness": 9.0},
         {"hardness_mode": "in_batch_negatives", "hardness_strength": 9.0}, (A, P)),
        ("infonce", {"temperature": 0.05, "hardness": 5.0, "hardness_on": "hard"},
         {"hardness_mode": "hard_negatives", "hardness_strength": 5.0}, (A, P, N1, N2)),
        ("infonce", {"temperature": 0.05, "hardness": 5.0, "hardness_on": "all"},
         {"hardness_mode": "all_negatives", "hardness_strength": 5.0}, (A, P, N1, N2)),
    ],
)  # fmt: skip
def test_the_loss_is_that_of_multiple_negatives_ranking(
    model: SentenceTransformer, objective: str, settings: dict[str, Any], theirs: dict[str, Any], columns: Any
) -> None:
    ours = step(Loss(model, objective, **settings), *columns)
    assert_same(ours, step(MultipleNegativesRankingLoss(model, scale=20.0, **theirs), *columns))


def test_gtes_four_directions_are_mv_infonce_up_to_a_constant(model: SentenceTransformer) -> None:
    ours = step(Loss(model, "mv_infonce", temperature=0.05), A, P)
    theirs = step(MultipleNegativesRankingLoss(model, scale=20.0, directions=DIRECTIONS), A, P)
    assert math.isclose(theirs.pop("value"), ours.pop("value") + math.log(2), rel_tol=1e-5)
    assert_same(ours, theirs)


def test_a_guide_is_gistembeds(folder: Path, model: SentenceTransformer) -> None:
    guide = write_tiny_model(folder.parent / "guide", seed=7)
    ours = Loss(model, "infonce", pool="all", temperature=0.1, guide=SentenceTransformer(str(guide), device="cpu"))
    theirs = GISTEmbedLoss(model, SentenceTransformer(str(guide), device="cpu"), temperature=0.1)
    model.eval()
    expected = step(theirs, A, P, N1)
    assert_same(step(ours, A, P, N1), {name: grad for name, grad in expected.items() if not name.startswith("guide")})
    plain = step(Loss(model, "infonce", pool="all", temperature=0.1), A, P, N1)
    assert plain["value"] > expected["value"] + 0.1  # the guide drops some negatives


# --- what is known of the texts


def by_loops(model: SentenceTransformer, columns: Any, masked: Callable[..., bool], tau: float, own: float) -> float:
    """Mean over anchors of -log softmax, over documents and hard negatives that are not ``masked(i, text, j)``."""
    z = [torch.nn.functional.normalize(model.encode(each, convert_to_tensor=True), dim=1) for each in columns]
    total = 0.0
    for i in range(len(z[0])):
        terms = []
        for column, rows in enumerate(z[1:], 1):
            for j in range(len(rows)):
                if (column, j) == (1, i) or not masked(i, column, j):
                    terms.append(float(z[0][i] @ rows[j]) / tau + (own if column > 1 and j == i else 0.0))
        total -= float(z[0][i] @ z[1][i]) / tau - math.log(sum(map(math.exp, terms)))
    return total / len(z[0])


def test_texts_that_occur_twice_are_no_negatives(model: SentenceTransformer, caplog: pytest.LogCaptureFixture) -> None:
    a, p, n = [A[0], *A[1:4], A[0]], [*P[:3], P[2], P[4]], [N1[0], P[1], A[3], N1[3], N1[4]]
    related = {0: {0, 4}, 1: {1}, 2: {2, 3}, 3: {2, 3}, 4: {0, 4}}  # 0 and 4 share the anchor, 2 and 3 the document
    hard = {(1, 1), (2, 2), (3, 2)}  # the negative of row 1 is its own document, that of row 2 is the anchor of row 3

    def masked(i: int, column: int, j: int) -> bool:
        return (i, j) in hard if column == 2 else j in related[i]

    loss = Loss(model, "infonce", temperature=0.05)
    assert math.isclose(step(loss, a, p, n)["value"], by_loops(model, (a, p, n), masked, 0.05, 0.0), rel_tol=1e-5)
    step(loss, a, p, n)
    (reported,) = [each.getMessage() for each in caplog.records if "share a text" in each.getMessage()]  # once
    assert "BatchSamplers.NO_DUPLICATES" in reported
    caplog.clear()
    step(Loss(model, "infonce"), A, P, N1)
    all_count = step(Loss(model, "infonce", temperature=0.05, mask_duplicates=False), a, p, n)["value"]
    assert "share a text" not in caplog.text
    assert math.isclose(all_count, by_loops(model, (a, p, n), lambda *_: False, 0.05, 0.0), rel_tol=1e-5)


def test_hard_negatives_are_weighted_as_simcse_weighs_them(model: SentenceTransformer) -> None:
    loss = Loss(model, "infonce", temperature=0.05, hard_negative_weight=1.5)
    expected = by_loops(model, (A, P, N1, N2), lambda *_: False, 0.05, 1.5)
    assert math.isclose(step(loss, A, P, N1, N2)["value"], expected, rel_tol=1e-5)


def test_hashes_depend_on_the_order_of_tokens_and_not_on_their_layout(model: SentenceTransformer) -> None:
    (column,) = features(model, A)
    rows = [ids[mask.bool()] for ids, mask in zip(column["input_ids"], column["attention_mask"], strict=True)]
    offsets = torch.tensor([0, *torch.tensor([len(row) for row in rows]).cumsum(0)[:-1].tolist()])
    assert torch.equal(text_hashes(column), text_hashes({"input_ids": torch.cat(rows), "offsets": offsets}))
    permutations = [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]]
    assert len(text_hashes({"input_ids": torch.tensor(permutations)}).unique()) == 6
    assert equal_text_ids([text_hashes(column)], [], gather=True) == {}


def test_one_column_is_encoded_twice_where_asked(folder: Path) -> None:
    noisy = opened(folder, dropout=0.3).train()
    torch.manual_seed(0)
    once = value_of(Loss(noisy, "infonce", twice=True)(features(noisy, A)))
    torch.manual_seed(0)
    pairs = value_of(Loss(noisy, "infonce")(features(noisy, A, A)))
    assert torch.equal(once, pairs)
    assert once > 0.01  # dropout makes the views differ


@pytest.mark.parametrize(("name", "labels"), [("cosent", torch.tensor([3, 1, 2, 0, 5, 4, 2, 2])),
                                               ("supcon", torch.tensor([0, 1, 0, 1, 2, 2, -1, 3]))])  # fmt: skip
def test_labels_reach_the_objectives_that_read_them(model: SentenceTransformer, name: str, labels: Tensor) -> None:
    z1, z2 = (model.encode(each, convert_to_tensor=True).clone() for each in (A, P))
    given = {"scores": labels.float()} if name == "cosent" else {"labels": labels}
    assert torch.allclose(
        step(Loss(model, name), A, P, labels=labels)["value"], hs.create_objective(name)(z1, z2, **given)
    )


@pytest.mark.parametrize("limit", [None, 3])
def test_supcon_takes_one_column_of_texts_with_labels(model: SentenceTransformer, limit: int | None) -> None:
    labels = torch.tensor([0, 1, 0, 1, 2, 2, 1, 3])  # the last has no positive and counts 0
    cosines = torch.nn.functional.normalize(model.encode(A, convert_to_tensor=True), dim=1)
    logits = (cosines @ cosines.T / 0.2).fill_diagonal_(-math.inf)
    expected = 0.0
    for i in range(8):
        positives = [j for j in range(8) if j != i and labels[j] == labels[i]]
        expected += sum(float(logits[i].logsumexp(0) - logits[i, j]) for j in positives) / max(1, len(positives)) / 8
    results = step(Loss(model, "supcon", temperature=0.2, mini_batch_size=limit), A, labels=labels)
    assert math.isclose(results["value"], expected, rel_tol=1e-5)
    assert any(grad.abs().max() > 1e-3 for name, grad in results.items() if name != "value")


def test_scores_are_ranked_as_cosent_ranks_them(model: SentenceTransformer) -> None:
    scores = torch.tensor([0.9, 0.1, 0.5, 0.3, 0.8, 0.2, 0.5, 0.0])
    assert_same(step(Loss(model, "cosent"), A, P, labels=scores), step(CoSENTLoss(model), A, P, labels=scores))


# --- the cached form, and losses around it


@pytest.mark.parametrize("around", [None, "matryoshka"])
def test_the_cached_form_is_the_plain_one(folder: Path, around: str | None) -> None:
    """With dropout, a learned temperature, weights of dimensions and a factor, as accumulation and fp16 have it."""
    noisy, results = opened(folder, dropout=0.2).train(), []
    for size in (None, 8):  # one chunk, so that dropout draws the same numbers
        loss: nn.Module = Loss(noisy, "infonce", temperature=0.1, learnable=True, mini_batch_size=size)
        if around:
            loss = MatryoshkaLoss(noisy, loss, DIMS, DIM_WEIGHTS)
        torch.manual_seed(0)
        with column_merging_disabled():  # one pass for each column, as in the cached form: the same numbers again
            results.append(step(loss, A, P, N1, factor=0.25))
    assert any(name.endswith("log_temperature") for name in results[0])
    assert_same(*results)
    exact = opened(folder)
    whole, *small = [
        step(Loss(exact, "dhel", learnable=True, **limit), A, P, N1)
        for limit in ({}, {"mini_batch_size": 3}, {"mini_batch_num_tokens": 20}, {"mini_batch_num_tokens": 1})
    ]
    for each in small:
        assert_same(whole, each)


def test_a_part_of_a_batch_has_so_many_tokens_and_no_padding_of_the_rest(folder: Path) -> None:
    model, seen = opened(folder), []
    forward = model.forward

    def watched(column: dict[str, Any], **kwargs: Any) -> Any:
        seen.append(column["attention_mask"])
        return forward(column, **kwargs)

    model.forward = watched  # type: ignore[method-assign]
    columns = features(model, A, P)
    with torch.no_grad():
        Loss(model, mini_batch_num_tokens=20)(columns, None)
    for column in columns:
        lengths = column["attention_mask"].sum(dim=1).tolist()
        while lengths:
            part = seen.pop(0)
            assert part.sum(dim=1).tolist() == lengths[: len(part)]
            assert part.any(dim=0).all()
            assert part.sum() <= 20 < part.sum() + (lengths[len(part) :] or [20])[0]
            del lengths[: len(part)]
    assert not seen


def test_positives_and_hard_negatives_are_embedded_in_one_pass(folder: Path) -> None:
    model, rows = opened(folder), []
    forward = model.forward

    def watched(column: dict[str, Any], **kwargs: Any) -> Any:
        rows.append(len(column["input_ids"]))
        return forward(column, **kwargs)

    model.forward = watched  # type: ignore[method-assign]
    Loss(model)(features(model, A, P, N1, N2), None)
    assert rows == [8, 24]


def test_a_batch_is_freed_after_its_step(model: SentenceTransformer) -> None:
    for limit in (None, 3):
        loss = Loss(model, mini_batch_size=limit)
        columns = features(model, A, P)
        texts = [weakref.ref(column["input_ids"]) for column in columns]
        value_of(loss(columns, None)).backward()
        del columns
        gc.collect()
        assert all(text() is None for text in texts)


def test_matryoshka_and_adaptive_layers_hold_the_loss_as_their_own(model: SentenceTransformer) -> None:
    for around in (
        lambda loss: MatryoshkaLoss(model, loss, DIMS, DIM_WEIGHTS),
        lambda loss: AdaptiveLayerLoss(model, loss),
    ):
        results = []
        for inner in (Loss(model, "infonce", temperature=0.05), MultipleNegativesRankingLoss(model)):
            random.seed(0)
            results.append(step(around(inner), A, P, N1))
        assert_same(*results)
    terms = MatryoshkaLoss(model, Loss(model, "infonce"), DIMS)(features(model, A, P), None)
    assert math.isclose(sum(float(term) for _, term in terms.items()), terms.loss.item(), rel_tol=1e-5)


# --- in the trainer


def dataset(rows: int = 32, **more: Any) -> Dataset:
    return Dataset.from_dict({"anchor": texts(rows, 10), "positive": texts(rows, 11), **more})


def arguments(folder: Path, **more: Any) -> SentenceTransformerTrainingArguments:
    settings: dict[str, Any] = {
        "max_steps": 4, "per_device_train_batch_size": 8, "learning_rate": 1e-2, "logging_steps": 1, "use_cpu": True,
        "report_to": "none", "disable_tqdm": True, "save_strategy": "no", "seed": 3, "lr_scheduler_type": "constant",
    }  # fmt: skip
    return SentenceTransformerTrainingArguments(output_dir=str(folder), **(settings | more))


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Four steps with everything; then the last two once more, from the checkpoint."""
    output, said = tmp_path_factory.mktemp("run"), []

    def trained(resume: bool) -> SentenceTransformerTrainer:
        model = opened(folder, dropout=0.1)
        loss = Loss(model, "infonce", temperature=0.5, learnable=True, temperature_bounds=(0.2, 0.6))
        held_out = Evaluator(texts(12, 20), texts(12, 21), name="dev")
        trainer = SentenceTransformerTrainer(
            model=model, train_dataset=dataset(), eval_dataset=dataset(8), loss=loss, evaluator=held_out,
            callbacks=[Callback(loss, held_out, every=2, echo=said.append)],
            args=arguments(output, save_strategy="steps", save_steps=2, eval_strategy="steps", eval_steps=2,
                           learning_rate_mapping={"log_temperature": 0.3}),
        )  # fmt: skip
        trainer.train(resume_from_checkpoint=str(output / "checkpoint-2") if resume else None)
        return trainer

    first = trained(resume=False)
    weights = {name: value.clone() for name, value in first.loss.state_dict().items()}
    again = trained(resume=True)
    return {"trainer": first, "weights": weights, "again": again, "said": said, "output": output}


def test_the_trainer_logs_the_terms_beside_the_loss(run: dict[str, Any]) -> None:
    history = run["trainer"].state.log_history
    steps = [each for each in history if "loss" in each]
    assert len(steps) == 4
    for each in steps:
        assert math.isclose(each["alignment"] + each["energy"], each["loss"], abs_tol=2e-4)
    evaluated = [each for each in history if "eval_loss" in each]
    assert all({"eval_alignment", "eval_energy", "eval_dev_mean_reciprocal_rank"} <= each.keys() for each in evaluated)
    for name in ("alignment", "uniformity", "effective_rank", "gap", "healthy", "recall_at_1"):
        assert f"eval_dev_{name}" in evaluated[0]
    table = (run["output"] / "eval" / "geometry_evaluation_dev_results.csv").read_text().splitlines()
    assert table[0].endswith(",verdict") and len(table) >= 3


def test_a_learned_temperature_moves_within_its_bounds_and_is_saved(run: dict[str, Any]) -> None:
    temperature = float(run["weights"]["objective.log_temperature"].exp())
    assert 0.2 - 1e-6 <= temperature <= 0.6 + 1e-6
    assert not math.isclose(temperature, 0.5, rel_tol=1e-3)
    assert (run["output"] / "checkpoint-2" / "loss.safetensors").is_file()


def test_a_resumed_run_ends_where_the_uninterrupted_one_does(run: dict[str, Any]) -> None:
    again = run["again"].loss.state_dict()
    assert again.keys() == run["weights"].keys()
    for name, value in run["weights"].items():
        assert torch.allclose(value, again[name], atol=1e-6), name


def test_a_temperature_is_read_from_the_checkpoint_that_was_resumed_and_from_no_other(
    run: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    """The trainer takes a path, and callbacks hear of output_dir alone: there may be a checkpoint of another run."""
    saved = run["output"] / "checkpoint-2"
    state = TrainerState.load_from_json(str(saved / "trainer_state.json"))
    state.log_history[0]["loss"] = math.nan
    other = tmp_path / "checkpoint-2"
    shutil.copytree(saved, other, ignore=shutil.ignore_patterns("model*", "optimizer*"))
    elsewhere = tmp_path / "elsewhere" / "kept"
    shutil.copytree(other, elsewhere)
    state.save_to_json(str(elsewhere / "trainer_state.json"))
    state.log_history.append({"eval_gap": 0.5})  # by a callback before this one
    expected = load_file(saved / "loss.safetensors")["objective.log_temperature"]
    for named, heard in ((str(elsewhere), []), (None, ["give its path as resume_from_checkpoint= of the"])):
        said: list[str] = []
        loss = Loss(opened(folder), "infonce", temperature=0.3, learnable=True)
        callback = Callback(loss, Evaluator(A, P), echo=said.append)
        callback._resume(SimpleNamespace(output_dir=str(tmp_path), resume_from_checkpoint=named), state)
        assert len(said) == len(heard) and all(part in line for part, line in zip(heard, said, strict=True))
        assert torch.allclose(loss.objective.log_temperature, expected if named else torch.tensor(0.3).log())


def test_the_model_card_has_settings_and_citation(run: dict[str, Any], tmp_path: Path) -> None:
    run["trainer"].model.save_pretrained(str(tmp_path))
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "InfoNCE(temperature=" in card and '"mask_duplicates": true' in card
    assert "@software{hypersphere-infonce" in card and "Gao et al. 2021" in card


def test_the_callback_measures_training_and_held_out_texts(run: dict[str, Any]) -> None:
    records = read_journal(run["output"] / "metrics.jsonl")
    assert {(each["step"], each["split"]) for each in records} == {
        (step, split) for step in (0, 2, 4) for split in ("training", "held_out", "retrieval")
    }


@pytest.fixture
def collapsing(folder: Path) -> Iterator[tuple[Callback, SentenceTransformer, list[str]]]:
    model, said = opened(folder), []
    loss = Loss(model, "infonce")
    twins = texts(40, 30)
    callback = Callback(loss, Evaluator(twins, [f"{text} ." for text in twins]), echo=said.append)
    callback.model = model
    callback.observe(0, model)
    yield callback, model, said


def test_the_callback_says_that_texts_score_alike_and_retrieval_is_worse(collapsing: Any) -> None:
    callback, model, said = collapsing
    assert [line.partition(":")[0] for line in said] == [
        "Held-out texts at step 0, any two of which score 0.91 on average"
    ]
    assert "anisotropic cone" in said[0] and "Remedy: " in said[0]  # as an untrained encoder has it
    with torch.no_grad():
        model[0].auto_model.embeddings.LayerNorm.weight.mul_(0.02)
        model[0].auto_model.embeddings.LayerNorm.bias.add_(torch.arange(16.0))
    for number in (10, 20, 30):
        callback.observe(number, model)
    collapse, fused, worse = said[1:]  # each is said once
    assert collapse.startswith("Held-out texts at step 10, any two of which score 1.00 on average: rank-1 over-fusion")
    assert fused.startswith("over-fusion at step 20") and "Try: a learning rate" in fused
    assert worse.startswith("worse retrieval at step 20") and "Try: the weights of step 0" in worse
    assert "38% of the anchors (78% before training)" in worse
    assert worse_retrieval(callback.journal.records[:4]) is None  # one measurement is not enough


# --- several processes


def _configurations(model: SentenceTransformer) -> list[tuple[nn.Module, Dataset]]:
    """Duplicates and hard negatives of other processes, wrapped objectives, the cached form in a Matryoshka."""
    hard = texts(16, 12)
    repeated = dataset(16, negative=hard).to_dict()
    for row in range(4):  # in any order, some fall into one batch and onto two processes
        repeated["anchor"][row + 8] = repeated["anchor"][row]
        repeated["positive"][row + 12] = repeated["positive"][row + 4]
        repeated["negative"][row] = repeated["positive"][row + 8]
    data = Dataset.from_dict(repeated)
    cached = Loss(model, "infonce", temperature=0.1, learnable=True, mini_batch_size=3, hard_negative_weight=1.0)
    return [
        (Loss(model, "mixup", base={"name": "infonce", "temperature": 0.1}), data),
        (MatryoshkaLoss(model, cached, [16, 8]), data),
    ]


def _trained(folder: Path, output: Path, batch: int) -> list[dict[str, Tensor]]:
    results = []
    for number in range(2):
        model = opened(folder)
        loss, data = _configurations(model)[number]
        args = arguments(output, max_steps=2, per_device_train_batch_size=batch, optim="sgd", learning_rate=0.05)
        trainer = SentenceTransformerTrainer(model=model, train_dataset=data, loss=loss, args=args)
        trainer.train()
        results.append({name: value.clone() for name, value in model.state_dict().items()})
        results[-1]["own"] = torch.cat(
            [p.detach() for n, p in loss.named_parameters() if "log_temp" in n] or [torch.ones(1)]
        )
        results[-1]["logged"] = torch.tensor([each["loss"] for each in trainer.state.log_history if "loss" in each])
    return results


def _on_one_of_two(folder: Path, output: Path) -> list[dict[str, Tensor]]:
    from accelerate.state import AcceleratorState, PartialState

    rank = torch.distributed.get_rank()
    before = dict(os.environ)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    model = opened(folder)
    with pytest.raises(ValueError, match="infonce reads no labels"):  # on both, though only one has them
        Loss(model)(features(model, A, P), torch.arange(8) if rank else None)
    try:
        return _trained(folder, output / str(rank), batch=4)
    finally:
        os.environ.clear()
        os.environ.update(before)
        AcceleratorState._reset_state()
        PartialState._reset_state()


@pytest.mark.timeout(400)  # each process imports what the test does
def test_two_processes_take_the_steps_of_one(folder: Path, tmp_path: Path) -> None:
    one = _trained(folder, tmp_path / "one", batch=8)
    for shares in hs.testing.workers(2).run(_on_one_of_two, folder, tmp_path, timeout=300):
        for whole, share in zip(one, shares, strict=True):
            assert whole.keys() == share.keys()
            for name, value in whole.items():
                assert torch.allclose(value, share[name], atol=1e-5 if name != "logged" else 2e-4), name
    before = opened(folder).state_dict()
    assert max(float((before[name] - one[1][name]).abs().max()) for name in before) > 1e-3  # they are steps


# --- bad input


def test_bad_settings_are_refused_in_one_sentence(model: SentenceTransformer) -> None:
    for settings, words in [
        ({"objective": "infonc"}, "there is no objective 'infonc'"),
        ({"objective": "infonce", "temprature": 1}, "no parameter 'temprature'"),
        ({"objective": "xclr"}, "needs a guide: give guide= a SentenceTransformer"),
        ({"objective": "infonce", "guide": "all"}, "guide must be a SentenceTransformer"),
        ({"objective": "infonce", "guide_margin": 0.1}, "guide_margin and guide_strategy go with guide="),
        ({"objective": "infonce", "mini_batch_size": 0}, "mini_batch_size must be a whole number of at least 1"),
        ({"objective": "infonce", "mini_batch_size": 2.5}, "mini_batch_size must be a whole number of at least 1"),
        ({"objective": "infonce", "mini_batch_num_tokens": 0}, "mini_batch_num_tokens must be a whole number of at"),
        ({"objective": "infonce", "scale": 0}, "scale is 1 / temperature, a number above 0, not 0"),
        ({"objective": "infonce", "temperature_bounds": 0.1}, "temperature_bounds are two rising numbers above 0"),
        ({"objective": "infonce", "mini_batch_size": 2, "mini_batch_num_tokens": 9}, "give one of them"),
        ({"objective": "met", "hardness": 1.0}, "has no softmax over its negatives"),
        ({"objective": "vicreg", "hard_negative_weight": 1.0}, "has no negatives"),
        ({"objective": "infonce", "hardness": 1.0, "hardness_on": "every"}, "hardness_on must be"),
        ({"objective": "infonce", "temperature": 2.0, "learnable": True}, "outside temperature_bounds"),
        ({"objective": hs.create_objective("met"), "margin": 0.1}, "has its settings"),
        ({"objective": "infonce", "reduction": "sum"}, "the reduction must be 'mean'"),
    ]:
        with pytest.raises(ValueError, match=words):
            Loss(model, **settings)
    with pytest.raises(ValueError, match="first argument is the SentenceTransformer"):
        Loss(nn.Linear(2, 2), "infonce")  # type: ignore[arg-type]


def test_a_dataset_that_does_not_fit_is_refused_in_one_sentence(model: SentenceTransformer) -> None:
    numbers = torch.arange(8)
    for loss, columns, labels, words in [
        (
            Loss(model),
            (A,),
            numbers,
            "one column of texts has no positives: give the dataset a column of positives",
        ),
        (Loss(model, "supcon"), (A,), None, "one column of texts has no positives: .* one named label, or twice=True"),
        (Loss(model, twice=True), (A, P), None, "twice=True encodes one column"),
        (Loss(model, "vicreg"), (A, P, N1), None, "remove the hard negatives"),
        (Loss(model, hard_negative_weight=1.0), (A, P), None, "add a column of them"),
        (Loss(model), (A, P), numbers, "infonce reads no labels"),
        (Loss(model, "cosent"), (A, P), None, "give the dataset a column named score"),
        (
            Loss(model, guide=lambda texts: texts),
            (A, P),
            None,
            "the guide must return a tensor of embeddings",
        ),
        (Loss(model, guide=lambda texts: torch.ones(3, 4)), (A, P), None, "one embedding for each of the 8 texts"),
    ]:
        with pytest.raises(ValueError, match=words):
            loss(features(model, *columns), labels)
    value_of(Loss(model)(features(model, A, P), torch.ones(8)))  # labels that are all alike mean nothing
    with pytest.warns(UserWarning, match="not compatible"):
        layers = AdaptiveLayerLoss(model, Loss(model, mini_batch_size=2))
    with pytest.raises(ValueError, match="mini_batch_size prevents: leave it out"):
        layers(features(model, A, P), None)
    with pytest.raises(ValueError, match="8 anchors and 7 positives"):
        Evaluator(A, P[:7])
    with pytest.raises(ValueError, match="anchors must be a list of texts"):
        Evaluator("a text")
    with pytest.raises(ValueError, match="the trainer's loss and an Evaluator"):
        Callback(Loss(model), A)  # type: ignore[arg-type]


def test_a_missing_or_old_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import importlib.metadata

    name = "hypersphere.integrations.sentence_transformers"
    module = importlib.import_module(name)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "5.4.1")
    with pytest.raises(ImportError, match=r"needs sentence-transformers 6\.0 or newer, not 5\.4\.1: pip install -U"):
        importlib.reload(module)

    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    monkeypatch.delitem(sys.modules, name)
    with pytest.raises(
        ModuleNotFoundError, match=r"needs sentence-transformers: pip install 'hypersphere-lab\[text\]'"
    ):
        hs.integrations.__getattr__("sentence_transformers")
    monkeypatch.undo()
    importlib.reload(module)
    assert hs.integrations.LIBRARIES["sentence_transformers"] == "hypersphere-lab[text]"


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_the_lines_of_the_integrations_page_run_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text(encoding="utf-8")
    (lines,) = re.findall(
        r"```python\n(.*?)```", page.partition("\n## sentence-transformers\n")[2].partition("\n## ")[0], re.S
    )
    monkeypatch.chdir(tmp_path)
    exec(lines, {})
    assert "'dev_mean_reciprocal_rank': " in capsys.readouterr().out
