"""Koromilas et al. 2024: accuracy, dimensions used and uniformity of SimCLR, DCL, DHEL and KCL, after tuning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypersphere.figures.accuracy import draw_dimensions
from hypersphere.studies.compare.cells import UNTRAINED, shown
from hypersphere.studies.compare.results import Comparison, Row, Run
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.evidence import Scores, above, each_seed, measured, score
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.koromilas2024.accuracies import (
    ABSTRACT,
    CHALLENGERS,
    DECIDING,
    LABELS,
    NAMES,
    NO_NUMBERS,
    PAIRS,
    Decisions,
    by_chance,
    contrasted,
    described,
    differences,
    family,
    interval,
    means_table,
    settings,
    short,
    signed,
    trained_well,
)

RANK, SEEN, WASSERSTEIN = "rank", "rank_seen", "wasserstein"
QUANTITIES = {
    **LABELS,
    RANK: "effective rank, encoder's output",
    SEEN: "effective rank, what the objective sees",
    WASSERSTEIN: "Wasserstein distance from uniform",
}
Table = dict[str, dict[str, Scores]]  # objective with its kernel → quantity → value by seed


def collapse(held: Mapping[str, Held]) -> Finding:
    """Accuracy, effective rank and Wasserstein uniformity of objectives and kernels."""
    comparison = held["koromilas-collapse"].comparison
    table = _table(comparison)
    ranks, seen, accuracy = ({name: table[name][each] for name in NAMES} for each in (RANK, SEEN, DECIDING))
    clauses = _clauses(ranks, accuracy)
    return Finding(
        claim=f"{ABSTRACT} The README of the authors' repository says that DHEL and KCL \"effectively utilize more "
        f'dimensions, mitigating the dimensionality collapse problem". {NO_NUMBERS}',
        measured="Each objective with its learning rate and own settings tuned, KCL with its Gaussian kernel. "
        f"Differences paired by seed, effective rank of the encoder's output: {differences(ranks)}. Effective rank of "
        f"what the objective sees: {differences(seen)}. Linear probe with all labels: {differences(accuracy)}. "
        f"{_kernels(table)}{_not_tuned(comparison)}{by_chance(clauses)} The "
        f"Wasserstein distance is that of the cosines from those of uniform points. {_means(table)}",
        clauses=clauses,
        data={"objectives": _rows(comparison, table), "differences": _difference_rows(table)},
        figures={"collapse": draw_dimensions(_panels(table))},
        published="no number; the abstract: reduced dimensionality collapse, improved downstream performance",
        here=f"rank: {short(ranks)}; probe: {short(accuracy)}",
        fault=_fault(comparison, table, seen, clauses),
    )


def _table(comparison: Comparison) -> Table:
    """All quantities by objective, the untrained encoder last; an objective without runs has none."""
    ordered = sorted(comparison.rows, key=lambda row: row.name == UNTRAINED)
    rows = {_key(row.objective): row for row in ordered}
    nothing: dict[str, Scores] = {quantity: {} for quantity in QUANTITIES}
    return {
        **{name: dict(nothing) for name in (*NAMES, *rows)},
        **{name: _read(row) for name, row in rows.items()},
    }


def _key(label: str) -> str:
    """The name of the objective; KCL with a kernel other than the Gaussian keeps the kernel's name."""
    kernel = settings(label).get("kernel", "gaussian") if family(label) == "kcl" else "gaussian"
    return family(label) if kernel == "gaussian" else f"KCL {kernel.replace('_', ' ')}"


def _read(row: Row) -> dict[str, Scores]:
    def of_views(quantity: str) -> dict[int, float]:
        def read(run: Run) -> float | None:
            value = run.result.get("views", {}).get(quantity)
            return None if value is None else float(value)

        return each_seed(row, read)

    return {
        **{name: score(row, name) for name in LABELS},
        RANK: of_views("effective_rank"),
        SEEN: measured(row, "effective_rank"),
        WASSERSTEIN: of_views("wasserstein"),
    }


def _clauses(ranks: Mapping[str, Scores], accuracy: Mapping[str, Scores]) -> Decisions:
    clauses: Decisions = {}
    for new, old in PAIRS:
        clauses[f"{NAMES[new]} uses more dimensions than {NAMES[old]} (encoder's output)"] = above(
            ranks[new], ranks[old]
        )
    for new, old in PAIRS:
        clauses[f"{NAMES[new]} is more accurate than {NAMES[old]} (linear probe)"] = above(accuracy[new], accuracy[old])
    return clauses


