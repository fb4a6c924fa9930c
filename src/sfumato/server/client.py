"""A dataset behind a server, used like one that is opened here: `sfumato.connect("https://…", token=…)`."""

import http.client
import json
import re
import ssl
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from fractions import Fraction
from functools import partial
from threading import local
from types import TracebackType
from typing import Any, NoReturn, Self
from urllib.parse import SplitResult, urlsplit

from sfumato.errors import BadParameter, Interface, LedgerUnavailable, quote_value
from sfumato.exact import integer, typed_rational, typed_share
from sfumato.ledger.budget import budget_of_cohort
from sfumato.ledger.history import HISTORY_PAGE_ENTRIES, page_of
from sfumato.ledger.ledger import Budget, Entry
from sfumato.planning.margin_targets import exact_margin
from sfumato.planning.quote import Quote
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source
from sfumato.release.release import Release
from sfumato.server.addresses import is_loopback
from sfumato.server.remote_json import answer_of, budget_of, charge_of, quote_of
from sfumato.server.remote_requests import RemoteRequests
from sfumato.server.statuses import SPEAKER, refusal_of

_TIMEOUT_SECONDS = 150.0
"""A little longer than a server lets a request wait."""
_MAX_REPLY_BYTES = 1 << 30
_DATASET_PATH = re.compile(r"/d/[A-Za-z0-9_.~%-]+/?")
_LOST = (OSError, http.client.HTTPException)


