"""A diagnosis as a page: the verdict first, then the pictures, then every number and its threshold."""

from __future__ import annotations

from hypersphere.diagnostics import Diagnosis, thresholds
from hypersphere.diagnostics.diagnosis import NORMALISED, QUESTION, shown
from hypersphere.report.page import Box, page, paragraph, pictures, section, table

CAPTIONS = {
    "similarities": (
        "Similarities",
        "Cosines of pairs of rows. Rows spread over the sphere follow the dotted line; in a cone they sit to the right "
        "of it, and where positives overlap the rest they cannot be told apart.",
    ),
    "spectrum": (
        "Spectrum",
        "Variance along the principal directions. A fall to the floor before the end means unused dimensions.",
    ),
    "dimensions": (
        "Dimensions",
        "Variance of each stored dimension of the unit rows. A dimension at zero carries no information.",
    ),
    "neighbours": (
        "Neighbours",
        "How often a row is among another's nearest. Hubs, rows near very many others, are the long tail to the right.",
    ),
}


def diagnosis_page(diagnosis: Diagnosis, source: str, note: str = "") -> str:
    """One self-contained HTML page; needs matplotlib. ``note``: a remark on the source, if any."""
    from hypersphere.figures.diagnosis import plots

    drawn = [(figure, *CAPTIONS[name]) for name, figure in plots(diagnosis, source).items()]
    two = len(diagnosis.views) > 1
    about = f"{diagnosis.rows:,} rows of {diagnosis.dims} dimensions" + (", in two views." if two else ".")
    return page(
        f"Check-up of {source}",
        about,
        [
            *([paragraph(note)] if note else []),
            section(QUESTION, *(box.html() for box in _boxes(diagnosis))),
            *_rows(diagnosis),
            section("Pictures", pictures(drawn)),
            section("Numbers", _numbers(diagnosis), paragraph(NORMALISED, soft=True),
                    paragraph(str(diagnosis.sampling), soft=True)),
            section("Where a number becomes a finding", _thresholds()),
        ],
        "Made by hypersphere diagnose.",
    )  # fmt: skip


def _boxes(diagnosis: Diagnosis) -> list[Box]:
    words = [sentence(diagnosis.reason)]
    if diagnosis.healthy:
        words.append("None of the other checks below found anything.")
    answer = Box("bad", "Yes", words) if diagnosis.collapsed else Box("good", "No", words)
    return [answer, *_findings(diagnosis)]


def _findings(diagnosis: Diagnosis) -> list[Box]:
    return [
        Box(
            "bad" if finding.grave else "warn",
            finding.name.capitalize(),
            [sentence(finding.words), f"Evidence: {finding.evidence}", f"What to do: {finding.remedy}"],
        )
        for finding in diagnosis.findings
    ]


def _rows(diagnosis: Diagnosis) -> list[str]:
    """Hubs and copies by name, if there are any."""
    rows = [list(each) for each in diagnosis.rows_to_look_at()]
    texts = any(row[-1] for row in rows)
    header = ["what", "which", "text"] if texts else ["what", "which"]
    if not rows:
        return []
    return [section("Rows to look at, counted from 0", table(header, [row[: len(header)] for row in rows]))]


def _numbers(diagnosis: Diagnosis) -> str:
    names = [view.name for view in diagnosis.views] if len(diagnosis.views) > 1 else ["value"]
    rows = []
    for word, values, said in diagnosis.table():
        cells = [shown(value) for value in values] + [""] * (len(names) - len(values))
        rows.append([word, *cells, said])
    return table(["", *names, "meaning"], rows, numbers=range(1, len(names) + 1))


def _thresholds() -> str:
    every = [each for each in vars(thresholds).values() if isinstance(each, thresholds.Threshold)]
    return table(["finding", "at", "of"], [[each.finding, f"{each.value:g}", each.why] for each in every], numbers=[1])


def sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"
