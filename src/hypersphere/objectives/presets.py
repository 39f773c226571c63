"""Objectives as a peer computes them: its defaults, under its name."""

from __future__ import annotations

from typing import Any

from hypersphere.names import did_you_mean

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    # One direction, temperature .05: the training loss of SimCSE.
    "simcse": {"infonce": {"temperature": 0.05}},
    # 2N anchors, 2N-1 terms, mean over 2N, SimCLR's temperature for CIFAR-10. The authors' code adds the two views'
    # means instead, so it prints twice this value.
    "simclr": {"ntxent": {"temperature": 0.5}},
    # MixCSE's code, with the share of the positive of its paper.
    "mixcse": {"released/mixcse": {"temperature": 0.05, "mix": 0.2}},
    # From 1.5.21 on; earlier versions of its DCL added two separate log-sum-exps.
    "lightly": {
        "ntxent": {"temperature": 0.5},
        "dcl": {"temperature": 0.1, "negatives": "both"},
        "dclw": {"temperature": 0.1, "sigma": 0.5, "negatives": "both"},
        "barlow": {"weight": 5e-3, "normalization": "batch"},
        "vicreg": {"invariance": 25.0, "variance": 25.0, "covariance": 1.0, "eps": 1e-4},
    },
    # MultipleNegativesRankingLoss: scale 20 on cosines, one direction.
    "sentence-transformers": {"infonce": {"temperature": 1 / 20}},
    # GISTEmbedLoss of sentence-transformers: one softmax over all comparisons, the guide's rows in the call.
    "gist": {"guided": {"base": {"name": "infonce", "pool": "all", "temperature": 0.01}}},
    # The rule of Qwen3-Embedding; give the documents' ids too. The temperature is ms-swift's, the report names none.
    "qwen3": {
        "guided": {
            "base": {"name": "infonce", "pool": "all", "temperature": 0.1},
            "source": "self",
            "margin": -0.1,
            "reads": ("cross", "same", "extra"),
        }
    },
    # ClipLoss, and SigLipLoss as --siglip sets it up, with the model's initial logit scale and bias, both learned.
    "open_clip": {
        "infonce": {"temperature": 0.07, "symmetric": True, "learnable": True},
        "siglip": {"temperature": 0.1, "bias": -10.0, "learnable": True},
    },
    # The authors' classes: product of both views' energies; both views' kernels added.
    "dhel-kcl": {
        "dhel": {"temperature": 0.3, "energy": "both"},
        "kcl": {"kernel": "gaussian", "t": 2.0, "gamma": 16.0, "views": "both"},
        "released/kcl": {"kernel": "gaussian", "t": 2.0, "gamma": 16.0, "views": "both"},
    },
}


def preset_parameters(preset: str, objective: str) -> dict[str, Any]:
    """The parameters with which ``objective`` equals the peer's own.

    >>> preset_parameters("simcse", "infonce")
    {'temperature': 0.05}
    """
    if preset not in PRESETS:
        hint = did_you_mean(preset, PRESETS)
        raise ValueError(f"there is no preset {preset!r}{hint} (there are {', '.join(PRESETS)})")
    if objective not in PRESETS[preset]:
        raise ValueError(f"preset {preset!r} has {', '.join(PRESETS[preset])}, not {objective!r}")
    return dict(PRESETS[preset][objective])


def list_presets() -> list[tuple[str, str]]:
    """Every (preset, objective) there is.

    >>> ("open_clip", "siglip") in list_presets()
    True
    """
    return [(preset, objective) for preset, objectives in PRESETS.items() for objective in objectives]
