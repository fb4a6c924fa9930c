"""The smallest reach that covers: found by galloping from a guess, decided by certified comparisons only."""

from collections.abc import Callable
from fractions import Fraction


def smallest_covering(covers: Callable[[int], bool], guess: float | Fraction) -> int:
    """Return the smallest t >= 0 with covers(t), for a `covers` that is false up to some t and true from there on.

    The guess decides how long it takes, never what comes out.

    >>> smallest_covering(lambda t: t >= 1000, guess=990.0), smallest_covering(lambda t: t >= 0, guess=-3.0)
    (1000, 0)
    """
    above = max(0, int(guess))
    stride = 1
    if covers(above):
        below = above - 1
        while below >= 0 and covers(below):
            above, below, stride = below, max(-1, below - stride), 2 * stride
    else:
        below, above = above, above + 1
        while not covers(above):
            below, above, stride = above, above + 2 * stride, 2 * stride
    while above - below > 1:
        middle = (above + below) // 2
        above, below = (middle, below) if covers(middle) else (above, middle)
    return above
