"""Refusals are answers: printed without a trace, with exit status 2."""

import click

from sfumato.errors import Refusal, Speaker

REFUSED = 2
"""The exit status of a refusal, and of a command line that cannot be read."""


class Refusing(click.Group):
    """A group of verbs that prints their refusals."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a verb."""
        try:
            return super().invoke(ctx)
        except Refusal as refusal:
            print_refusal(refusal)
            ctx.exit(REFUSED)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order in which they were added."""
        return list(self.commands)


def print_refusal(refusal: Refusal, speaker: Speaker = Speaker.COMMAND) -> None:
    """Print what, why and what next to stderr, a line each; what it quotes may hold anything."""
    from sfumato.release.harmless import visible

    click.echo(f"{click.style(f'Refused ({refusal.code}):', fg='red', bold=True)} {visible(refusal.what)}", err=True)
    click.echo(f"  why:  {visible(refusal.why)}", err=True)
    click.echo(f"  next: {visible(refusal.advice(speaker))}", err=True)
