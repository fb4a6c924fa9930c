"""Sum clipped gradients of torch modules without storing a gradient per row: ghost norms, then one weighted product.

For `torch` (`pip install 'sfumato[torch]'`). It computes in floats: adding noise to the result on a grid requires a
bound on its rounding. `MLPClassifier` uses integers instead. [Goodfellow 2015; Li et al. 2022]
"""

from collections.abc import Callable
from typing import Any

from sfumato.errors import BadParameter
from sfumato.release.rendering.export import optional

Tensor = Any


def clipped_sum(
    module: Any, loss: Callable[[Tensor, Tensor], Tensor], inputs: Tensor, targets: Tensor, clip: float
) -> dict[str, Tensor]:
    """Return Σ gᵢ·min(1, clip / ‖gᵢ‖) for every trainable parameter, gᵢ the gradient of row i over all of them.

    `loss(outputs, targets)` is asked for one row at a time, so that it may be a mean, a sum or one number per row.
    Linear, Conv1d, Conv2d and Embedding layers may have parameters. BatchNorm mixes rows, and a parameter that is used
    twice has cross terms: both are refused.
    """
    torch = optional("torch", "torch")
    if not clip > 0:
        raise BadParameter("clip is not positive.", "It is the greatest length of a row's gradient.", "Give clip=1.0.")
    layers = _layers(torch, module)
    outputs, seen = _run_forward(module, layers, inputs)
    single = torch.func.vmap(lambda out, aim: loss(out.unsqueeze(0), aim.unsqueeze(0)).sum(), randomness="different")
    total = single(outputs, targets).sum()
    used = [name for name in layers if name in seen]
    slopes = torch.autograd.grad(total, [seen[name][1] for name in used])
    parts = {
        name: _FORMS[_layer_kind(torch, layers[name])](torch, layers[name], seen[name][0], slope)
        for name, slope in zip(used, slopes, strict=True)
    }
    norms = sum((part[0] for part in parts.values()), torch.zeros(len(outputs), device=outputs.device)).sqrt()
    weights = (clip / norms.clamp_min(1e-30)).clamp_max(1.0)
    found: dict[str, Tensor] = {}
    for name, (_, sum_gradients) in parts.items():
        prefix = f"{name}." if name else ""
        found |= {f"{prefix}{own}": value for own, value in sum_gradients(weights).items()}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and name not in found:
            found[name] = torch.zeros_like(parameter)
    return {name: found[name] for name, parameter in module.named_parameters() if parameter.requires_grad}


def _layer_kind(torch: Any, layer: Any) -> str:
    kinds = {
        "linear": torch.nn.Linear,
        "conv1": torch.nn.Conv1d,
        "conv2": torch.nn.Conv2d,
        "embedding": torch.nn.Embedding,
    }
    return next((kind for kind, layer_class in kinds.items() if type(layer) is layer_class), "")


def _layers(torch: Any, module: Any) -> dict[str, Any]:
    """Return the layers that have trainable parameters; refuse what has no form here."""
    found: dict[str, Any] = {}
    owners: set[int] = set()
    for name, layer in module.named_modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            raise BadParameter(
                "The module has a BatchNorm.",
                "It mixes rows: a single row has no separate gradient.",
                "Use GroupNorm without parameters.",
            )
        own = [parameter for parameter in layer.parameters(recurse=False) if parameter.requires_grad]
        if not own:
            continue
        if not _layer_kind(torch, layer) or not _is_plain(layer):
            raise BadParameter(
                f"{type(layer).__name__} with these options has no ghost norm here.",
                "Linear, Conv1d, Conv2d (one group, zeros as padding) and Embedding have.",
                "Freeze its parameters, or replace it.",
            )
        if owners & {id(parameter) for parameter in own}:
            raise _has_shared_parameters()
        owners |= {id(parameter) for parameter in own}
        found[name] = layer
    if not found:
        raise BadParameter("The module has no trainable parameter.", "There is nothing to sum.", "Unfreeze some.")
    return found


def _has_shared_parameters() -> BadParameter:
    return BadParameter(
        "A parameter is used in two places.", "Its gradient has cross terms that ghost norms leave out.", "Untie it."
    )


def _is_plain(layer: Any) -> bool:
    if hasattr(layer, "groups"):
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    if hasattr(layer, "num_embeddings"):
        return layer.max_norm is None and not layer.scale_grad_by_freq and not layer.sparse
    return True


