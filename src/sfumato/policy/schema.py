"""The JSON Schema of a policy, for editors that complete and check TOML files while they are written."""

from sfumato.policy.keys import POLICY
from sfumato.policy.kinds import JsonSchema


def policy_schema() -> JsonSchema:
    """Return the JSON Schema (draft 2020-12) of a policy file.

    It knows keys, types, ranges of numbers and required keys. What depends on other keys, `read_policy` checks alone.

    >>> policy_schema()["required"]
    ['budget', 'tables']
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "sfumato policy",
        "description": "What the data owner promises: who is protected, within which bounds, for which budget.",
        **POLICY.schema(),
    }
