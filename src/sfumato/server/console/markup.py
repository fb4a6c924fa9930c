"""HTML, built so that whatever is not markup already is escaped."""

import html
from collections.abc import Iterable

_VOID = frozenset({"input", "link", "meta", "img", "br", "hr", "source"})


class Html(str):
    """Text that is markup."""

    __slots__ = ()


def escaped(text: str) -> Html:
    r"""Return a text as content or attribute: lines stay lines, what is not visible otherwise is U+FFFD.

    >>> escaped("a < b\n\x1b")
    'a &lt; b\n�'
    """
    kept = "".join(one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text)
    return Html(html.escape(kept))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """Return an element; `class_` is class, `aria_label` is aria-label, True is an attribute without a value.

    >>> tag("p", "1 < 2", class_="note", hidden=True)
    '<p class="note" hidden>1 &lt; 2</p>'
    """
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{joined(children)}</{name}>")


def joined(children: object) -> Html:
    """Return children as one piece of markup; None is nothing."""
    if children is None:
        return Html("")
    if isinstance(children, Html):
        return children
    if isinstance(children, str):
        return escaped(children)
    if isinstance(children, Iterable):
        return Html("".join(joined(child) for child in children))
    return escaped(str(children))


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escaped(str(value))}"'
