"""Contests of Nie et al. 2023 that were never held: what holds in a made-up world is found, what does not is not."""

from random import Random

from hypersphere.studies.compare.cells import Cell
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.nie2023.scores import AVERAGES, STS, TRANSFER
from tests.studies.reproduce import fabricated

STEPS = (0, 10, 20, 30, 40)
FALL = {"infonce": (3.0, 2.0, 1.6, 1.5, 1.5), "alignment": (0.3, 0.4, 0.42, 0.42, 0.42),
        "uniformity": (-1.0, -1.6, -2.0, -2.1, -2.1)}  # fmt: skip
RISE = (0.0, 0.0, 0.0, 0.3, 0.7)  # added to a curve that overfits
OVERFIT = {"align_uniform": ("infonce", "uniformity"), "dcl": ("infonce", "alignment", "uniformity")}
STS_PUBLISHED = {"untrained": 30.0, "infonce": 50.0, "align_uniform": 46.0, "dcl": 45.5, "dcl_plus": 50.5, "mpt": 50.8,
                 "met": 51.0, "mat": 50.4}  # fmt: skip
STS_REVERSED = {**STS_PUBLISHED, "align_uniform": 54.0, "dcl": 55.0, "dcl_plus": 48.0, "mpt": 47.0}
TRANSFER_PUBLISHED = {"untrained": 70.0, "infonce": 80.0, "align_uniform": 81.0, "dcl": 80.9, "dcl_plus": 80.3,
                      "mpt": 80.6, "met": 80.5, "mat": 80.4}  # fmt: skip
TRANSFER_REVERSED = {**TRANSFER_PUBLISHED, "align_uniform": 75.0, "dcl": 75.5, "mat": 74.0}


def noise(cell, what, size):
    return Random(f"{cell.objective} {cell.seed} {cell.trial} {what}").gauss(0, size)


def labelled(similarity, transfer):
    """Scores of a run on all sets, with one value for each average."""
    scores = {"stsb_test": similarity, **dict.fromkeys(STS, similarity), **dict.fromkeys(TRANSFER, transfer)}
    return {**scores, **dict(zip(AVERAGES, (similarity, transfer), strict=True))}


def curves(cell, overfits=(), size=0.0, shift=0.0, by_seed=0.0):
    """InfoNCE, alignment and uniformity on STS-B dev at each step; the named ones rise again."""
    place = shift + noise(cell, "place", by_seed)
    return [
        {"step": step,
         **{name: values[k] + place + noise(cell, f"{name} {step}", size) + (RISE[k] if name in overfits else 0.0)
            for name, values in FALL.items()}}
        for k, step in enumerate(STEPS if cell.objective != "untrained" else STEPS[:1])
    ]  # fmt: skip


def finished(cell: Cell, validation=50.0, pairs=(), gaps=(), score=None, **scores):
    """A run with its curves; ``score`` gives STS-B dev from a point of the curve."""
    result = fabricated.result(validation, "stsb_dev", 40, **scores)
    history = {str(each["step"]): {"stsb_dev": score(each) if score else validation} for each in pairs}
    measured = [{"step": step, "gap": gap, "with_gradient": 0.2} for step, gap in zip(STEPS, gaps, strict=False)]
    return {**result, "pairs": list(pairs), "training": list(pairs), "measured": measured,
            "history": history or result["history"]}  # fmt: skip


def contest(name, make, scale="small") -> dict[str, Held]:
    return {name: fabricated.held(name, make, scale)}


def both_contests(make, scale="small") -> dict[str, Held]:
    """The tuned objectives, and the longer runs over margins beside other objectives."""
    return {**contest("nie-objectives", make, scale), **contest("nie-margins", make, scale)}


def objectives(sts, transfer, size=0.1, names=None):
    def make(cell):
        values = labelled(sts[cell.objective] + noise(cell, "sts", size),
                          transfer[cell.objective] + noise(cell, "transfer", size))  # fmt: skip
        shown = {name: value for name, value in values.items() if names is None or name in names}
        return finished(cell, gaps=(0.1,), **shown)

    return contest("nie-objectives", make)


GAPS = {"mpt margin=0.05": 0.2, "mpt margin=0.1": 0.3, "mpt margin=0.23": 0.5, "mpt margin=0.4": 0.6,
        "mpt margin=0.8": 0.8, "infonce": 0.5, "align_uniform": 0.8, "dcl": 0.9, "dcl_plus": 0.5,
        "untrained": 0.1}  # fmt: skip
PEAKED = {"mpt margin=0.05": 44.0, "mpt margin=0.1": 47.0, "mpt margin=0.23": 51.0, "mpt margin=0.4": 49.0,
          "mpt margin=0.8": 46.0}  # fmt: skip


def margins(sts, flat=True, size=0.05, growing=("dcl",), overfits=("mpt margin=0.8", "dcl"), worse=("mpt margin=0.1",)):
    def make(cell):
        label, last = cell.objective, GAPS[cell.objective]
        shares = (0.2, 0.4, 0.5, 0.7, 1.0) if label in growing else (0.2, 0.8, 0.97, 0.99, 1.0)
        gaps = [last * share + noise(cell, f"gap {share}", size / 50) for share in shares]
        pairs = curves(cell, ("infonce",) if label in overfits else (), size / 10)
        pairs = [{**each, "uniformity": each["uniformity"] + 0.8 * (label in worse)} for each in pairs]
        score = sts.get(label, 48.0)
        transfer = 80.0 if flat else 80.0 + 3 * (score - 48.0)
        values = labelled(score + noise(cell, "sts", size), transfer + noise(cell, "tr", size))
        return finished(cell, pairs=pairs, gaps=gaps, **values)

    return make
