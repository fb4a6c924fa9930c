"""The pages for programs: questions, prices, budget, history, tables, kept answers."""

from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.errors import BadParameter, NotFound, NotGranted, UnknownName
from sfumato.exact import decimal_rational, probability
from sfumato.ledger.history import HISTORY_PAGE_ENTRIES
from sfumato.ledger.ledger import Entry
from sfumato.release.receipt import Receipt
from sfumato.release.release import Release
from sfumato.release.rendering.account_documents import budget_document
from sfumato.release.rendering.documents import LEVEL, quote_document
from sfumato.server.formats import encoder, requested_format
from sfumato.server.gate import Caller, Gateway
from sfumato.server.grants import OWNER
from sfumato.server.metrics import MEDIA_TYPE, opens_metrics
from sfumato.server.openapi import description
from sfumato.server.reading import read_explained, read_question, read_questions
from sfumato.server.remote_json import answer_document, charge_document
from sfumato.server.replies import (
    MEDIA,
    EncodedReply,
    count_bytes,
    counted_reply,
    file_reply,
    json_bytes,
    json_reply,
)
from sfumato.server.requests import body_of, caller_of, gate_of, require_json
from sfumato.server.tables import tables_document

T = TypeVar("T")
MAX_HISTORY_ENTRIES = 1000
"""Maximum number of entries in one reply of /history."""


async def ask(request: Request) -> Response:
    """Answer a question and charge it, as JSON, CSV, Arrow or Parquet. Repeats of one Idempotency-Key are one charge.

    Invalid requests are refused before the charge.
    """
    caller = caller_of(request)
    require_json(request)
    form, level = requested_format(request), _level(request)
    question = read_question(await body_of(request))
    gate, encode = gate_of(request), encoder(request, form, level)

    def render(release: Release) -> tuple[Receipt, EncodedReply]:
        return release.receipt, encode(release)

    receipt, content = await gate.ask(caller, question.sql, render, key=_key(request), **question.price)
    if form == "json":
        reply = counted_reply(request, content)
    else:
        reply = file_reply(request, content, form, f"{file_name(gate.policy.name)}-{receipt.id[:12]}")
    reply.headers["sfumato-receipt"] = receipt.id
    reply.headers["sfumato-epsilon"], reply.headers["sfumato-delta"] = (
        str(receipt.loss.epsilon),
        str(receipt.loss.delta),
    )
    return reply


def _level(request: Request) -> Fraction:
    return probability(decimal_rational(request.query_params.get("level", LEVEL), "level"), "level")


async def ask_all(request: Request) -> Response:
    """Answer several questions as one charge. Header Idempotency-Key: repeats of one key are one charge."""
    caller = caller_of(request)
    require_json(request)
    workload = read_questions(await body_of(request))
    gate = gate_of(request)
    level = LEVEL if workload.level is None else workload.level

    def encode(releases: list[Release]) -> bytes:
        return json_bytes([answer_document(release, level) for release in releases])

    render = count_bytes(request, encode)
    return counted_reply(
        request, await gate.ask_all(caller, workload.questions, render, key=_key(request), **workload.price)
    )


def _key(request: Request) -> str | None:
    keys = request.headers.getlist("idempotency-key")
    if len(keys) > 1:
        raise BadParameter("There are two keys.", "Idempotency-Key names one attempt.", "Send one.")
    return keys[0] if keys else None


async def explain(request: Request) -> Response:
    """Say what a question would cost, and how near the answer would be; free."""
    caller = caller_of(request)
    require_json(request)
    question = read_explained(await body_of(request))
    quote = await gate_of(request).explain(caller, question.sql, **question.price)
    return json_reply({**quote_document(quote), "text": str(quote)})


async def budget(request: Request) -> Response:
    """Show what may be spent, was spent, and is left, and the price of a question that names none."""
    gate, caller = gate_of(request), caller_of(request)
    document = budget_document(await gate.budget(caller))
    price = gate.database(caller).policy.default_price(caller.account)
    return json_reply(document if price is None else {**document, "price": price})


async def history(request: Request) -> Response:
    """List what this account asked and was charged for, newest first: `limit` entries older than `before`."""
    caller = caller_of(request)
    limit, before = history_page(request)

    def encode(entries: tuple[Entry, ...]) -> bytes:
        return json_bytes([charge_document(entry) for entry in entries])

    return counted_reply(request, await gate_of(request).history(caller, limit, before, count_bytes(request, encode)))


