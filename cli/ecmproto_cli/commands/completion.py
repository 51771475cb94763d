"""``ecmproto completion``: the shell's own completion, from click's description of the commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL.

    For bash: ecmproto completion bash > ~/.local/share/bash-completion/completions/ecmproto
    """
    from ecmproto_cli.main import cli

    script_class = get_completion_class(shell)
    assert script_class is not None, shell
    click.echo(script_class(cli, {}, "ecmproto", "_ECMPROTO_COMPLETE").source())
