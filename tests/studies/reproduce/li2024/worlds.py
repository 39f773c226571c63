"""Contests of Li et al. 2024 that were never held: worlds in which a claim holds, fails or drowns in noise."""

import math
import random
from functools import cache

from hypersphere.studies.compare.cells import UNTRAINED
from hypersphere.studies.compare.views import QUANTILES, STEPS, TEMPERATURES
from hypersphere.studies.reproduce.li2024.published import STAGE_SCORES, STAGES, STS, TRANSFER
from tests.studies.reproduce import fabricated

OWN = {"dissipation": ("margin", 0.3), "weight": ("temperature", 0.05), "ratio": ("value", 1.0)}
BINS = 40


def setting(cell, part):
    """A component of the paradigm, as a number; no gate is a margin of 2."""
    given = cell.recipe.objective.get(part)
    if given == "none" or (isinstance(given, dict) and given["name"] == "none"):
        return 2.0
    key, default = OWN[part]
    return given[key] if isinstance(given, dict) else default


def histogram(centre, spread):
    edges = [-1 + 2 * place / BINS for place in range(BINS)]
    mass = [math.exp(-(((edge + 1 / BINS) - centre) ** 2) / (2 * spread**2)) for edge in edges]
    return [each / sum(mass) for each in mass]


def views(positive, negative, hardest=0.9):
    """Views whose hardest share falls from ``hardest`` at τ = 0.01 to even shares."""
    return {
        "positive": histogram(positive, 0.08), "negative": histogram(negative, 0.12),
        "hardest": {f"{tau:g}": hardest / (1 + (tau / 0.06) ** 2) + 1 / 127 for tau in TEMPERATURES},
        "lemma1": {f"{step:g}": {"quantiles": [0.4 + 0.2 * k + step / 5 for k in range(len(QUANTILES))], "exists": 1.0}
                   for step in STEPS},
        "wasserstein": 0.1, "effective_rank": 50.0,
    }  # fmt: skip


def measurement(step, positive, negative, ratio=1.0, spread=1.0):
    return {
        "step": step, "positive_cosine": positive, "negative_cosine": negative, "positive_spread": 0.05,
        "negative_spread": 0.1, "positive_angle": math.acos(positive), "negative_angle": math.acos(negative),
        "positive_angle_spread": 0.06 * spread, "negative_angle_spread": 0.11 * spread, "ratio": ratio, "lemma1": 0.9,
        "with_gradient": 0.7, "hardest_gap": 0.2,
    }  # fmt: skip


def sweeps(sign=1.0, noise=0.0, scale="small", **changed):
    """Scores, cosines and ratios that follow the claims (sign 1), their opposite (-1) or nothing but noise (0)."""
    draw = random.Random(1)

    def make(cell):
        m, tau, r = (setting(cell, part) for part in OWN)
        jitter = draw.gauss(0, 1) * noise + 0.001 * cell.seed
        if cell.objective == UNTRAINED:
            run = fabricated.result(30.0, "stsb_dev", stsb_dev=30.0, stsb_test=28.0)
            return {**run, "views": views(0.8, 0.6, 0.9 if sign > 0 else 0.3)}
        sharp = 8.0 / (1 + (0.4 / tau) ** 3)
        run = fabricated.result(48 + sign * (-4 * m - sharp + 2 * r) + jitter, "stsb_dev", stsb_test=45.0)
        positive = min(0.99, 0.8 + 0.05 * sign * (r - 1) + 0.02 * jitter)
        negative = 0.35 - 0.1 * sign * (m - 0.3) + 0.02 * jitter
        ratio = 1 + 0.4 * sign + 0.2 * jitter if cell.objective in ("arccon", "met") else r
        outside = 1.0 if sign > 0 else 4.0
        run["measured"] = [measurement(step, positive, negative, ratio, changed.get("spread", outside))
                           for step in (0, 20, 40)]  # fmt: skip
        run["views"] = views(positive, negative, 0.9 if sign > 0 else 0.3)
        return run

    return {"li-sweeps": fabricated.held("li-sweeps", make, scale)}


def stages(sign=1.0, noise=0.0, transfer=0.2, scale="small", sets=True):
    """Published averages where the claims hold; reversed around InfoNCE where they do not."""
    draw = random.Random(2)
    published = {"infonce": 76.25, "arccon": 77.25, "mpt": 77.25, "met": 78.38, UNTRAINED: 40.0}

    def make(cell):
        jitter = draw.gauss(0, 1) * noise + 0.001 * cell.seed
        loss, _, stage = cell.objective.partition(" stage=")
        place = [each.lower() for each in STAGES].index(stage) if stage else -1
        value = published[loss] if loss in published else STAGE_SCORES[loss][place]
        value = 76.25 + sign * (value - 76.25) + jitter
        accuracy = 85.0 + (transfer if not stage else 0.0) + jitter
        scores = {"stsb_test": value}
        if sets:
            scores |= dict.fromkeys((*STS, "sts_average"), value) | dict.fromkeys(
                (*TRANSFER, "transfer_average"), accuracy
            )
        return fabricated.result(value, "stsb_dev", **scores)

    return {"li-stages": fabricated.held("li-stages", make, scale)}


PRINTED = {
    "li-search": {"mmhe": (0.3, 0.05, 1.75), "mmhs": (0.3, None, 1.75), "mbarlow": (0.3, 0.05, 1.5),
                  "mvicreg": (0.3, 0.05, 1.5)},
    "li-search-second": {"mmhe": (0.3, 0.05, 1.25), "mmhs": (0.27, None, 1.0), "mbarlow": (0.37, 0.05, 1.25),
                         "mvicreg": (0.37, 0.05, 1.25)},
}  # fmt: skip
DEFAULTS = {"margin": 0.3, "temperature": 0.05}


def search(name, sign=1.0, noise=0.0, scale="small"):
    """Every published value adds two points."""
    draw = random.Random(5)

    def make(cell):
        if cell.objective == UNTRAINED:
            return fabricated.result(30.0, "stsb_dev", stsb_test=28.0)
        given = {**DEFAULTS, "ratio": 1.75 if "mh" in cell.objective else 1.5, **cell.recipe.objective}
        wanted = PRINTED[name][cell.objective]
        same = sum(given[key] == value for key, value in zip(("margin", "temperature", "ratio"), wanted, strict=True))
        value = 45 + sign * 2 * same + draw.gauss(0, 1) * noise + 0.01 * len(cell.objective)
        return fabricated.result(value, "stsb_dev", stsb_test=value - 2)

    return {name: fabricated.held(name, make, scale)}


@cache
def world(contest, kind):
    """A contest in which the claims hold, do not, or cannot be seen for noise."""
    sign, noise = {"holds": (1.0, 0.0), "fails": (-1.0, 0.0), "noise": (0.0, 3.0)}[kind]
    if contest == "li-sweeps":
        return sweeps(sign, noise)
    if contest == "li-stages":
        return stages(sign, noise, transfer={"holds": 0.2, "fails": 4.0, "noise": 0.0}[kind])
    return search(contest, sign, noise)
