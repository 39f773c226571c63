"""Where embeddings come from: a file, a run, or a model on a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hypersphere.cli.answers import console
from hypersphere.diagnostics.files import RUN_FILE, Loaded, load_embeddings, text_lines
from hypersphere.documents import read_yaml

VIEWS = ("one", "dropout")
BATCH = 64


def load_source(path: Path, second: Path | None = None, arrays: Sequence[str] = (), *, labelled: bool = True) -> Loaded:
    """The embeddings in a file, in two files, or of a run; a model's folder by itself has none and is refused."""
    if _is_model(path) or _is_model(path / "model"):
        raise ValueError(f"{path} is a model's folder: say which text to embed, with --text FILE")
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


def embed_text(model: str, text: Path, views: str, seed: int) -> Loaded:
    """Embeds the lines of a text with a model (a folder, a run, a hub id): in eval mode, or twice with dropout."""
    import torch

    from hypersphere.encoders.checkpoint import find_folder, open_sentence_model

    lines = read_lines(text)
    encoder = open_sentence_model(find_folder(model))
    torch.manual_seed(seed)
    order = sorted(range(len(lines)), key=lambda place: len(lines[place]))  # rows of one length: little padding
    give = _with_dropout if views == "dropout" else _as_encoded
    embeddings = []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    screen = console(stderr=True)
    hidden = not screen.is_terminal
    with torch.no_grad(), Progress(*columns, console=screen, transient=True, disable=hidden) as bar:
        for view in range(1 + (views == "dropout")):
            task = bar.add_task(f"embedding view {view + 1}", total=len(lines))
            parts: list[Any] = []
            for start in range(0, len(lines), BATCH):
                batch = [lines[place] for place in order[start : start + BATCH]]
                parts.append(give(encoder, batch).float().cpu())
                bar.advance(task, len(batch))
            rows = torch.cat(parts)
            embeddings.append(torch.empty_like(rows).index_copy_(0, torch.tensor(order), rows))
    note = " ".join(filter(None, (_of_run(Path(model)), _conditions(encoder))))
    return Loaded(embeddings[0], embeddings[1] if len(embeddings) > 1 else None, note=note, texts=lines)


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
