"""Help of tasks such as `opc keys create`: a task without its own help gets its line and examples from its verb's."""

from __future__ import annotations

import argparse


def complete_help(parser: argparse.ArgumentParser) -> None:
    """Give every task of a verb a description and examples."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            lines = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, task in action.choices.items():
                line = lines.get(name, "")
                if not task.description and line:
                    task.description = f"{line[0].upper()}{line[1:]}."
                if not task.epilog and (found := find_examples(parser.epilog or "", task.prog)):
                    task.epilog = f"examples:\n{found}"
                    task.formatter_class = argparse.RawDescriptionHelpFormatter
                complete_help(task)


def find_examples(epilog: str, command: str) -> str:
    """The lines of a verb's examples that show this command."""
    return "\n".join(line for line in epilog.splitlines() if f"{line.strip()} ".startswith(f"{command} "))
