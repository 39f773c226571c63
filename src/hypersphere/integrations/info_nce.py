"""Any objective in the call form of info-nce-pytorch.

loss = hs.integrations.info_nce.Loss(temperature=0.1, negative_mode="paired")
loss(query, positive_key, negative_keys).backward()
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from hypersphere.integrations.call_forms import require_positives, require_tensor
from hypersphere.objectives import create_objective


class Loss(nn.Module):
    """An objective called as InfoNCE is; "infonce" equals it.

    negative_mode: "unpaired": negative_keys (M, D) are negatives of every query; "paired": (N, M, D) are each query's
        own. Either replaces the other rows of the batch as negatives; without negative_keys these are the negatives.
    """

    def __init__(self, objective: str = "infonce", *, negative_mode: str = "unpaired", **settings: Any) -> None:
        super().__init__()
        if negative_mode not in ("unpaired", "paired"):
            raise ValueError(f"negative_mode must be 'unpaired' or 'paired', not {negative_mode!r}")
        self.negative_mode = negative_mode
        if objective == "infonce":
            settings.setdefault("temperature", 0.1)
        self.objective = create_objective(objective, **settings)

    def forward(self, query: Tensor, positive_key: Tensor, negative_keys: Tensor | None = None) -> Tensor:
        require_positives(positive_key, "positive_key")
        expected = {"unpaired": "(M, D)", "paired": "(N, M, D)"}[self.negative_mode]
        if negative_keys is not None:
            require_tensor(negative_keys, "negative_keys", expected)
        if negative_keys is not None and negative_keys.ndim != expected.count(",") + 1:
            shape = tuple(negative_keys.shape)
            raise ValueError(
                f"negative_keys must be {expected} if negative_mode is {self.negative_mode!r}, not {shape}"
            )
        in_batch = negative_keys is None
        loss: Tensor = self.objective(query, positive_key, negatives=negative_keys, in_batch=in_batch)
        return loss
