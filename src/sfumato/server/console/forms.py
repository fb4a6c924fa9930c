"""Forms as browsers send them."""

from urllib.parse import parse_qsl

from starlette.requests import Request

from sfumato.server.requests import body_of

_MAX_FORM_FIELDS = 16


async def read_form(request: Request) -> dict[str, str]:
    """Read the fields of a form; one that cannot be read has none."""
    body = await body_of(request)
    try:
        pairs = parse_qsl(
            body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MAX_FORM_FIELDS, errors="strict"
        )
    except ValueError:
        pairs = []
    return {name: value.replace("\r\n", "\n") for name, value in pairs}
