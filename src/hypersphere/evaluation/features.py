"""Features of a frozen encoder: computed in eval mode, with a check that the encoder does not change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


@contextmanager
def evaluating(encoder: nn.Module) -> Iterator[None]:
    """Inside, the encoder and all its modules are in eval mode; afterwards the mode of each module is restored.

    Raises an error on exit if a buffer has changed: an encoder that learns during evaluation is not frozen.
    """
    modes = {module: module.training for module in encoder.modules()}
    buffers = {name: buffer.clone() for name, buffer in encoder.named_buffers()}
    encoder.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
    changed = [name for name, buffer in encoder.named_buffers() if not torch.equal(buffer, buffers[name])]
    if changed:
        raise ValueError(f"the encoder changed while it was evaluated, although in eval mode: {', '.join(changed)}")


def embed(
    encoder: nn.Module,
    images: Tensor,
    transform: Callable[[Tensor], Tensor] | None = None,
    batch: int = 256,
    device: torch.device | str | None = None,
) -> Tensor:
    """Features (N, dimension) of images (N, C, H, W), batch by batch, in eval mode and without gradients.

    They are computed on the encoder's device, or on ``device``, to which the encoder is then moved. The results are
    kept on the CPU.

    Refuses an encoder whose features depend on the other rows of the batch (batch norm without running statistics,
    a mode of its own): its accuracy would change with the order of the test set.
    """
    transform = transform or nn.Identity()
    device = next((each.device for each in encoder.parameters()), "cpu") if device is None else device
    encoder = encoder.to(device)
    with evaluating(encoder), torch.no_grad():
        features = torch.cat([encoder(transform(part.to(device))).float().cpu() for part in images.split(batch)])
        first = images[: min(len(images), batch, 8)].flip(0)  # in a small batch, and in reverse order
        again = encoder(transform(first.to(device))).float().cpu().flip(0)
    difference = (again - features[: len(again)]).abs().max().item()
    scale = features[: len(again)].abs().max().item()
    if difference > 1e-3 * scale:
        raise ValueError(
            "the encoder's features of an image depend on the other images of the batch (they differ by "
            f"{difference:.3g} where the largest is {scale:.3g}): is there a batch norm without running statistics?"
        )
    return features
