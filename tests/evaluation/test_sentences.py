"""The whole evaluation on made-up sets: what is scored, what is said beside it, and what a second run does."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from hypersphere.data.sts import load_sts_year
from hypersphere.data.transfer import load_transfer
from hypersphere.evaluation import evaluate_sentences, list_sentences
from hypersphere.evaluation import sentences as whole
from hypersphere.evaluation.classifier import FAST
from hypersphere.evaluation.sentence_model import About
from hypersphere.evaluation.sentences import SentenceEvaluation
from hypersphere.evaluation.transfer import Labelled, cross_validate
from tests.data.senteval import NOUNS, VERBS, write_sts, write_transfer
from tests.evaluation.tiny_model import write_tiny_model


class Words:
    """Counts of words, which is a sentence encoder of sorts."""

    fingerprint = "words"

    def __init__(self) -> None:
        self.given: list[str] = []

    def encode(self, texts: list[str]) -> np.ndarray:
        self.given += texts
        words = [*NOUNS, *VERBS, "the", "sky"]
        return np.asarray(
            [[1.0, *(text.split().count(word) * (1 + at / 9) for at, word in enumerate(words))] for text in texts]
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("senteval")
    return write_transfer(write_sts(root))


def test_a_year_is_scored_over_all_its_pairs(folder: Path) -> None:
    evaluation = evaluate_sentences(Words(), sts=folder, tasks=["STS13", "SICK-R"], cache=None)
    similar, gold, each = [], [], []
    for part in load_sts_year(folder, "STS13"):
        u, v = Words().encode(part.first), Words().encode(part.second)
        own = [
            a @ b / np.sqrt((a @ a) * (b @ b)) for a, b in zip(u.astype(np.float32), v.astype(np.float32), strict=True)
        ]
        each.append(scipy.stats.spearmanr(np.round(own, 6), part.scores).statistic)
        similar += own
        gold += part.scores.tolist()
    score = evaluation.sts["STS13"]
    assert score.pairs == 1500
    assert score.spearman["all"] == pytest.approx(
        100 * scipy.stats.spearmanr(np.round(similar, 6), gold).statistic, abs=0.05
    )
    assert score.spearman["mean"] == pytest.approx(100 * np.mean(each), abs=0.05)
    assert score.pearson["all"] == pytest.approx(100 * scipy.stats.pearsonr(similar, gold).statistic, abs=1e-3)
    assert evaluation.average() == pytest.approx((score.spearman["all"] + evaluation.sts["SICK-R"].spearman["all"]) / 2)


def test_the_table_names_what_the_numbers_depend_on(folder: Path) -> None:
    evaluation = evaluate_sentences(Words(), sts=folder, tasks=["STS16"], setting="wmean", cache=None)
    words = str(evaluation)
    for needed in ("Words", "pooling", "cosine", "'wmean'", "truncation not known", "1186", "mean of 1"):
        assert needed in words
    assert f"{evaluation.sts['STS16'].spearman['wmean']:.2f}" in words
    told = json.loads(json.dumps(evaluation.to_dict()))
    assert told["setting"] == "wmean" and set(told["sts"]["STS16"]["spearman"]) == {"all", "mean", "wmean"}
    assert len(told["sts"]["STS16"]["parts"]) == 5


def test_similarity_and_transfer_from_one_pass_and_then_from_the_cache(
    folder: Path, tmp_path: Path, monkeypatch
) -> None:
    options = {"sts": folder, "transfer": folder, "tasks": ["STS-B", "CR", "MRPC"], "fast": True, "cache": tmp_path}
    model = Words()
    first = evaluate_sentences(model, **options)
    assert len(model.given) == len(set(model.given)) == first.sentences
    rows = load_transfer(folder, ["CR"])["CR"].train
    alone = cross_validate(Labelled.of(Words().encode(rows.texts).astype(np.float32), rows.labels), 2, FAST)
    assert first.transfer["CR"] == alone
    assert first.transfer["MRPC"].f1 is not None
    assert "fast mode" in str(first)

    def never(*_: object) -> None:
        raise AssertionError("classified again")

    for name in ("cross_validate", "train_and_test", "train_dev_test"):
        monkeypatch.setattr(whole, name, never)
    again = Words()
    second = evaluate_sentences(again, **options)
    assert again.given == [] and second == first
    with pytest.raises(AssertionError, match="classified again"):  # another protocol is another score
        evaluate_sentences(again, **{**options, "fast": False, "tasks": ["CR"]})


def test_a_damaged_score_is_computed_again(folder: Path, tmp_path: Path) -> None:
    options = {"transfer": folder, "tasks": ["MRPC"], "fast": True, "cache": tmp_path}
    first = evaluate_sentences(Words(), **options)
    (path,) = (tmp_path / "transfer").glob("*.json")
    path.write_text('{"accuracy": 100')
    assert evaluate_sentences(Words(), **options) == first


def test_the_conditions_name_what_the_model_does_beyond_its_modules() -> None:
    about = About("mine", "mean", 12, 4, prompt="query: ", truncate_dim=4)
    evaluation = SentenceEvaluation(about, "all", sentences=9, truncated=1, protocol=FAST)
    assert evaluation.conditions() == (
        "mine: pooling mean; prompt 'query: '; the first 4 dimensions; cosine similarity; at most 12 tokens, "
        "9 distinct sentences, 1 truncated."
    )


def test_supplied_embeddings_give_the_models_numbers(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.npy"
    number = list_sentences(tmp_path / "mine.jsonl", folder, folder, ["STS12", "CR"])
    texts = [json.loads(line) for line in (tmp_path / "mine.jsonl").read_text().splitlines()]
    assert len(texts) == number
    np.save(path, Words().encode(texts))
    options = {"sts": folder, "transfer": folder, "fast": True, "cache": None, "tasks": ["STS12", "CR"]}
    given = evaluate_sentences(embeddings=path, **options)
    own = evaluate_sentences(Words(), **options)
    assert given.sts["STS12"].spearman == own.sts["STS12"].spearman and given.transfer == own.transfer
    with pytest.raises(ValueError, match=r"has no embedding for \d+ of the sentences, such as '"):
        evaluate_sentences(embeddings=path, sts=folder, cache=None)


def test_a_collapsed_encoder_has_no_correlation(folder: Path) -> None:
    class Constant:
        def encode(self, texts: list[str]) -> np.ndarray:
            return np.ones((len(texts), 3))

    evaluation = evaluate_sentences(Constant(), sts=folder, tasks=["STS-B"])
    assert np.isnan(evaluation.average()) and "nan" in str(evaluation)
    assert evaluation.to_dict()["sts"]["STS-B"]["spearman"]["all"] is None
    json.dumps(evaluation.to_dict(), allow_nan=False)


def test_wrong_requests_are_answered_in_a_sentence(folder: Path) -> None:
    with pytest.raises(ValueError, match="a model to evaluate, or embeddings"):
        evaluate_sentences(sts=folder)
    with pytest.raises(ValueError, match="did you mean 'wmean'"):
        evaluate_sentences(Words(), sts=folder, setting="wmeans")
    with pytest.raises(ValueError, match="MR needs the folder of the transfer sets"):
        evaluate_sentences(Words(), sts=folder, tasks=["MR"])
    with pytest.raises(ValueError, match="no task 'STS17'"):
        evaluate_sentences(Words(), sts=folder, tasks=["STS17"])
    with pytest.raises(ValueError, match="the folder of the STS sets"):
        evaluate_sentences(Words())
    with pytest.raises(ValueError, match="list of tasks is empty"):
        evaluate_sentences(Words(), sts=folder, tasks=[])
    for option in ({"pooling": "cls"}, {"max_length": 9}):
        with pytest.raises(ValueError, match="embeddings made elsewhere have theirs"):
            evaluate_sentences(embeddings="x.npy", sts=folder, **option)


def test_scores_are_those_of_sentence_transformers_own_evaluator(folder: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    path = write_tiny_model(tmp_path)
    score = evaluate_sentences(path, sts=folder, tasks=["STS14"], cache=None).sts["STS14"]
    parts = load_sts_year(folder, "STS14")
    first, second, gold = (
        [each for part in parts for each in getattr(part, side)] for side in ("first", "second", "scores")
    )
    judge = EmbeddingSimilarityEvaluator(first, second, [float(each) for each in gold], write_csv=False)
    theirs = judge(SentenceTransformer(str(path), device="cpu"))
    assert score.spearman["all"] == pytest.approx(100 * theirs["spearman_cosine"], abs=0.01)
    assert score.pearson["all"] == pytest.approx(100 * theirs["pearson_cosine"], abs=0.01)


def test_a_limit_takes_evenly_spaced_rows_of_every_part_and_split(folder: Path) -> None:
    limited = evaluate_sentences(Words(), sts=folder, transfer=folder, tasks=["STS13", "CR"], limit=60, cache=None)
    similar, gold = [], []
    for part, kept in zip(load_sts_year(folder, "STS13"), (8, 30, 22), strict=True):  # of 189, 750 and 561 pairs
        rows = np.floor(np.arange(kept) * len(part) / kept).astype(int)
        u, v = (Words().encode([side[row] for row in rows]) for side in (part.first, part.second))
        similar += [a @ b / np.sqrt((a @ a) * (b @ b)) for a, b in zip(u, v, strict=True)]
        gold += part.scores[rows].tolist()
    assert limited.sts["STS13"].pairs == 60
    expected = scipy.stats.spearmanr(np.round(similar, 6), gold).statistic
    assert limited.sts["STS13"].spearman["all"] == pytest.approx(100 * expected, abs=1e-6)
    texts = load_transfer(folder, ["CR"])["CR"]
    assert texts.spaced(60).train.texts == [texts.train.texts[row * len(texts.train) // 60] for row in range(60)]
    assert "at most 60 pairs or texts of each set" in str(limited)


def test_a_models_arithmetic_may_be_coarse_and_has_rows_of_its_own(tmp_path: Path, folder: Path) -> None:
    model = str(write_tiny_model(tmp_path / "model"))
    fine, coarse = (
        evaluate_sentences(model, sts=folder, tasks=["STS16"], precision=each, limit=100, cache=tmp_path / "cache")
        for each in ("fp32", "bf16")
    )
    assert "bf16 arithmetic" in str(coarse) and " arithmetic" not in str(fine)
    difference = abs(coarse.sts["STS16"].spearman["all"] - fine.sts["STS16"].spearman["all"])
    assert 0 < difference < 5
