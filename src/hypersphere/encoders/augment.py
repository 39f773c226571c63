"""Random views of images, made for a whole batch at once on the batch's device (kornia).

Every image of a batch gets its own draw. Draws come only from torch's own generator, so restoring its state gives the
same views again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hypersphere.data.draws import seeded
from hypersphere.data.extras import need
from hypersphere.names import did_you_mean

Size = int | Sequence[int]  # a square, or height and width
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


class Normalise(nn.Module):
    """(image - mean) / std, channel by channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or not all(each > 0 for each in std):
            raise ValueError(f"normalise needs as many means as positive stds, not {list(mean)} and {list(std)}")
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[1] != len(self.mean):
            raise ValueError(f"images have {images.shape[1]} channels but normalise has {len(self.mean)}")
        return (images - self.mean.to(images)) / self.std.to(images)


def measure_normalisation(images: Tensor) -> dict[str, list[float]]:
    """Mean and standard deviation of every channel over all images (N, C, H, W) of bytes, in the scale [0, 1].

    Computed from the counts of the 256 values, hence exact and in little memory. A constant channel has std 1.

    >>> measure_normalisation(torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1))
    {'mean': [0.5], 'std': [0.5]}
    """
    values = torch.arange(256, dtype=torch.float64) / 255
    normalisation: dict[str, list[float]] = {"mean": [], "std": []}
    for channel in images.unbind(1):
        share = channel.flatten().bincount(minlength=256).double().cpu() / channel.numel()
        mean = (share * values).sum()
        spread = (share * (values - mean).square()).sum().sqrt().item()
        normalisation["mean"].append(round(mean.item(), 6))
        normalisation["std"].append(round(spread, 6) or 1.0)
    return normalisation


class Augmentation(nn.Module):
    """Views (B, C, height, width) of images (B, C, H, W), floats in [0, 1] or bytes; normalised on request.

    With a seed every call makes the same draws and leaves torch's generator unchanged: for views that must be the same
    every time.
    """

    def __init__(self, views: nn.Module, normalise: Mapping[str, Sequence[float]] | None, seed: int | None) -> None:
        super().__init__()
        self.views = views
        self.normalise = Normalise(**normalise) if normalise else nn.Identity()
        self.seed = seed

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        if images.ndim != 4:
            raise ValueError(f"images must be (B, C, H, W), not {tuple(images.shape)}")
        if images.dtype == torch.uint8:
            images = images.float() / 255
        if self.seed is None:
            made = self.views(images)
        else:
            with seeded(self.seed, images.device):
                made = self.views(images)
        normalised: Tensor = self.normalise(made)
        return normalised


class ByColour(nn.Module):
    """One treatment for images with three channels, another for grey ones."""

    def __init__(self, colour: nn.Module, grey: nn.Module) -> None:
        super().__init__()
        self.colour, self.grey = colour, grey

    def forward(self, images: Tensor) -> Tensor:
        augmented: Tensor = (self.colour if images.shape[1] == 3 else self.grey)(images)
        return augmented


def _pair(size: Size) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else size
    if height < 1 or width < 1:
        raise ValueError(f"the size of images must be at least 1, not {size!r}")
    return height, width


class Resize(nn.Module):
    """Resizes to the given size, with smoothing if it shrinks; leaves an image of that size unchanged."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = _pair(size)

    def forward(self, images: Tensor) -> Tensor:
        if tuple(images.shape[2:]) == self.size:
            return images
        return F.interpolate(images, self.size, mode="bilinear", antialias=True, align_corners=False)


def shift_hue(images: Tensor, angle: Tensor) -> Tensor:
    """Images (B, 3, H, W) in [0, 1] with their hue moved by angles (B,) in radians: kornia's ``adjust_hue``, faster.

    A colour of hue h (in sixths of the circle), smallest channel m and chroma c has channels m + c·w, where w is
    |h - 3| - 1, 2 - |h - 2|, 2 - |h - 4| for red, green, blue, each clamped to [0, 1]. kornia selects among six cases,
    which takes a processor three times as long; the hue is most of the time of an augmentation.
    """
    red, green, blue = images.unbind(1)
    low = torch.minimum(torch.minimum(red, green), blue)
    high = torch.maximum(torch.maximum(red, green), blue)
    chroma = high - low
    of_red, of_green = red == high, green == high
    hue = torch.where(of_red, green - blue, torch.where(of_green, blue - red, red - green))
    hue /= torch.where(chroma > 0, chroma, 1)
    hue += torch.where(of_red, 0.0, torch.where(of_green, 2.0, 4.0))
    hue += angle.to(hue).view(-1, 1, 1) * (3 / math.pi)
    hue.remainder_(6)
    weights = [(hue - 3).abs_() - 1, 2 - (hue - 2).abs_(), 2 - (hue - 4).abs_()]
    return torch.stack(weights, dim=1).clamp_(0, 1).mul_(chroma.unsqueeze(1)).add_(low.unsqueeze(1))


def _jitter(*amounts: float, p: float) -> nn.Module:
    """kornia's colour jitter with a faster hue."""
    jitter: nn.Module = need("kornia.augmentation", "image", "an augmentation").ColorJitter(*amounts, p=p)
    jitter._hue_fn = shift_hue  # type: ignore[assignment]
    return jitter


