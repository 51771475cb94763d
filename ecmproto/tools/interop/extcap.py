"""Capture sources for Wireshark with the extcap protocol: queries of interfaces, options and the toolbar.

Wireshark runs every program in the extcap folder when Wireshark starts, so imports must be fast. Only
`interop.sources`, which is loaded for a capture, imports numpy and the engines. There are three interfaces: a
lab scenario, a software switch port between real interfaces, and a paced replay.

Section 8.2 of Wireshark's Developer's Guide defines the format of the answers and the control messages.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ecmproto._version import __version__
from ecmproto.errors import ParameterError

LAB, PORT, REPLAY = "ecmproto-lab", "ecmproto-port", "ecmproto-replay"
SCRIPT_NAME = "ecmproto-extcap"
_HELP = "https://www.wireshark.org/docs/man-pages/extcap.html"

Values = Sequence[tuple[str, str]]
"""The values of a selector with their display texts."""


class Option(NamedTuple):
    """An option of an interface in Wireshark's dialog and preferences."""

    call: str
    display: str
    type: str
    tooltip: str
    group: str
    default: str = ""
    values: str = ""
    """The name of the list of selector values (see `_values`)."""
    extra: str = ""
    """Further attributes in braces."""
    pattern: str = ""
    """A regular expression that the value must match."""
    needed: str = ""
    """A description of the pattern for error messages."""
    required: bool = False

    @property
    def name(self) -> str:
        """The name of the option without leading dashes."""
        return self.call.removeprefix("--")


_NUMBER = r"[0-9]+(\.[0-9]+)?"
RATE_PATTERN = rf"{_NUMBER} ?[kMGT]?(b/s|bit/s|bps)?"
SIZE_PATTERN = rf"{_NUMBER} ?([kMG]i?)?(B|frames)?"
_SETTINGS_PATTERN = r"([A-Za-z0-9_.>]+=\S+( +|$))*"

SPEEDS: Values = (
    ("max", "as fast as possible"),
    ("10", "10 times as fast"),
    ("1", "original speed: 1 s takes 1 s"),
    ("1/10", "1 s takes 10 s"),
    ("1/100", "1 s takes 100 s"),
    ("1/1000", "1 ms takes 1 s"),
    ("1/10000", "1 ms takes 10 s"),
    ("1/1000000", "1 µs takes 1 s"),
)


_SPEED = "Speed at which the capture's time, or a scenario's virtual time, passes"
_BENEATH = "PAUSE or PFC in addition to the mechanism"
_SETTINGS = "NAME=VALUE, spaces between"
_FLOW_CONTROL = Option("--flow-control", "Flow control", "selector", _BENEATH, "Port", values="flow control")
_PARAM = Option(
    "--param", "Parameters", "string", "Such as qeq=33kB rp.gd=0.01, separated by spaces", "Port",
    pattern=_SETTINGS_PATTERN, needed=_SETTINGS,
)  # fmt: skip
_SEED = Option(
    "--seed", "Seed", "unsigned", "Seed of random numbers", "Port", default="1", extra="{range=0,4294967295}"
)  # fmt: skip

