"""The Rényi loss at order 1, the limit of the orders above: the Kullback-Leibler divergence.

Proof: proofs/rdp.md, Lemma 6
"""

from fractions import Fraction

from sfumato.certified.enclosure import Enclosure, enclose


def bounded_range(bound: Fraction, digits: int) -> Enclosure:
    """Enclose x - 1 - ln x with x = ε/(e^ε - 1): 0.1233 at ε = 1."""
    epsilon = enclose(bound, digits)
    falling = (-epsilon).exp()
    x = epsilon * falling / (-falling + 1)
    return x - 1 - x.ln()


def real_laplace(bound: Fraction, digits: int) -> Enclosure:
    """Enclose ε + e^-ε - 1."""
    epsilon = enclose(bound, digits)
    return epsilon + (-epsilon).exp() - 1


def response(epsilon: Enclosure, categories: int) -> Enclosure:
    """Enclose ε(e^ε - 1)/(e^ε + k - 1); with k = 2 it is ε·tanh(ε/2), the loss of a pure event."""
    falling = (-epsilon).exp()
    return epsilon * (-falling + 1) / (falling * (categories - 1) + 1)


def integer_laplace(sensitivity: int, scale: Fraction, digits: int) -> Enclosure:
    """Enclose (D - 2·E[J])/s, where E[J] = x(1 - x^D)/(1 - x²) and x = e^(-1/s)."""
    x = (-enclose(1 / scale, digits)).exp()
    far = (-enclose(sensitivity / scale, digits)).exp()
    return (-(x * (-far + 1) / (-x * x + 1)) * 2 + sensitivity) / scale
