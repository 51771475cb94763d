"""Completion in bash, zsh and fish: the shell scripts, and the candidates for options and arguments.

The metavar of an option (``IF``, ``FIELD``, ``FILTER``, ``MECHANISM``, ``FILE`` …) selects the completer. An
option without a metavar is selected by its name. A command can set ``shell_complete=`` instead, as in click.
Completion imports no slow modules.

The scripts call ``ecmproto``, which prints a line for each candidate. A line contains the type, the value and
the help, separated by tabs. The type is ``plain`` for a complete word, and ``open`` for a word that must be
continued. The types ``file`` and ``dir`` request the file or folder names that begin with the value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import click
from click.shell_completion import CompletionItem, ShellComplete, add_completion_class

if TYPE_CHECKING:
    from ecmproto.control.mechanisms.api.mechanism import Mechanism
    from ecmproto.control.mechanisms.api.parameters import Parameter

Items: TypeAlias = (
    "list[CompletionItem[str]]"  # a string, because CompletionItem is not generic in all versions of click
)
Completer = Callable[[click.Context, click.Parameter, str], Items]
"""The type of a completer, click's ``shell_complete``."""

OPEN = "open"
"""The type of a candidate that must be continued."""


def _items(
    candidates: Iterable[tuple[str, str]], begun: str, *, head: str = "", kind: str = "plain"
) -> Items:
    """Return the candidates whose values begin with ``begun``.

    ``head`` is the text before ``begun`` that the user has typed.
    """
    return [
        CompletionItem(f"{head}{value}", type=OPEN if value.endswith(("=", ".", ":")) else kind, help=help)
        for value, help in candidates
        if value.startswith(begun)
    ]


# Fields and filters ---------------------------------------------------------------------------------------


def _described() -> Mapping[str, str]:
    from ecmproto.wire.formats.registry import catalogue

    return {entry.name: entry.doc for entry in catalogue()}


_INNER = "encapsulated."


