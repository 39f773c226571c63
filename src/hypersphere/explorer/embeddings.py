"""Embeddings under every lens of the package: diagnosis, anatomy, advice, spectrum, cosines, and pairs to look at."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.anatomy import advise, dissect
from hypersphere.anatomy.advice import list_advice
from hypersphere.anatomy.anatomy import LEGEND
from hypersphere.diagnostics import diagnose
from hypersphere.diagnostics.diagnosis import QUESTION, Diagnosis
from hypersphere.diagnostics.files import Loaded, load_embeddings, text_lines
from hypersphere.diagnostics.rows import Rows
from hypersphere.documents import json_safe
from hypersphere.explorer.maps import checked_settings
from hypersphere.geometry import unit
from hypersphere.messages import first_line
from hypersphere.names import did_you_mean
from hypersphere.objectives import create_objective, list_objectives

SAMPLE = 2048  # rows compared all with all
ANCHORS = 256  # rows of the batch that is taken apart
ADVISED = 512  # rows that advice is measured on
LISTED = 12  # pairs of each kind
EIGENVALUES = 512  # of a spectrum, the largest
UNPACKED = 2**32  # bytes of an upload once unpacked
MEMBERS = 64  # arrays of an npz
LONGEST = 200  # characters of a text beside a pair


def load(first: Path, second: Path | None = None, texts: Path | None = None, arrays: Sequence[str] = ()) -> Loaded:
    """One or two views from files, and the texts of their rows. Nothing is unpickled."""
    loaded = load_embeddings(first, second, arrays)
    if texts is None:
        return loaded
    lines = text_lines(texts)
    if len(lines) != len(loaded.z1):
        raise ValueError(f"the text has {len(lines):,} lines, but there are {len(loaded.z1):,} rows")
    return loaded._replace(texts=lines)


def check_upload(path: Path) -> None:
    """Refuses an npz or parquet that is too large once unpacked, before it is. A small file can hold billions of equal
    numbers, and reading them would end the server."""
    if path.suffix == ".npz":
        _check_archive(path)
    elif path.suffix == ".parquet":
        _check_columns(path)


def _check_archive(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as packed:
            members = packed.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise ValueError(f"{path.name} cannot be read as npz: {first_line(error)}") from None
    size = sum(member.file_size for member in members)
    if len(members) > MEMBERS or size > UNPACKED:
        raise ValueError(
            f"{path.name} holds {len(members)} arrays of {size / 1e6:,.0f} MB once unpacked; at most {MEMBERS} arrays "
            f"of {UNPACKED / 1e6:,.0f} MB can be uploaded; hypersphere explore --embeddings FILE reads any"
        )


def _check_columns(path: Path) -> None:
    size = _values(path) * 8
    if size > UNPACKED:
        raise ValueError(
            f"{path.name} takes {size / 1e6:,.0f} MB once unpacked; at most {UNPACKED / 1e6:,.0f} MB can be uploaded; "
            "hypersphere explore --embeddings FILE reads any"
        )


def _values(path: Path) -> int:
    """How many numbers and words a parquet declares; 0 for a file that cannot be read, which has its own sentence."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return 0
    try:
        about = pq.read_metadata(path)
    except (pa.ArrowException, OSError):
        return 0
    groups = [about.row_group(place) for place in range(about.num_row_groups)]
    return sum(group.column(place).num_values for group in groups for place in range(group.num_columns))