OPTIONS: Mapping[str, tuple[Option, ...]] = {
    LAB: (
        Option("--scenario", "Scenario", "selector", "A network, its flows and its results", "Scenario",
                default="qcn-baseline-1", values="scenarios", extra="{reload=true}"),
        Option("--variant", "Variant", "string", "A variant of the scenario (ecmproto lab show)", "Scenario",
                pattern=r"[A-Za-z0-9_.-]*", needed="the name of a variant"),
        Option("--file", "Or a file", "fileselect", "A scenario in TOML, or a capture with the traffic",
                "Scenario", extra="{mustexist=true}{fileext=Scenarios (*.toml);;Captures (*.pcap *.pcapng)}"),
        Option("--mechanism", "Mechanism", "selector", "Mechanism of the congestion and reaction points",
                "Control", values="mechanisms or none", extra="{reload=true}"),
        Option("--flow-control", "Flow control", "selector", _BENEATH, "Control",
                values="flow control"),
        Option("--set", "Changes", "string", "Such as duration=50ms control.rp.ru=8Mb/s, separated by spaces",
                "Control", pattern=_SETTINGS_PATTERN, needed=_SETTINGS),
        Option("--seed", "Seed", "unsigned", "Seed of random numbers; empty: the scenario's", "Control",
                extra=_SEED.extra),
        Option("--speed", "Speed", "selector", _SPEED, "Output", default="1/1000", values="speeds"),
        Option("--links", "Links", "string", "Names or patterns of links (left>right s1>*); empty: all",
                "Output"),
    ),
    REPLAY: (
        Option("--file", "Capture", "fileselect", "A capture of Ethernet: pcap or pcapng", "Capture",
                extra="{mustexist=true}{fileext=Captures (*.pcap *.pcapng *.gz *.zst)}", required=True),
        Option("--filter", "Display filter", "string", "Replay only the frames that this filter selects",
                "Capture"),
        Option("--mechanism", "Mechanism", "selector", "Mechanism of the port's congestion point", "Port",
                default="qcn", values="mechanisms", extra="{reload=true}"),
        Option("--loop", "Loop", "selector", "Open loop, or closed loop with stations that react", "Port",
                default="open", values="loops"),
        Option("--rate", "Rate", "string", "Speed of the port", "Port", default="10G",
                pattern=RATE_PATTERN, needed="a rate such as 10G"),
        Option("--buffer", "Buffer", "string", "Capacity of its queues, such as 500kB or 100frames", "Port",
                default="500kB", pattern=SIZE_PATTERN, needed="a size such as 500kB or 100frames"),
        _FLOW_CONTROL,
        _PARAM,
        _SEED,
        Option("--speed", "Speed", "selector", _SPEED, "Output", default="1", values="speeds"),
    ),
    PORT: (
        Option("--in", "Inputs", "multicheck", "Interfaces whose frames go to the output", "Interfaces",
                values="interfaces", extra="{reload=true}", required=True),
        Option("--out", "Output", "selector", "The interface with the queue", "Interfaces",
                values="interfaces", extra="{reload=true}", required=True),
        Option("--mechanism", "Mechanism", "selector", "Mechanism of the port's congestion point", "Port",
                default="qcn", values="mechanisms", extra="{reload=true}"),
        Option("--rate", "Rate", "string", "Speed of the output", "Port",
                default="100M", pattern=RATE_PATTERN, needed="a rate such as 10G"),
        Option("--buffer", "Buffer", "string", "Capacity of its queues, such as 500kB or 1000frames", "Port",
                default="1000frames", pattern=SIZE_PATTERN, needed="a size such as 500kB or 100frames"),
        _FLOW_CONTROL,
        _PARAM,
        _SEED,
    ),
}  # fmt: skip

INTERFACES: Mapping[str, str] = {
    LAB: "ecmproto laboratory",
    REPLAY: "ecmproto replay",
    PORT: "ecmproto switch port",
}


class Control(NamedTuple):
    """A control of the toolbar. All interfaces have the same controls, and disable unused controls."""

    number: int
    type: str
    display: str
    tooltip: str
    values: str = ""
    default: str = ""
    extra: str = ""


LOG, PAUSE, SPEED, MECHANISM, RATE = range(5)
CONTROLS = (
    Control(LOG, "button", "Log", "Messages of the running capture", extra="{role=logger}"),
    Control(PAUSE, "button", "Pause", "Pause and resume", extra="{role=control}"),
    Control(SPEED, "selector", "Speed", _SPEED, values="speeds", default="1"),
    Control(MECHANISM, "selector", "Mechanism", "Restart with another mechanism; times continue",
            values="mechanisms", default="qcn"),
    Control(RATE, "string", "Rate", "Restart with another rate of the port; times continue",
            extra=f"{{validation={RATE_PATTERN}}}{{placeholder=as 10G}}"),
)  # fmt: skip


