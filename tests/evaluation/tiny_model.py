"""Models that take no time: a sentence-transformers folder of one layer and sixteen dimensions, and a table."""

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


class Pooled(torch.nn.Module):
    """Its weights and its repr say nothing of its pooling."""

    def __init__(self, pooling: str) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(128, 4, _weight=torch.arange(512.0).reshape(128, 4) % 7)
        self.drop = torch.nn.Dropout(0.5)
        self.pooling = pooling

    def encode(self, texts: list[str]) -> torch.Tensor:
        tokens = [self.drop(self.table(torch.tensor(list(text.encode())))) for text in texts]
        return torch.stack([each[0] if self.pooling == "cls" else each.mean(dim=0) for each in tokens])
