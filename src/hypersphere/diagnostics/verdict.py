"""From numbers to words: the problems of embeddings, their evidence and their remedies."""

from __future__ import annotations

from collections.abc import Iterator

from hypersphere.diagnostics.diagnosis import Diagnosis, Finding, Pairs, View
from hypersphere.diagnostics.pairs import Classes
from hypersphere.diagnostics.thresholds import (
    APART,
    CLASSES_APART,
    CLOSER,
    CONE,
    DEAD,
    FEW_DIMENSIONS,
    FEW_DIRECTIONS,
    FEW_LEADING,
    HUBS,
    LOW_PARTICIPATION,
    MIXED_CLASSES,
    ONE_DIRECTION,
    REPEATED,
    SAME_VIEWS,
)


def findings(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """All findings, the gravest first; consequences of a collapse are not reported again."""
    said = _together(
        [[*_of_view(view, diagnosis)] for view in diagnosis.views], [view.name for view in diagnosis.views]
    )
    if diagnosis.pairs is not None and not any(finding.name == ONE_DIRECTION.finding for finding in said):
        said += _of_pairs(diagnosis.pairs)
    if diagnosis.classes is not None and diagnosis.classes.beyond_chance < MIXED_CLASSES.value:
        said.append(_mixed_classes(diagnosis.classes))
    return tuple(sorted(said, key=lambda finding: not finding.grave))


def _together(of_views: list[list[Finding]], names: list[str]) -> list[Finding]:
    """Merges findings that several views share into one, with the evidence of each view."""
    if len(of_views) == 1:
        return of_views[0]
    kept: dict[str, Finding] = {}
    for name, said in zip(names, of_views, strict=True):
        for finding in said:
            before = kept.get(finding.name)
            merged = finding._replace(evidence=f"{name}: {finding.evidence}")
            if before is not None:  # the worse of the two decides
                merged = max(before, finding, key=lambda each: (each.grave, each.collapse))._replace(
                    evidence=f"{before.evidence} {merged.evidence}"
                )
            kept[finding.name] = merged
    return list(kept.values())


def _of_view(view: View, diagnosis: Diagnosis) -> Iterator[Finding]:
    possible = min(diagnosis.rows - 1, diagnosis.dims)
    if view.zero_rows:
        yield Finding(
            "zero rows", True, "some rows are zero and have no direction.",
            f"{view.zero_rows:,} of {diagnosis.rows:,} rows; they count as the zero vector in every number here.",
            "leave them out, or find out which inputs give an empty embedding (empty texts, dead ReLU outputs).",
        )  # fmt: skip
    if view.first_direction >= ONE_DIRECTION.value:
        yield _rank_one(view)
    else:
        yield from _of_spread(view, diagnosis, possible)
    if view.repeated_rows > REPEATED.value * diagnosis.rows:
        yield Finding(
            REPEATED.finding, False, "some rows are exact copies of earlier ones.",
            f"{view.repeated_rows:,} of {diagnosis.rows:,} rows ({view.repeated_rows / diagnosis.rows:.1%}).",
            "remove repeated inputs: a copy is a false negative in training and inflates every retrieval score.",
        )  # fmt: skip
    if len(view.dead_dimensions) > DEAD.value * diagnosis.dims and view.first_direction < ONE_DIRECTION.value:
        shown = ", ".join(map(str, view.dead_dimensions[:8])) + (", …" if len(view.dead_dimensions) > 8 else "")
        yield Finding(
            DEAD.finding, False, "some dimensions have the same value in every row.",
            f"{len(view.dead_dimensions)} of {diagnosis.dims} (dimension {shown}).",
            "drop them to save memory; in training look for a dead ReLU before the output or padding of the vector.",
        )  # fmt: skip


def _of_spread(view: View, diagnosis: Diagnosis, possible: int) -> Iterator[Finding]:
    wanted = _wanted(view, diagnosis.classes)
    if view.effective_rank_centred < FEW_DIMENSIONS.value * possible or (_noisy(view, possible) and not wanted):
        yield Finding(
            FEW_DIMENSIONS.finding, not wanted, "the rows fill only a few of the dimensions they have.",
            f"75 % of the variance is along {view.leading_directions} of {possible} possible directions, participation "
            f"ratio {view.participation_ratio:.1f}, centred effective rank {view.effective_rank_centred:.1f} (which a "
            f"little noise in all directions raises), rank {view.rank}.",
            "a lower temperature or a loss that spreads same-view negatives (dhel, kcl, align_uniform) or decorrelates "
            "(vicreg, barlow); a smaller learning rate; or keep only the leading components, since the rest carry "
            "no information. With class labels as targets, expect as many dimensions as classes.",
            collapse=not wanted,
        )  # fmt: skip
    elif view.leading_directions <= FEW_LEADING.value * possible and not wanted:
        yield Finding(
            FEW_LEADING.finding, False, "most of what varies is along a few of the dimensions.",
            f"75 % of the variance is along {view.leading_directions} of {possible} possible directions, participation "
            f"ratio {view.participation_ratio:.1f}.",
            "expect this of an encoder trained on one class more than there are directions; otherwise it is a subspace "
            "under noise: keep only the leading components, or train with a loss that spreads same-view "
            "negatives (dhel, kcl, align_uniform) or decorrelates (vicreg, barlow).",
        )  # fmt: skip
    if view.anisotropy > CONE.value:
        yield Finding(
            CONE.finding, False, "all rows point roughly the same way.",
            f"mean cosine of two rows {view.anisotropy:.2f}, total variance {view.total_variance:.2f} of 1, uniformity "
            f"{view.uniformity:.2f} where uniform rows have {view.uniformity_of_uniform:.2f}.",
            "ranking by cosine may still work, fixed thresholds on it do not. Train with a contrastive objective "
            "(infonce, dhel), or subtract the mean row (and whiten) before comparing.",
        )  # fmt: skip
    if view.hubness > HUBS.value:
        most = round(float(view.occurrences.max()))
        yield Finding(
            HUBS.finding, False, "a few rows are neighbours of very many others.",
            f"skewness of the neighbour counts {view.hubness:.1f}; one row is among the "
            f"{diagnosis.sampling.neighbours} nearest of {most:,} of {diagnosis.sampling.sample:,} rows, "
            f"{view.never_neighbours:.0%} of nobody's.",
            "look at the hubs (boilerplate, empty or very short inputs are usual); subtract the mean row, or rank by "
            "a local scaling of the similarity.",
        )  # fmt: skip


def _noisy(view: View, possible: int) -> bool:
    """Whether few dimensions are filled, apart from noise in all of them."""
    few = view.leading_directions <= min(FEW_DIRECTIONS.value, possible / 8)
    return few or view.participation_ratio < min(LOW_PARTICIPATION.value, possible / 8)


def _wanted(view: View, classes: Classes | None) -> bool:
    """Whether the labels explain that few directions are used."""
    if classes is None or not classes.beyond_chance >= CLASSES_APART.value:
        return False
    return view.leading_directions <= classes.classes - 1


def _rank_one(view: View) -> Finding:
    where = "one point" if view.total_variance < 1 - ONE_DIRECTION.value else "one line through the origin"
    return Finding(
        ONE_DIRECTION.finding, True,
        f"nearly all rows lie on {where}: the encoder gives the same answer to everything.",
        f"{view.first_direction:.2%} of the squared length is along a single direction, total variance "
        f"{view.total_variance:.4f}, effective rank {view.effective_rank:.2f}.",
        "train again with a smaller learning rate (a large step can put the network at a constant output, where the "
        "gradient of every loss of cosines vanishes), check the inputs differ, or add anchors (cloa).",
        collapse=True,
    )  # fmt: skip


def _of_pairs(pairs: Pairs) -> Iterator[Finding]:
    if pairs.alignment < SAME_VIEWS.value:
        yield Finding(
            SAME_VIEWS.finding, False, "both views are the same rows, so their alignment measures nothing.",
            f"mean squared distance of positives {pairs.alignment:.1e}.",
            "was the same file given twice, or was dropout or augmentation switched off (eval mode)?",
        )  # fmt: skip
    if pairs.closer_than_random < CLOSER.value:
        yield Finding(
            CLOSER.finding, True, "a row's positive is hardly nearer to it than any other row.",
            f"nearer than a random negative in {pairs.closer_than_random:.1%} of cases, mean cosine "
            f"{pairs.positive_cosine:.3f} against {pairs.negative_cosine:.3f}.",
            "check that row i of both views is the same item (a shuffled loader is the usual cause); if so, train "
            "longer or weigh alignment more.",
        )  # fmt: skip
    if pairs.apart > APART.value:
        yield Finding(
            APART.finding, False, "the two views form two separate clouds (a modality gap).",
            f"distance between their means {pairs.apart:.2f}.",
            "normal for two encoders trained with a low temperature; subtract each view's mean before comparing across "
            "views, and do not mix both in one index without it.",
        )  # fmt: skip


def _mixed_classes(own: Classes) -> Finding:
    return Finding(
        MIXED_CLASSES.finding, False, "a row's neighbours are hardly more often of its class than any rows are.",
        f"{own.agreement:.1%} of the neighbours that could share the class do, {own.chance:.1%} would by chance; mean "
        f"distance {own.within:.3f} within and {own.between:.3f} between classes.",
        "check that labels and rows are in the same order; otherwise this encoder does not see the classes.",
    )  # fmt: skip
