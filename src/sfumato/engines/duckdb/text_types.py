"""As which type the texts of a CSV column read, in which form, and how many of them: counts, never a value."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sfumato.engines.duckdb.column import plain_number
from sfumato.engines.sql.builder import select, subquery
from sfumato.engines.sql.inspecting import NULL_WORDS
from sfumato.engines.sql.names import literal
from sfumato.policy.policy import ColumnType, CsvFormat

DATE_FORMATS = (
    *("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y%m%d", "%d/%m/%y", "%d.%m.%y", "%m/%d/%y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y"),
)
TIME_FORMATS = tuple(f"{day} {time}" for day in DATE_FORMATS for time in ("%H:%M:%S", "%H:%M", "%I:%M %p"))
SYMBOLS = ("%", "$", "€", "£", "¥", "EUR", "USD", "GBP", "CHF")
"""Signs of percentages and currencies that people write beside numbers."""
_TRUTH_WORDS = (
    *(("true", "false"), ("yes", "no"), ("t", "f"), ("y", "n")),  # SQL reads these
    *(("ja", "nein"), ("j", "n"), ("wahr", "falsch"), ("oui", "non"), ("vrai", "faux"), ("sí", "no"), ("si", "no")),
    *(("on", "off"), ("sim", "não"), ("x", "-")),
)
_READ_BY_SQL = 4
"""How many of these pairs need no word in the policy."""
_LIKE_DATES = (
    "[^A-Za-z]*[0-9][^A-Za-z]*[/.: -][^A-Za-z]*|[0-9-]+T[0-9:.+-]+Z?|[0-9]{8}"
    "|.*[0-9].*[A-Za-z]{3}.*|.*[A-Za-z]{3}.*[0-9].*"
)

_SAMPLE_ROWS = 2_000
Form = TypeVar("Form")
Run = Callable[[str], list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class TextType:
    """A type as which texts of a column read, and what the policy has to say for it."""

    type: ColumnType
    count: int
    """How many of the values read so."""
    csv: CsvFormat
    """How numbers and truth values are written."""
    format: str | None = None
    """How dates are written; None as ISO 8601 says, or where there are none."""
    doubt: str = ""
    """Why the type or the form may be another, although every value reads so."""


@dataclass(frozen=True, slots=True)
class ColumnTexts:
    """What the texts of a column look like."""

    present: int
    """Values, without marks for a missing one."""
    nulls: tuple[str, ...]
    """Marks for a missing value that occur and that the policy does not name."""
    best: TextType | None
    """The type as which most values read; None where none reads."""
    marked: int = 0
    """How many values are such marks."""

    @property
    def certain(self) -> TextType | None:
        """The type as which every value reads, if no other is as good; a column without values has none."""
        whole = self.best is not None and self.present > 0 and self.best.count == self.present
        return self.best if whole and self.best is not None and not self.best.doubt else None


def column_texts(run: Run, relation: str, raw: str, form: CsvFormat) -> ColumnTexts:
    """Return as what the texts of a column read, given how the policy says that files are written."""
    text = f"CAST({raw} AS VARCHAR)"
    words = [word for word in NULL_WORDS if word not in form.null]
    tests = [f"count_if({text} = {literal(word)})" for word in words]
    marked = _counts(run, select(tests, relation)) if tests else []
    nulls = tuple(word for word, count in zip(words, marked, strict=True) if count)
    absent = (*form.null, *nulls)
    known = [f"{text} IS NOT NULL", *([f"{text} NOT IN ({', '.join(map(literal, absent))})"] if absent else [])]
    values = subquery(select(f"{text} AS v", relation, where=known), "s")
    present, dated = _counts(
        run, select(["count(*)", f"count_if(regexp_full_match(v, {literal(_LIKE_DATES)}))"], values)
    )
    found = [*_truths(run, values, form), *_numbers(run, values, form, present)]
    if dated and not any(candidate.count == present for candidate in found):
        found += _dates(run, values, form)
    best = max(found, key=lambda candidate: (candidate.count, not candidate.doubt), default=None)
    return ColumnTexts(present, nulls, best if best is not None and best.count else None, sum(marked))


def _counts(run: Run, query: str) -> list[int]:
    """Return the one row of counts of a query; the engine counts no rows as NULL."""
    [row] = run(query)
    return [int(count or 0) for count in row]


def _truths(run: Run, values: str, form: CsvFormat) -> Iterator[TextType]:
    pairs = [*_TRUTH_WORDS, *([(*form.true, *form.false)] if form.true or form.false else [])]
    counts = [f"count_if(lower(trim(v)) IN ({', '.join(map(literal, pair))}))" for pair in pairs]
    found = _counts(run, select(counts, values))
    for at, (pair, count) in enumerate(zip(pairs, found, strict=True)):
        said = at < _READ_BY_SQL or at >= len(_TRUTH_WORDS)
        yield TextType(ColumnType.BOOLEAN, count, form if said else replace(form, true=(pair[0],), false=(pair[1],)))


def _number_forms(form: CsvFormat) -> Iterator[CsvFormat]:
    """Give the ways in which numbers may be written, the plainest first; a policy that names one has decided."""
    yield form
    decided = form.thousands or form.decimal == ","
    for symbols in ((), SYMBOLS):
        known = replace(form, symbols=tuple(sorted({*form.symbols, *symbols})))
        if symbols:
            yield known
        if decided:
            continue
        yield replace(known, thousands=",")
        yield from (replace(known, thousands=group) for group in ("'", " "))
        yield from (replace(known, decimal=",", thousands=group) for group in ("", ".", " ", "'"))


def _numbers(run: Run, values: str, form: CsvFormat, present: int) -> Iterator[TextType]:
    """Give the form in which most values read as numbers; others than the policy's are tried where it leaves some."""
    zeros = "count_if(starts_with(ltrim(v), '0') AND regexp_full_match(v, '[ ]*0[0-9]+[ ]*'))"
    leading, plain, parts = _counts(run, select([zeros, *_number_counts(form)], values))
    counted = {form: (plain, parts)}
    if plain < present:
        rest = select("v", values, where=f"{_number(form)} IS NULL", limit=_SAMPLE_ROWS)
        forms = _that_read(
            run,
            subquery(rest, "r"),
            [(number_form, f"count({_number(number_form)})") for number_form in _number_forms(form)],
        )
        if forms:
            found = _counts(
                run, select([count for number_form in forms for count in _number_counts(number_form)], values)
            )
            counted |= dict(zip(forms, zip(found[::2], found[1::2], strict=True), strict=True))
    most = max(count for count, _ in counted.values())
    as_good = [form_key for form_key, (count, _) in counted.items() if count == most]
    first = as_good[0]
    kind = ColumnType.DECIMAL if counted[first][1] else ColumnType.INTEGER
    if first.symbols != form.symbols:
        used = [f"count_if(contains(v, {literal(symbol)}))" for symbol in SYMBOLS]
        present_symbols = _counts(run, select(used, values))
        symbols = {symbol for symbol, count in zip(SYMBOLS, present_symbols, strict=True) if count}
        first = replace(first, symbols=tuple(sorted({*form.symbols, *symbols})))
    yield TextType(kind, most, first, doubt=_doubt(leading, first, as_good) if most else "")


