"""The keys of tables and columns."""

from sfumato.policy.kinds import (
    NUMBER_LIMITS,
    Default,
    Described,
    ExactNumber,
    Flag,
    Hashed,
    JsonSchema,
    NamedTables,
    OneOf,
    OrChosen,
    PolicyKey,
    Required,
    Section,
    Text,
    WholeNumber,
)
from sfumato.policy.policy import ColumnType

MAX_COLUMNS = 2000
MAX_ROWS_PER_UNIT = 10**9
MAX_DECLARED_VALUES = 10_000
"""As many cells as an answer may have."""
MAX_VALUE_CHARS = 1000
DEFAULT_TEXT_CHARS = 1000
"""The most characters of a text that count, where the policy does not say."""
MAX_UNIT_CHARS = 300
MAX_FORMAT_CHARS = 60
MAX_CAPACITY_ROWS = 10**9

_VALUE: JsonSchema = {"type": ["boolean", "number", "string"], **NUMBER_LIMITS, "maxLength": MAX_VALUE_CHARS}
_BOUNDS: JsonSchema = {"type": "array", "items": {**_VALUE, "type": ["number", "string"]}, "minItems": 2, "maxItems": 2}
_VALUES: JsonSchema = {
    "anyOf": [
        {"type": "array", "items": _VALUE, "minItems": 1, "maxItems": MAX_DECLARED_VALUES, "uniqueItems": True},
        {"type": "string", "pattern": r"^[^.]+\..+$"},
    ]
}
TYPE_SYNONYMS = {
    **dict.fromkeys(("int", "bigint", "smallint", "int64", "int32", "long", "hugeint", "serial"), "integer"),
    **dict.fromkeys(("float", "double", "real", "numeric", "number", "float64", "money"), "decimal"),
    **dict.fromkeys(("bool", "bit", "logical"), "boolean"),
    **dict.fromkeys(("string", "varchar", "char", "str", "enum", "category", "uuid"), "text"),
    **dict.fromkeys(("datetime", "timestamptz", "instant"), "timestamp"),
    "day": "date",
}


def _names(what: str) -> Described:
    items: JsonSchema = {"type": "string", "maxLength": 100}
    return Described(
        f"list of {what} names", {"type": "array", "items": items, "maxItems": MAX_COLUMNS, "uniqueItems": True}
    )


