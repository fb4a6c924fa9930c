"""The policy file that `sfumato init` leaves: beside the data, never inside it, never over another file."""

import os
import re
from pathlib import Path

from sfumato.errors import BadParameter, quote_value
from sfumato.policy.schemes import built_in_schemes
from sfumato.policy_draft.draft import Draft
from sfumato.policy_draft.writing import check_draft, policy_text


def without_scheme(data: Path) -> Path:
    """Return the path of data that was named as a policy names its source: sqlite:clinic.db."""
    scheme, colon, rest = str(data).partition(":")
    drafted = [known.name for known in built_in_schemes() if known.can_draft]
    return Path(rest) if colon and rest and scheme in drafted and not data.exists() else data


def default_output(data: Path | str) -> Path:
    """Return the name of the policy for this data, in the working folder; a text is the name of a database."""
    if isinstance(data, str):
        return Path(f"{re.sub(r'[^A-Za-z0-9_-]+', '_', data)}.toml")
    name = data.absolute().name
    return Path(f"{name.partition('.')[0] if data.is_file() else name}.toml")


def check_output(data: Path | None, output: Path) -> None:
    """Refuse a place for the policy, before anything is asked or read."""
    if output.exists():
        raise BadParameter(
            f"{quote_value(str(output))} exists.",
            "A policy file is never overwritten.",
            "Name another file with --output, or move that one away.",
        )
    folder = output.absolute().parent
    if not folder.is_dir():
        raise BadParameter(
            f"{quote_value(str(output))} lies in a folder that does not exist.",
            "It is written there.",
            "Create the folder.",
        )
    if data is not None and data.is_dir() and folder.resolve().is_relative_to(data.resolve()):
        raise BadParameter(
            f"{quote_value(str(output))} would lie inside the data.",
            "The ledger and its secrets lie beside the policy, and do not belong among the data.",
            "Write the policy outside of that folder, with --output.",
        )


def write_policy(draft: Draft, data: Path | str, output: Path, *, keep: bool = False) -> None:
    """Write the draft as a policy file, if some completion of it is a policy; `keep` writes it in any case.

    A path is written relative to the policy; a text stands after the scheme as it is.

    Answers of an interview are never lost: their errors are then reported after writing the file.
    """
    name = output.stem
    source = data if isinstance(data, str) else os.path.relpath(data.absolute(), output.absolute().parent)
    if not keep:
        check_draft(draft, name, source)
    try:
        with output.open("x", encoding="utf-8") as stream:
            stream.write(policy_text(draft, name, source))
    except OSError:
        raise BadParameter(
            f"{quote_value(str(output))} cannot be written.",
            "The folder may not be written to.",
            "Choose another --output.",
        ) from None
    if keep:
        check_draft(draft, name, source)
