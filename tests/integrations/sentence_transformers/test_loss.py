"""Objectives as losses of sentence-transformers' trainer, against its own losses, plain loops and one process."""

from __future__ import annotations

import math
import os
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset, DatasetDict
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.sentence_transformer.losses import (
    CoSENTLoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
)
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.integrations.sentence_transformers import Loss
from tests.integrations.sentence_transformers.steps import (
    DIMS,
    N1,
    N2,
    A,
    P,
    arguments,
    assert_same,
    dataset,
    features,
    opened,
    step,
    texts,
    value_of,
)

DIRECTIONS = ("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")


@pytest.mark.parametrize(
    ("objective", "settings", "theirs", "columns"),
    [
        ("infonce", {"scale": 20.0}, {}, (A, P)),
        ("infonce", {"scale": 20.0}, {}, (A, P, N1, N2)),
        ("infonce", {"temperature": 0.05, "symmetric": True},
         {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}, (A, P, N1)),
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


def test_each_objective_of_several_losses_has_its_citation(folder: Path, tmp_path: Path) -> None:
    model = opened(folder)
    losses = {
        "a": Loss(model, "dhel"),
        "b": Loss(model, "met"),
        "c": MatryoshkaLoss(model, Loss(model, "infonce", guide="self"), DIMS),
        "d": Loss(model, "dcl", guide="self"),
    }
    trainer = SentenceTransformerTrainer(
        model=model, train_dataset=DatasetDict({name: dataset(8) for name in losses}), loss=losses,
        args=arguments(tmp_path, max_steps=4),
    )  # fmt: skip
    trainer.train()
    model.save_pretrained(str(tmp_path / "model"))
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    for heading, key, source in [
        ("HypersphereDHEL", "hypersphere-dhel", "Koromilas et al. 2024"),
        ("HypersphereMET", "hypersphere-met", "Nie et al. 2023"),
        ("HypersphereGuidedInfoNCE", "hypersphere-guided-infonce", "Solatorio 2024; Zhang et al. 2025; "),
        ("HypersphereGuidedDCL", "hypersphere-guided-dcl", "Yeh et al. 2022"),
    ]:
        (cited,) = re.findall(rf"#### {heading}\n```bibtex\n(.*?)```", card, re.S)
        assert f"@software{{{key},\n" in cited and source in cited
        assert f"- loss:{heading}\n" in card


def test_a_saved_loss_is_read_again(model: SentenceTransformer) -> None:
    class Own(Loss):
        pass

    loss = Loss(model, "dhel", temperature=0.2, learnable=True)
    again = pickle.loads(pickle.dumps(loss))
    assert type(again) is type(loss) and repr(again.objective) == repr(loss.objective)
    assert_same(step(loss, A, P), step(again, A, P))
    assert type(Own(model)) is Own


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


def test_bad_settings_are_refused_in_one_sentence(model: SentenceTransformer) -> None:
    for settings, words in [
        ({"objective": "infonc"}, "there is no objective 'infonc'"),
        ({"objective": "infonce", "temprature": 1}, "no parameter 'temprature'"),
        ({"objective": "infonce", "mini_batch_size": 0}, "mini_batch_size must be a whole number of at least 1"),
        ({"objective": "infonce", "mini_batch_size": 2.5}, "mini_batch_size must be a whole number of at least 1"),
        ({"objective": "infonce", "mini_batch_num_tokens": 0}, "mini_batch_num_tokens must be a whole number of at"),
        ({"objective": "infonce", "scale": 0}, "scale is 1 / temperature, a number above 0, not 0"),
        ({"objective": "infonce", "temperature_bounds": 0.1}, "temperature_bounds are two rising numbers above 0"),
        ({"objective": "infonce", "mini_batch_size": 2, "mini_batch_num_tokens": 9}, "give one of them"),
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
        (Loss(model), (A, P), numbers, "infonce reads no labels"),
        (Loss(model, "cosent"), (A, P), None, "give the dataset a column named score"),
    ]:
        with pytest.raises(ValueError, match=words):
            loss(features(model, *columns), labels)
    value_of(Loss(model)(features(model, A, P), torch.ones(8)))  # labels that are all alike mean nothing


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_the_lines_of_the_integrations_page_run_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "integrations.md").read_text(encoding="utf-8")
    (lines,) = re.findall(
        r"```python\n(.*?)```", page.partition("\n## sentence-transformers\n")[2].partition("\n## ")[0], re.S
    )
    monkeypatch.chdir(tmp_path)
    exec(lines, {})
    assert "'dev_mean_reciprocal_rank': " in capsys.readouterr().out