def _number(form: CsvFormat) -> str:
    return f"TRY_CAST({plain_number('v', form)} AS DECIMAL(38,18))"


def _number_counts(form: CsvFormat) -> list[str]:
    """Return how many values read as numbers, and how many of these have decimals."""
    number = _number(form)
    return [f"count({number})", f"count_if({number} <> trunc({number}))"]


def _that_read(run: Run, sample: str, forms: list[tuple[Form, str]]) -> list[Form]:
    """Return the forms in which a value of a sample reads, so that the others need not be tried on all rows."""
    found = _counts(run, select([count for _, count in forms], sample))
    return [form for (form, _), count in zip(forms, found, strict=True) if count]


def _doubt(leading_zeros: int, form: CsvFormat, as_good: list[CsvFormat]) -> str:
    if leading_zeros:
        return "some values begin with 0: as a number they would lose it"
    if not form.thousands and form.decimal == ".":
        return ""
    if any(candidate.thousands == "," for candidate in as_good) and any(
        candidate.decimal == "," for candidate in as_good
    ):
        return "a comma can be the decimal separator or separate thousands"
    return ""


def _dates(run: Run, values: str, form: CsvFormat) -> Iterator[TextType]:
    iso = "regexp_full_match(v, '[ ]*[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}[ ]*') AND TRY_CAST(v AS DATE) IS NOT NULL"
    instant = "contains(v, ':') AND TRY_CAST(v AS TIMESTAMP) IS NOT NULL"
    days, instants = _counts(run, select([f"count_if({iso})", f"count_if({instant})"], values))
    yield TextType(ColumnType.DATE, days, form)
    yield TextType(ColumnType.TIMESTAMP, instants, form)
    sample = subquery(select("v", values, limit=_SAMPLE_ROWS), "r")
    tried = [
        (date_format, f"count(try_strptime(v, {literal(date_format)}))")
        for date_format in (*DATE_FORMATS, *TIME_FORMATS)
    ]
    formats = _that_read(run, sample, tried)
    if not formats:
        return
    found = _counts(run, select([f"count(try_strptime(v, {literal(date_format)}))" for date_format in formats], values))
    most = max(found)
    as_good = [date_format for date_format, count in zip(formats, found, strict=True) if count == most]
    kind = ColumnType.DATE if as_good[0] in DATE_FORMATS else ColumnType.TIMESTAMP
    doubt = "" if len(as_good) == 1 else f"format can be {as_good[0]} or {as_good[1]}"
    yield TextType(kind, most, form, as_good[0], doubt)


def csv_words(before: CsvFormat, after: CsvFormat) -> str:
    """Return what [csv] has to say more, as TOML; empty where nothing.

    >>> csv_words(CsvFormat(), CsvFormat(thousands=",", symbols=("€",)))
    'thousands = ",", symbols = ["€"]'
    """
    words = []
    for key in ("decimal", "thousands", "null", "symbols", "true", "false"):
        value = getattr(after, key)
        if value == getattr(before, key):
            continue
        texts = ", ".join(f'"{name}"' for name in ((value,) if isinstance(value, str) else value))
        words.append(f"{key} = {texts}" if isinstance(value, str) else f"{key} = [{texts}]")
    return ", ".join(words)