def _kernels(table: Table) -> str:
    """The other kernels of KCL against SimCLR, by rank and by accuracy."""
    sentences = []
    for quantity, words in ((RANK, "rank of the encoder's output"), (DECIDING, "linear probe")):
        groups: dict[bool | None, list[str]] = {True: [], False: [], None: []}
        for name in table:
            if name not in (*NAMES, UNTRAINED):
                groups[above(table[name][quantity], table["ntxent"][quantity])].append(name)
        placed = {True: "above SimCLR", False: "below", None: "not told apart"}
        said = [f"{', '.join(names)} {placed[side]}" for side, names in groups.items() if names]
        sentences.append(f"Other kernels, {words}: {'; '.join(said)}. " if said else "")
    return "".join(sentences)


def _not_tuned(comparison: Comparison) -> str:
    """Which of the four had only its learning rate tuned."""
    alone = [
        NAMES[_key(label)]
        for label, space in comparison.plan.spaces.items()
        if _key(label) in NAMES and not any(key.startswith("objective.") for key in space)
    ]
    return f"Of {' and '.join(alone)} only the learning rate was tuned. " if alone else ""


def _means(table: Table) -> str:
    columns = {DECIDING: "linear probe, %", "knn": "neighbours, %", RANK: "rank, encoder", SEEN: "rank, seen",
               WASSERSTEIN: "Wasserstein"}  # fmt: skip
    rows = {_named(name): [each[quantity] for quantity in columns] for name, each in table.items()}
    return means_table(list(columns.values()), rows, (2, 2, 2, 2, 3))


def _named(name: str) -> str:
    return {**NAMES, "kcl": "KCL gaussian"}.get(name, name)


def _rows(comparison: Comparison, table: Table) -> list[dict[str, Any]]:
    rows = {_key(row.objective): row for row in comparison.rows}
    return [
        {"objective": _named(name), "quantity": quantity, **described(values)}
        | {"settings": _settings(rows.get(name)), "at_bound": "; ".join(rows[name].at_bound if name in rows else ())}
        for name, each in table.items()
        for quantity, values in each.items()
    ]


def _settings(row: Row | None) -> str:
    """The chosen settings; none if the defaults won or nothing was tuned yet."""
    chosen = row.settings if row is not None else {}
    return ", ".join(f"{key} {shown(value)}" for key, value in chosen.items())


def _difference_rows(table: Table) -> list[dict[str, Any]]:
    return [
        {"objective": _named(name), "minus": NAMES[old], "quantity": quantity}
        | contrasted(each[quantity], table[old][quantity])
        for name, each in table.items()
        for old in ("ntxent", "dcl")
        if name not in ("ntxent", "dcl", UNTRAINED)
        for quantity in QUANTITIES
    ]


def _panels(table: Table) -> dict[str, Any]:
    titles = {**QUANTITIES, DECIDING: "test accuracy, %, linear probe"}
    return {
        titles[quantity]: [interval(_named(name), each[quantity]) for name, each in table.items()]
        for quantity in (DECIDING, RANK, SEEN, WASSERSTEIN)
    }


def _fault(comparison: Comparison, table: Table, seen: Mapping[str, Scores], clauses: Decisions) -> str:
    if False not in clauses.values():
        return ""
    accuracy = {name: each[DECIDING] for name, each in table.items()}
    parts = [trained_well(accuracy, table.get(UNTRAINED, {}).get(DECIDING, {}))]
    bounds = [sentence for row in comparison.contestants if _key(row.objective) in CHALLENGERS
              for sentence in row.at_bound.values()]  # fmt: skip
    trials = comparison.plan.study.trials
    parts.append(f"Scale: {trials} trials for each objective; " + ("; ".join(bounds) or
                 "no chosen setting of DHEL or KCL lies at the end of its range") + ".")  # fmt: skip
    other = [f"{NAMES[new]} {signed(seen[new], seen['ntxent'])}" for new in CHALLENGERS]
    parts.append(
        "Claim: which space the paper measures is not in the abstract. In the one that the objective sees, the rank "
        f"minus SimCLR's is {', '.join(other)}."
    )
    return " ".join(parts)
