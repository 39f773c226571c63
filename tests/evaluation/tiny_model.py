"""A sentence-transformers folder that takes no time: one layer, sixteen dimensions, random weights."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.data.senteval import NOUNS, VERBS

WORDS = [*NOUNS, *VERBS, "the", "and", "of", "sky", "what", "is", "a", "an", "pair", "set", ".", ",", "?"]


def write_tiny_model(folder: Path, seed: int = 0, max_length: int = 12, pooling: str = "mean") -> Path:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizer

    inner = folder / "inner"
    inner.mkdir(parents=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (inner / "vocab.txt").write_text("".join(word + "\n" for word in vocabulary))
    BertTokenizer(vocab={word: number for number, word in enumerate(vocabulary)}).save_pretrained(inner)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(inner)
    transformer = Transformer(str(inner), max_seq_length=max_length)
    SentenceTransformer(modules=[transformer, Pooling(16, pooling)], device="cpu").save(str(folder / "saved"))
    return folder / "saved"