_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


# Values of selectors --------------------------------------------------------------------------------------


def scenario_titles() -> Values:
    """Return the names and titles of the bundled scenarios. Only the title line of each file is parsed."""
    folder = os.path.join(_PACKAGE, "control", "lab", "scenarios")
    titles = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".toml"):
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                title = re.search(r'^title = "(.*)"$', stream.read(), re.MULTILINE)
            titles.append((name.removesuffix(".toml"), title.group(1) if title else ""))
    return titles


def mechanism_titles() -> Values:
    """Return the names and titles of all mechanisms, which takes a tenth of a second.

    The title of an external mechanism is its name.
    """
    from ecmproto.control.mechanisms.registry import MECHANISMS, mechanism_names

    titles = {mechanism.name: mechanism.title for mechanism in MECHANISMS}
    return [(name, f"{name}: {titles[name]}" if name in titles else name) for name in mechanism_names()]


def interface_names() -> list[str]:
    """Return the names of the network interfaces, or an empty list if the system does not list interfaces."""
    try:
        return sorted(os.listdir("/sys/class/net"))
    except OSError:
        return []


def _values(source: str, mechanisms: Values | None) -> Values:
    if source.startswith("mechanisms"):
        titles = mechanism_titles() if mechanisms is None else mechanisms
        return [("", "the scenario's mechanism"), *titles] if source.endswith("or none") else titles
    if source == "scenarios":
        return [(name, f"{name}: {title}") for name, title in scenario_titles()]
    if source == "interfaces":
        return [(name, name) for name in interface_names()]
    fixed: Mapping[str, Values] = {
        "speeds": SPEEDS,
        "flow control": (("", "none, or the scenario's"), ("pause", "PAUSE"), ("pfc", "PFC")),
        "loops": (("open", "open: frames arrive as captured"), ("closed", "closed: stations react")),
    }
    return fixed[source]


# Sentences ------------------------------------------------------------------------------------------------


def sentences(query: str, interface: str = "", option: str = "", *, mechanisms: Values | None = None) -> str:
    """Return the answer to a query for interfaces, link types, options or a capture filter."""
    if query == "interfaces":
        lines = [_line("extcap", version=__version__, help=_HELP, display="ecmproto")]
        lines += [_line("interface", value=name, display=text) for name, text in INTERFACES.items()]
        lines += _controls(mechanisms)
    elif query == "dlts":
        lines = [_line("dlt", number="1", name="EN10MB", display="Ethernet")]
    elif query == "filter":
        lines = [f"capture filter: expected {_NO_FILTER}"]  # any answer means that the filter is invalid
    else:
        lines = list(_config(interface, option, mechanisms))
    return "".join(f"{line}\n" for line in lines)


def _line(kind: str, **attributes: str) -> str:
    # The grammar has no escapes: a brace ends a value.
    clean = {name: value.replace("{", "(").replace("}", ")") for name, value in attributes.items()}
    return f"{kind} " + "".join(f"{{{name}={value}}}" for name, value in clean.items() if value)


def _controls(mechanisms: Values | None) -> Iterator[str]:
    for control in CONTROLS:
        line = _line(
            "control",
            number=str(control.number),
            type=control.type,
            display=control.display,
            tooltip=control.tooltip,
        )
        yield line + control.extra
        for value, display in _values(control.values, mechanisms) if control.values else ():
            chosen = "true" if value == control.default else ""
            number = str(control.number)
            # A toolbar is too narrow for titles.
            short = value if control.number == MECHANISM else display
            yield _line("value", control=number, value=value, display=short, default=chosen)


