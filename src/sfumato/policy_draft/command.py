"""Run `sfumato init`: read names and types, ask for the rest, write the policy and print its assumptions."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import BadParameter
from sfumato.policy.schemes import reads_csv
from sfumato.policy_draft import file, infer_from_data
from sfumato.policy_draft.catalogue import catalogue_source, read_catalogue, refuse_inference
from sfumato.policy_draft.draft import Draft, DraftOptions, make_draft
from sfumato.policy_draft.interview import interview
from sfumato.policy_draft.options import merge_options
from sfumato.policy_draft.schema import SourceSchema, no_csv, read_source_schema
from sfumato.policy_draft.types import with_read_types
from sfumato.policy_draft.unused_options import inference_without_effect, refuse_unused_options
from sfumato.policy_draft.writing import notices, purchase_words


class InterviewAborted(Exception):  # noqa: N818  (nothing went wrong: the owner had enough)
    """The owner stopped answering."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """The owner's terminal; `ask` is None without one, and raises `InterviewAborted` when the owner leaves."""

    ask: Callable[[str], str] | None
    say: Callable[[str], None]
    warn: Callable[[str], None]


def draft_policy(
    typed: Path | str,
    options: DraftOptions,
    metadata: DraftOptions | None,
    look: bool,
    output: Path | None,
    terminal: Terminal,
) -> None:
    """Draft a policy of the data and write it; everything that was proposed, left out or assumed is said."""
    source = catalogue_source(str(typed))
    data = file.without_scheme(Path(typed)) if source is None else source.folder
    place = output or file.default_output(data or (source.name if source else ""))
    wishes = options if metadata is None else merge_options(options, metadata)
    if source is None:
        schema = read_source_schema(Path(typed) if data is None else data, options.csv)
    else:
        schema = read_catalogue(source)
        if options.csv:
            raise no_csv(options.csv)
    file.check_output(data, place)
    draft = make_draft(schema, wishes)
    refuse_unused_options(draft, options)
    if options.read_types:
        draft = _with_read_types(draft, data)
    if look and data is None and source is not None:
        raise refuse_inference(source)
    if look and data is not None:
        terminal.warn(infer_from_data.WARNING)
        before, draft = draft, infer_from_data.infer_from_data(draft, data)
        if draft == before and terminal.ask is None:
            raise inference_without_effect()
    draft = _ask_open_points(draft, schema, terminal)
    if data is not None:
        draft = infer_from_data.with_public_types(draft, data)
    target = source.target if source is not None and data is None else data or ""
    file.write_policy(draft, target, place, keep=terminal.ask is not None)
    terminal.say(f"Wrote {place}.")
    if schema.ignored:
        terminal.say(f'  Not read: {", ".join(schema.ignored)}. Save each sheet of a workbook as "CSV UTF-8".')
    if schema.unreadable:
        terminal.say(f"  Not in the policy, because they cannot be read: {', '.join(schema.unreadable)}.")
    if schema.other_schemas:
        terminal.say(f"  Other schemas with tables, not read: {', '.join(schema.other_schemas)}.")
    if source is not None and source.had_password:
        terminal.say("  The password of the URL is not in the policy: set PGPASSWORD, or use a password file.")
    for line in notices(draft):
        terminal.say(f"  {line}")
    if bought := purchase_words(draft):
        terminal.say(bought)
    if missing := draft.unknown():
        terminal.say(f"Still to fill in: {', '.join(missing)}.")
    terminal.say(f"Next: read it, then run: sfumato check {shlex.quote(str(place))}")


def _with_read_types(draft: Draft, data: Path | None) -> Draft:
    if data is None or not reads_csv(draft.scheme):
        raise BadParameter(
            "--types has no effect.", "The source declares the types of its columns.", "Remove the option."
        )
    return with_read_types(draft, data)


def _ask_open_points(draft: Draft, schema: SourceSchema, terminal: Terminal) -> Draft:
    """Ask for missing entries. An owner who stops early keeps the answers so far; the rest stays open."""
    if terminal.ask is None:
        return draft
    answers = _Answers(terminal.ask)
    draft = interview(draft, schema, answers.ask, answers.quiet(terminal.say))
    if answers.stopped and not answers.given:
        raise InterviewAborted
    if answers.stopped:
        terminal.say("Stopped. Your answers are kept; open questions are marked in the file.")
    return draft


class _Answers:
    """Answers typed so far; after the end of the input no further question is put."""

    def __init__(self, ask: Callable[[str], str]) -> None:
        self._ask = ask
        self.stopped = False
        self.given = 0

    def ask(self, question: str) -> str:
        if self.stopped:
            return ""
        try:
            typed = self._ask(question)
        except InterviewAborted:
            self.stopped = True
            return ""
        self.given += bool(typed)
        return typed

    def quiet(self, say: Callable[[str], None]) -> Callable[[str], None]:
        return lambda line: None if self.stopped else say(line)
