"""`opc completion`: what a shell needs to complete `opc` on Tab."""

from __future__ import annotations

import argparse

EXAMPLES = """examples:
  opc completion bash > ~/.local/share/bash-completion/completions/opc
  opc completion zsh > ~/.zfunc/_opc            # with fpath+=~/.zfunc before compinit
  opc completion fish > ~/.config/fish/completions/opc.fish"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "completion",
        help="print the shell completion script for opc",
        description="Print a completion script for your shell.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import shtab

    from opc_ros.cli.main import build_parser

    print(shtab.complete(build_parser(), shell=arguments.shell))
    return 0