def connect(url: str, *, token: str, context: ssl.SSLContext | None = None) -> "RemoteDatabase":
    """Use the dataset of a server. `context` says which certificates are trusted; the system's, if it is left out."""
    parts = _parts(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not _is_root(parts.path) or parts.username:
        raise BadParameter(
            f"{quote_value(url)} is not the address of a server.",
            "It is https://HOST:PORT/, or https://HOST:PORT/d/NAME/ for one of several datasets.",
            "Copy the line of sfumato serve.",
        )
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token or not token:
        raise BadParameter("This is not a token.", "It is one word of ASCII letters.", "Ask the owner for one.")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise BadParameter(
            f"{quote_value(url)} is on another machine and not encrypted.",
            "The token and the answers would cross the network in clear.",
            "Use https://.",
        )
    return RemoteDatabase(parts.scheme, parts.netloc, token, context, parts.path.rstrip("/"))


def exchange_identity_token(url: str, token: str) -> Mapping[str, Any]:
    """Return a token and a password that end after twelve hours, for a token of the server's identity provider."""
    with connect(url, token=token) as remote:
        drawn: Mapping[str, Any] = remote._fetch("POST", "/login/token", {}, {})
        return drawn


def _is_root(path: str) -> bool:
    return path in ("", "/") or _DATASET_PATH.fullmatch(path) is not None


def _parts(url: object) -> SplitResult:
    try:
        return urlsplit(url) if isinstance(url, str) else urlsplit("")
    except ValueError:  # brackets that do not close
        return urlsplit("")


class RemoteDatabase:
    """A dataset of a server, for the account of one token. Threads may share it."""

    def __init__(
        self, scheme: str, place: str, token: str, context: ssl.SSLContext | None = None, root: str = ""
    ) -> None:
        self._scheme = scheme
        self._place = place
        self._root = root
        """Path of the dataset where the server has several."""
        self._token = token
        self._context = context or (ssl.create_default_context() if scheme == "https" else None)
        self._connections = local()
        self._closed = False

    def ask(
        self,
        sql: str,
        *,
        epsilon: object = None,
        within: object = None,
        share: object = None,
        delta: object = None,
        key: str | None = None,
        parameters: object = None,
    ) -> Release:
        """Return a private answer and charge it, or refuse: as `Database.ask` does.

        A request or answer lost on the way is sent again under the same key, so that it is charged once.
        """
        question = _question(sql, epsilon, within, share, delta, parameters)
        headers = {"Idempotency-Key": _attempt(key)}
        document = self._fetch("POST", "/ask", question, headers)
        receipt = str(document["receipt"]["id"])
        return answer_of(document, lambda level: self._at_level(receipt, level))

    def ask_all(
        self,
        questions: Sequence[str],
        *,
        epsilon: object = None,
        share: object = None,
        delta: object = None,
        weights: object = None,
        within: object = None,
        key: str | None = None,
    ) -> list[Release]:
        """Return the answers of several questions that are charged as one: as `Database.ask_all` does."""
        asked: dict[str, object] = {"questions": _questions(questions), **_price(epsilon, share, delta)}
        if weights is not None:
            asked["weights"] = list(map(str, _entries(weights, "weights")))
        if within is not None:
            asked["within"] = [None if target is None else _margins(target) for target in _entries(within, "within")]
        headers = {"Idempotency-Key": _attempt(key)}

        def again(place: int, level: Fraction) -> Mapping[str, Any]:
            """Ask again, which is free, for another level."""
            body = {**asked, "level": f"{level.numerator}/{level.denominator}"}
            found: Mapping[str, Any] = self._fetch("POST", "/ask_all", body, headers)[place]
            return found

        documents = self._fetch("POST", "/ask_all", asked, headers)
        return [answer_of(document, partial(again, index)) for index, document in enumerate(documents)]

    def explain(
        self,
        sql: str,
        *,
        epsilon: object = None,
        within: object = None,
        share: object = None,
        delta: object = None,
        household: object = None,
        parameters: object = None,
    ) -> Quote:
        """Return price, margins and mechanisms; free. With `household` also the loss of that many people together."""
        question = _question(sql, epsilon, within, share, delta, parameters)
        if household is not None:
            question["household"] = integer(household, "household", 1)
        return quote_of(self._fetch("POST", "/explain", question))

    def reopen(self, receipt: str) -> Release:
        """Return an answer that this account was given before, by the id of its receipt; free."""
        if not (isinstance(receipt, str) and receipt.isascii() and receipt.isalnum()):
            raise BadParameter(
                "This is not a receipt.", "Its id is made of letters and digits.", "Look into the history."
            )
        return answer_of(self._fetch("GET", f"/releases/{receipt}"), lambda level: self._at_level(receipt, level))

    def budget(self, cohort: object = None) -> Budget:
        """Return the account's total, spent and remaining budget: of its fullest cohort, or of one."""
        found = budget_of(self._fetch("GET", "/budget"))
        return found if cohort is None else budget_of_cohort(found, cohort)

    def history(self, limit: object = HISTORY_PAGE_ENTRIES, before: object = None) -> tuple[Entry, ...]:
        """Return the charges of this account, newest first; `reopen` has the answers.

        At most `limit` entries; `before` is the sequence of an entry, and only older ones are returned.
        """
        most, older = page_of(limit, before)
        path = f"/history?limit={most}" + ("" if older is None else f"&before={older}")
        return tuple(charge_of(charge) for charge in self._fetch("GET", path))

    @property
    def requests(self) -> RemoteRequests:
        """Requests for one question beyond an analyst's cap: an analyst files them, the owner decides."""
        return RemoteRequests(self._fetch, _question, self.ask)

    def tables(self) -> dict[str, Any]:
        """Return tables and columns with bounds and keys."""
        document: dict[str, Any] = self._fetch("GET", "/tables")
        return document

    def refresh(self, *_arguments: object, **_options: object) -> NoReturn:
        """Refuse: a new snapshot is taken where the policy is."""
        raise _not_offered("refresh", "sfumato refresh POLICY")

    def verify(self) -> NoReturn:
        """Refuse: the ledger is checked where it lies. The owner's page of the console shows the result."""
        raise _not_offered("verify", "sfumato verify POLICY")

    def statements(self, *_arguments: object, **_options: object) -> NoReturn:
        """Refuse: statements name tables of the bounded copy, which do not leave the server."""
        raise _not_offered("statements", "sfumato explain POLICY SQL --statements")

    def close(self) -> None:
        """Let go of the connection of this thread. Closing twice is fine."""
        self._closed = True
        self._disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RemoteDatabase({self._scheme}://{self._place}{self._root}/)"

    def _at_level(self, receipt: str, level: Fraction) -> Mapping[str, Any]:
        document: Mapping[str, Any] = self._fetch(
            "GET", f"/releases/{receipt}?level={level.numerator}/{level.denominator}"
        )
        return document

    def _fetch(self, method: str, path: str, body: object = None, more: Mapping[str, str] | None = None) -> Any:
        if self._closed:
            raise BadParameter(
                "This connection is closed.", "close() was called.", "Connect again with sfumato.connect."
            )
        content = None if body is None else _encoded(body)
        headers = {"Authorization": f"Bearer {self._token}", SPEAKER: Interface.PYTHON.value, **(more or {})}
        if content is not None:
            headers["Content-Type"] = "application/json"
        status, reply = self._exchange(method, path, content, headers)
        try:
            document = json.loads(reply)
        except (ValueError, RecursionError):
            document = None
        if status == 200 and document is not None:
            return document
        if isinstance(document, dict) and "code" in document:
            raise refusal_of(document)
        raise _lost(self._place)

    def _exchange(self, method: str, path: str, content: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """Send and receive; a connection that was closed meanwhile is opened once more."""
        for last in (False, True):
            try:
                connection = self._connect()
                connection.request(method, self._root + path, content, headers)
                reply = connection.getresponse()
                return reply.status, reply.read(_MAX_REPLY_BYTES)
            except _LOST as failure:
                self._disconnect()
                if last or isinstance(failure, TimeoutError | ssl.SSLError):
                    break
        raise _lost(self._place)

    def _connect(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._connections, "one", None)
        if connection is None:
            if self._context is None:
                connection = http.client.HTTPConnection(self._place, timeout=_TIMEOUT_SECONDS)
            else:
                connection = http.client.HTTPSConnection(self._place, timeout=_TIMEOUT_SECONDS, context=self._context)
            self._connections.one = connection
        return connection

    def _disconnect(self) -> None:
        connection: http.client.HTTPConnection | None = getattr(self._connections, "one", None)
        if connection is not None:
            connection.close()
            self._connections.one = None


def _price(epsilon: object, share: object, delta: object) -> dict[str, object]:
    """Return a price as it is sent."""
    given = {name: value for name, value in (("epsilon", epsilon), ("delta", delta)) if value is not None}
    price: dict[str, object] = {name: str(typed_rational(value, name)) for name, value in given.items()}
    return price if share is None else {**price, "share": str(typed_share(share, "share"))}


def _encoded(body: object) -> bytes:
    """Return a request as JSON, or refuse what JSON does not know."""
    try:
        return json.dumps(body).encode()
    except (TypeError, ValueError, RecursionError):
        refused = BadParameter(
            "One of these values cannot be sent.", "A request is JSON.", "Give texts, numbers, lists and dicts."
        )
    raise refused


def _attempt(key: object) -> str:
    """Return the key of an attempt as a header value: given, or drawn."""
    if key is None:
        return fresh_id(system_source())
    if isinstance(key, str) and key.isascii() and key.isprintable() and key.strip() == key:
        return key
    raise BadParameter(
        "The key is not a word of ASCII letters.",
        "It names one attempt, in a header of the request.",
        "Give a random text, such as a UUID, or leave it out.",
    )


def _questions(texts: object) -> list[str]:
    if isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts):
        return list(texts)
    raise BadParameter(
        f"{quote_value(texts)} is not a list of questions.",
        "Several questions, each a text, are asked together.",
        'Write for example ["SELECT COUNT(*) FROM visits", "SELECT dept, COUNT(*) FROM visits GROUP BY dept"].',
    )


def _entries(values: object, name: str) -> Sequence[object]:
    """Return what was said of each question."""
    if isinstance(values, list | tuple):
        return values
    raise BadParameter(
        f"{name} = {quote_value(values)} is not a list.",
        "It has one entry for each question.",
        "Give a list of as many entries as there are questions.",
    )


def _parameters(values: object) -> object:
    """Return the values of a query as they are sent; dates, timestamps and decimals are tagged."""
    if isinstance(values, Mapping):
        return {str(name): _parameter(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [_parameter(value) for value in values]
    raise BadParameter(
        f"parameters = {quote_value(values)} is neither a list nor a dict.",
        "They are the values of $1, $2, … or of :name.",
        "Write for example parameters=[40] or parameters={'age': 40}.",
    )


def _parameter(value: object) -> object:
    return [_single(item) for item in value] if isinstance(value, list | tuple) else _single(value)


def _single(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return value
        case datetime():
            return {"timestamp": value.isoformat()}
        case date():
            return {"date": value.isoformat()}
    return {"decimal": str(typed_rational(value, "parameters"))}


def _question(
    sql: object, epsilon: object, within: object, share: object, delta: object, parameters: object = None
) -> dict[str, object]:
    """Return a question as it is sent; numbers travel as exact text."""
    if not isinstance(sql, str):
        raise BadParameter("The question is not text.", "It is SQL.", "Give a text.")
    question: dict[str, object] = {"sql": sql, **_price(epsilon, share, delta)}
    if parameters is not None:
        question["parameters"] = _parameters(parameters)
    if within is not None:
        question["within"] = _margins(within)
    return question


def _margins(within: object) -> dict[str, str]:
    if isinstance(within, Mapping):
        return {str(name): exact_margin(margin) for name, margin in within.items()}
    raise BadParameter(
        f"within = {quote_value(within)} names no margins.",
        "It gives columns of the answer the margin that each should have.",
        "Write for example within={'n': 25}.",
    )


def _not_offered(method: str, command: str) -> BadParameter:
    return BadParameter(
        f"{method} is not offered by a server.",
        "It needs the policy and the files beside it.",
        f"The owner runs this where the policy is: {command}.",
    )


def _lost(place: str) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"The server at {place} cannot be reached.",
        "There is none, its certificate is not trusted, or the connection was lost.",
        "Check the address. Asking the same again is free if it was charged.",
    )
