"""Every key of the policy, declared once: its kind, its default, and one sentence about it.

The reader, the messages, the JSON Schema (`sfumato schema`), the hash and the table in docs/policy/index.md follow this
table. A key that its kind reads completely needs nothing else than a field of the same name in the data class.
"""

from collections.abc import Sequence
from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.policy.account_keys import ANALYST, BUDGET, MAX_ANALYSTS, MAX_ROLES, MAX_TABLES, OWNER_CHOOSES, ROLE
from sfumato.policy.engine_keys import ENGINE
from sfumato.policy.identity_keys import IDENTITY
from sfumato.policy.kinds import (
    Default,
    Described,
    Duration,
    ExactNumber,
    Flag,
    Hashed,
    NamedTables,
    NameList,
    NameText,
    OneOf,
    PolicyKey,
    Required,
    Section,
    Text,
    Texts,
    WholeNumber,
)
from sfumato.policy.locations import KEY_FILES, LEDGERS, MAX_LOCATION_CHARS, SEALED_STORES
from sfumato.policy.policy import DEFAULT_ENGINE, PLAIN, CsvFormat, Preview, Refresh, Sharing
from sfumato.policy.schemes import Scheme, built_in_schemes
from sfumato.policy.server_keys import SERVER
from sfumato.policy.server_settings import DEFAULT_SERVER
from sfumato.policy.table_keys import TABLE

_SOURCES = tuple(scheme for scheme in built_in_schemes() if scheme.is_written)
DELIMITERS = (",", ";", "\t", "|", ":")

_PADDED_SIZES = "Padded sizes have a privacy cost, and the owner has to choose it."
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


_PREVIEW = {"none": "refused", "off": "refused", "fake": "synthetic", "made-up": "synthetic"}


def _location(schemes: Sequence[Scheme], words: str = "text") -> Described:
    spelled = [("//." if scheme.is_url else r"(?!//)\s*\S", (scheme.name, *scheme.aliases)) for scheme in schemes]
    pattern = "|".join(f"^({'|'.join(names)}):{rest}" for rest, names in spelled)
    return Described(words, {"type": "string", "pattern": pattern, "maxLength": MAX_LOCATION_CHARS})


def _is_null_text(words: str) -> bool:
    return bool(words) and words == words.strip() and words.isprintable() and '"' not in words


def _is_symbol(words: str) -> bool:
    return (
        _is_null_text(words) and words.lower() != "e" and not any(sign.isdigit() or sign in "+-.,'_ " for sign in words)
    )


def _words(example: str) -> Texts:
    why = "It is a word that fills a field."
    return Texts("list of texts", 20, Text(40, _is_null_text, why, f"Write for example {example}."))


def _beside_numbers(example: str) -> Texts:
    why = "It is a sign or a word before or after a number, without digits and without signs that belong to a number."
    return Texts("list of texts", 20, Text(10, _is_symbol, why, f"Write for example {example}."))


