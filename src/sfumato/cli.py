"""The command line: one function per verb. A verb imports what it runs when it runs, so that help comes at once."""

import sys

import click

from sfumato.errors import REFUSALS, Refusal


class _Refusing(click.Group):
    """A group whose refusals are answers: printed without a trace, with exit status 2."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except Refusal as refusal:
            click.echo(f"Refused ({refusal.code}): {refusal}", err=True)
            ctx.exit(2)


@click.group(cls=_Refusing, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sfumato", message="sfumato %(version)s")
def main() -> None:
    """Answers about many people that tell next to nothing about any one of them."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters is no reason to fail


@main.command()
def demo() -> None:
    """A tour on made-up patients: noise, error bars, prices, a budget that ends."""
    from rich.console import Console

    from sfumato.demo import tour
    from sfumato.randomness.source import system_source

    tour(Console(highlight=False), system_source())


@main.command()
def codes() -> None:
    """Every refusal code with its meaning."""
    listing = click.HelpFormatter(width=80)
    listing.write_dl([(kind.code, " ".join((kind.__doc__ or "").split())) for kind in REFUSALS])
    click.echo(listing.getvalue(), nl=False)
