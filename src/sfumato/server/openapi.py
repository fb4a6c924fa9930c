"""The OpenAPI description of the pages for programs."""

from sfumato.server.replies import MEDIA
from sfumato.server.statuses import STATUS

OpenApiSchema = dict[str, object]

_NUMBER_PATTERN = r"^([1-9][0-9]{0,8}(\.[0-9]{1,9})?|0\.[0-9]{0,9}[1-9]|[1-9][0-9]{0,8}/[1-9][0-9]{0,8})$"
_NUMBER: OpenApiSchema = {
    "oneOf": [
        {"type": "string", "pattern": _NUMBER_PATTERN},
        {"type": "number", "exclusiveMinimum": 0},
    ],
    "description": "A positive number; as text it is exact: 0.1, 1/3.",
}
_LOSS: OpenApiSchema = {
    "type": "object",
    "required": ["epsilon", "delta"],
    "properties": {"epsilon": {"type": "string"}, "delta": {"type": "string"}},
    "description": "Exact numbers, as decimals or fractions.",
}
_TEXTS: OpenApiSchema = {"type": "array", "items": {"type": "string"}}
_ROWS: OpenApiSchema = {"type": "array", "items": {"type": "object"}}


def _object(required: list[str], **properties: OpenApiSchema) -> OpenApiSchema:
    return {"type": "object", "required": required, "properties": properties}