CSV = Section(
    (
        PolicyKey(
            "delimiter",
            OneOf(DELIMITERS, _DELIMITERS, described="comma, semicolon, tab, vertical bar or colon"),
            Default(","),
            "The character that separates two fields.",
            Hashed.ALWAYS,
        ),
        # In each of these encodings a byte below 128 is that character of ASCII: so records stay what they are.
        PolicyKey(
            "encoding",
            OneOf(("utf-8", "latin-1", "windows-1252"), _ENCODINGS),
            Default("utf-8"),
            "The encoding of text.",
            Hashed.ALWAYS,
        ),
        PolicyKey("decimal", OneOf((".", ",")), Default("."), "The decimal separator of numbers.", Hashed.ALWAYS),
        PolicyKey(
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
        PolicyKey(
            "thousands",
            OneOf(
                (",", ".", "'", " ", "_"),
                {"comma": ",", "point": ".", "apostrophe": "'", "space": " "},
                described="comma, point, apostrophe, space or underscore",
            ),
            Default("", "none"),
            "The separator between groups of three digits.",
        ),
        PolicyKey("symbols", _beside_numbers('symbols = ["%", "€"]'), Default(()), "Signs beside a number to ignore."),
        PolicyKey("true", _words('true = ["ja"]'), Default(()), "Further words for true."),
        PolicyKey("false", _words('false = ["nein"]'), Default(()), "Further words for false."),
    ),
    into=CsvFormat,
)
SEALED = Section(
    (
        PolicyKey(
            "key",
            _location(KEY_FILES),
            Required(
                "Sealing needs an encryption key.",
                'Add key = "file:../keys/clinic.key", outside the folder of the store.',
            ),
            "The file of the key, as file: with a path outside the folder of the store.",
            Hashed.APART,
        ),
        PolicyKey(
            "store",
            _location(SEALED_STORES),
            Required(
                "The policy must say where the encrypted rows are stored.",
                'Add store = "duckdb:store/clinic.duckdb".',
            ),
            "The location of the ciphertexts: duckdb: with a path, or a postgresql:// address.",
            Hashed.APART,
        ),
        PolicyKey(
            "epsilon",
            ExactNumber(
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
        PolicyKey(
            "delta",
            ExactNumber(
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
        PolicyKey(
            "integrity",
            WholeNumber(64),
            Default(16),
            "A changed answer is accepted with a probability of at most 2 to the power of minus this number.",
            Hashed.ALWAYS,
        ),
        PolicyKey(
            "accept_leak",
            Flag(),
            Default(False),
            "Whether tables may be joined, which shows the store which rows belong to one person.",
        ),
    )
)
POLICY = Section(
    (
        PolicyKey(
            "name",
            NameText("policy"),
            Default(words="name of the policy file; for a dict, `dataset`"),
            "The name of the dataset in refusals and receipts.",
            Hashed.ALWAYS,
        ),
        PolicyKey(
            "source",
            _location(_SOURCES, "text; in a dict, also a dict of frames"),
            Default(words="required, unless `sealed` is given"),
            "The location of the data, such as parquet:FOLDER or a postgresql:// address.",
            Hashed.APART,
        ),
        PolicyKey(
            "ledger",
            _location(LEDGERS),
            Default(words="`NAME.ledger` beside the policy"),
            "The location of the ledger: sqlite: with a path, or a postgresql:// address.",
            Hashed.APART,
        ),
        PolicyKey(
            "refresh",
            OneOf(tuple(Refresh), _REFRESH, Refresh),
            Default(Refresh.MANUAL),
            "When sfumato reads the source again.",
            Hashed.APART,
        ),
        PolicyKey(
            "neighbours",
            OneOf(tuple(Neighbours), _NEIGHBOURS, Neighbours),
            Default(Neighbours.ADD_REMOVE),
            "Which databases must be hard to distinguish.",
            Hashed.ALWAYS,
        ),
        PolicyKey(
            "cohort",
            Described('`TABLE.COLUMN`, or `first(TABLE.COLUMN, "year")`', {"type": "string", "maxLength": 200}),
            Default(words="none: all people share one budget"),
            "The column by which people are divided into cohorts, each with a budget of its own.",
            Hashed.APART,
        ),
        PolicyKey(
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
        PolicyKey(
            "answers",
            OneOf(tuple(Sharing), _ANSWERS, Sharing),
            Default(Sharing.SEPARATE),
            "Who gets a stored answer again at no cost.",
        ),
        PolicyKey(
            "preview",
            OneOf(tuple(Preview), _PREVIEW, Preview),
            Default(Preview.REFUSED),
            "What a tool gets that asks for the first rows of a private table.",
        ),
        PolicyKey(
            "budget",
            BUDGET,
            Required(OWNER_CHOOSES, "Add [budget] with epsilon and delta (delta = 0 is allowed)."),
            "The maximum price of all answers together.",
            Hashed.APART,
        ),
        PolicyKey(
            "tables",
            NamedTables("table", MAX_TABLES, TABLE, least=1),
            Required("A policy must declare at least one table.", "Add [tables.NAME] with its unit and columns."),
            "The tables of the source that exist for queries.",
            Hashed.APART,
        ),
        PolicyKey(
            "analysts",
            NamedTables("analyst", MAX_ANALYSTS, ANALYST),
            Default(words="none: all spend from the dataset's budget"),
            "Analysts with their own budget, within the budget of the dataset.",
            Hashed.APART,
        ),
        PolicyKey(
            "roles",
            NamedTables("role", MAX_ROLES, ROLE),
            Default(words="none: all analysts may use all tables"),
            "Roles of analysts: the tables and columns that they may use, and their caps.",
            Hashed.APART,
        ),
        PolicyKey(
            "owners",
            NameList("list of names", "owner", MAX_ANALYSTS),
            Default((), "none: the owner has one account without a name"),
            "The people who may use a server as the data owner.",
            Hashed.APART,
        ),
        PolicyKey(
            "csv",
            CSV,
            Default(PLAIN, "commas, UTF-8, decimal point"),
            "The format of the CSV files of the source.",
        ),
        PolicyKey(
            "sealed",
            SEALED,
            Default(words="none: read from `source`"),
            "The store of ciphertexts and its key, instead of source.",
            Hashed.APART,
        ),
        PolicyKey(
            "server",
            SERVER,
            Default(DEFAULT_SERVER, "ports 8000 and 5433, and the limits below"),
            "The ports and limits of `sfumato serve`.",
            Hashed.APART,
        ),
        PolicyKey(
            "identity",
            IDENTITY,
            Default(words="none: people come in by granted tokens"),
            "The OpenID Connect provider that vouches for analysts and owners.",
            Hashed.APART,
        ),
        PolicyKey(
            "engine",
            ENGINE,
            Default(DEFAULT_ENGINE, "what the machine has"),
            "The memory, threads and temporary folder of the engine.",
            Hashed.APART,
        ),
    ),
    any_of=("source", "sealed"),
)
KEYS = dict(POLICY.walk())
"""Every key by its path, such as `tables.TABLE.unit`."""