def _config(interface: str, option: str, mechanisms: Values | None) -> Iterator[str]:
    """Yield the options of an interface.

    With ``option``, only the current values of this option are returned.
    """
    for number, each in enumerate(OPTIONS[interface]):
        if not option:
            line = _line(
                "arg",
                number=str(number),
                call=each.call,
                display=each.display,
                type=each.type,
                tooltip=each.tooltip,
                default=each.default,
                required="true" if each.required else "",
                group=each.group,
            )
            # A regular expression may contain braces, but these expressions do not.
            yield line + each.extra + (f"{{validation=^({each.pattern})$}}" if each.pattern else "")
        if each.values and option in ("", each.name):
            for value, display in _values(each.values, None if option else mechanisms):
                default = "true" if value == each.default else ""
                # An empty value must be present too.
                yield (
                    f"value {{arg={number}}}{{value={value}}}"
                    + _line("", display=display, default=default)[1:]
                )


# The command line -----------------------------------------------------------------------------------------


class Request(NamedTuple):
    """A query from Wireshark of type ``action``: interfaces, dlts, config, filter or capture."""

    action: str
    interface: str = ""
    fifo: str = ""
    control_in: str = ""
    control_out: str = ""
    reload: str = ""
    options: Mapping[str, str] = {}


_FLAGS = {
    "--extcap-interfaces": "interfaces",
    "--extcap-dlts": "dlts",
    "--extcap-config": "config",
    "--capture": "capture",
}


_NO_FILTER = "none: the options of the interface select frames"


def parse(arguments: Sequence[str]) -> Request:
    """Parse the command line from Wireshark. Unknown options are ignored.

    Raises ParameterError for an invalid value.
    """
    requested, given = "", {}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if argument in _FLAGS:
            requested = requested if requested == "capture" else _FLAGS[argument]
        elif name == "--extcap-version":
            requested = requested or "interfaces"
        elif not name.startswith("--"):
            raise ParameterError(name="extcap", needed="an option such as --capture", got=repr(argument))
        else:
            given[name] = value if equals else next(rest, "")
    if not requested and "--extcap-capture-filter" in given:
        requested = "filter"
    if not requested:
        needed = ", ".join(_FLAGS)
        raise ParameterError(name="extcap", needed=f"one of {needed}", got="none")
    interface = given.get("--extcap-interface", "")
    if requested != "interfaces" and interface not in INTERFACES:
        needed = f"one of {', '.join(INTERFACES)}"
        raise ParameterError(name="--extcap-interface", needed=needed, got=repr(interface))
    options = {option.name: given.get(option.call, "") for option in OPTIONS.get(interface, ())}
    request = Request(
        requested,
        interface,
        given.get("--fifo", ""),
        given.get("--extcap-control-in", ""),
        given.get("--extcap-control-out", ""),
        given.get("--extcap-reload-option", "").lstrip("-"),
        options,
    )
    if requested == "capture" and given.get("--extcap-capture-filter"):
        raise ParameterError(name="capture filter", needed=_NO_FILTER, got=given["--extcap-capture-filter"])
    return _checked(request) if requested == "capture" else request


def _checked(request: Request) -> Request:
    """Validate a capture request, and return the request with defaults.

    Raises ParameterError for an invalid value.
    """
    options = {}
    if not request.fifo:
        raise ParameterError(name="--fifo", needed="the name of a FIFO to write to", got="none")
    for option in OPTIONS[request.interface]:
        value = request.options[option.name].strip() or option.default
        if option.required and not value:
            needed = f"{option.tooltip[0].lower()}{option.tooltip[1:]}"
            raise ParameterError(name=option.call, needed=needed, got="none")
        if value and option.pattern and not re.fullmatch(option.pattern, value):
            raise ParameterError(name=option.call, needed=option.needed, got=repr(value))
        if option.type == "unsigned" and value and not (value.isdecimal() and int(value) < 1 << 32):
            raise ParameterError(name=option.call, needed="a number from 0 to 4294967295", got=repr(value))
        if option.name == "speed":
            speed_of(value)
        options[option.name] = value
    return request._replace(options=options)


