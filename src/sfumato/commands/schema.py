"""`sfumato schema`: the JSON Schema of policy files."""

import json

import click


@click.command()
def schema() -> None:
    """Print the JSON Schema of policies, for editors."""
    from sfumato.policy.schema import policy_schema

    click.echo(json.dumps(policy_schema(), indent=2, ensure_ascii=False))