def _names(begun: str, names: Iterable[str], described: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the field names that begin with ``begun``, or layer names if several layers match."""
    prefix = _INNER if begun.startswith(_INNER) else ""
    matches = sorted(f"{prefix}{name}" for name in names if f"{prefix}{name}".startswith(begun))
    layers = dict.fromkeys(name.removeprefix(prefix).partition(".")[0] for name in matches)
    if "." in begun.removeprefix(prefix) or len(layers) == 1:
        for name in matches:
            yield name, described.get(name.removeprefix(prefix), "")
        return
    for layer in layers:
        yield f"{prefix}{layer}.", ""


def complete_field(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete a field name."""
    described = _described()
    return _items(_names(begun, described, described), begun)


def complete_assigned_field(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete ``FIELD=``."""
    if "=" in begun:
        return []
    matches = complete_field(ctx, param, begun)
    return [
        item if item.type == OPEN else CompletionItem(f"{item.value}=", type=OPEN, help=item.help)
        for item in matches
    ]


def complete_filter(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete the last word of a filter: field, layer, operator, ``and``, ``or`` or ``not``."""
    from ecmproto.frames.filter.completion import complete, relations
    from ecmproto.frames.filter.fields import find

    completion = complete(begun, len(begun))
    head, word = begun[: completion.start], begun[completion.start :]
    suffix = " " if completion.operators else ""
    texts = [(f"{each.text}{suffix}", each.meaning or each.text) for each in completion.candidates]
    items = _items(texts, word, head=head, kind=OPEN)
    if len(items) == 1 and find(items[0].value.removeprefix(head)) is not None:
        # offer more candidates, because a shell closes the quotes after a single candidate
        more = [(f"{each.text} ", each.meaning or each.text) for each in relations()]
        items += _items(more, "", head=f"{items[0].value} ", kind=OPEN)
    return items


# Mechanisms and their parameters --------------------------------------------------------------------------


def _mechanisms() -> list[tuple[str, str]]:
    from ecmproto.control.mechanisms.registry import MECHANISMS, mechanism_names

    titles = {mechanism.name: mechanism.title for mechanism in MECHANISMS}
    return [(name, titles.get(name, "from another package")) for name in mechanism_names()]


def complete_mechanism(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete a mechanism name."""
    return _items(_mechanisms(), begun)


def complete_mechanisms(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete the last mechanism, or its parameters, in ``MECHANISM[:NAME=VALUE…],…``."""
    head, _, last = begun.rpartition(",")
    head = f"{head}," if "," in begun else ""
    name, colon, parameter = last.partition(":")
    if not colon:
        return _items(_mechanisms(), name, head=head)
    done, inner, parameter = parameter.rpartition(":")
    return _parameters([name], parameter, head=f"{head}{name}:{done}{inner}")


_MECHANISM_OPTIONS = ("cp", "rp", "mechanism", "mechanisms", "compare")


def _chosen_mechanisms(ctx: click.Context) -> list[str]:
    """Return the mechanisms that are already on the command line."""
    texts: list[str] = []
    for name in _MECHANISM_OPTIONS:
        given = ctx.params.get(name)
        texts += given.split(",") if isinstance(given, str) else given or ()
    return list(dict.fromkeys(text.partition(":")[0].strip() for text in texts))


def complete_parameter(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete ``[ROLE.]NAME=VALUE`` for the mechanisms on the command line, or for all mechanisms."""
    chosen = _chosen_mechanisms(ctx)
    names = [name for name, _ in _mechanisms()]
    target, colon, rest = begun.partition(":")
    if colon and target in names:
        return _parameters([target], rest, head=f"{target}:")
    return _parameters([name for name in chosen if name in names] or names, begun)


def _parameters(names: Iterable[str], begun: str, *, head: str = "") -> Items:
    from ecmproto.control.mechanisms.registry import find_mechanism
    from ecmproto.errors import ParameterError

    parameters: dict[str, Parameter] = {}
    for name in names:
        try:
            parameters = {**dict(_parameters_of(find_mechanism(name))), **parameters}
        except ParameterError:  # an unknown mechanism, or one from a package that cannot be imported
            continue
    name, equals, value = begun.partition("=")
    if not equals:
        dotted = "." in begun
        keys = [(f"{key}=", each.doc) for key, each in parameters.items() if ("." in key) == dotted]
        roles = dict.fromkeys(f"{key.partition('.')[0]}." for key in parameters if "." in key)
        return _items([*keys, *((role, "parameters of this role") for role in roles if not dotted)], begun,
                      head=head)  # fmt: skip
    parameter = parameters.get(name)
    if parameter is None:
        return []
    return _items(_values(parameter), value, head=f"{head}{name}=")


def _parameters_of(mechanism: Mechanism) -> Iterator[tuple[str, Parameter]]:
    for role, part in mechanism.roles.items():
        for parameter in part.describe():
            yield parameter.name, parameter
            yield f"{role.value}.{parameter.name}", parameter


def _values(parameter: Parameter) -> list[tuple[str, str]]:
    """Return the choices of a parameter, or its default value."""
    from ecmproto.control.mechanisms.api.parameters import UNITS

    default = UNITS[parameter.unit].format(parameter.default).replace(" ", "")
    choices = parameter.choices or (("yes", "no") if parameter.unit == "flag" else (default,))
    return _described_values(choices, default, parameter.range_text)


def _described_values(values: Iterable[str], default: str, within: str) -> list[tuple[str, str]]:
    return [(value, f"{within}{' (default)' * (value == default)}") for value in values]


# Interfaces, formats, scenarios ---------------------------------------------------------------------------


def complete_interface(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete an interface name."""
    from ecmproto.tools.interop.extcap import interface_names

    return _items(((name, "interface") for name in interface_names()), begun)


def complete_layer(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete the name of a frame format."""
    from ecmproto.wire.formats.registry import FORMATS

    return _items(((cls.prefix, cls.title) for cls in FORMATS), begun)


def complete_tag(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete ``TAG``, or ``TAG FIELD=VALUE …``."""
    from ecmproto.wire.formats.registry import FORMATS

    tags = {cls.prefix: cls for cls in FORMATS if cls.role == "tag"}
    head, space, last = begun.rpartition(" ")
    if not space:
        return _items(((name, cls.title) for name, cls in tags.items()), last)
    chosen = tags.get(head.partition(" ")[0])
    described = _described()
    fields = [field.name for field in chosen.layout] if chosen is not None else []
    named = ((f"{name.rpartition('.')[2]}=", described.get(name, "")) for name in fields)
    return _items(named, last, head=f"{head} ")


def complete_frame_word(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete a word of ``LAYER FIELD=VALUE …``: a layer, or a field of a typed layer."""
    from ecmproto.wire.formats.registry import FORMATS

    if "=" in begun:
        return []
    named = {word.lower() for word in ctx.params.get(param.name or "") or () if "=" not in word}
    if "." in begun:
        return complete_assigned_field(ctx, param, begun)
    described = _described()
    fields: dict[str, str] = {}
    # a field may belong to a layer that the frame implies
    for cls in sorted(FORMATS, key=lambda cls: cls.prefix not in named) if named else ():
        for field in cls.layout:
            short = f"{field.name.removeprefix(f'{cls.prefix}.')}="
            if cls.prefix in named or begun:
                fields.setdefault(short, described.get(field.name, ""))
    layers = [(cls.prefix, cls.title) for cls in FORMATS if cls.prefix not in named]
    return _items([*fields.items(), *layers], begun)


def complete_scenario(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete a lab scenario: a name, a name with a variant, or a file."""
    from ecmproto.tools.interop.extcap import scenario_titles

    name, colon, variant = begun.partition(":")
    titles = scenario_titles()
    if colon and name in dict(titles):
        from ecmproto.control.lab.setup.scenario import load_scenario

        return _items(load_scenario(name).variants.items(), variant, head=f"{name}:")
    items = _items(titles, begun)
    return [*items, CompletionItem(begun, type="file")] if not items or not begun else items


def _scenario(ctx: click.Context) -> Any:
    from ecmproto.control.lab.setup.scenario import load_scenario

    given = ctx.params.get("scenario")
    return load_scenario(given) if isinstance(given, str) else None


def complete_variant(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete a variant of the typed scenario."""
    scenario = _scenario(ctx)
    return [] if scenario is None else _items(scenario.variants.items(), begun)


def complete_scenario_key(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete ``KEY=VALUE`` for the typed scenario, with the current values of the scenario."""
    scenario = _scenario(ctx)
    if scenario is None:
        return []
    if isinstance(ctx.params.get("mechanism"), str):
        scenario = scenario.with_mechanism(ctx.params["mechanism"])
    rows = scenario.explain()
    key, equals, value = begun.partition("=")
    if equals:
        now = ((row.value.replace(" ", ""), row.doc) for row in rows if row.path == key)
        return _items(now, value, head=f"{key}=")
    return _items(((f"{row.path}=", f"{row.value}; {row.doc}") for row in rows), begun)


def complete_figure(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete the name of a measurement at the start of an expression."""
    from ecmproto.control.lab.setup.figures import MEASUREMENTS

    return _items(((name, each.doc) for name, each in MEASUREMENTS.items()), begun)


def complete_rules(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete the last rule or rule family in a list, or a severity for ``--fail-on``."""
    from ecmproto.tools.check.listed import listed_families

    head, comma, last = begun.rpartition(",")
    levels = [("note", "and worse"), ("warning", "and worse"), ("error", ""), ("never", "")]
    rules = [(rule.id, rule.name) for family in listed_families() for rule in family.rules]
    if param.name == "fail_on":
        rules += levels
    else:
        rules += [(family.name, family.title) for family in listed_families()]
    head += comma
    return _items(rules, last, head=head) or _items(rules, last.upper(), head=head)


def complete_rule_parameter(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete ``FAMILY.NAME=VALUE`` for rule parameters."""
    from ecmproto.tools.check.listed import listed_families

    parameters = {
        f"{family.name}.{each.name}": each for family in listed_families() for each in family.parameters
    }
    name, equals, value = begun.partition("=")
    if equals:
        if name not in parameters:
            return []
        each = parameters[name]
        default = each.default.replace(" ", "")
        return _items(
            _described_values(each.choices or (default,), default, each.within), value, head=f"{name}="
        )
    return _items(((f"{key}=", each.doc) for key, each in parameters.items()), begun)


def complete_ethertype(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Complete ``ROLE=VALUE`` for EtherTypes."""
    import dataclasses

    from ecmproto.wire.formats.ethertypes import EtherTypes

    role, equals, value = begun.partition("=")
    roles = {each.name: f"{each.default:#06x}" for each in dataclasses.fields(EtherTypes)}
    if equals:
        return _items([(roles[role], "by default")] if role in roles else [], value, head=f"{role}=")
    return _items(((f"{name}=", f"{text} by default") for name, text in roles.items()), begun)


def complete_keyed(keys: Mapping[str, Collection[str]], begun: str) -> Items:
    """Complete ``KEY=VALUE,…``; ``keys`` maps each key to its allowed values."""
    done, comma, last = begun.rpartition(",")
    key, equals, value = last.partition("=")
    if equals:
        return _items(((each, "") for each in keys.get(key, ())), value, head=f"{done}{comma}{key}=")
    return _items(((f"{each}=", "") for each in keys), last, head=done + comma)


def complete_file(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Return the candidate for which the shell completes a file name."""
    return [CompletionItem(begun, type="file")]


def complete_folder(ctx: click.Context, param: click.Parameter, begun: str) -> Items:
    """Return the candidate for which the shell completes a folder name."""
    return [CompletionItem(begun, type="dir")]


_BY_METAVAR: tuple[tuple[str, Completer], ...] = (
    (r"\[LAYER\b.*|LAYER\b.*=.*", complete_frame_word),
    (r"LAYER|FORMAT", complete_layer),
    (r"'?TAG\b.*", complete_tag),
    (r"IF(,.*)?", complete_interface),
    (r"FILTER", complete_filter),
    (r"ID(,…)?|WHAT,…", complete_rules),
    (r"'?FIGURE\b.*", complete_figure),
    (r"MECHANISM", complete_mechanism),
    (r"\[?MECHANISM\b.+", complete_mechanisms),
    (r"ROLE=VALUE", complete_ethertype),
    (r"FIELD=.*", complete_assigned_field),
    (r"FIELD|COLUMN|PATTERN", complete_field),
    (r"\[?SCENARIO\b.*", complete_scenario),
    (r"FILE(\|.*)?|PATHS?|CAPTURES?|[AB]", complete_file),
    (r"DIR|FOLDER", complete_folder),
)
_BY_NAME: Mapping[str, Completer] = {
    "mechanism": complete_mechanism,
    "mechanisms": complete_mechanisms,
    "assignments": complete_parameter,
    "settings": complete_scenario_key,
    "parameters": complete_rule_parameter,
    "set_fields": complete_assigned_field,
    "sweeps": complete_assigned_field,
    "axes": complete_scenario_key,
    "ignore_fields": complete_field,
    "ignore": complete_rules,
    "variant": complete_variant,
    "path": complete_file,
    "paths": complete_file,
    "file": complete_file,
}


def completer_of(ctx: click.Context, param: click.Parameter) -> Completer | None:
    """Return the completer for an option or argument, or None if there is no completer."""
    by_name = _BY_NAME.get(param.name or "")
    if by_name is not None and (param.metavar is None or param.metavar.startswith("NAME")):
        return by_name
    shown = param.metavar or (param.make_metavar(ctx) if isinstance(param, click.Argument) else "")
    for text in (shown, shown.strip("[].…")):
        for pattern, completer in _BY_METAVAR:
            if re.fullmatch(pattern, text):
                return completer
    return None


# Shells ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """The unquoted words of a command line up to the cursor."""

    arguments: tuple[str, ...]
    """All words before the last word, including the command's name."""
    last: str
    """The word at the cursor, or an empty string after a space."""
    offset: int = 0
    """Number of characters of ``last`` that bash keeps; in bash, a word starts after ``=`` or ``:``."""
    quote: str = ""
    """The open quotation mark, or an empty string."""


_WORD_BREAKS = "\"'@><=;|&(:"
_SPACES = " \t\n"


def typed(line: str, breaks: str = _WORD_BREAKS) -> Typed:
    """Split a command line up to the cursor into words as a shell does.

    ``breaks`` are the characters of bash's COMP_WORDBREAKS.
    """
    arguments: list[str] = []
    word, begun, quote, offset = "", False, "", 0
    at = 0
    while at < len(line):
        char = line[at]
        at += 1
        escapes = char == "\\" and quote != "'"
        if escapes and at < len(line) and (not quote or line[at] in '"\\$`'):
            word, begun = word + line[at], True
            at += 1
        elif quote:
            quote, word = ("", word) if char == quote else (quote, word + char)
        elif char in "'\"":
            quote, begun, offset = char, True, len(word)
        elif char in _SPACES:
            if begun:
                arguments.append(word)
            word, begun, offset = "", False, 0
        else:
            word, begun = word + char, True
            if char in breaks:
                offset = len(word)
    return Typed(arguments=tuple(arguments), last=word, offset=offset, quote=quote)


class _Complete(ShellComplete):
    """The common base class for the three shells."""

    now: Typed
    """The words that the user had typed at the last call."""

    def typed(self) -> Typed:
        """Return the words from the variables COMP_WORDS (one word per line) and COMP_WORD."""
        arguments = os.environ.get("COMP_WORDS", "").split("\n")
        return Typed(arguments=tuple(arguments), last=os.environ.get("COMP_WORD", ""))

    def get_completion_args(self) -> tuple[list[str], str]:
        self.now = self.typed()
        return list(self.now.arguments[1:]), self.now.last

    def get_completions(self, args: list[str], incomplete: str) -> Items:
        """Return the candidates for the word at the cursor, including text before the completed value.

        Returns no candidates if an error occurs.
        """
        from click.shell_completion import _resolve_context, _resolve_incomplete

        try:
            ctx = _resolve_context(self.cli, self.ctx_args, self.prog_name, [*args])
            command, begun = _resolve_incomplete(ctx, [*args], incomplete)
            head = incomplete.removesuffix(begun) if begun != incomplete else ""
            if isinstance(command, click.Option) and args and not head:
                # click's parser stops before the arguments if an option has no value
                ctx = _resolve_context(self.cli, self.ctx_args, self.prog_name, args[:-1])
            if (
                isinstance(command, click.Parameter)
                and getattr(command, "_custom_shell_complete", None) is None
            ):
                completer = completer_of(ctx, command)
                if completer is not None:
                    return _after(head, completer(ctx, command, begun))
            return _after(head, command.shell_complete(ctx, begun))
        except (
            Exception
        ):  # the typed text may be invalid in any way, and a shell shows no errors during completion
            return []

    def format_completion(self, item: CompletionItem[str]) -> str:
        help = re.sub(r"\s+", " ", item.help or "").strip()
        return f"{item.type}\t{item.value}\t{help}"


def _after(head: str, items: Items) -> Items:
    if not head:
        return items
    return [CompletionItem(f"{head}{item.value}", type=item.type, help=item.help) for item in items]


_ESCAPED = re.compile(r"([^\w@%+=:,./~-])")


class Bash(_Complete):
    """Completion in bash, where words also end at ``=`` and ``:``, and candidates must be quoted."""

    name: ClassVar[str] = "bash"
    source_template: ClassVar[str] = """\
# ecmproto in bash: source this, or keep it in ~/.local/share/bash-completion/completions/ecmproto
%(complete_func)s() {
    local kind value help names=
    COMPREPLY=()
    while IFS=$'\\t' read -r kind value help; do
        case $kind in
            file) names=default ;;
            dir)  names=dirnames ;;
            open) compopt -o nospace; COMPREPLY+=("$value") ;;
            *)    COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
             %(complete_var)s=bash_complete "$1" 2>/dev/null)
    # names of files are readline's own matter, where there is nothing else
    [[ $names && ${#COMPREPLY[@]} == 0 ]] && compopt -o "$names"
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def typed(self) -> Typed:
        """Return the typed words from the line and the position of the cursor."""
        line = os.environ.get("COMP_LINE", "")
        point = int(os.environ.get("COMP_POINT", len(line)))
        return typed(line[:point], os.environ.get("COMP_WORDBREAKS", _WORD_BREAKS))

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return the line for a candidate, with the quoted text that replaces the last word of bash."""
        value = item.value[self.now.offset :]
        if item.type in ("plain", OPEN) and not self.now.quote:
            value = _ESCAPED.sub(r"\\\1", value)
        return super().format_completion(CompletionItem(value, type=item.type, help=item.help))


class Zsh(_Complete):
    """Completion in zsh, which quotes candidates."""

    name: ClassVar[str] = "zsh"
    source_template: ClassVar[str] = """\
#compdef %(prog_name)s
# ecmproto in zsh: keep this as _ecmproto in a folder of $fpath, or source it after compinit
%(complete_func)s() {
    local line kind value help
    local -a whole open rest
    while IFS=$'\\t' read -r kind value help; do
        case $kind in
            file) _path_files -f ;;
            dir) _path_files -/ ;;
            open) open+=("${value//:/\\\\:}:$help") ;;
            ?*) whole+=("${value//:/\\\\:}:$help") ;;
        esac
    done < <(COMP_WORDS="${(F)${(@Q)words[1,CURRENT-1]}}" COMP_WORD="${(Q)IPREFIX}${(Q)PREFIX}" \\
             %(complete_var)s=zsh_complete ${(Q)words[1]} 2>/dev/null)
    (( $#whole )) && _describe -V "%(prog_name)s" whole -U
    (( $#open )) && _describe -V "%(prog_name)s, to go on" open -U -S ''
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""


class Fish(_Complete):
    """Completion in fish, which omits the space after ``=``, ``.`` and ``:``."""

    name: ClassVar[str] = "fish"
    source_template: ClassVar[str] = """\
# ecmproto in fish: keep this as ~/.config/fish/completions/ecmproto.fish
function %(complete_func)s
    set -lx COMP_WORDS (string join \\n -- (commandline -opc) | string collect)
    set -lx COMP_WORD (commandline -ct | string collect)
    set -lx %(complete_var)s fish_complete
    for line in ($argv[1] 2>/dev/null)
        set -l parts (string split -m 2 \\t -- $line)
        switch $parts[1]
            case file
                __fish_complete_path $parts[2]
            case dir
                __fish_complete_directories $parts[2]
            case '*'
                printf '%%s\\t%%s\\n' $parts[2] $parts[3]
        end
    end
end
complete --command %(prog_name)s --no-files --keep-order --arguments '(%(complete_func)s %(prog_name)s)'
"""

    def typed(self) -> Typed:
        """Return the typed words, with the quotes removed from the last word."""
        arguments = super().typed()
        return Typed(arguments=arguments.arguments, last=typed(arguments.last).last)


SHELLS: Mapping[str, type[_Complete]] = {shell.name: shell for shell in (Bash, Zsh, Fish)}


def register() -> None:
    """Register the three shells with click."""
    for shell in SHELLS.values():
        add_completion_class(shell)
