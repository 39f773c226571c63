"""Batches, LARS and corpora: the small parts of a run."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
import torch

from hypersphere.data.text import read_corpus
from hypersphere.training.batches import Batches, Loader
from hypersphere.training.lars import LARS


def test_batches_are_the_same_however_many_processes_share_them() -> None:
    alone = list(Batches(100, 9, seed=1))
    assert len(alone) == 11 and len({row for batch in alone for row in batch}) == 99
    shared = [list(Batches(100, 9, seed=1, rank=rank, world=2)) for rank in range(2)]
    assert [a + b for a, b in zip(*shared, strict=True)] == alone
    assert {len(batch) for batch in shared[0]} == {5} and {len(batch) for batch in shared[1]} == {4}


def test_every_epoch_and_every_seed_has_an_order_of_its_own() -> None:
    batches = Batches(100, 10, seed=1)
    first = list(batches)
    batches.set_epoch(1)
    assert list(batches) != first != list(Batches(100, 10, seed=2))
    batches.set_epoch(0)
    assert list(batches) == first


def test_loading_leaves_the_random_generator_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert len(list(Loader(list(range(20)), Batches(20, 5, seed=0), list))) == 4  # type: ignore[arg-type]
    assert torch.equal(before, torch.get_rng_state())


def test_too_few_rows_or_too_many_processes_are_refused() -> None:
    with pytest.raises(ValueError, match="3 rows to train on, fewer than one batch of 4"):
        Batches(3, 4, seed=0)
    with pytest.raises(ValueError, match="leaves 3 processes"):
        Batches(100, 4, seed=0, world=3)


def test_lars_steps_by_the_trust_ratio() -> None:
    """Two steps of one matrix and one bias, written out."""
    weight, bias = torch.nn.Parameter(torch.tensor([[3.0, 4.0]])), torch.nn.Parameter(torch.tensor([1.0]))
    optimizer = LARS([weight, bias], lr=0.1, momentum=0.9, weight_decay=0.5, trust=0.01)
    w, b, v, u = [3.0, 4.0], 1.0, [0.0, 0.0], 0.0
    for gradient in ([1.0, 2.0], [-1.0, 0.5]):
        weight.grad, bias.grad = torch.tensor([gradient]), torch.tensor([2.0])
        optimizer.step()
        decayed = [g + 0.5 * x for g, x in zip(gradient, w, strict=True)]
        ratio = 0.01 * (w[0] ** 2 + w[1] ** 2) ** 0.5 / (decayed[0] ** 2 + decayed[1] ** 2) ** 0.5
        v = [0.9 * old + ratio * g for old, g in zip(v, decayed, strict=True)]
        w = [x - 0.1 * change for x, change in zip(w, v, strict=True)]
        u = 0.9 * u + 2.0
        b -= 0.1 * u
    assert weight.tolist()[0] == pytest.approx(w, rel=1e-6)
    assert bias.item() == pytest.approx(b, rel=1e-6)


def test_a_corpus_reads_the_same_from_every_form(tmp_path: Path) -> None:
    text = "one two\n\nthree\nfour five six\n"
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(text.encode()))
    found = [read_corpus(str(tmp_path / name)) for name in ("a.txt", "a.txt.gz", "a.txt.xz")]
    assert all(each.columns == (["one two", "three", "four five six"],) and each.empty == 1 for each in found)
    assert len(read_corpus(str(tmp_path / "a.txt"), rows=2)) == 2


def test_pairs_and_triples_read_from_tables(tmp_path: Path) -> None:
    (tmp_path / "nli.csv").write_text('sent0,sent1,hard_neg\n"a, b",c,d\ne,f,g\n')
    found = read_corpus(str(tmp_path / "nli.csv"), "triples")
    assert found.columns == (["a, b", "e"], ["c", "f"], ["d", "g"])
    chosen = read_corpus(str(tmp_path / "nli.csv"), "pairs", columns=["sent0", "hard_neg"])
    assert chosen.columns == (["a, b", "e"], ["d", "g"])
    (tmp_path / "p.jsonl").write_text('{"q": "a", "a": "b"}\n{"q": "c", "a": "d"}\n')
    assert read_corpus(str(tmp_path / "p.jsonl"), "pairs").columns == (["a", "c"], ["b", "d"])


def test_a_saved_dataset_is_a_corpus(tmp_path: Path) -> None:
    import datasets

    table = {"id": [1, 2], "text": ["a b", "c d"], "other": ["e", "f"]}
    datasets.Dataset.from_dict(table).save_to_disk(str(tmp_path / "set"))
    assert read_corpus(f"hf:{tmp_path / 'set'}").columns == (["a b", "c d"],)
    assert read_corpus(f"hf:{tmp_path / 'set'}", columns=["other"]).columns == (["e", "f"],)
    with pytest.raises(ValueError, match="must give 1 columns of text; it has text, other, asked for body"):
        read_corpus(f"hf:{tmp_path / 'set'}", columns=["body"])
    with pytest.raises(ValueError, match="could not be loaded"):
        read_corpus("hf:no/such-dataset")


def test_damaged_text_is_refused(tmp_path: Path) -> None:
    whole = lzma.compress("\n".join(f"line {n}" for n in range(50_000)).encode())
    (tmp_path / "cut.xz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"cut.xz is damaged or cut short after line \d+"):
        read_corpus(str(tmp_path / "cut.xz"))
    (tmp_path / "latin.txt").write_bytes("caf\xe9\nand\n".encode("latin-1"))
    with pytest.raises(ValueError, match="not UTF-8"):
        read_corpus(str(tmp_path / "latin.txt"))
    (tmp_path / "one.txt").write_text("alone\n")
    with pytest.raises(ValueError, match="1 instances"):
        read_corpus(str(tmp_path / "one.txt"))
