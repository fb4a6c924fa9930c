"""How far the model would move if the noise had come out otherwise: parametric redraws, from a public seed.

The model stands in for the truth: noise of the measured size is added to its components, and the weights are fitted
again from where they are.
"""

from math import prod, sqrt
from time import monotonic

import numpy as np

from sfumato.synthesis.combining import Component, JointEstimate, component
from sfumato.synthesis.domain import Floats
from sfumato.synthesis.model import Fitted, fit_weights, targets, uniforms
from sfumato.synthesis.rows import count_rows

REDRAWN_FITS = 50
"""Number of fits with redrawn noise."""
MIN_REDRAWN_FITS = 10
"""Minimum number of such fits, also when time is short."""
REFIT_STEPS = 12
"""Number of steps of a fit that starts at the model."""


def redraw(combined: JointEstimate, fitted: Fitted, seed: bytes, seconds: float) -> list[tuple[float, Floats]]:
    """Return totals and weights of the model under other noise."""
    truth = {
        axes: max(combined.total, 1.0)
        * component(
            count_rows([fitted.rows[axis] for axis in axes], [combined.sizes[axis] for axis in axes], fitted.weights)
            if axes
            else np.ones(()),
            axes,
            axes,
        )
        for axes in combined.parts
    }
    start = np.log(np.maximum(fitted.weights, 1e-12))
    begun, found = monotonic(), []
    for time in range(REDRAWN_FITS):
        if time >= MIN_REDRAWN_FITS and monotonic() - begun > seconds:
            break
        parts = {}
        for axes, known in combined.parts.items():
            shape = tuple(combined.sizes[axis] for axis in axes)
            noise = sqrt(known.variance) * normals(seed, f"redraw {time} {axes}", prod(shape)).reshape(shape)
            parts[axes] = Component(truth[axes] + component(noise, axes, axes), known.variance)
        other = JointEstimate(combined.sizes, parts)
        weights, _, _ = fit_weights(fitted.rows, targets(other), combined.sizes, steps=REFIT_STEPS, start=start)
        found.append((max(other.total, 0.0), weights))
    return found


def normals(seed: bytes, purpose: str, count: int) -> Floats:
    """Return numbers that look normal and follow from a public seed [Box, Muller 1958]."""
    luck = uniforms(seed, purpose, 2 * count)
    return np.sqrt(-2.0 * np.log1p(-luck[:count])) * np.cos(2 * np.pi * luck[count:])