def speed_of(text: str) -> float | None:
    """Parse a speed such as ``1``, ``1/1000`` or ``0.5``.

    Returns ``None`` for ``max``, which is unlimited speed.
    """
    if text == "max":
        return None
    match = re.fullmatch(rf"({_NUMBER})(?:/({_NUMBER}))?", text)
    speed = 0.0
    if match is not None and float(match[3] or 1) > 0:
        speed = float(match[1]) / float(match[3] or 1)
    if not 1e-12 <= speed <= 1e12:
        raise ParameterError(name="--speed", needed="max, or a factor such as 1/1000", got=repr(text))
    return speed


def main(arguments: Sequence[str] | None = None, *, mechanisms: Values | None = None) -> int:
    """Answer a query from Wireshark, and return the exit code.

    ``mechanisms`` is the list of mechanisms at the time of the installation.
    """
    try:
        request = parse(sys.argv[1:] if arguments is None else arguments)
        if request.action == "capture":
            from ecmproto.tools.interop.sources import capture

            return capture(request)
        answer = sentences(request.action, request.interface, request.reload, mechanisms=mechanisms)
    except ParameterError as error:
        print(f"ecmproto: {error}", file=sys.stderr)
        return 2
    sys.stdout.write(answer)
    sys.stdout.flush()
    return 0


# The script in Wireshark's folder -------------------------------------------------------------------------


def entry_script() -> str:
    """Return the program for Wireshark's extcap folder, which runs this module with the current Python."""
    mechanisms = "".join(f"    {value!r},\n" for value in mechanism_titles())
    return f"""\
#!{sys.executable}
# ecmproto as a source of captures for Wireshark: written by `ecmproto wireshark install`, which replaces it.
import sys

FOLDER = {os.path.dirname(_PACKAGE)!r}
if FOLDER not in sys.path:
    sys.path.insert(0, FOLDER)
from ecmproto.tools.interop.extcap import main

MECHANISMS = (
{mechanisms})
sys.exit(main(mechanisms=MECHANISMS))
"""


# Messages of the toolbar ----------------------------------------------------------------------------------

INITIALIZED, SET, ADD, REMOVE, ENABLE, DISABLE, STATUSBAR, INFORMATION, WARNING, ERROR = range(10)
_SYNC = b"T"
_HEAD_OCTETS = 6
_MAX_OCTETS = (1 << 24) - 1


class Message(NamedTuple):
    """A message to or from the toolbar, with the number of the control, a command and a text."""

    number: int
    command: int
    text: str = ""

    def build(self) -> bytes:
        """Return the encoded message: the letter T, the length in three octets, control, command and text."""
        payload = self.text.encode()[: _MAX_OCTETS - 2]
        return _SYNC + (len(payload) + 2).to_bytes(3, "big") + bytes([self.number, self.command]) + payload


def split_messages(octets: bytes) -> tuple[list[Message], bytes]:
    """Return the messages in ``octets`` and the incomplete rest. Invalid octets are skipped."""
    messages: list[Message] = []
    while len(octets) >= _HEAD_OCTETS:
        length = int.from_bytes(octets[1:4], "big")
        if octets[:1] != _SYNC or length < 2:
            begin = octets.find(_SYNC, 1)
            octets = octets[begin:] if begin > 0 else b""
            continue
        if len(octets) < 4 + length:
            break
        text = octets[_HEAD_OCTETS : 4 + length].decode(errors="replace")
        messages.append(Message(octets[4], octets[5], text))
        octets = octets[4 + length :]
    return messages, octets


def joined(messages: Iterable[Message]) -> bytes:
    """Return several encoded messages."""
    return b"".join(message.build() for message in messages)


def run() -> None:
    """Answer a query from Wireshark, and exit."""
    sys.exit(main())


if __name__ == "__main__":
    run()
