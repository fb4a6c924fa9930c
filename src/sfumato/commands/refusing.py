"""Refusals are answers: printed without a trace, with exit status 2."""

import sys
from shutil import get_terminal_size
from textwrap import fill

import click

from sfumato.errors import BadParameter, Interface, Refusal

_LABEL_CHARS = 8
REFUSED_EXIT_CODE = 2
"""The exit status of a refusal, and of a command line that cannot be read."""


class Refusing(click.Group):
    """A group of commands that prints their refusals."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except Refusal as refusal:
            print_refusal(refusal)
            ctx.exit(REFUSED_EXIT_CODE)
        except OSError as failure:
            from sfumato.secure_files import path_refusal

            refused = path_refusal(failure, BadParameter)
            if not isinstance(refused, Refusal):
                raise
            print_refusal(refused)
            ctx.exit(REFUSED_EXIT_CODE)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were added."""
        return list(self.commands)


def print_refusal(refusal: Refusal, speaker: Interface = Interface.COMMAND) -> None:
    """Print what, why and what next to stderr, a line each; what it quotes may hold anything."""
    from sfumato.release.rendering.escaping import escape_unprintable

    head = click.style(f"Refused ({refusal.code}):", fg="red", bold=True)
    click.echo(f"{head} {escape_unprintable(refusal.what)}", err=True)
    for name, text in (("why", refusal.why), ("next", refusal.remedy_for(speaker))):
        click.echo(_indent(f"  {name}:".ljust(8), escape_unprintable(text)), err=True)


def _indent(head: str, text: str) -> str:
    """Return a paragraph after its head: on a terminal in lines that break between words, elsewhere on one line."""
    if not sys.stderr.isatty():
        return f"{head}{text}"
    width = max(get_terminal_size().columns, 2 * _LABEL_CHARS)
    return fill(
        text,
        width,
        initial_indent=head,
        subsequent_indent=" " * _LABEL_CHARS,
        break_long_words=False,
        break_on_hyphens=False,
    )