def _run_forward(
    module: Any, layers: dict[str, Any], inputs: Tensor
) -> tuple[Tensor, dict[str, tuple[Tensor, Tensor]]]:
    """Run the module once; return its outputs, and what went into and came out of each layer."""
    seen: dict[str, tuple[Tensor, Tensor]] = {}
    twice: list[str] = []

    def remember(name: str) -> Callable[[Any, tuple[Tensor, ...], Tensor], None]:
        def hook(_: Any, given: tuple[Tensor, ...], out: Tensor) -> None:
            if name in seen:
                twice.append(name)
            seen[name] = (given[0].detach(), out)

        return hook

    handles = [layer.register_forward_hook(remember(name)) for name, layer in layers.items()]
    try:
        outputs = module(inputs)
    finally:
        for handle in handles:
            handle.remove()
    if twice:
        raise _has_shared_parameters()
    return outputs, seen


GradientPart = tuple[Tensor, Callable[[Tensor], dict[str, Tensor]]]
"""The squared norms of rows, and the weighted sum of their gradients."""


def _linear_gradients(torch: Any, layer: Any, inputs: Tensor, slope: Tensor) -> GradientPart:
    rows = len(inputs)
    return _outer(torch, layer, inputs.reshape(rows, -1, inputs.shape[-1]), slope.reshape(rows, -1, slope.shape[-1]))


def _conv2(torch: Any, layer: Any, inputs: Tensor, slope: Tensor) -> GradientPart:
    patches = torch.nn.functional.unfold(
        inputs, layer.kernel_size, dilation=layer.dilation, padding=layer.padding, stride=layer.stride
    )
    return _outer(torch, layer, patches.transpose(1, 2), slope.flatten(2).transpose(1, 2))


def _conv1(torch: Any, layer: Any, inputs: Tensor, slope: Tensor) -> GradientPart:
    patches = torch.nn.functional.unfold(
        inputs.unsqueeze(2),
        (1, layer.kernel_size[0]),
        dilation=(1, layer.dilation[0]),
        padding=(0, layer.padding[0]),
        stride=(1, layer.stride[0]),
    )
    return _outer(torch, layer, patches.transpose(1, 2), slope.transpose(1, 2))


def _outer(torch: Any, layer: Any, below: Tensor, slope: Tensor) -> GradientPart:
    """Return the part of a layer whose gradient is Σ_s b_s ⊗ a_s: a is (rows, places, in), b (rows, places, out)."""
    places = below.shape[1]
    weighted, biased = layer.weight.requires_grad, layer.bias is not None and layer.bias.requires_grad
    norms = torch.zeros(len(below), device=below.device, dtype=slope.dtype)
    if weighted and places == 1:
        norms = norms + below.square().sum((1, 2)) * slope.square().sum((1, 2))
    elif weighted and below.shape[2] * slope.shape[2] < places * places:
        norms = norms + torch.bmm(slope.transpose(1, 2), below).square().sum((1, 2))
    elif weighted:
        norms = norms + (torch.bmm(below, below.transpose(1, 2)) * torch.bmm(slope, slope.transpose(1, 2))).sum((1, 2))
    if biased:
        norms = norms + slope.sum(1).square().sum(1)

    def sum_gradients(weights: Tensor) -> dict[str, Tensor]:
        scaled = (slope * weights.view(-1, 1, 1)).flatten(0, 1)
        found = {"weight": (scaled.T @ below.flatten(0, 1)).view_as(layer.weight)} if weighted else {}
        return found | ({"bias": scaled.sum(0)} if biased else {})

    return norms.clamp_min(0), sum_gradients


def _embedding(torch: Any, layer: Any, inputs: Tensor, slope: Tensor) -> GradientPart:
    tokens, slope = inputs.reshape(len(inputs), -1), slope.reshape(len(inputs), -1, slope.shape[-1])
    if layer.padding_idx is not None:
        slope = slope * (tokens != layer.padding_idx).unsqueeze(2)
    same = (tokens.unsqueeze(1) == tokens.unsqueeze(2)).to(slope.dtype)
    norms = (same * torch.bmm(slope, slope.transpose(1, 2))).sum((1, 2))

    def sum_gradients(weights: Tensor) -> dict[str, Tensor]:
        scaled = (slope * weights.view(-1, 1, 1)).flatten(0, 1)
        return {"weight": torch.zeros_like(layer.weight).index_add(0, tokens.flatten(), scaled).detach()}

    return norms.clamp_min(0), sum_gradients


_FORMS: dict[str, Callable[[Any, Any, Tensor, Tensor], GradientPart]] = {
    "linear": _linear_gradients,
    "conv1": _conv1,
    "conv2": _conv2,
    "embedding": _embedding,
}
