"""Every key of the policy, declared once: its kind, its default, and one sentence about it.

The reader, the messages, the JSON Schema (`sfumato schema`), the hash and the table in docs/policy/index.md follow this
table. A key that its kind reads completely needs nothing else than a field of the same name in the data class.
"""

from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.policy.kinds import (
    Choice,
    Count,
    Default,
    Described,
    Duration,
    Flag,
    Hashed,
    Key,
    Name,
    Named,
    Number,
    OrChosen,
    Required,
    Schema,
    Section,
    Text,
    Texts,
)
from sfumato.policy.locations import LEDGERS, SOURCES
from sfumato.policy.policy import MAX_CHARGES_PER_ACCOUNT, PLAIN, ColumnType, Refresh, Sharing

MOST_TABLES = 500
MOST_COLUMNS = 2000
MOST_ANALYSTS = 10_000
MOST_ROWS = 10**9
MOST_VALUES = 10_000
"""As many cells as an answer may have."""
LONGEST_VALUE = 1000
LENGTH = 1000
"""The most characters of a text that count, where the policy does not say."""
LONGEST_UNIT = 300
LONGEST_FORMAT = 60
LONGEST_LOCATION = 4096
MOST_CAPACITY = 10**9
DELIMITERS = (",", ";", "\t", "|", ":")
KEY_FILES = ("file",)
STORES = ("duckdb", "postgresql")

_OWNER_CHOOSES = "The budget has no default: the owner has to choose it."
_ADD_EPSILON = Required(_OWNER_CHOOSES, "Add epsilon, for example epsilon = 1.")
_PADDED_SIZES = "Padded sizes have a privacy cost, and the owner has to choose it."
_EPSILON = Number(
    "number above 0",
    {"exclusiveMinimum": 0},
    lambda epsilon: epsilon > 0,
    "Epsilon must be above zero: with epsilon = 0 no answer can depend on the data.",
    "Write a positive number, for example epsilon = 1.",
)
_PROBABILITY: Schema = {"minimum": 0, "exclusiveMaximum": 1}
_DELTA = Number(
    "number from 0 to below 1",
    _PROBABILITY,
    lambda delta: 0 <= delta < 1,
    "Delta is a probability, at least 0 and below 1; with delta = 1 nobody is protected.",
    "Write a number far below one in the number of people, for example 1e-6.",
)
_VALUE: Schema = {"type": ["boolean", "number", "string"]}
_BOUNDS: Schema = {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 2, "maxItems": 2}
_VALUES: Schema = {
    "anyOf": [
        {"type": "array", "items": _VALUE, "minItems": 1, "maxItems": MOST_VALUES, "uniqueItems": True},
        {"type": "string", "pattern": r"^[^.]+\..+$"},
    ]
}
_ENCODINGS = {
    **dict.fromkeys(("utf8", "utf-8-sig", "unicode", "ascii"), "utf-8"),
    **dict.fromkeys(("latin1", "iso-8859-1", "iso8859-1", "iso-8859-15", "latin"), "latin-1"),
    **dict.fromkeys(("cp1252", "windows1252", "ansi", "1252", "win-1252"), "windows-1252"),
}
_DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "colon": ":"}
_NEIGHBOURS = {"bounded": "replace", "unbounded": "add-remove", "substitute": "replace", "swap": "replace"}
_REFRESH = {
    **dict.fromkeys(("never", "by-hand"), "manual"),
    **dict.fromkeys(("always", "auto", "change"), "on-change"),
}
_ANSWERS = {"common": "shared", "public": "shared", "own": "separate", "private": "separate", "per-account": "separate"}
TYPE_SYNONYMS = {
    **dict.fromkeys(("int", "bigint", "smallint", "int64", "int32", "long", "hugeint", "serial"), "integer"),
    **dict.fromkeys(("float", "double", "real", "numeric", "number", "float64", "money"), "decimal"),
    **dict.fromkeys(("bool", "bit", "logical"), "boolean"),
    **dict.fromkeys(("string", "varchar", "char", "str", "enum", "category", "uuid"), "text"),
    **dict.fromkeys(("datetime", "timestamptz", "instant"), "timestamp"),
    "day": "date",
}


def _location(schemes: tuple[str, ...], words: str = "text") -> Described:
    pattern = rf"^\s*({'|'.join((*schemes, 'postgres'))})\s*:."
    return Described(words, {"type": "string", "pattern": pattern, "maxLength": LONGEST_LOCATION})


