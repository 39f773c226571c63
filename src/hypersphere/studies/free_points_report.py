"""The free points study as a picture and a page of text; every sentence follows from the measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from hypersphere.figures import Panel, Strip
from hypersphere.report import markdown_table
from hypersphere.studies.free_points import (
    CONTESTANTS,
    MANY,
    Outcome,
    aligned,
    gaussian_energy,
    largest_smallest_angle,
    nearest_angles,
    places,
    uniform_energy,
)


def degrees(value: float | Tensor, digits: int = 1) -> str:
    return f"{math.degrees(float(value)):.{digits}f}°"


def typical(points: Tensor) -> float:
    """Median angle to the nearest neighbour."""
    return float(nearest_angles(points).median())


def winners(few: Sequence[Sequence[Outcome]]) -> list[str]:
    """The contestants that reach every known optimum."""
    return [c.label for k, c in enumerate(CONTESTANTS) if all(outcomes[k].reached for outcomes in few)]


def apart(many: Sequence[Outcome]) -> list[str]:
    """The contestants whose two nearest points keep at least half of the largest possible angle."""
    bound = largest_smallest_angle(MANY.count)
    return [o.contestant.label for o in many if o.smallest > bound / 2]


def listed(labels: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(labels[:-1]), *labels[-1:]])) or "none"


def title(few: Sequence[Sequence[Outcome]], many: Sequence[Outcome]) -> str:
    there, total, keep = len(winners(few)), len(CONTESTANTS), apart(many)
    crowded = f"only {listed(keep)} keep all neighbours apart" if keep else "none keeps all neighbours apart"
    return f"Few points: {there} of {total} objectives reach the known optimum.  Many points: {crowded}."


def picture(few: Sequence[Sequence[Outcome]], many: Sequence[Outcome]) -> list[Strip]:
    strips = []
    for outcomes in few:
        best = outcomes[0].of.optimum
        assert best is not None
        if outcomes[0].of.dim != 3:
            continue
        panels = [Panel("known optimum", best.numpy(), degrees(nearest_angles(best).min()), tone="known")]
        for o in outcomes:
            tone = "good" if o.reached else "short"
            shown = aligned(o.points, best).numpy()
            panels.append(Panel(o.contestant.label, shown, degrees(o.smallest), o.verdict, tone))
        strips.append(Strip(f"{outcomes[0].of.name.capitalize()}: smallest angle between two points", panels))
    bound = largest_smallest_angle(MANY.count)
    clouds = [_cloud("random start", many[0].start, "start")]
    for o in many:
        clouds.append(_cloud(o.contestant.label, o.points, "good" if o.smallest > bound / 2 else "short"))
    heading = f"{MANY.name}: smallest angle between two points (no set can have more than {degrees(bound)})"
    return [*strips, Strip(heading, clouds, ("angle to nearest (°)", math.degrees(bound)))]


def _cloud(label: str, points: Tensor, tone: str) -> Panel:
    shades = torch.rad2deg(nearest_angles(points))
    groups = places(points)
    note = f"typical {degrees(typical(points))}" if groups > len(points) / 2 else f"only {groups} distinct places"
    return Panel(label, points.numpy(), degrees(nearest_angles(points).min()), note, tone, shades.numpy())


def text(few: Sequence[Sequence[Outcome]], many: Sequence[Outcome], image: str, seed: int, steps: int) -> str:
    return "\n\n".join(
        [
            "# Free points on a sphere",
            f"**{title(few, many).replace('.  ', '. ')}**",
            f"![{title(few, many)}]({image})",
            "Both views are the same free points, so positives are aligned from the start and what is left of an "
            f"objective is how it spreads its negatives. All start at the same points (a few nearly collapsed, many "
            f"uniformly random; seed {seed}) and take {steps} steps of Adam (β₁ = 0: without momentum, β₂ = 0.99). The "
            "energy is the mean of exp(-2‖x-y‖²) over all pairs, each point with itself included.",
            "## Few points: the optimum is known",
            _few_table(few),
            "Cells: smallest angle, energy above the optimum's. The simplex and the cross-polytope are optimal for "
            "every completely monotone energy (Cohn and Kumar 2007).",
            "\n".join(_few_words(few)),
            "## Many points on S²: the uniform measure is the limit",
            _many_table(many),
            f"No set has a smaller energy than the uniform measure's (1-e^(-8))/8 = {uniform_energy():.5f}, nor a "
            f"smallest angle above {degrees(largest_smallest_angle(MANY.count), 2)} (Fejes Tóth 1943).",
            "\n".join(_many_words(many)),
        ]
    )


def _few_table(few: Sequence[Sequence[Outcome]]) -> str:
    header, optimum = ["objective"], ["known optimum"]
    for outcomes in few:
        best = outcomes[0].of.optimum
        assert best is not None
        header.append(outcomes[0].of.name)
        optimum.append(f"{degrees(nearest_angles(best).min(), 2)}, {gaussian_energy(best):.5f}")
    rows = [
        [c.label, *(f"{degrees(o[k].smallest, 2)}, +{max(o[k].excess, 0):.5f}" for o in few)]
        for k, c in enumerate(CONTESTANTS)
    ]
    return markdown_table(header, [optimum, *rows])


def _few_words(few: Sequence[Sequence[Outcome]]) -> list[str]:
    """The contestants that reached every optimum, and one line for each of the others with the reason."""
    there = winners(few)
    lines = [f"- All {len(few)} optima are reached by {listed(there)}." if there else "- None reaches all optima."]
    for index, contestant in enumerate(CONTESTANTS):
        if contestant.label not in there:
            outcomes = [each[index] for each in few]
            reached = sum(o.reached for o in outcomes)
            reasons = "; ".join(_reasons([o for o in outcomes if not o.reached]))
            lines.append(f"- {contestant.label} reaches {reached or 'none'} of the {len(few)}: {reasons}.")
    return lines


def _reasons(missed: Sequence[Outcome]) -> list[str]:
    margin = missed[0].contestant.settings.get("margin", 0.0)
    words = {
        "margin holds": f"every pair is further apart than its margin of {degrees(2 * math.asin(margin / 2))}, all it "
        "asks for, so that no gradient is left",
        "gradient fades": "its gradient has faded to under a hundredth of what it was, too little to finish in time",
        "still moving": "it was still moving when the steps were over",
    }
    return [
        f"at {listed([degrees(o.smallest) for o in missed if o.verdict == verdict])} {reason}"
        for verdict, reason in words.items()
        if any(o.verdict == verdict for o in missed)
    ]


def _many_table(many: Sequence[Outcome]) -> str:
    header = ["objective", "smallest angle", "median nearest", "energy", "above uniform", "distinct places"]

    def row(label: str, points: Tensor) -> list[str]:
        energy, near = gaussian_energy(points), nearest_angles(points)
        cells = degrees(near.min(), 2), degrees(near.median(), 2), f"{energy:.6f}", f"{energy - uniform_energy():.1e}"
        return [label, *cells, str(places(points))]

    uniform = ["uniform measure", "", "", f"{uniform_energy():.6f}", "0", ""]
    return markdown_table(
        header,
        [uniform, row("random start", many[0].start), *(row(o.contestant.label, o.points) for o in many)],
    )


def _many_words(many: Sequence[Outcome]) -> list[str]:
    lines = []
    bound, keep = largest_smallest_angle(MANY.count), apart(many)
    gathered = [o for o in many if places(o.points) <= MANY.count / 2]
    coarse = [o for o in many if o.excess < 2e-5 and o.smallest < bound / 4 and o not in gathered]
    if coarse:
        lines.append(
            f"- {listed([o.contestant.label for o in coarse])}: as good as uniform in energy, and yet some points "
            "nearly coincide. A smooth potential sees the density, hardly the distance to the next point."
        )
    if keep:
        angles = listed([f"{o.contestant.label} ({degrees(o.smallest)})" for o in many if o.contestant.label in keep])
        lines.append(f"- Neighbours are kept apart by {angles}: what acts on near pairs only places many points best.")
    for o in gathered:
        reason = (
            "Its softplus flattens where points meet, so that the potential is not positive definite (its Legendre "
            "coefficients 9 to 14 are negative) and sharing a place costs less than crowding the neighbours."
            if o.contestant.name == "siglip"
            else "Its gradient does not part points that coincide."
        )
        lines.append(f"- {o.contestant.label} gathers the {MANY.count} points in {places(o.points)} places. {reason}")
    return lines
