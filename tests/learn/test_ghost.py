"""Ghost clipping is per-row clipping: against torch.func, for every kind of layer. Skipped where torch is missing."""

from typing import Any

import pytest

from sfumato.errors import BadParameter
from sfumato.learn.ghost import clipped_sum

try:
    import torch  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed: ghost clipping was NOT tested")


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    anything: Any = None
    with pytest.raises(BadParameter, match=r"sfumato\[torch\]"):
        clipped_sum(anything, anything, anything, anything, 1.0)


def per_row(module: Any, loss: Any, inputs: Any, targets: Any, clip: float) -> dict[str, Any]:
    """Return the same by a gradient for each row."""
    parameters = {name: value.detach() for name, value in module.named_parameters()}

    def one(given: Any, row: Any, aim: Any) -> Any:
        return loss(torch.func.functional_call(module, given, (row.unsqueeze(0),)), aim.unsqueeze(0)).sum()

    found = torch.func.vmap(torch.func.grad(one), in_dims=(None, 0, 0))(parameters, inputs, targets)
    norms = sum(value.flatten(1).square().sum(1) for value in found.values()).sqrt()
    weights = (clip / norms).clamp_max(1.0)
    return {name: torch.einsum("i,i...->...", weights, value) for name, value in found.items()}


def modules() -> dict[str, tuple[Any, Any]]:
    """Return modules with inputs: lines, sequences, images, tokens."""
    nn = torch.nn
    torch.manual_seed(1)
    return {
        "linear": (nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 3, bias=False)), torch.randn(20, 7)),
        "long sequence": (
            nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(90, 3)),
            torch.randn(9, 30, 4),
        ),
        "short sequence": (nn.Sequential(nn.Linear(8, 9), nn.Flatten(), nn.Linear(18, 3)), torch.randn(9, 2, 8)),
        "conv2": (
            nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)),
            torch.randn(6, 2, 8, 8),
        ),
        "conv1": (nn.Sequential(nn.Conv1d(3, 4, 5, dilation=2), nn.Flatten(), nn.Linear(48, 3)), torch.randn(6, 3, 20)),
        "embedding": (
            nn.Sequential(nn.Embedding(11, 6, padding_idx=0), nn.Flatten(), nn.Linear(48, 3)),
            torch.randint(0, 11, (10, 8)),
        ),
    }


@needs_torch
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["linear", "long sequence", "short sequence", "conv2", "conv1", "embedding"])
def test_it_equals_clipping_row_by_row(name: str, reduction: str) -> None:
    module, inputs = modules()[name]
    targets = torch.randint(0, 3, (len(inputs),))
    loss = torch.nn.CrossEntropyLoss(reduction=reduction)
    for clip in (0.01, 0.5, 1e6):
        found = clipped_sum(module, loss, inputs, targets, clip)
        expected = per_row(module, loss, inputs, targets, clip)
        assert found.keys() == expected.keys()
        whole = torch.cat([value.flatten() for value in expected.values()]).norm()
        for key in expected:
            assert (found[key] - expected[key]).norm() <= 1e-5 * whole
    assert all(parameter.grad is None for parameter in module.parameters())


@needs_torch
def test_what_mixes_rows_or_is_used_twice_is_refused() -> None:
    nn = torch.nn
    loss, rows, aims = nn.CrossEntropyLoss(), torch.randn(4, 3), torch.randint(0, 3, (4,))
    layer = nn.Linear(3, 3)
    other = nn.Linear(3, 3)
    other.weight = layer.weight
    refused = [
        nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)),
        nn.Sequential(layer, layer),
        nn.Sequential(layer, other),
        nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)),
        nn.Sequential(nn.ReLU()),
    ]
    for module in refused:
        with pytest.raises(BadParameter):
            clipped_sum(module, loss, rows, aims, 1.0)
    with pytest.raises(BadParameter):
        clipped_sum(nn.Linear(3, 3), loss, rows, aims, 0.0)
