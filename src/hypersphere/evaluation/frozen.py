"""Classifiers on frozen features: a linear one, and a small network."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hypersphere.data.draws import seeded
from hypersphere.encoders.heads import projection_head
from hypersphere.evaluation.accuracy import Accuracy, accuracy, check_labelled

# Hidden widths of CLOA's classifiers, for CIFAR-10 and for CIFAR-100 (Li & Pimentel-Alarcón 2024, section 5.1).
CLOA_WIDTHS = {10: (256, 128, 64), 100: (512, 1024, 1024)}
IN_DOUBLE = 50_000_000  # features with at most this many numbers are fitted in float64


def standardise(train_z: Tensor, *others: Tensor) -> list[Tensor]:
    """Every dimension with mean 0 and standard deviation 1 over the training rows; a constant one is only shifted."""
    mean, std = train_z.mean(dim=0), train_z.std(dim=0, unbiased=False)
    std = torch.where(std > 0, std, 1)
    return [(z - mean) / std for z in (train_z, *others)]


def linear_probe(
    train_z: Tensor,
    train_y: Tensor,
    test_z: Tensor,
    test_y: Tensor,
    *,
    l2: float = 1.0,
    classes: int | None = None,
    iterations: int = 500,
) -> Accuracy:
    """Accuracy of multinomial logistic regression on standardised features, fitted by L-BFGS.

    Minimises Σ_i cross entropy(W z_i + b, y_i) + l2/2 ‖W‖². The problem is convex: the solution depends on neither
    seed nor learning rate, unlike that of a linear layer trained for some epochs. The fit ends when the gradient is 0
    or after ``iterations`` steps, and warns if the gradient of the mean loss is then still above 0.001.
    """
    check_labelled(train_z, train_y, "training features")
    check_labelled(test_z, test_y, "test features")
    if not l2 >= 0:
        raise ValueError(f"l2 must be a number of at least 0, not {l2!r}")
    dtype = torch.float64 if train_z.numel() <= IN_DOUBLE else torch.float32
    x, tested = standardise(train_z.to(dtype), test_z.to(dtype))
    count = classes or int(max(train_y.max(), test_y.max())) + 1
    weight, bias = fit_logistic(x, train_y.to(x.device), count, l2, iterations)
    return accuracy(tested @ weight.T + bias, test_y)


def fit_logistic(x: Tensor, y: Tensor, classes: int, l2: float, iterations: int = 500) -> tuple[Tensor, Tensor]:
    """Weights (classes, D) and biases (classes,) of the regression, by L-BFGS."""
    weight = torch.zeros(classes, x.shape[1], dtype=x.dtype, device=x.device, requires_grad=True)
    bias = torch.zeros(classes, dtype=x.dtype, device=x.device, requires_grad=True)
    tolerance = 1e-7 if x.dtype == torch.float64 else 1e-5
    solver = torch.optim.LBFGS(
        [weight, bias],
        max_iter=iterations,
        max_eval=2 * iterations,
        tolerance_grad=tolerance,
        tolerance_change=tolerance**2,
        line_search_fn="strong_wolfe",
    )

    def loss() -> Tensor:
        solver.zero_grad()
        value = F.cross_entropy(x @ weight.T + bias, y) + l2 / (2 * len(x)) * weight.square().sum()
        value.backward()
        return value

    solver.step(loss)
    loss()
    assert weight.grad is not None and bias.grad is not None
    size = max(weight.grad.abs().max().item(), bias.grad.abs().max().item())
    if size > 1e-3:
        warnings.warn(
            f"the linear probe stopped after {iterations} iterations with a gradient of {size:.1e}", stacklevel=3
        )
    return weight.detach(), bias.detach()


def mlp_probe(
    train_z: Tensor,
    train_y: Tensor,
    test_z: Tensor,
    test_y: Tensor,
    *,
    seed: int = 0,
    head: str | Sequence[int] | None = None,
    epochs: int = 100,
    batch: int = 32,
    lr: float = 0.05,
    weight_decay: float = 5e-4,
    standardised: bool = False,
    classes: int | None = None,
) -> Accuracy:
    """Accuracy of a small network on the unscaled features, of CLOA's shape or of the given hidden widths.

    Li & Pimentel-Alarcón 2024 (section 5.1) call this fine-tuning: the encoder is unchanged, and a classifier learns on
    its output, by SGD for 100 epochs in batches of 32. The widths are theirs too (see ``choose_head``). The paper does
    not give the learning rate, momentum .9, decay and cosine schedule of this stage; these are our choice.
    ``standardised``: every feature has mean 0 and standard deviation 1, for features of an unusual scale. It also
    enlarges the small remaining variation of a collapsed encoder, which the paper's protocol does not.
    """
    check_labelled(train_z, train_y, "training features")
    check_labelled(test_z, test_y, "test features")
    count = classes or int(max(train_y.max(), test_y.max())) + 1
    x, tested = train_z.float(), test_z.float()
    if standardised:
        x, tested = standardise(x, tested)
    y = train_y.to(x.device)
    with seeded(seed, x.device):
        network = choose_head(head, x.shape[1], count).to(x.device)
        last = fit_network(network, x, y, lr=lr, weight_decay=weight_decay, epochs=epochs, batch=batch)
    if not math.isfinite(last):
        raise ValueError(
            f"the mlp probe ended at a loss of {last}: choose a learning rate below {lr:g}, or standardised features"
        )
    with torch.no_grad():
        return accuracy(network(tested), test_y)


@torch.no_grad()
def fit_network(
    network: nn.Module, x: Tensor, y: Tensor, *, lr: float, weight_decay: float, epochs: int, batch: int
) -> float:
    """Trains linear layers with ReLU between them by SGD (see ``descent``); returns the loss over all rows at the end.

    A probe takes tens of thousands of steps of some microseconds of arithmetic each, so the gradients are written out
    and all parameters share one vector: a third of autograd's time. Stops after the first epoch that ends with
    parameters that are not finite.
    """
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    parameters = [each for layer in layers for each in (layer.weight, layer.bias)]
    theta = nn.utils.parameters_to_vector(parameters)
    momentum, grad = torch.zeros_like(theta), torch.empty_like(theta)
    sizes = [each.numel() for each in parameters]
    views = [part.view_as(each) for part, each in zip(theta.split(sizes), parameters, strict=True)]
    grads = [part.view_as(each) for part, each in zip(grad.split(sizes), parameters, strict=True)]
    weights, biases = views[::2], views[1::2]
    target = F.one_hot(y, layers[-1].out_features).to(x)
    steps, step = epochs * math.ceil(len(x) / batch), 0
    for _ in range(epochs):
        for rows in batches(len(x), batch, epochs=1):
            inputs = [x[rows]]  # of every layer
            for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
                inputs.append(torch.addmm(bias, inputs[-1], weight.t()).relu_())
            logits = torch.addmm(biases[-1], inputs[-1], weights[-1].t())
            delta = logits.softmax(dim=1).sub_(target[rows]).div_(len(rows))  # ∂ loss / ∂ logits
            for layer in reversed(range(len(layers))):
                torch.mm(delta.t(), inputs[layer], out=grads[2 * layer])
                torch.sum(delta, dim=0, out=grads[2 * layer + 1])
                if layer:
                    delta = torch.ops.aten.threshold_backward(delta @ weights[layer], inputs[layer], 0)  # of ReLU
            grad.add_(theta, alpha=weight_decay)
            torch.add(grad, momentum, alpha=0.9, out=momentum)
            theta.sub_(momentum, alpha=lr * (1 + math.cos(math.pi * step / steps)) / 2)
            step += 1
        if not theta.isfinite().all():
            break
    nn.utils.vector_to_parameters(theta, parameters)
    return float(F.cross_entropy(network(x), y))


def choose_head(head: str | Sequence[int] | None, dimension: int, classes: int) -> nn.Module:
    """A classifier: "linear", or a network of the given hidden widths.

    None: CLOA's, 256-128-64 as for CIFAR-10 for up to 64 classes, 512-1024-1024 as for CIFAR-100 beyond.
    """
    if head == "linear":
        return nn.Linear(dimension, classes)
    if isinstance(head, str):
        raise ValueError(f"head must be 'linear' or hidden widths such as (256, 128, 64), not {head!r}")
    if head is None:
        head = CLOA_WIDTHS[10 if classes <= CLOA_WIDTHS[10][-1] else 100]
    return projection_head("mlp", dimension, output=classes, hidden=head)


def batches(rows: int, size: int, epochs: int) -> Iterator[Tensor]:
    """Row numbers of every step: each epoch in a new order, in parts of nearly equal size (none of a single row)."""
    for _ in range(epochs):
        yield from torch.randperm(rows).tensor_split(math.ceil(rows / size))


def descent(
    network: nn.Module, lr: float, weight_decay: float, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """SGD with momentum .9 whose rate falls to 0 along a cosine."""
    optimiser = torch.optim.SGD(network.parameters(), lr=lr, momentum=0.9, weight_decay=weight_decay)
    return optimiser, torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=steps)
