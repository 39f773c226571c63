"""Where embeddings come from: a file, a run, or a model on a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hypersphere.cli.answers import console
from hypersphere.data.text import has_pairs, read_corpus
from hypersphere.diagnostics.files import RUN_FILE, Loaded, load_embeddings, text_lines
from hypersphere.documents import read_yaml

VIEWS = ("one", "dropout", "pairs")
BATCH = 64
EMBEDDINGS = 512  # made of a text by default: less than a minute of a model like DistilBERT on two cores


def load_source(path: Path, second: Path | None = None, arrays: Sequence[str] = (), *, labelled: bool = True) -> Loaded:
    """The embeddings in a file, in two files, or of a run; a model's folder by itself has none and is refused."""
    if _is_model(path) or _is_model(path / "model"):
        raise ValueError(f"{path} is a model's folder: name the text to embed with --text FILE")
    loaded = load_embeddings(path, second, arrays, labelled=labelled)
    folder = path if path.is_dir() else path.parent
    of_run = path.is_dir() or path.name == RUN_FILE
    return loaded._replace(note=_of_run(folder)) if of_run and second is None else loaded


def _of_run(folder: Path) -> str:
    """Whether a run's embeddings come from its encoder or its head, according to its recipe, and what the monitor
    measured of the other. Empty if the recipe cannot be read."""
    try:
        head = read_yaml(folder / "recipe.yaml", dict).get("head") or {}
        kind, kept = head.get("kind", "none"), bool(head.get("keep", False))
    except (OSError, ValueError, AttributeError, ImportError):
        return ""
    if kind == "none":
        return "These are the encoder's embeddings; the run has no head, so the objective saw the same."
    if kept:
        return f"These are the embeddings after the head ({kind}), which belongs to the saved encoder."
    unless = ", which a SentenceTransformer does not get" if kind == "simcse" else ""
    return (
        f"These are the encoder's embeddings, before the head ({kind}{unless}). The run's monitor measures what comes "
        f"out of the head, {_at_the_end(folder)}."
    )


def _at_the_end(folder: Path) -> str:
    """The monitor's verdict on a run; it applies to the head's output."""
    try:
        from hypersphere.training.journal import read_journal
        from hypersphere.training.verdicts import judge

        records = read_journal(folder / "metrics.jsonl")
        names = [verdict.name for verdict in judge(records)]
    except (ImportError, OSError, ValueError, KeyError):
        records, names = [], []
    if not records:
        return "which may collapse alone"
    return f"and found there: {', '.join(names)}" if names else "and found nothing wrong there"


def _is_model(path: Path) -> bool:
    known = path.is_dir() and not any((place / RUN_FILE).is_file() for place in (path, path.parent))
    return known and any((path / name).is_file() for name in ("modules.json", "config.json"))


def name_rows(loaded: Loaded, text: Path) -> Loaded:
    """The same rows, each with its line of the text."""
    lines = read_lines(text)
    if len(lines) != len(loaded.z1):
        raise ValueError(f"{text} has {len(lines):,} lines that are not empty, but there are {len(loaded.z1):,} rows")
    return loaded._replace(texts=lines)


def text_views(text: Path, views: str, otherwise: str) -> str:
    """The views of a text: the requested ones, or "pairs" if its lines have two texts each, or else ``otherwise``."""
    return views or ("pairs" if has_pairs(str(text)) else otherwise)