COLUMN = Section(
    (
        PolicyKey(
            "type",
            OneOf(tuple(ColumnType), TYPE_SYNONYMS, ColumnType),
            Required("Every declared column needs a type.", f"Add type: one of {', '.join(ColumnType)}."),
            "The type of the column, independent of how the source stores it.",
            Hashed.APART,
        ),
        PolicyKey(
            "bounds",
            OrChosen(
                Described("two values", _BOUNDS),
                "within",
                'bounds = { within = [0, 1000000], choose = "private" }',
                'two values, or `{ within = [LOW, HIGH], choose = "private" }`',
            ),
            Default((None, False), "none: the column cannot be summed"),
            "The smallest and the largest value that count; values beyond them are clipped.",
            Hashed.APART,
        ),
        PolicyKey(
            "total_per_unit",
            ExactNumber("number"),
            Default(),
            "The maximum that one person adds to a sum of the column.",
            Hashed.APART,
        ),
        PolicyKey(
            "step",
            ExactNumber("number from 1e-18 to 1e18", {"minimum": 1e-18, "maximum": 1e18}),
            Default(words="none; required for a decimal with bounds or values"),
            "The precision of a decimal: values are stored as whole numbers of steps.",
            Hashed.APART,
        ),
        PolicyKey(
            "values",
            Described('list of values, or `"TABLE.COLUMN"`', _VALUES),
            Default(words="none: keys are selected privately"),
            "The public keys: listed, or the values of a column of a public table.",
            Hashed.APART,
        ),
        PolicyKey("unique", Flag(), Default(False), "Whether each person keeps each value once.", Hashed.APART),
        PolicyKey(
            "length",
            WholeNumber(1_000_000),
            Default(words=f"{DEFAULT_TEXT_CHARS:,}"),
            "The maximum number of characters of a text that count.",
            Hashed.APART,
        ),
        PolicyKey(
            "join",
            OneOf(("deterministic",), {"equality": "deterministic"}, bool),
            Default(False, "none: sealed tables are not joined"),
            "Lets a sealed store see which rows have equal values, so that tables can be joined.",
            Hashed.APART,
            "joins",
        ),
        PolicyKey(
            "format",
            Described("text", {"type": "string", "maxLength": MAX_FORMAT_CHARS}),
            Default(words="ISO 8601, `2024-12-31`"),
            "How a date or timestamp is written where the source stores text, such as %d/%m/%Y.",
            Hashed.APART,
        ),
    )
)
SEALED_TABLE = (
    PolicyKey(
        "cells",
        _names("column"),
        Default(words="none: all rows are one cell"),
        "The columns of a sealed table whose values form its cells.",
        Hashed.APART,
    ),
    PolicyKey(
        "measures",
        _names("column"),
        Default(words="none: rows can be counted only"),
        "The columns of a sealed table that can be counted, summed and averaged.",
        Hashed.APART,
    ),
    PolicyKey("squares", _names("measure"), Default(), "The measures whose variance can be queried.", Hashed.APART),
    PolicyKey("nulls", _names("measure"), Default(), "The measures that may be NULL.", Hashed.APART),
    PolicyKey(
        "splayed",
        _names("column"),
        Default(),
        "Columns with few values of which the store learns nothing, not even padded sizes.",
        Hashed.APART,
    ),
    PolicyKey(
        "capacity",
        WholeNumber(MAX_CAPACITY_ROWS),
        Default(1_000_000),
        "The maximum number of rows of one cell, including dummies.",
        Hashed.APART,
    ),
)
_TABLE_KEYS = (
    PolicyKey("public", Flag(), Default(False), "Whether the table contains no personal data.", Hashed.APART),
    PolicyKey(
        "unit",
        Described(
            "text, or a list of two texts",
            {
                "anyOf": [
                    {"type": "string", "maxLength": MAX_UNIT_CHARS},
                    {
                        "type": "array",
                        "items": {"type": "string", "maxLength": MAX_UNIT_CHARS},
                        "minItems": 2,
                        "maxItems": 2,
                    },
                ]
            },
        ),
        Default(words="required, unless the table is public"),
        "Whom the table protects: a column, rows (each row is a person), or a path such as "
        "orders.o_custkey via l_orderkey = o_orderkey. A list of two is for rows that belong to two people.",
        Hashed.APART,
    ),
    PolicyKey(
        "rows_per_unit",
        OrChosen(
            WholeNumber(MAX_ROWS_PER_UNIT),
            "most",
            'rows_per_unit = { most = 500, choose = "private" }',
            'integer from 1 to 1,000,000,000, or `{ most = N, choose = "private" }`',
        ),
        Default(words='1 if the unit is `"rows"` or `unique`; otherwise required'),
        "The maximum number of rows per person; extra rows are dropped.",
        Hashed.APART,
    ),
    PolicyKey(
        "groups_per_unit",
        OrChosen(
            WholeNumber(MAX_ROWS_PER_UNIT),
            "most",
            'groups_per_unit = { most = 20, choose = "private" }',
            'integer from 1 to 1,000,000,000, or `{ most = N, choose = "private" }`',
        ),
        Default(),
        "The maximum number of groups of one answer in which a person counts.",
        Hashed.APART,
    ),
    PolicyKey(
        "from",
        Text(MAX_UNIT_CHARS),
        Default(words="the name of the table"),
        "The name of the table in the source, if it differs.",
        Hashed.APART,
        "stored",
    ),
    PolicyKey(
        "columns",
        NamedTables("column", MAX_COLUMNS, COLUMN),
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
