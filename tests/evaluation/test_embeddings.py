"""Each distinct sentence is encoded once, kept by model and text, and done again if what was kept is damaged."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from hypersphere.evaluation import embeddings as kept
from hypersphere.evaluation.embeddings import Embeddings, embed, supplied, write_sentences
from hypersphere.evaluation.sentence_model import open_model
from tests.data.senteval import sentence
from tests.evaluation.tiny_model import write_tiny_model


class Counting:
    """An object with ``encode`` that remembers what it was given."""

    fingerprint = "counting"

    def __init__(self, fail_after: int | None = None) -> None:
        self.given: list[str] = []
        self.fail_after = fail_after

    def encode(self, texts: list[str]) -> np.ndarray:
        if self.fail_after is not None and len(self.given) >= self.fail_after:
            raise KeyboardInterrupt
        self.given += texts
        return np.asarray([[len(text), sum(map(ord, text)) % 97, 1.0] for text in texts])


TEXTS = [sentence(number) for number in range(700)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "FIRST_CHUNK", 64)
    monkeypatch.setattr(kept, "CHUNK_SECONDS", 0.0)


def test_distinct_sentences_are_encoded_once_longest_first(tmp_path: Path) -> None:
    model = Counting()
    store, _ = embed(open_model(model), [*TEXTS, *TEXTS[:50]], tmp_path)
    assert sorted(model.given) == sorted(TEXTS)
    lengths = [len(text) for text in model.given]
    assert lengths == sorted(lengths, reverse=True)
    assert np.array_equal(store.rows(TEXTS), Counting().encode(TEXTS).astype(np.float32))


def test_a_second_time_nothing_is_encoded(tmp_path: Path) -> None:
    first, _ = embed(open_model(Counting()), TEXTS, tmp_path)
    again = Counting()
    second, _ = embed(open_model(again), TEXTS[::-1], tmp_path)
    assert again.given == []
    assert np.array_equal(first.rows(TEXTS), second.rows(TEXTS))
    more = Counting()
    embed(open_model(more), [*TEXTS, "a new one"], tmp_path)
    assert more.given == ["a new one"]


def test_a_killed_run_continues_after_its_finished_chunks(tmp_path: Path) -> None:
    killed = Counting(fail_after=300)
    with pytest.raises(KeyboardInterrupt):
        embed(open_model(killed), TEXTS, tmp_path)
    rest = Counting()
    embed(open_model(rest), TEXTS, tmp_path)
    assert len(killed.given) >= 300
    assert sorted([*killed.given, *rest.given]) == sorted(TEXTS)


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "text"])
def test_a_damaged_chunk_is_discarded_and_done_again(tmp_path: Path, damage: str) -> None:
    first, _ = embed(open_model(Counting()), TEXTS, tmp_path)
    expected = first.rows(TEXTS)
    chunk = max(first.folder.glob("*.safetensors"), key=lambda path: path.stat().st_size)
    data = bytearray(chunk.read_bytes())
    del first
    if damage == "bit":
        data[-5] ^= 1
    chunk.write_bytes(
        {"bit": data, "cut": data[: len(data) // 2], "empty": b"", "text": b"no chunk at all" * 9}[damage]
    )
    again = Counting()
    store, _ = embed(open_model(again), TEXTS, tmp_path)
    assert len(store.discarded) == 1 and 0 < len(again.given) < len(TEXTS)
    assert np.array_equal(store.rows(TEXTS), expected)


def test_a_damaged_description_is_asked_again(tmp_path: Path, folder: Path) -> None:
    _, about = embed(open_model(folder), TEXTS[:5], tmp_path)
    (path,) = tmp_path.rglob("about.json")
    path.write_text("{")
    assert embed(open_model(folder), TEXTS[:5], tmp_path)[1] == about


def test_tokens_in_give_what_encode_gives(folder: Path) -> None:
    """The short way (tokens, one batch per length) and sentence-transformers' own, cut sentences included."""
    from sentence_transformers import SentenceTransformer

    texts = [*TEXTS, "The  DOG sees the man .", "the dog sees the man."]
    store, about = embed(open_model(folder), texts, None)
    theirs = SentenceTransformer(str(folder), device="cpu").encode(texts)
    np.testing.assert_allclose(store.rows(texts), theirs, rtol=1e-4, atol=1e-5)
    long = [text for text in texts if len(text.replace(".", " .").split()) + 2 > 12]
    assert 0 < len(long) < len(texts)
    assert store.truncated(texts) == len(long)
    assert (about.pooling, about.max_length, about.dimension) == ("mean", 12, 16)


