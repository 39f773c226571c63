"""Why a set-up is known to differ. A reason counts only where the measured verdict is the one it explains."""

from __future__ import annotations

from dataclasses import dataclass

from hypersphere.studies.parity.measure import DIRECTION, FACTOR

BOTH = "Both are right: this is a convention."
OWN_SLICE = "Every process computes the whole loss with a gradient for its own rows alone, and DDP divides by W."
OWN_STATISTICS = "Every process standardises the features with the mean and deviation of its own rows."


@dataclass(frozen=True)
class Reason:
    """``right``: who is right on one process; on several, one process is. ``issue``: where it is discussed, if that is
    known."""

    verdict: str
    why: str
    issue: str = ""
    right: str = ""


# Peer, set-up (its first words are enough), and whether several processes take part.
REASONS: dict[tuple[str, str, bool], Reason] = {
    **{
        ("pytorch-metric-learning", f"DistributedLossWrapper({loss}, efficient=True)", True): Reason(
            DIRECTION,
            "Gathered rows carry no gradient: what a row contributes to the loss of other processes' anchors is lost. "
            "The rest is W times too large, because the mean over the process's own anchors is multiplied by W. The "
            "documentation warns that the gradients differ.",
            "KevinMusgrave/pytorch-metric-learning#380",
        )
        for loss in ("NTXentLoss", "SupConLoss")
    },
    ("lightly", "DCLWLoss", True): Reason(
        DIRECTION, "The weights of the positives are a softmax over the rows of one process, not over the batch."
    ),
    ("lightly", "BarlowTwinsLoss", True): Reason(DIRECTION, OWN_STATISTICS, "facebookresearch/barlowtwins#33"),
    ("open_clip_torch", "ClipLoss(local_loss=False, gather_with_grad=False)", True): Reason(
        FACTOR,
        f"{OWN_SLICE} The scale's gradient is whole, so the temperature learns W times too fast beside the encoder.",
        "mlfoundations/open_clip#616",
    ),
    ("open_clip_torch", "ClipLoss(local_loss=True, gather_with_grad=False)", True): Reason(
        DIRECTION,
        "Each process has the loss of its own anchors, and gathered rows carry no gradient: what a row contributes as "
        "a negative of other processes is lost. Nothing forbids this combination.",
        "mlfoundations/open_clip#894",
    ),
    ("solo-learn", "vicreg_loss_func", False): Reason(
        DIRECTION,
        "It adds the variance terms of the two views, the authors' code averages them; var_loss_weight=12.5 makes them "
        "equal.",
        right=BOTH,
    ),
    ("solo-learn", "barlow_loss_func", True): Reason(
        DIRECTION,
        "torch.distributed.all_reduce has no backward, so the gradient lacks the factor W (the defect that lightly had "
        f"in #1977). {OWN_STATISTICS}",
        "facebookresearch/barlowtwins#8",
    ),
    ("stable-pretraining", "BarlowTwinsLoss", False): Reason(
        DIRECTION,
        "It divides by the unbiased deviation, as the pseudo-code of the paper; the authors' code, lightly, solo-learn "
        "and ours divide by the biased one.",
        right=BOTH,
    ),
    ("stable-pretraining", "BarlowTwinsLoss", True): Reason(
        DIRECTION, OWN_STATISTICS, "facebookresearch/barlowtwins#33"
    ),
    ("GradCache", "DistributedContrastiveLoss", True): Reason(
        FACTOR,
        f"{OWN_SLICE} An example in its README multiplies the loss by W, the class does not.",
        "luyug/GradCache#25",
    ),
    ("tevatron", "DistributedContrastiveLoss(scale_loss=False)", True): Reason(
        FACTOR, f"{OWN_SLICE} scale_loss=True, the default, repairs it.", "texttron/tevatron#30"
    ),
    ("simcse", "cl_forward", True): Reason(FACTOR, OWN_SLICE, "princeton-nlp/SimCSE#212"),
}


def reason(peer: str, options: str, processes: int, verdict: str) -> Reason | None:
    """The known reason for a measured verdict, if there is one."""
    for (name, start, several), known in REASONS.items():
        if (name, several, known.verdict) == (peer, processes > 1, verdict) and options.startswith(start):
            return known
    return None
