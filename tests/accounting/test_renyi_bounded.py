"""Releases whose Rényi losses are known at a few orders: at every other order no less than a release that is one."""

from fractions import Fraction

import pytest
from mpmath import mp, mpf
from tests.laws.divergence import real

from sfumato.accounting import pld, pure, rdp, zcdp
from sfumato.accounting.event import Neighbours, RenyiBounded, Repeated
from sfumato.accounting.group import group_event
from sfumato.errors import BadParameter

ADD = Neighbours.ADD_REMOVE
COINS = (("0.02", "0.01"), ("0.0001", "0.00003"), ("0.5", "0.3"), ("0.999", "0.99"), ("1e-9", "1e-12"))
ORDERS = (2, 5, 40)


def loss(one: str, other: str, order: Fraction) -> Fraction:
    """The Rényi loss of two coins, the larger of both directions, rounded up in its 30th digit."""
    with mp.workdps(50):
        coins = [(mpf(rate), 1 - mpf(rate)) for rate in (one, other)]
        at = real(order)
        ways = (coins, coins[::-1])
        most = max(mp.log(mp.fsum(p**at * q ** (1 - at) for p, q in zip(*way, strict=True))) for way in ways)
        return Fraction(mp.nstr(most / (at - 1), 40)) * (1 + Fraction(1, 10**30))


def known(one: str, other: str) -> RenyiBounded:
    """What is known of two coins: their largest ratio, and their losses at three orders."""
    with mp.workdps(50):
        largest = max(mp.log(mpf(one) / mpf(other)), mp.log((1 - mpf(other)) / (1 - mpf(one))))
        epsilon = Fraction(mp.nstr(largest, 40)) * (1 + Fraction(1, 10**30))
    return RenyiBounded(epsilon, ORDERS, tuple(loss(one, other, Fraction(order)) for order in ORDERS), ADD)


@pytest.mark.parametrize(("one", "other"), COINS)
def test_at_no_order_is_the_loss_of_coins_above_what_follows_from_what_is_known(one: str, other: str) -> None:
    event = known(one, other)
    orders = [Fraction(tenths, 10) for tenths in (11, 15, 20, 25, 45, 50, 70, 300, 400, 410, 900, 40000)]
    found = [Fraction(rdp.loss(event, order)) for order in orders]
    assert all(loss(one, other, order) <= bound for order, bound in zip(orders, found, strict=True))
    assert found == sorted(found)
    assert found[-1] <= event.epsilon
    for order in ORDERS:  # and there it is exact
        assert rdp.loss(event, order) == pytest.approx(float(loss(one, other, Fraction(order))))


@pytest.mark.parametrize(("one", "other"), COINS)
def test_every_accountant_knows_it(one: str, other: str) -> None:
    event = known(one, other)
    assert pure.epsilon(event) == event.epsilon
    assert zcdp.rho(event) <= float(event.epsilon)
    lower, upper = pld.bounds(Repeated(event, 20), "1e-6")
    assert lower <= upper <= rdp.epsilon(Repeated(event, 20), "1e-6") * (1 + 1e-9)
    assert pure.epsilon(group_event(event, 3)) == 3 * event.epsilon


@pytest.mark.parametrize("orders", [(), (1,), (3, 2), (4, 4)])
def test_orders_rise_from_2_on(orders: tuple[int, ...]) -> None:
    with pytest.raises(BadParameter):
        RenyiBounded(Fraction(1), orders, tuple(Fraction(1) for _ in orders), ADD)