def test_sentences_with_the_same_tokens_are_one_unit(folder: Path) -> None:
    work = open_model(folder).prepare(["the dog .", "The dog.", "the  DOG .", "the man ."])
    assert work.unit.tolist() == [0, 0, 0, 1]
    assert len(work.cost) == 2


def test_a_model_that_answers_tokens_otherwise_is_left_to_its_own_encode(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    class Shifted(SentenceTransformer):
        def encode(self, inputs, **options):
            return super().encode(inputs, **options) + 1

    model = Shifted(str(folder), device="cpu")
    texts = TEXTS[:20]
    store, _ = embed(open_model(model), texts, None)
    np.testing.assert_allclose(store.rows(texts), model.encode(texts), rtol=1e-5, atol=1e-5)


def test_the_key_is_what_the_model_computes(folder: Path, tmp_path: Path) -> None:
    other = write_tiny_model(tmp_path / "other", seed=1)
    same = write_tiny_model(tmp_path / "same", seed=0)
    marks = [
        open_model(folder).fingerprint,
        open_model(other).fingerprint,
        open_model(folder, max_length=8).fingerprint,
        open_model(folder, pooling="cls").fingerprint,
    ]
    assert len(set(marks)) == 4
    (same / "README.md").write_text("another name, the same model")
    assert open_model(same).fingerprint == marks[0]


def test_an_objects_key_follows_its_weights(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    before = open_model(model).fingerprint
    assert before == open_model(SentenceTransformer(str(folder), device="cpu")).fingerprint
    with torch.no_grad():
        next(model.parameters())[0, 0] += 1
    after = open_model(model).fingerprint
    model.max_seq_length = 5
    assert len({before, after, open_model(model).fingerprint}) == 3


def test_an_object_without_weights_is_not_kept_on_disk(tmp_path: Path) -> None:
    class Bare:
        def encode(self, texts: list[str]) -> list[torch.Tensor]:
            return [torch.tensor([float(len(text)), 1.0]) for text in texts]

    store, _ = embed(open_model(Bare()), TEXTS, tmp_path)
    assert store.rows(["a", sentence(3)][1:]).shape == (1, 2)
    assert list(tmp_path.iterdir()) == []


def test_pooling_is_named_and_can_be_chosen(folder: Path) -> None:
    texts = TEXTS[:6]
    means, by_mean = embed(open_model(folder), texts, None)
    firsts, by_first = embed(open_model(folder, pooling="cls", max_length=12), texts, None)
    assert (by_mean.pooling, by_first.pooling) == ("mean", "cls")
    assert not np.allclose(means.rows(texts), firsts.rows(texts))
    plain = open_model(folder.parent / "inner")
    assert plain.about().pooling.startswith("mean (the folder names none")


def test_bad_models_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"neither config\.json nor modules\.json"):
        open_model(tmp_path)
    with pytest.raises(TypeError, match="given int"):
        open_model(3)

    class Wrong:
        def __init__(self, answer: np.ndarray) -> None:
            self.answer = answer

        def encode(self, texts: list[str]) -> np.ndarray:
            return self.answer

    with pytest.raises(ValueError, match=r"given 2 sentences and returned an array of shape \(1, 3\)"):
        embed(open_model(Wrong(np.ones((1, 3)))), ["a", "b"], None)
    with pytest.raises(ValueError, match="1 rows with NaN"):
        embed(open_model(Wrong(np.array([[1.0], [np.nan]]))), ["a", "b"], None)


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors"])
def test_supplied_embeddings(tmp_path: Path, ending: str) -> None:
    from safetensors.numpy import save_file

    array, path = np.arange(6.0).reshape(3, 2), tmp_path / f"mine.{ending}"
    {
        "npy": np.save,
        "npz": lambda p, a: np.savez(p, embeddings=a),
        "safetensors": lambda p, a: save_file({"embeddings": a}, p),
    }[ending](path, array)
    assert write_sentences(path.with_suffix(".jsonl"), ["one", "zwei\u2028“", "three", "one"]) == 3
    store, about = supplied(path)
    assert store.rows(["three", "zwei\u2028“"]).tolist() == [[4.0, 5.0], [2.0, 3.0]]
    assert about.pooling == "as supplied"


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_supplied_embeddings_may_have_few_bits(tmp_path: Path, kind: torch.dtype) -> None:
    from safetensors.torch import save_file

    path = tmp_path / "mine.safetensors"
    save_file({"embeddings": torch.tensor([[1.5, -2.0], [0.25, 3.0]]).to(kind)}, path)
    write_sentences(path.with_suffix(".jsonl"), ["one", "two"])
    assert supplied(path)[0].rows(["two", "one"]).tolist() == [[0.25, 3.0], [1.5, -2.0]]


def test_supplied_embeddings_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.npy"
    np.save(path, np.ones((2, 3)))
    with pytest.raises(FileNotFoundError, match=r"mine\.jsonl"):
        supplied(path)
    path.with_suffix(".jsonl").write_text(json.dumps("one") + "\n")
    with pytest.raises(ValueError, match=r"2 rows and .* 1 sentences"):
        supplied(path)
    path.with_suffix(".jsonl").write_text('"one"\n{"two": 2}\n')
    with pytest.raises(ValueError, match="line 2 should be a sentence as a JSON string"):
        supplied(path)
    path.with_suffix(".jsonl").write_text('"one"\n"two"\n', encoding="utf-16")
    with pytest.raises(ValueError, match=r"mine\.jsonl is not a text in UTF-8"):
        supplied(path)
    np.save(path, np.array([{}, {}], dtype=object), allow_pickle=True)
    path.with_suffix(".jsonl").write_text('"one"\n"two"\n')
    with pytest.raises(ValueError, match="cannot be read"):
        supplied(path)


def test_a_byte_order_mark_is_no_part_of_a_sentence(tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", np.eye(2))
    (tmp_path / "mine.jsonl").write_bytes(b'\xef\xbb\xbf"one"\r\n"two"\r\n')
    assert supplied(tmp_path / "mine.npy")[0].rows(["one", "two"]).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_an_empty_store_knows_nothing() -> None:
    assert "a" not in Embeddings()


def test_supplied_embeddings_are_finite_and_of_one_meaning(tmp_path: Path) -> None:
    path = tmp_path / "mine.npy"
    np.save(path, np.array([[1.0, 1e300], [1.0, 2.0]]))
    path.with_suffix(".jsonl").write_text('"one"\n"two"\n')
    with pytest.raises(ValueError, match="in 1 rows, or numbers too large for float32"):
        supplied(path)
    np.save(path, np.ones((2, 2)))
    path.with_suffix(".jsonl").write_text('"one"\n"one"\n')
    with pytest.raises(ValueError, match="has 'one' more than once"):
        supplied(path)


@pytest.mark.parametrize(
    "header", ["[]", "3", '{"__metadata__": []}', '{"__metadata__": {}, "keys": {"data_offsets": []}}']
)
def test_a_chunk_with_a_strange_header_is_damaged(tmp_path: Path, header: str) -> None:
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header.encode())
    assert len(Embeddings(tmp_path).discarded) == 1
