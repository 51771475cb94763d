"""``ecmproto live``: devices between real interfaces; each subcommand is imported when it is called."""

from __future__ import annotations

import importlib

import click

COMMANDS = {
    "cp": "A switch port with a congestion point.",
    "rp": "A reaction point beside a sender.",
    "edge": "The edge beside a receiver.",
    "testbed": "A network of all of them in namespaces, under real traffic.",
    "monitor": "A running table of what an interface carries.",
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
        command: click.Command = importlib.import_module(f"ecmproto_cli.commands.live_{cmd_name}").command
        command.short_help = COMMANDS[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, importing none of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Group)
def command() -> None:
    """Congestion management on real interfaces, in software.

    These commands open packet sockets: they need root, or CAP_NET_RAW and CAP_NET_ADMIN.
    """