def _names(what: str) -> Described:
    items: Schema = {"type": "string", "maxLength": 100}
    return Described(
        f"list of {what} names", {"type": "array", "items": items, "maxItems": MOST_COLUMNS, "uniqueItems": True}
    )


def _is_null_text(words: str) -> bool:
    return bool(words) and words == words.strip() and words.isprintable() and '"' not in words


CSV = Section(
    (
        Key(
            "delimiter",
            Choice(DELIMITERS, _DELIMITERS, described="comma, semicolon, tab, vertical bar or colon"),
            Default(","),
            "The character that separates two fields.",
            Hashed.ALWAYS,
        ),
        # In each of these encodings a byte below 128 is that character of ASCII: so records stay what they are.
        Key(
            "encoding",
            Choice(("utf-8", "latin-1", "windows-1252"), _ENCODINGS),
            Default("utf-8"),
            "The encoding of text.",
            Hashed.ALWAYS,
        ),
        Key("decimal", Choice((".", ",")), Default("."), "The decimal separator of numbers.", Hashed.ALWAYS),
        Key(
            "null",
            Texts(
                "list of texts",
                20,
                Text(
                    40,
                    _is_null_text,
                    "It is a text that stands in a field without quotation marks; an empty field has no value in any "
                    "case.",
                    'Write for example null = ["NA"].',
                ),
            ),
            Default(()),
            "Texts that mean a missing value; an empty field is always missing.",
            Hashed.ALWAYS,
        ),
    )
)
SEALED = Section(
    (
        Key(
            "key",
            _location(KEY_FILES),
            Required(
                "Sealing needs an encryption key.",
                'Add key = "file:../keys/clinic.key", outside the folder of the store.',
            ),
            "The file of the key, as file: with a path outside the folder of the store.",
            Hashed.APART,
        ),
        Key(
            "store",
            _location(STORES),
            Required(
                "The policy must say where the encrypted rows are stored.",
                'Add store = "duckdb:store/clinic.duckdb".',
            ),
            "The location of the ciphertexts: duckdb: with a path, or a postgresql:// address.",
            Hashed.APART,
        ),
        Key(
            "epsilon",
            Number(
                "number above 0",
                {"exclusiveMinimum": 0},
                lambda epsilon: epsilon > 0,
                "Epsilon must be above zero: padded sizes always reveal a little.",
                "Write a positive number, for example epsilon = 0.5.",
            ),
            Required(_PADDED_SIZES, "Add epsilon, for example epsilon = 0.5."),
            "The epsilon of the padded sizes of the cells, spent once per table.",
            Hashed.ALWAYS,
        ),
        Key(
            "delta",
            Number(
                "number above 0 and below 1",
                {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
                lambda delta: 0 < delta < 1,
                "Delta is a probability above 0 and below 1; with delta = 0 the padding would never end.",
                "Write a small number, for example delta = 1e-9.",
            ),
            Required(_PADDED_SIZES, "Add delta, for example delta = 1e-9."),
            "The delta of the padded sizes of the cells.",
            Hashed.ALWAYS,
        ),
        Key(
            "integrity",
            Count(64),
            Default(16),
            "A changed answer is accepted with a probability of at most 2 to the power of minus this number.",
            Hashed.ALWAYS,
        ),
        Key(
            "accept_leak",
            Flag(),
            Default(False),
            "Whether tables may be joined, which shows the store which rows belong to one person.",
        ),
    )
)
BUDGET = Section(
    (
        Key("epsilon", _EPSILON, _ADD_EPSILON, "The maximum epsilon of all answers together.", Hashed.ALWAYS),
        Key(
            "delta",
            _DELTA,
            Required(
                _OWNER_CHOOSES,
                "Add delta, for example delta = 1e-6; delta = 0 allows Laplace noise and declared keys only.",
            ),
            "The maximum delta of all answers together.",
            Hashed.ALWAYS,
        ),
        Key(
            "query_delta",
            Number("number from 0 to `budget.delta`", _PROBABILITY, _DELTA.accepts, _DELTA.why, _DELTA.remedy),
            Default(words="a thousandth of `budget.delta`"),
            "The delta of a query that names none.",
            Hashed.ALWAYS,
        ),
        Key(
            "truncation",
            Number("number above 0, at most `budget.epsilon`", {"exclusiveMinimum": 0}),
            Default(words="none: no interval covers truncation"),
            "Epsilon spent once per snapshot to measure how much contribution bounds and clipping remove.",
        ),
        Key(
            "charges",
            Count(10**9),
            Default(MAX_CHARGES_PER_ACCOUNT),
            "The maximum number of charges of each account.",
        ),
    )
)
COLUMN = Section(
    (
        Key(
            "type",
            Choice(tuple(ColumnType), TYPE_SYNONYMS, ColumnType),
            Required("Every declared column needs a type.", f"Add type: one of {', '.join(ColumnType)}."),
            "The type of the column, independent of how the source stores it.",
            Hashed.APART,
        ),
        Key(
            "bounds",
            OrChosen(
                Described("two values", _BOUNDS),
                "within",
                'bounds = { within = [0, 1000000], choose = "private" }',
                'two values, or `{ within = [LOW, HIGH], choose = "private" }`',
            ),
            Default(words="none: the column cannot be summed"),
            "The smallest and the largest value that count; values beyond them are clipped.",
            Hashed.APART,
        ),
        Key(
            "total_per_unit",
            Number("number"),
            Default(),
            "The maximum that one person adds to a sum of the column.",
            Hashed.APART,
        ),
        Key(
            "step",
            Number("number from 1e-18 to 1e18"),
            Default(words="none; required for a decimal with bounds or values"),
            "The precision of a decimal: values are stored as whole numbers of steps.",
            Hashed.APART,
        ),
        Key(
            "values",
            Described('list of values, or `"TABLE.COLUMN"`', _VALUES),
            Default(words="none: keys are selected privately"),
            "The public keys: listed, or the values of a column of a public table.",
            Hashed.APART,
        ),
        Key("unique", Flag(), Default(False), "Whether each person keeps each value once.", Hashed.APART),
        Key(
            "length",
            Count(1_000_000),
            Default(words=f"{LENGTH:,}"),
            "The maximum number of characters of a text that count.",
            Hashed.APART,
        ),
        Key(
            "join",
            Choice(("deterministic",), {"equality": "deterministic"}, bool),
            Default(False, "none: sealed tables are not joined"),
            "Lets a sealed store see which rows have equal values, so that tables can be joined.",
            Hashed.APART,
            "joins",
        ),
        Key(
            "format",
            Described("text", {"type": "string", "maxLength": LONGEST_FORMAT}),
            Default(words="ISO 8601, `2024-12-31`"),
            "How a date or timestamp is written where the source stores text, such as %d/%m/%Y.",
            Hashed.APART,
        ),
    )
)
SEALED_TABLE = (
    Key(
        "cells",
        _names("column"),
        Default(words="none: all rows are one cell"),
        "The columns of a sealed table whose values form its cells.",
        Hashed.APART,
    ),
    Key(
        "measures",
        _names("column"),
        Default(words="none: rows can be counted only"),
        "The columns of a sealed table that can be counted, summed and averaged.",
        Hashed.APART,
    ),
    Key("squares", _names("measure"), Default(), "The measures whose variance can be queried.", Hashed.APART),
    Key("nulls", _names("measure"), Default(), "The measures that may be NULL.", Hashed.APART),
    Key(
        "splayed",
        _names("column"),
        Default(),
        "Columns with few values of which the store learns nothing, not even padded sizes.",
        Hashed.APART,
    ),
    Key(
        "capacity",
        Count(MOST_CAPACITY),
        Default(1_000_000),
        "The maximum number of rows of one cell, including dummies.",
        Hashed.APART,
    ),
)
_TABLE_KEYS = (
    Key("public", Flag(), Default(False), "Whether the table contains no personal data.", Hashed.APART),
    Key(
        "unit",
        Described("text", {"type": "string", "maxLength": LONGEST_UNIT}),
        Default(words="required, unless the table is public"),
        "Whom the table protects: a column, rows (each row is a person), or a path such as "
        "orders.o_custkey via l_orderkey = o_orderkey.",
        Hashed.APART,
    ),
    Key(
        "rows_per_unit",
        OrChosen(
            Count(MOST_ROWS),
            "most",
            'rows_per_unit = { most = 500, choose = "private" }',
            'integer from 1 to 1,000,000,000, or `{ most = N, choose = "private" }`',
        ),
        Default(words='1 if the unit is `"rows"` or `unique`; otherwise required'),
        "The maximum number of rows per person; extra rows are dropped.",
        Hashed.APART,
    ),
    Key(
        "groups_per_unit",
        Count(MOST_ROWS),
        Default(),
        "The maximum number of groups of one answer in which a person counts.",
        Hashed.APART,
    ),
    Key(
        "from",
        Text(LONGEST_UNIT),
        Default(words="the name of the table"),
        "The name of the table in the source, if it differs.",
        Hashed.APART,
        "stored",
    ),
    Key(
        "columns",
        Named("column", MOST_COLUMNS, COLUMN),
        Default(words="no columns"),
        "The columns that exist for queries.",
        Hashed.APART,
    ),
    *SEALED_TABLE,
)
TABLE = Section(
    _TABLE_KEYS,
    any_of=("public", "unit"),
    advice=f"The keys of a table are: {', '.join(key.name for key in _TABLE_KEYS)}; "
    "its columns are declared below columns.",
)
ANALYST = Section(
    (
        Key("epsilon", _EPSILON, _ADD_EPSILON, "The maximum epsilon of all answers to this analyst.", Hashed.ALWAYS),
        Key(
            "delta",
            _DELTA,
            Default(words="`budget.delta`"),
            "The maximum delta of all answers to this analyst.",
            Hashed.ALWAYS,
        ),
    )
)
POLICY = Section(
    (
        Key(
            "name",
            Name("policy"),
            Default(words="name of the policy file; for a dict, `dataset`"),
            "The name of the dataset in refusals and receipts.",
            Hashed.ALWAYS,
        ),
        Key(
            "source",
            _location(SOURCES, "text; in a dict, also a dict of frames"),
            Default(words="required, unless `sealed` is given"),
            "The location of the data, such as parquet:FOLDER or a postgresql:// address.",
            Hashed.APART,
        ),
        Key(
            "ledger",
            _location(LEDGERS),
            Default(words="`NAME.ledger` beside the policy"),
            "The location of the ledger: sqlite: with a path, or a postgresql:// address.",
            Hashed.APART,
        ),
        Key(
            "refresh",
            Choice(tuple(Refresh), _REFRESH, Refresh),
            Default(Refresh.MANUAL),
            "When sfumato reads the source again.",
            Hashed.APART,
        ),
        Key(
            "neighbours",
            Choice(tuple(Neighbours), _NEIGHBOURS, Neighbours),
            Default(Neighbours.ADD_REMOVE),
            "Which databases must be hard to distinguish.",
            Hashed.ALWAYS,
        ),
        Key(
            "padding",
            Duration(
                Fraction(1, 100),
                Fraction(60),
                'duration from `"10ms"` to `"60s"`',
                "It is a duration from 10ms to 60s.",
                'Write for example padding = "1s" or padding = "250ms".',
            ),
            Default(),
            "Everything that a server sends leaves at multiples of this duration.",
            Hashed.APART,
        ),
        Key(
            "answers",
            Choice(tuple(Sharing), _ANSWERS, Sharing),
            Default(Sharing.SEPARATE),
            "Who gets a stored answer again at no cost.",
        ),
        Key(
            "budget",
            BUDGET,
            Required(_OWNER_CHOOSES, "Add [budget] with epsilon and delta (delta = 0 is allowed)."),
            "The maximum price of all answers together.",
            Hashed.APART,
        ),
        Key(
            "tables",
            Named("table", MOST_TABLES, TABLE, least=1),
            Required("A policy must declare at least one table.", "Add [tables.NAME] with its unit and columns."),
            "The tables of the source that exist for queries.",
            Hashed.APART,
        ),
        Key(
            "analysts",
            Named("analyst", MOST_ANALYSTS, ANALYST),
            Default(words="none: all spend from the dataset's budget"),
            "Analysts with their own budget, within the budget of the dataset.",
            Hashed.APART,
        ),
        Key(
            "csv",
            CSV,
            Default(PLAIN, "commas, UTF-8, decimal point"),
            "The format of the CSV files of the source.",
            Hashed.APART,
        ),
        Key(
            "sealed",
            SEALED,
            Default(words="none: read from `source`"),
            "The store of ciphertexts and its key, instead of source.",
            Hashed.APART,
        ),
    ),
    any_of=("source", "sealed"),
)
KEYS = dict(POLICY.walk())
"""Every key by its path, such as `tables.TABLE.unit`."""
