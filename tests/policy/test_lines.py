"""Every key of a TOML text is found in the line where it stands."""

import tomllib
from collections.abc import Iterator

from hypothesis import example, given
from hypothesis import strategies as st
from tests.policy.examples import CLINIC

from sfumato.policy.lines import KeyPath, key_lines

HARD = '''\
title = "a # b [x]" # not a comment inside
"quoted \\" key" = 1
'literal.key' . b = 'it'
text = """
[not.a.header]
""quotes"" and \\""" and """""
raw = \'\'\'
x = 1 \'\'\'
array = [ # comment ]
  1,

  { deep = [true, "]"], "o}k" = { a.b = 1979-05-27 07:32:00 } },
]

[a . "b.c"]
x = -inf
[[many]]
k = 1
[many.sub]
k = 2
[[many]]
k = 3
'''


def _paths(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from _paths(child, (*path, key))


def test_every_key_of_a_hard_text_is_found() -> None:
    assert set(key_lines(HARD)) == set(_paths(tomllib.loads(HARD)))


def test_lines_are_counted_from_one_and_through_multiline_values() -> None:
    lines = key_lines(HARD)
    assert lines[("title",)] == 1
    assert lines[("text",)] == 4
    assert lines[("raw",)] == 7
    assert lines[("array", 0)] == 10
    assert lines[("array", 1, "o}k", "a", "b")] == 12
    assert lines[("a", "b.c", "x")] == 16
    assert lines[("many", 1, "k")] == 22


def test_windows_line_ends_count_once() -> None:
    assert key_lines(CLINIC.replace("\n", "\r\n")) == key_lines(CLINIC)


_KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
_STRINGS = st.text(st.characters(codec="utf-8"), max_size=12)


def _written(words: str) -> str:
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in words) + '"'


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_written(key)} = {_toml(child)}" for key, child in value.items()) + " }"
    if isinstance(value, list):
        return "[\n" + ",\n".join(_toml(child) for child in value) + "\n]"
    if isinstance(value, str):
        return _written(value)
    return str(value).lower()


@given(
    st.dictionaries(
        _KEYS,
        st.recursive(
            st.booleans() | st.integers() | _STRINGS,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_every_key_of_a_random_text_is_found_in_its_line(document: dict[str, object]) -> None:
    text = "".join(f"{_written(key)} = {_toml(value)}\n" for key, value in document.items())
    assert tomllib.loads(text) == document
    lines = key_lines(text)
    assert set(lines) == {path for path in _paths(document) if len(path) <= 8}
    written = text.split("\n")
    for path, line in lines.items():
        if isinstance(path[-1], str):
            assert _written(path[-1]) in written[line - 1]


@given(st.text(st.sampled_from("ab.=[]{}\"'\\#, \n")))
@example('"\\="')  # a quoted key with an escape that does not exist
@example('["\\ud800"]')
@example('a = { "\\x" = 1 }')
def test_no_text_makes_it_raise(text: str) -> None:
    key_lines(text)