def history_page(request: Request) -> tuple[int, int | None]:
    """Return which page of the history a request names."""
    limit = _positive(request, "limit", HISTORY_PAGE_ENTRIES) or HISTORY_PAGE_ENTRIES
    if limit > MAX_HISTORY_ENTRIES:
        raise BadParameter(
            f"limit = {limit} is more than {MAX_HISTORY_ENTRIES:,}.",
            "A page of the history has a limit.",
            "Ask for the next page with before = SEQUENCE of the last entry.",
        )
    return limit, _positive(request, "before", None)


def _positive(request: Request, name: str, default: int | None) -> int | None:
    texts = request.query_params.getlist(name)
    if not texts:
        return default
    if len(texts) == 1 and texts[0].isascii() and texts[0].isdigit() and 0 < len(texts[0]) < 18 and int(texts[0]):
        return int(texts[0])
    raise BadParameter(
        f"`{name}` is not a positive integer.", "It selects a page of the history.", f"Write {name}=100."
    )


async def tables(request: Request) -> Response:
    """List tables and columns with bounds and keys."""
    database = gate_of(request).database(caller_of(request))
    return json_reply(tables_document(database.visible_policy, database.catalog))


async def release(request: Request) -> Response:
    """Give a kept answer again, as JSON, CSV, Arrow or Parquet; free."""
    caller, gate = caller_of(request), gate_of(request)
    receipt, form = requested_file(request)
    content = await reopen_release(gate, caller, receipt, encoder(request, form, _level(request)))
    if form == "json":
        return counted_reply(request, content)
    return file_reply(request, content, form, f"{file_name(gate.policy.name)}-{receipt[:12]}")


async def health(_request: Request) -> Response:
    """Tell that the server answers."""
    return json_reply({"status": "ok"})


async def ready(request: Request) -> Response:
    """Tell whether the server can answer questions now: 200 or 503, and which checks hold."""
    checks = await gate_of(request).check_ready()
    holds = all(checks.values())
    return json_reply({"status": "ready" if holds else "not ready", "checks": checks}, 200 if holds else 503)


async def metrics(request: Request) -> Response:
    """Give counts, times and budgets to Prometheus; for the owner's token, or the token of the environment."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if not (scheme.lower() == "bearer" and opens_metrics(token.strip())) and caller_of(request).account != OWNER:
        raise NotGranted()
    content = await gate_of(request).render_metrics(request.scope["load"])
    return Response(content, media_type=MEDIA_TYPE)


async def openapi(request: Request) -> Response:
    """Describe these pages."""
    caller_of(request)
    return json_reply(description(str(request.scope.get("root_path", ""))))


async def reopen_release(gate: Gateway, caller: Caller, receipt: str, render: Callable[[Release], T]) -> T:
    """Return a kept answer as it is rendered, or refuse with what a browser understands as a page that is not there."""
    try:
        return await gate.release(caller, receipt, render)
    except UnknownName as unknown:
        missing = NotFound(unknown.what, unknown.why, unknown.remedy)
    raise missing


def requested_file(request: Request) -> tuple[str, str]:
    """Return the receipt and the format that a request names: by the ending of the path, or by `format`."""
    name, dot, ending = str(request.path_params["receipt"]).partition(".")
    form = ending if dot else request.query_params.get("format", "json")
    if form in MEDIA and name.isascii() and name.isalnum():
        return name, form
    raise NotFound(
        "There is no such answer.",
        f"Answers are fetched by their receipt, as {', '.join(MEDIA)}.",
        "Look into /history.",
    )


def file_name(name: str) -> str:
    """Return a name that every file system knows."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)


ROUTES = (
    Route("/ask", ask, methods=["POST"]),
    Route("/ask_all", ask_all, methods=["POST"]),
    Route("/explain", explain, methods=["POST"]),
    Route("/budget", budget),
    Route("/history", history),
    Route("/tables", tables),
    Route("/releases/{receipt}", release),
    Route("/health", health),
    Route("/ready", ready),
    Route("/metrics", metrics),
    Route("/openapi.json", openapi),
)