_QUESTION: dict[str, OpenApiSchema] = {
    "sql": {"type": "string", "minLength": 1},
    "epsilon": _NUMBER,
    "within": {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {
            "oneOf": [
                {"type": "string", "pattern": _NUMBER_PATTERN[:-1] + "%?$"},
                {"type": "number", "exclusiveMinimum": 0},
            ],
            "description": "A positive number, or a percentage of the value as text: 25, 5%.",
        },
        "description": "95 % margins, by column.",
    },
    "share": {
        "description": "A part of the account's budget: a percentage such as 2%, or a number of at most 1.",
        "oneOf": [
            {"type": "string", "pattern": r"^(([1-9][0-9]?|100|0\.[0-9]{0,6}[1-9])%|0\.[0-9]{0,9}[1-9])$"},
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        ],
    },
    "delta": {
        "description": "A number from 0 to the policy's query_delta.",
        "oneOf": [{"type": "string"}, {"type": "number"}],
    },
    "parameters": {
        "description": "Values of $1, $2, … as a list, or of :name as an object. A date is {date: text}.",
        "oneOf": [{"type": "array"}, {"type": "object"}],
    },
}
_HOUSEHOLD: OpenApiSchema = {
    "type": "integer",
    "minimum": 1,
    "maximum": 1000,
    "description": "Also state the loss of this many people together.",
}
_REQUEST: OpenApiSchema = _object(
    ["id", "account", "state", "sql", "price", "loss", "reason", "time", "notes", "receipt"],
    id={"type": "integer"},
    account={"type": "string"},
    state={"type": "string", "enum": ["waiting", "approved", "used", "declined", "withdrawn", "lapsed"]},
    sql={"type": "string"},
    price={"type": "object"},
    loss={"oneOf": [_LOSS, {"type": "null"}]},
    reason={"type": "string"},
    time={"type": "string"},
    notes=_ROWS,
    receipt={"type": ["string", "null"]},
    for_rights={"type": "boolean"},
    names=_TEXTS,
)
_SCHEMAS: dict[str, OpenApiSchema] = {
    "Question": {**_object(["sql"], **_QUESTION), "additionalProperties": False},
    "ExplainedQuestion": {**_object(["sql"], **_QUESTION, household=_HOUSEHOLD), "additionalProperties": False},
    "Loss": _LOSS,
    "Release": _object(
        ["columns", "rows", "intervals", "loss", "receipt"],
        columns=_TEXTS,
        rows=_ROWS,
        level={"type": "number"},
        intervals=_ROWS,
        biased=_ROWS,
        marked=_ROWS,
        loss=_LOSS,
        notes=_TEXTS,
        receipt={"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
    ),
    "Questions": {
        **_object(
            ["questions"],
            questions={
                "type": "array",
                "minItems": 1,
                "maxItems": 100,
                "items": {"type": "string", "minLength": 1},
            },
            epsilon=_NUMBER,
            share={"oneOf": [{"type": "string"}, {"type": "number", "exclusiveMinimum": 0, "maximum": 1}]},
            delta={"oneOf": [{"type": "string"}, {"type": "number"}]},
            weights={"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "number"}]}},
            within={"type": "array", "items": {"oneOf": [_QUESTION["within"], {"type": "null"}]}},
            level={"oneOf": [{"type": "string"}, {"type": "number"}]},
        ),
        "additionalProperties": False,
    },
    "Releases": {"type": "array", "items": {"$ref": "#/components/schemas/Release"}},
    "Quote": _object(
        ["loss", "margins", "mechanisms", "notes", "text"],
        loss=_LOSS,
        level={"type": "number"},
        margins={"type": "object"},
        mechanisms={"type": "object"},
        notes=_TEXTS,
        share={"type": ["string", "null"]},
        used_after={"type": ["string", "null"]},
        spent_after={"oneOf": [_LOSS, {"type": "null"}]},
        source={"type": "string", "enum": ["fresh", "known", "combined", "refined"]},
        answered={"type": "string"},
        text={"type": "string"},
    ),
    "Budget": _object(
        ["used", "total", "spent", "remaining"],
        used={"type": "string"},
        total=_LOSS,
        spent=_LOSS,
        remaining=_LOSS,
        every={"type": "string"},
        renews={"type": "string"},
        promise={"type": "string"},
        cohorts={"type": "object"},
        price={"type": "string"},
    ),
    "History": {
        "type": "array",
        "items": _object(
            ["sql", "receipt", "state"],
            sql={"type": "string"},
            receipt={"type": "string"},
            state={"type": "string"},
            refines={"type": "string"},
            rests_on=_TEXTS,
        ),
    },
    "FiledRequest": {
        **_object(
            ["sql", "reason"],
            **{name: schema for name, schema in _QUESTION.items() if name != "share"},
            reason={"type": "string", "minLength": 1, "maxLength": 2000},
        ),
        "additionalProperties": False,
    },
    "Note": {**_object([], text={"type": "string", "maxLength": 2000}), "additionalProperties": False},
    "BudgetRequest": _REQUEST,
    "BudgetRequests": {"type": "array", "items": _REQUEST},
    "Tables": _object(["name", "tables"], name={"type": "string"}, tables=_ROWS),
    "Login": _object(
        ["token", "password", "user", "seconds"],
        token={"type": "string"},
        password={"type": "string", "description": "For psql and other clients of PostgreSQL."},
        user={"type": "string"},
        seconds={"type": "number"},
    ),
    "Health": _object(["status"], status={"type": "string"}),
    "Readiness": _object(
        ["status", "checks"],
        status={"type": "string"},
        checks={"type": "object", "additionalProperties": {"type": "boolean"}},
    ),
    "Refusal": _object(
        ["code", "message", "remedy"],
        code={"type": "string", "enum": sorted(STATUS)},
        message={"type": "string"},
        remedy={"type": "string"},
        position=_object(["line", "column"], line={"type": "integer"}, column={"type": "integer"}),
    ),
}


def _content(name: str) -> OpenApiSchema:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _operation(
    summary: str, name: str, *, body: str | None = None, open_to_all: bool = False, **more: object
) -> OpenApiSchema:
    refused: OpenApiSchema = {"description": "A refusal: what, why, what next.", "content": _content("Refusal")}
    operation: OpenApiSchema = {
        "summary": summary,
        "responses": {"200": {"description": "Done.", "content": _content(name)}, "4XX": refused, "503": refused},
        **more,
    }
    if open_to_all:
        operation["security"] = []
    if body is not None:
        operation["requestBody"] = {"required": True, "content": _content(body)}
    return operation


def description(root: str = "") -> OpenApiSchema:
    """Return the description; it is the same for every dataset, whose pages lie below `root`."""
    page = [
        {
            "name": name,
            "in": "query",
            "description": text,
            "schema": {"type": "integer", "minimum": 1, **most},
        }
        for name, text, most in (
            ("limit", "Number of entries; 100 by default.", {"maximum": 1000}),
            ("before", "The sequence of an entry: older ones are listed.", {}),
        )
    ]
    key: OpenApiSchema = {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "Names one attempt: repeats are one charge.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
    }
    form: OpenApiSchema = {"name": "format", "in": "query", "schema": {"type": "string", "enum": list(MEDIA)}}
    level: OpenApiSchema = {
        "name": "level",
        "in": "query",
        "description": "The level of the intervals; 0.95 by default.",
        "schema": {"type": "string", "pattern": r"^0\.[0-9]{0,5}[1-9]$"},
    }
    receipt: list[OpenApiSchema] = [
        {"name": "receipt", "in": "path", "required": True, "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"}},
        form,
        level,
    ]
    release = _operation("Return a stored answer; free.", "Release", parameters=receipt)
    asked = _operation("Answer and charge.", "Release", body="Question", parameters=[key, form, level])
    for operation in (release, asked):
        responses = operation["responses"]
        if isinstance(responses, dict):
            responses["200"]["content"] |= {
                media.partition(";")[0]: {"schema": {"type": "string"}}
                for name, media in MEDIA.items()
                if name != "json"
            }
    ready = _operation("Whether the server can answer questions now; 503 where not.", "Readiness", open_to_all=True)
    text = {"description": "Done.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    metrics: OpenApiSchema = {"summary": "Metrics for Prometheus; the operator's.", "responses": {"200": text}}
    together = _operation("Answer several questions as one charge.", "Releases", body="Questions", parameters=[key])
    request_id: OpenApiSchema = {
        "name": "id",
        "in": "path",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
    }
    review = _operation(
        "What the question of a request would cost, and which names its analyst lacks; the owner's; free.",
        "Quote",
        parameters=[request_id],
    )
    decision = _operation(
        "Reply to a request, withdraw it, or as the owner approve or decline it.",
        "BudgetRequest",
        body="Note",
        parameters=[
            request_id,
            {
                "name": "action",
                "in": "path",
                "required": True,
                "schema": {"type": "string", "enum": ["reply", "approve", "decline", "withdraw"]},
            },
        ],
    )
    exchange = _operation(
        "Exchange a token of the identity provider, once, for a token and a password that end after twelve hours.",
        "Login",
        security=[{"identity": []}],
    )
    return {
        "openapi": "3.1.0",
        "servers": [{"url": root or "/"}],
        "info": {"title": "sfumato", "version": "1", "description": "Private answers about many people."},
        "security": [{"token": []}],
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "identity": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            },
            "schemas": _SCHEMAS,
        },
        "paths": {
            "/ask": {"post": asked},
            "/ask_all": {"post": together},
            "/explain": {"post": _operation("The price and the margins; free.", "Quote", body="ExplainedQuestion")},
            "/budget": {"get": _operation("The used share and the total, spent and remaining budget.", "Budget")},
            "/history": {"get": _operation("What was charged, newest first.", "History", parameters=page)},
            "/tables": {"get": _operation("Tables and columns, bounds and keys.", "Tables")},
            "/releases/{receipt}": {"get": release},
            "/requests": {
                "get": _operation("The requests of this account; all of them for the owner.", "BudgetRequests"),
                "post": _operation(
                    "File a request for a question beyond your cap or rights; free.",
                    "BudgetRequest",
                    body="FiledRequest",
                ),
            },
            "/requests/{id}/review": {"get": review},
            "/requests/{id}/{action}": {"post": decision},
            "/login/token": {"post": exchange},
            "/health": {"get": _operation("Whether the server answers.", "Health", open_to_all=True)},
            "/ready": {"get": ready},
            "/metrics": {"get": metrics},
        },
    }
