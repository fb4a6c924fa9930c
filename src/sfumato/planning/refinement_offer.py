"""What a finer answer to the same question costs more: the offer that every interface shows beside an answer."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.accounting.loss import round_up
from sfumato.errors import Refusal
from sfumato.exact import typed_rational
from sfumato.planning.quote import AnswerSource, Quote

_MAX_DOUBLINGS = 4
"""How often epsilon is doubled to find a price that buys more than is known already."""
_USES_EARLIER_ANSWERS = (AnswerSource.REFINED, AnswerSource.COMBINED)


@dataclass(frozen=True, slots=True)
class RefinementOffer:
    """The price to ask the same question at again, and the quote of that."""

    price: Mapping[str, Any]
    """`epsilon`, or `within` by column."""
    quote: Quote

    @property
    def label(self) -> str:
        """What it costs more, for a button."""
        return f"Refine for {round_up(self.quote.loss.epsilon)} more"

    @property
    def bought(self) -> str:
        """The margins that it buys."""
        return self.quote.bought().removeprefix(", ")

    def sentence(self, way: str) -> str:
        """Return the offer in one sentence that ends with how to take it up."""
        bought = f" ({self.bought})" if self.bought else ""
        return f"{self.label}{bought}: {way}"

    @property
    def margin(self) -> tuple[str, str] | None:
        """The column and the margin that it asks for; None where epsilon decides."""
        given = self.price.get("within")
        return next(iter(given.items())) if isinstance(given, dict) else None

    @property
    def options(self) -> str:
        """The options of `sfumato ask` that take it up."""
        if self.margin is None:
            return f"--epsilon {self.price['epsilon']}"
        return f"--within {shlex.quote('='.join(self.margin))}"

    @property
    def setting(self) -> str:
        """The statement that sets its price for a client of the wire protocol."""
        if self.margin is None:
            return f"SET sfumato.epsilon = '{self.price['epsilon']}'"
        return "SET sfumato.within = '{}'".format(" = ".join(self.margin).replace("'", "''"))


def explain_with_offer(
    explain: Callable[..., Quote], sql: str, *, parameters: object = None, **price: object
) -> tuple[Quote, RefinementOffer | None]:
    """Return the quote of a question and, if its answer is free, what a finer one costs more.

    `explain` is that of the account: it is free, and reads no private data. Where a finer answer would cost its full
    price there is no offer. A positive epsilon that was given is doubled; otherwise the first margin is halved.
    """
    quote = explain(sql, parameters=parameters, **price)
    fresh = quote.loss_if_new
    if fresh is None or not fresh.epsilon:
        return quote, None
    doubled = (round_up(fresh.epsilon * 2**power) for power in range(1, _MAX_DOUBLINGS + 1))
    offered: Iterable[Mapping[str, Any]] = ({"epsilon": epsilon} for epsilon in doubled)
    halved = [{"within": {name: f"{margin / 2:.6g}"}} for name, margin in quote.margins.items() if margin][:1]
    if halved and (price.get("epsilon") is None or _is_zero(price["epsilon"])):
        offered = halved
    for price_tried in offered:
        try:
            found = explain(sql, parameters=parameters, **price_tried)
        except Refusal:
            break
        if found.loss.epsilon:
            fits = found.used_after is not None and found.used_after <= 1
            return quote, RefinementOffer(
                price_tried, found
            ) if fits and found.source in _USES_EARLIER_ANSWERS else None
    return quote, None


def _is_zero(typed: object) -> bool:
    return typed is not None and typed_rational(str(typed).strip().removesuffix("%").rstrip(), "price") == 0
