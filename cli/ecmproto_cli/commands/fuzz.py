"""``ecmproto fuzz``: spoilt frames for decoders; each subcommand is imported when it is called."""

from __future__ import annotations

import importlib

import click

COMMANDS = {
    "decode": "These decoders beside one another, on frames, captures, filters, specifications.",
    "guided": "These decoders, on inputs that coverage guides to (atheris).",
    "send": "A switch, by frames out of an interface, and a look at whether it is still alive.",
    "target": "Any program that reads captures: tshark, a decoder of your own.",
}


class _Group(click.Group):
    """A group whose commands live in modules of their own beside this one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of their table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None when there is no such."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"ecmproto_cli.commands.fuzz_{cmd_name}").command
        command.short_help = COMMANDS[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, importing none of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Group)
def command() -> None:
    """Find what decoders do wrong: cases made from a seed, failures reduced and kept, campaigns that go on.

    Exit code 0: nothing found; 1: findings.
    """
