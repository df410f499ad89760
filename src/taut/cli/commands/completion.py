"""`taut completion`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from taut.cli.exits import Exit

EXAMPLE = 'eval "$(taut completion bash)"'

_BASH = """\
_taut() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}"
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
        return
    fi
    local options=""
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    case "$word" in
        -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
        *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}}
complete -o filenames -F _taut taut
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])


def run(options: argparse.Namespace) -> Exit:
    """Print the script."""
    from taut.cli.main import COMMANDS, make_parser

    known = dict(_options_of(make_parser(COMMANDS)))
    if options.shell == "fish":
        for name, flags in known.items():
            print(f"complete -c taut -n __fish_use_subcommand -a {name}")
            for flag in flags:
                print(f"complete -c taut -n '__fish_seen_subcommand_from {name}' -l {flag[2:]}")
        return Exit.DONE
    cases = "\n".join(
        f'        {name}) options="{" ".join(flags)}" ;;' for name, flags in known.items()
    )
    script = _BASH.format(commands=" ".join(known), cases=cases)
    print((_ZSH if options.shell == "zsh" else "") + script, end="")
    return Exit.DONE


def _options_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    """Commands and their long options."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                flags = [flag for each in inner._actions for flag in each.option_strings]
                yield name, [flag for flag in flags if flag.startswith("--")]
