"""The smallest reach that covers: found by galloping from a guess, decided by certified comparisons only."""

from collections.abc import Callable
from fractions import Fraction


def smallest_covering(covers: Callable[[int], bool], guess: float | Fraction, least: int | None = 0) -> int:
    """Return the smallest t >= least with covers(t), for a `covers` that is false up to some t and true from there on.

    The guess decides how long it takes, never what comes out. With least = None every integer may be the answer.

    >>> smallest_covering(lambda t: t >= 1000, guess=990.0), smallest_covering(lambda t: t >= -5, guess=0)
    (1000, 0)
    >>> smallest_covering(lambda t: t >= -1000, guess=0, least=None)
    -1000
    """
    above, stride = int(guess) if least is None else max(least, int(guess)), 1
    if covers(above):
        below = above - 1
        while (least is None or below >= least) and covers(below):
            above, below, stride = below, below - stride, 2 * stride
            below = below if least is None else max(least - 1, below)
    else:
        below, above = above, above + 1
        while not covers(above):
            below, above, stride = above, above + 2 * stride, 2 * stride
    while above - below > 1:
        middle = (above + below) // 2
        above, below = (middle, below) if covers(middle) else (above, middle)
    return above