def embed_text(
    model: str, text: Path, views: str, seed: int, samples: int | None = None, *, need_dropout: bool = False
) -> Loaded:
    """Embeds texts with a model (a folder, a run, a hub id): lines in eval mode, lines twice with dropout, or pairs.

    ``samples`` lines are drawn at random, by default as many as make 512 embeddings. ``need_dropout``
    refuses a model without dropout, whose two views of a line are equal.
    """
    import torch

    from hypersphere.encoders.checkpoint import find_folder, open_sentence_model

    count = 1 if views == "one" else 2
    corpus = read_corpus(str(text), "pairs" if views == "pairs" else "dropout")
    lines, samples = len(corpus), EMBEDDINGS // count if samples is None else samples
    drawn = None
    if lines > samples:
        drawn = sorted(torch.randperm(lines, generator=torch.Generator().manual_seed(seed))[:samples].tolist())
        corpus = corpus.select(drawn)
    if any("\0" in line for column in corpus.columns for line in column):
        raise ValueError(f"{text} is not a text: it holds characters of value 0")
    encoder = open_sentence_model(find_folder(model))
    if need_dropout and views == "dropout" and not _has_dropout(encoder, corpus.columns[0][:2]):
        raise ValueError(
            f"{model} has no dropout, so that both views of a line would be equal: give two texts in every line, "
            "separated by a tab, which should be close"
        )
    torch.manual_seed(seed)
    give = _with_dropout if views == "dropout" else _as_encoded
    embeddings = []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    screen = console(stderr=True)
    hidden = not screen.is_terminal
    with torch.no_grad(), Progress(*columns, console=screen, transient=True, disable=hidden) as bar:
        task = bar.add_task("embedding", total=count * len(corpus))
        for view in range(count):
            texts = corpus.columns[view if views == "pairs" else 0]
            order = sorted(range(len(texts)), key=lambda place: len(texts[place]))  # rows of one length: little padding
            parts: list[Any] = []
            for start in range(0, len(texts), BATCH):
                batch = [texts[place] for place in order[start : start + BATCH]]
                parts.append(give(encoder, batch).float().cpu())
                bar.advance(task, len(batch))
            rows = torch.cat(parts)
            embeddings.append(torch.empty_like(rows).index_copy_(0, torch.tensor(order), rows))
    note = " ".join(filter(None, (_of_run(Path(model)), _conditions(encoder))))
    second = embeddings[1] if count == 2 else None
    return Loaded(embeddings[0], second, note=note, texts=corpus.columns[0], lines=lines, drawn=drawn)


def drawn_lines(loaded: Loaded, seed: int) -> str:
    """How many lines of how many were embedded."""
    if loaded.drawn is None:
        return f"all {loaded.lines:,} lines"
    return f"{len(loaded.drawn):,} of {loaded.lines:,} lines, drawn at random (seed {seed})"


def _as_encoded(encoder: Any, lines: list[str]) -> Any:
    """The model's usual embeddings: with its own prompt, in eval mode, with as many dimensions as it keeps."""
    return encoder.encode(lines, convert_to_tensor=True, show_progress_bar=False)


def _with_dropout(encoder: Any, lines: list[str]) -> Any:
    """The same in training mode; ``encode`` would switch to eval mode."""
    import torch

    from hypersphere.encoders.checkpoint import default_prompt

    encoder.train()
    features = {name: value.to(encoder.device) if isinstance(value, torch.Tensor) else value
                for name, value in encoder.preprocess(lines, prompt=default_prompt(encoder)).items()}  # fmt: skip
    return encoder(features)["sentence_embedding"][:, : encoder.truncate_dim]


def _has_dropout(encoder: Any, lines: list[str]) -> bool:
    """Whether the same lines are embedded differently a second time."""
    import torch

    with torch.no_grad():
        return not torch.equal(_with_dropout(encoder, lines), _with_dropout(encoder, lines))


def _conditions(encoder: Any) -> str:
    """Describes the model's processing of texts and vectors outside its modules, if any."""
    from hypersphere.encoders.checkpoint import default_prompt

    prompt = default_prompt(encoder)
    said = [] if prompt is None else [f"Every line stood after the model's prompt {prompt!r}."]
    said += [] if encoder.truncate_dim is None else [f"The model keeps its first {encoder.truncate_dim} dimensions."]
    return " ".join(said)


def read_lines(text: Path) -> list[str]:
    """The lines of a text that are not empty, at least two."""
    if not text.is_file():
        raise FileNotFoundError(f"there is no text {text}")
    try:
        kept = [line for line in text_lines(text) if line]
    except UnicodeDecodeError as error:
        raise ValueError(f"{text} is not a text in UTF-8") from error
    if len(kept) < 2:
        raise ValueError(f"{text} has {len(kept)} lines of text; a check-up compares at least two")
    return kept
