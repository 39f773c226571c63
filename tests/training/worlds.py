"""Worlds small enough to train in within a second: a tiny sentence encoder, a corpus, scored pairs."""

from __future__ import annotations

import csv
import os
import random
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import load_file
from torch import Tensor

from hypersphere.training.load import parse_recipe
from hypersphere.training.run import train

WORDS = ["red", "green", "blue", "round", "square", "big", "small", "old", "new", "cat", "dog", "bird", "tree", "house",
         "river", "stone", "runs", "sleeps", "sees", "finds"]  # fmt: skip


def sentences(count: int, seed: int = 0, longest: int = 14) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, longest))) for _ in range(count)]


def corpus(folder: Path, count: int = 64) -> Path:
    path = folder / "corpus.txt"
    path.write_text("\n".join(sentences(count)) + "\n")
    return path


def pairs(folder: Path, count: int = 64, texts: int = 2, different: int = 64) -> Path:
    """Rows of texts; ``different``: of which so many second texts are different."""
    path = folder / f"texts{texts}.tsv"
    columns = [sentences(count, seed) for seed in range(texts)]
    columns[1] = [columns[1][row % different] for row in range(count)]
    path.write_text("".join("\t".join(row) + "\n" for row in zip(*columns, strict=True)))
    return path


def scored(folder: Path, count: int = 40) -> Path:
    """Pairs whose score is the share of words they have in common."""
    path = folder / "scored.csv"
    draw = random.Random(1)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sentence1", "sentence2", "score"])
        for first, second in zip(sentences(count, 5), sentences(count, 6), strict=True):
            kept = draw.random()
            mixed = " ".join(
                w if draw.random() < kept else v for w, v in zip(first.split(), second.split(), strict=False)
            )
            common = len(set(first.split()) & set(mixed.split())) / len(set(first.split()) | set(mixed.split()))
            writer.writerow([first, mixed, f"{5 * common:.2f}"])
    return path


def encoder(folder: Path, layers: int = 2, dropout: float = 0.1) -> Path:
    """A random BERT of two narrow layers with a tokenizer that knows the words above, as Hugging Face saves them."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate([*special, *WORDS])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {f"{s.strip('[]').lower()}_token": s for s in special}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **names)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertModel(
            BertConfig(
                vocab_size=len(special) + len(WORDS), hidden_size=16, num_hidden_layers=layers, num_attention_heads=2,
                intermediate_size=32, max_position_embeddings=64, hidden_dropout_prob=dropout,
                attention_probs_dropout_prob=dropout, initializer_range=0.5,  # sentences differ from the start
            )
        )  # fmt: skip
    target = folder / "encoder"
    model.save_pretrained(target)
    fast.save_pretrained(target)
    return target


def sentence_model(folder: Path, **settings: Any) -> Path:
    """A SentenceTransformer with all that a run could lose: mean, dense layer, normalisation, prompt, length."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

    with torch.random.fork_rng():
        torch.manual_seed(1)
        modules = [
            Transformer(str(encoder(folder)), max_seq_length=20),
            Pooling(16, "mean"),
            Dense(16, 8, activation_function=torch.nn.Identity()),
            Normalize(),
        ]
    settings = {"prompts": {"query": "red cat "}, "default_prompt_name": "query", **settings}
    model = SentenceTransformer(modules=modules, device="cpu", **settings)
    model.save_pretrained(str(folder / "sentence-model"), create_model_card=False)
    return folder / "sentence-model"


def fine_tuning(folder: Path, *more: str, encoder: Path | None = None) -> list[str]:
    """What a user sets to fine-tune by a shipped recipe; encoder: another one than the SentenceTransformer."""
    own = sentence_model(folder)
    return [
        f"encoder.name={encoder or own}", f"data.source={pairs(folder)}", "data.views=pairs",
        "data.held_out=0", f"evaluation.sts={scored(folder)}", "batch=8", "steps=4",
        "evaluation.every=2", "loggers=[]", f"output={folder / 'run'}", *more,
    ]  # fmt: skip


def recipe_file(folder: Path, **sections: Any) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(sections))
    return path


def text_recipe(folder: Path, **changes: Any) -> dict[str, Any]:
    """A run of a few steps on text, as nested dictionaries."""
    tree: dict[str, Any] = {
        "task": "text",
        "data": {"source": str(corpus(folder))},
        "encoder": {"name": str(encoder(folder)), "max_length": 16},
        "head": {"kind": "linear-tanh"},
        "objective": {"name": "infonce", "temperature": 0.1},
        "optimizer": {"lr": 1e-3},
        "batch": {"size": 8, "chunk": 4},
        "steps": 6,
        "checkpoint": {"every": 2},
        "monitor": {"every": 3},
        "loggers": [],
        "output": str(folder / "run"),
    }
    return changed(tree, changes)


def changed(tree: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    for key, value in changes.items():
        merged = isinstance(value, dict) and key != "objective"  # another objective has other parameters
        tree[key] = {**tree.get(key, {}), **value} if merged else value
    return tree


def digits_recipe(folder: Path, **changes: Any) -> dict[str, Any]:
    """A run of a few steps on the digits."""
    tree: dict[str, Any] = {
        "task": "image",
        "data": {"source": "digits", "rows": 200, "held_out": 40},
        "encoder": {"name": "small-cnn", "width": 8, "norm": "group"},
        "augmentation": {"name": "shift"},
        "head": {"kind": "mlp", "hidden": [16, 8]},
        "objective": {"name": "ntxent", "temperature": 0.2},
        "optimizer": {"lr": 1e-3},
        "batch": {"size": 16},
        "steps": 6,
        "evaluation": {"every": 3},
        "checkpoint": {"every": 2},
        "monitor": {"every": 3},
        "loggers": [],
        "output": str(folder / "run"),
    }
    return changed(tree, changes)


# --- runs

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def quiet(sentence: str) -> None:
    """Nothing to say."""


def weights(run: Path) -> dict[str, torch.Tensor]:
    tensors = {}
    for path in [*(run / "model").rglob("*.safetensors"), run / "objective.safetensors"]:
        tensors.update({f"{path.name}:{name}": value for name, value in load_file(path).items()})
    return tensors


def assert_same(first: Path, second: Path, tolerance: float = 0.0) -> None:
    one, other = weights(first), weights(second)
    assert one.keys() == other.keys() and len(one) > 5
    for name in one:
        assert torch.allclose(one[name], other[name], rtol=0, atol=tolerance), name


def continued(trained: Path, folder: Path, **changes: Any) -> tuple[dict[str, Any], list[str]]:
    """The results of a copy of the run that goes on, and what it says."""
    said: list[str] = []
    run = train(parse_recipe(digits_recipe(folder, **changes)), resume=True, echo=said.append)
    return run.results, said


def views(rows: int = 12, dim: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, dim, generator=generator)
    return 3 * x, x + 0.4 * torch.randn(rows, dim, generator=generator)
