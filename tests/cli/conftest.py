"""Embeddings, models and texts for commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.evaluation.tiny_model import WORDS, write_tiny_model


@pytest.fixture
def views(tmp_path):
    """Twelve pairs of rows in six dimensions."""
    random = np.random.default_rng(0)
    z1 = random.normal(size=(12, 6))
    path = tmp_path / "views.npz"
    np.savez(path, z1=z1, z2=z1 + 0.3 * random.normal(size=(12, 6)))
    return path


@pytest.fixture
def without_figures(monkeypatch):
    """For questions of numbers only: drawing takes longer than measuring."""
    monkeypatch.setattr("hypersphere.cli.dissect.draw", lambda *_: [])


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """The smallest sentence encoder: a BERT of one layer with random weights."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(40))]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(words), **sizes)).save_pretrained(folder)
    encoder = SentenceTransformer(modules=[Transformer(str(folder)), Pooling(16, pooling_mode="mean")], device="cpu")
    encoder.save(str(folder / "model"))
    return folder / "model"


@pytest.fixture
def text(tmp_path):
    """70 lines for ``model``, with empty ones between."""
    draw = np.random.default_rng(0)
    lines = [" ".join(f"w{number}" for number in draw.integers(0, 40, size=draw.integers(2, 9))) for _ in range(70)]
    path = tmp_path / "lines.txt"
    path.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A sentence encoder that knows the words of ``corpus``."""
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def corpus(tmp_path):
    """200 sentences, and 200 pairs of a sentence and a shorter one."""
    draw = np.random.default_rng(0)
    sentences = [" ".join(draw.choice(WORDS, size=8)) for _ in range(200)]
    (tmp_path / "lines.txt").write_text("\n".join(sentences), encoding="utf-8")
    pairs = [f"{sentence}\t{sentence.rpartition(' ')[0]}" for sentence in sentences]
    (tmp_path / "pairs.txt").write_text("\n".join(pairs), encoding="utf-8")
    return tmp_path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
