"""Whether an interface is ready for frames to leave by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecmproto.errors import InterfaceError
from ecmproto_cli.errors import warn

if TYPE_CHECKING:
    from ecmproto.capture.linux.interface import InterfaceFacts


def check_link(facts: InterfaceFacts) -> None:
    """Warn of an interface without a link; InterfaceError for one that is down."""
    name = facts.name
    if not facts.up:
        raise InterfaceError(
            interface=name,
            needed="an interface that is up",
            got="one that is down",
            remedy=f"ip link set {name} up",
        )
    if not facts.running:
        warn(f"{name} has no link: what is sent may go nowhere")
