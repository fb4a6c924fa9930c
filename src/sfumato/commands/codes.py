"""`sfumato codes`: every reason for a refusal."""

import click

from sfumato.errors import REFUSALS


@click.command()
def codes() -> None:
    """Every refusal code with its meaning."""
    listing = click.HelpFormatter(width=80)
    listing.write_dl([(kind.code, " ".join((kind.__doc__ or "").split())) for kind in REFUSALS])
    click.echo(listing.getvalue(), nl=False)
