"""How fast is ghost clipping beside plain SGD and Opacus' ghost mode? (on the CPU, one run, interleaved, best of 5)

It needs torch and opacus, which come with no extra of this house's tests.
"""

import warnings
from collections.abc import Callable
from importlib import import_module
from time import perf_counter
from typing import Any

from sfumato.learn.ghost import clipped_sum

ROWS, STEPS, REPEATS = 256, 10, 5
torch: Any = import_module("torch")


def made() -> Any:
    """Return a network of linear layers."""
    layers = torch.nn
    return layers.Sequential(
        layers.Linear(784, 512), layers.ReLU(), layers.Linear(512, 256), layers.ReLU(), layers.Linear(256, 10)
    )


def plain() -> Callable[[], None]:
    module, loss = made(), torch.nn.CrossEntropyLoss(reduction="sum")
    rows, aims = torch.randn(ROWS, 784), torch.randint(0, 10, (ROWS,))

    def step() -> None:
        module.zero_grad()
        loss(module(rows), aims).backward()

    return step


def ghost() -> Callable[[], None]:
    module, loss = made(), torch.nn.CrossEntropyLoss(reduction="sum")
    rows, aims = torch.randn(ROWS, 784), torch.randint(0, 10, (ROWS,))

    def step() -> None:
        clipped_sum(module, loss, rows, aims, 1.0)

    return step


def opacus() -> Callable[[], None]:
    fast = import_module("opacus.grad_sample.grad_sample_module_fast_gradient_clipping")
    losses = import_module("opacus.utils.fast_gradient_clipping_utils")
    module = fast.GradSampleModuleFastGradientClipping(made(), max_grad_norm=1.0, use_ghost_clipping=True)
    optimizer = import_module("opacus.optimizers.optimizer_fast_gradient_clipping").DPOptimizerFastGradientClipping(
        torch.optim.SGD(module.parameters(), lr=0.0),
        noise_multiplier=0.0,
        max_grad_norm=1.0,
        expected_batch_size=ROWS,
    )
    wrapped = losses.DPLossFastGradientClipping(module, optimizer, torch.nn.CrossEntropyLoss(), "mean")
    rows, aims = torch.randn(ROWS, 784), torch.randint(0, 10, (ROWS,))

    def step() -> None:
        optimizer.zero_grad()
        wrapped(module(rows), aims).backward()

    return step


def main() -> None:
    """Time steps of each in turns."""
    warnings.simplefilter("ignore")  # opacus uses hooks that torch warns of
    torch.manual_seed(0)
    steps = {"plain": plain(), "ghost": ghost(), "opacus": opacus()}
    best = dict.fromkeys(steps, float("inf"))
    for repeat in range(REPEATS + 1):
        for name, step in steps.items():
            start = perf_counter()
            for _ in range(STEPS):
                step()
            if repeat:
                best[name] = min(best[name], (perf_counter() - start) / STEPS)
    print(", ".join(f"{name} {1000 * time:.1f} ms" for name, time in best.items()))
    print(
        f"plain / ghost = {best['plain'] / best['ghost']:.2f}; opacus / ghost = {best['opacus'] / best['ghost']:.2f}x"
    )


if __name__ == "__main__":
    main()
