"""Snowflake's privacy domains and entity keys (SQL) as wishes: ranges are bounds, lists are values, keys are units."""

import re
from pathlib import Path

from sfumato.policy_draft.draft import DraftOptions
from sfumato.policy_draft.metadata_files import not_metadata, read_text

_WHAT = "a script with privacy domains of Snowflake"
_SHAPE = "It has statements such as ALTER TABLE t ALTER COLUMN c SET PRIVACY DOMAIN BETWEEN (0, 90)."
_NAME = r'(?:"(?:[^"]|"")+"|[\w$]+)'
_PATH = rf"(?:{_NAME}\s*\.\s*){{0,2}}{_NAME}"
_TEXT = r"'(?:[^']|'')*'"
_TOKEN = re.compile(rf"--[^\n]*|//[^\n]*|/\*.*?\*/|({_TEXT})", re.DOTALL)
_STATEMENT = re.compile(rf"(?:{_TEXT}|\"[^\"]*\"|[^;'\"])+")
_TABLE = re.compile(
    rf"\s*(?:ALTER|CREATE(?:\s+OR\s+REPLACE)?)\s+(?:TABLE|VIEW)(?:\s+IF\s+(?:NOT\s+)?EXISTS)?\s+({_PATH})",
    re.IGNORECASE,
)
_DOMAIN = re.compile(
    rf"({_NAME})\s+\w+(?:\s*\([\d,\s]*\))?\s+PRIVACY\s+DOMAIN\s*\(?\s*"  # SET, or the type of a new column
    rf"(?:BETWEEN\s*\(?\s*(?P<low>{_TEXT}|-?[\d.]+)\s*(?:,|AND)\s*(?P<high>{_TEXT}|-?[\d.]+)"
    rf"|IN\s*\(\s*(?P<values>(?:{_TEXT}|-?[\d.]+)(?:\s*,\s*(?:{_TEXT}|-?[\d.]+))*)\s*\)"
    rf"|REFERENCES\s+(?P<table>{_PATH})\s*\(\s*(?P<column>{_NAME})\s*\))",
    re.IGNORECASE,
)
_ENTITY = re.compile(rf"ENTITY\s+KEY\s*\(\s*({_NAME})\s*\)", re.IGNORECASE)


def read_snowflake(file: Path) -> DraftOptions:
    """Read the statements that set privacy domains and entity keys; all others are passed over."""
    text = _TOKEN.sub(lambda found: found[1] or " ", read_text(file, _WHAT, _SHAPE))
    units: list[str] = []
    bounds: dict[str, tuple[str, str]] = {}
    values: dict[str, tuple[str, ...]] = {}
    for statement in _STATEMENT.findall(text):
        named = _TABLE.match(statement)
        if named is None:
            continue
        table = _last_name(named[1])
        units += [f"{table}={_last_name(key)}" for key in _ENTITY.findall(statement)]
        for domain in _DOMAIN.finditer(statement):
            path = f"{table}.{_last_name(domain[1])}"
            if domain["low"] is not None:
                bounds[path] = (_value(domain["low"]), _value(domain["high"]))
            elif domain["values"] is not None:
                values[path] = tuple(map(_value, re.findall(rf"{_TEXT}|-?[\d.]+", domain["values"])))
            else:
                values[path] = (f"{_last_name(domain['table'])}.{_last_name(domain['column'])}",)
    if not (units or bounds or values):
        raise not_metadata(file, _WHAT, _SHAPE)
    return DraftOptions(units=tuple(dict.fromkeys(units)), bounds=bounds, values=values)


def _last_name(path: str) -> str:
    """Return the last name of a path; one without quotes is folded by Snowflake, and is found in any case here."""
    name = str(re.findall(_NAME, path)[-1])
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _value(text: str) -> str:
    return text[1:-1].replace("''", "'") if text.startswith("'") else text