def _simclr(
    size: Size,
    strength: float = 0.5,
    scale: Sequence[float] = (0.08, 1.0),
    flip: bool = True,
    blur: float = 0.0,
) -> nn.Module:
    """Crop of a random share and shape, flip, jitter (.8s, .8s, .8s, .2s) on 80 %, grey on 20 %, optional blur."""
    kornia = need("kornia.augmentation", "image", "an augmentation")
    s = strength
    steps: list[nn.Module] = [
        kornia.RandomResizedCrop(_pair(size), tuple(scale), cropping_mode="resample", align_corners=False)
    ]
    if flip:
        steps.append(kornia.RandomHorizontalFlip(p=0.5))
    colour = nn.Sequential(_jitter(0.8 * s, 0.8 * s, 0.8 * s, 0.2 * s, p=0.8), kornia.RandomGrayscale(p=0.2))
    steps.append(ByColour(colour, kornia.ColorJitter(0.8 * s, 0.8 * s, 0.0, 0.0, p=0.8)))
    if blur:
        width = max(3, min(_pair(size)) // 10 | 1)  # a tenth of the image, odd
        steps.append(kornia.RandomGaussianBlur((width, width), (0.1, 2.0), p=blur))
    return nn.Sequential(*steps)


def _cloa(
    size: Size, scale: Sequence[float] = (0.8, 1.0), jitter: Sequence[float] = (0.2, 0.2, 0.2, 0.1), flip: bool = False
) -> nn.Module:
    """Resize, colour jitter (.2, .2, .2, .1) on all, crop of at least .8 of the image (Li & Pimentel-Alarcón 2024)."""
    kornia = need("kornia.augmentation", "image", "an augmentation")
    brightness, contrast, saturation, hue = jitter
    steps: list[nn.Module] = [
        ByColour(
            _jitter(brightness, contrast, saturation, hue, p=1.0),
            kornia.ColorJitter(brightness, contrast, 0.0, 0.0, p=1.0),
        ),
        kornia.RandomResizedCrop(_pair(size), tuple(scale), cropping_mode="resample", align_corners=False),
    ]
    if flip:
        steps.append(kornia.RandomHorizontalFlip(p=0.5))
    return nn.Sequential(*steps)


def _shift(
    size: Size, degrees: float = 10.0, translate: float = 0.1, scale: Sequence[float] = (0.85, 1.15), shear: float = 8.0
) -> nn.Module:
    """A small rotation, shift, scaling and shear, as in handwriting; pixels from outside the image are black."""
    kornia = need("kornia.augmentation", "image", "an augmentation")
    turn = kornia.RandomAffine(degrees, (translate, translate), tuple(scale), shear, p=1.0)
    return nn.Sequential(Resize(size), turn)


_VIEWS: dict[str, Callable[..., nn.Module]] = {"simclr": _simclr, "cloa": _cloa, "shift": _shift, "none": Resize}


def create_augmentation(
    name: str,
    size: Size,
    seed: int | None = None,
    normalise: Mapping[str, Sequence[float]] | None = None,
    **options: Any,
) -> Augmentation:
    """Views of the given size; ``normalise`` holds the channels' mean and std, and is applied last.

    | name | options |
    |---|---|
    | simclr | strength .5 of the colours, scale (.08, 1) of the crop, flip, blur 0 (probability) |
    | cloa | scale (.8, 1) of the crop, jitter (.2, .2, .2, .1), no flip |
    | shift | degrees 10, translate .1, scale (.85, 1.15), shear 8: for handwritten digits |
    | none | the image itself, resized if necessary: for evaluation |

    Grey images get the geometry, brightness and contrast; hue, saturation and greying have nothing to act on.

    >>> create_augmentation("none", 8)(torch.zeros(2, 1, 16, 16)).shape
    torch.Size([2, 1, 8, 8])
    """
    if name not in _VIEWS:
        hint = did_you_mean(name, _VIEWS)
        raise ValueError(f"there is no augmentation {name!r}{hint} (there are {', '.join(_VIEWS)})")
    try:
        views = _VIEWS[name](size, **options)
    except TypeError as error:
        raise ValueError(f"the augmentation {name!r} does not take these options: {error}") from None
    return Augmentation(views, normalise, seed)
