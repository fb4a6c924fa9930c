"""Commands of backups: `backup` and `restore`."""

from pathlib import Path

import click

from sfumato.commands.options import File, policy_file


@click.command()
@policy_file
@click.argument("folder", type=File, metavar="DIR")
def backup(policy: Path, folder: Path) -> None:
    """Back up ledger, policy, salt and grants while it runs.

    DIR is a new folder. The data and its bounded copy are not in it.
    """
    from sfumato.backups.backup import back_up

    written = back_up(policy, folder)
    click.echo(f"Backed up {written.entries} ledger entries, head {written.head}.")
    click.echo(f"Files: {', '.join(written.files)}. Only you can read them. Back up the data separately.")


@click.command()
@click.argument("folder", type=File, metavar="DIR")
@click.option("--into", type=File, metavar="FOLDER", help="Restore into this folder instead of the original one.")
@click.option("--accept", metavar="SENTENCE", help="Accept in words that answers after the backup may be lost.")
@click.option("--lost-epsilon", metavar="EPSILON", help="With --accept: count this much as spent by lost answers.")
@click.option("--lost-delta", metavar="DELTA", help="With --lost-epsilon: the delta of the lost answers.")
def restore(
    folder: Path, into: Path | None, accept: str | None, lost_epsilon: str | None, lost_delta: str | None
) -> None:
    """Restore a backup; it stays closed until you accept it.

    The restored ledger cannot know what was answered after the backup. It answers nothing until the owner accepts that
    in words, with the sentence that this command prints.
    """
    from sfumato.backups.restore import restore as restore_backup
    from sfumato.backups.texts import read_acceptance, restore_text

    done = restore_backup(folder, into, read_acceptance(accept, lost_epsilon, lost_delta))
    click.echo(restore_text(done))