def examine(
    loaded: Loaded, name: str, objective: str = "infonce", settings: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Everything the page shows of one or two views; numbers that do not exist are null."""
    diagnosis = diagnose(loaded.z1, loaded.z2, loaded.labels, texts=loaded.texts, sample=SAMPLE)
    rows = [Rows(loaded.z1, "z1")] + ([] if loaded.z2 is None else [Rows(loaded.z2, "z2")])
    answer = {
        "name": name,
        "note": loaded.note,
        "rows": diagnosis.rows,
        "dims": diagnosis.dims,
        "views": len(rows),
        "diagnosis": _diagnosed(diagnosis),
        "spectrum": {view.name: view.eigenvalues[:EIGENVALUES].tolist() for view in diagnosis.views},
        "cosines": _cosines(diagnosis),
        "pairs": find_pairs(rows, loaded.texts),
        "anatomy": _anatomy(rows, objective, settings or {}),
        "advice": _advice(rows),
    }
    safe: dict[str, Any] = json_safe(answer, digits=6)
    return safe


def _diagnosed(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "question": QUESTION,
        "answer": diagnosis.answer,
        "collapsed": diagnosis.collapsed,
        "verdict": diagnosis.verdict,
        "findings": [each._asdict() for each in diagnosis.findings],
        "table": [[word, values, said] for word, values, said in diagnosis.table()],
        "notable": [list(each) for each in diagnosis.rows_to_look_at()],
        "sampled": str(diagnosis.sampling),
    }


def _cosines(diagnosis: Diagnosis) -> dict[str, list[float]]:
    """Histograms over 200 equal bins of [-1, 1]: positives and negatives of two views, or pairs of rows of one."""
    if diagnosis.pairs is None:
        return {"pairs of rows": diagnosis.views[0].histogram.tolist()}
    return {"positives": diagnosis.pairs.positive_histogram.tolist(),
            "negatives": diagnosis.pairs.negative_histogram.tolist()}  # fmt: skip


def _drawn(rows: list[Rows], most: int) -> tuple[Tensor, list[Tensor]]:
    """Indices of at most ``most`` rows, drawn at random with one seed, and the unit rows of each view."""
    count = len(rows[0])
    indices = torch.arange(count)
    if count > most:
        indices = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:most].sort().values
    return indices, [unit(each.take(indices).cpu().double()) for each in rows]


def find_pairs(rows: list[Rows], texts: Sequence[str] | None = None) -> dict[str, list[dict[str, Any]]]:
    """Pairs to look at, among a sample: the nearest different rows of the first view; of two views also the hardest
    negatives (nearer to the anchor than its positive, by the most) and the farthest positives."""
    indices, views = _drawn(rows, SAMPLE)

    def listed(pairs: list[tuple[int, int, float]]) -> list[dict[str, Any]]:
        return [
            {"rows": [int(indices[one]), int(indices[other])], "cosine": cosine,
             "texts": [] if texts is None else [str(texts[int(indices[each])])[:LONGEST] for each in (one, other)]}
            for one, other, cosine in pairs
        ]  # fmt: skip

    h = views[0]
    cosines = (h @ h.T).tril(-1) + torch.full((len(h), len(h)), -math.inf, dtype=h.dtype).triu()
    by_kind = {"nearest": listed(_largest(cosines, cosines))}
    if len(views) == 2:
        across = h @ views[1].T
        positive = across.diagonal().clone()
        beyond = across - positive.unsqueeze(1)
        beyond.fill_diagonal_(-math.inf)
        best, column = beyond.max(dim=1)  # one negative for each anchor
        order = best.argsort(descending=True)[:LISTED].tolist()
        by_kind["hardest"] = listed([(i, int(column[i]), float(across[i, column[i]])) for i in order])
        for pair, i in zip(by_kind["hardest"], order, strict=True):
            pair["positive"] = float(positive[i])
        far = positive.argsort()[:LISTED].tolist()
        by_kind["farthest"] = listed([(i, i, float(positive[i])) for i in far])
    return by_kind


def _largest(scores: Tensor, cosines: Tensor) -> list[tuple[int, int, float]]:
    count = min(LISTED, scores.numel())
    flat = scores.flatten().topk(count).indices.tolist()
    pairs = [divmod(each, scores.shape[1]) for each in flat]
    return [(i, j, float(cosines[i, j])) for i, j in pairs if math.isfinite(float(scores[i, j]))]


def _anatomy(rows: list[Rows], name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """One objective taken apart on a batch of these rows; a sentence where that cannot be."""
    if name not in list_objectives():
        return {"objective": name, "sentence": f"There is no objective {name!r}{did_you_mean(name, list_objectives())}"}
    if len(rows) < 2:
        return {"objective": name, "sentence": "An anatomy needs two views: a positive for every row."}
    indices, (z1, z2) = _drawn(rows, ANCHORS)
    try:
        anatomy = dissect(create_objective(name, **checked_settings(name, settings)), z1, z2, most_anchors=32)
        numbers = anatomy.numbers()
    except (ValueError, TypeError, RuntimeError) as error:
        return {"objective": name, "sentence": f"{name} cannot be taken apart on this batch: {first_line(error)}."}
    of = f"{len(indices)} of {len(rows[0]):,} rows, drawn at random" if len(indices) < len(rows[0]) else "all rows"
    gates = torch.histc(anatomy.dissipation[anatomy.dissipation.isfinite()].clamp(0, 1), bins=20, min=0, max=1)
    return {"objective": name, "settings": dict(settings), "as": anatomy.name, "scope": anatomy.scope, "batch": of,
            "numbers": numbers, "verdict": anatomy.verdict(), "conventions": anatomy.conventions, "legend": LEGEND,
            "kept": gates.tolist(), "sentence": ""}  # fmt: skip


def _advice(rows: list[Rows]) -> dict[str, Any]:
    """The advised temperature or margin of every objective that has one."""
    if len(rows) < 2:
        return {"rows": [], "sentence": "Advice on a temperature or margin needs two views."}
    _, (z1, z2) = _drawn(rows, ADVISED)
    lines: list[dict[str, Any]] = []
    caveat = ""
    for name in (name for name, reason in list_advice().items() if not reason):
        try:
            advice = advise(name, z1, z2)
        except ValueError as error:
            lines.append({"objective": name, "sentence": first_line(error)})
            continue
        lines.append({"objective": name, "parameter": advice.parameter, "value": advice.value,
                      "default": advice.default, "past_default": advice.past_default, "sentence": ""})  # fmt: skip
        caveat = advice.caveat
    return {"rows": lines, "negatives": len(z1) - 1, "sentence": caveat}


def write_parquet(loaded: Loaded, path: Path) -> Path:
    """A table for embedding-atlas: ``embedding-atlas FILE --vector vector --text text``; a batch of rows at a time.

    Columns: row, vector, and text, label and positive_cosine where they are known.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ModuleNotFoundError("parquet needs pyarrow: pip install pyarrow", name="pyarrow") from None
    first = Rows(loaded.z1, "z1")
    second = None if loaded.z2 is None else Rows(loaded.z2, "z2")
    if second is not None and second.shape != first.shape:
        raise ValueError(f"two views need one shape, not {first.shape} and {second.shape}")
    labels = None if loaded.labels is None else np.asarray(loaded.labels)
    if labels is not None and labels.shape != (len(first),):
        raise ValueError(f"labels must be one for each of the {len(first)} rows, not of shape {labels.shape}")
    fields = [pa.field("row", pa.int64()), pa.field("vector", pa.list_(pa.float32()))]
    fields += [pa.field("text", pa.string())] if loaded.texts is not None else []
    fields += [pa.field("label", pa.string())] if labels is not None else []
    fields += [pa.field("positive_cosine", pa.float32())] if second is not None else []
    with pq.ParquetWriter(path, pa.schema(fields)) as writer:
        for some in torch.arange(len(first)).split(8192):
            block = first.take(some).cpu().float()
            columns: dict[str, Any] = {"row": some.numpy(), "vector": list(block.numpy())}
            if loaded.texts is not None:
                columns["text"] = [str(loaded.texts[row]) for row in some.tolist()]
            if labels is not None:
                columns["label"] = [str(labels[row]) for row in some.tolist()]
            if second is not None:
                other = second.take(some).cpu().float()
                columns["positive_cosine"] = (unit(block) * unit(other)).sum(dim=1).numpy()
            writer.write_table(pa.table(columns, schema=pa.schema(fields)))
    return path
