"""`sfumato demo`."""

from pathlib import Path

import click

from sfumato.commands.options import File


@click.command()
@click.argument("folder", type=File, default="sfumato-demo")
def demo(folder: Path) -> None:
    """Show it all on made-up patients; FOLDER stays.

    A clinic is made up in FOLDER (sfumato-demo, if none is named), registered, and asked a handful of questions.
    """
    from sfumato.demo.tour import tour
    from sfumato.terminal.screen import screen

    tour(folder, screen(), screen(stderr=True))
