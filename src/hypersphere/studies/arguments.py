"""Command lines: a mistake ends with one sentence and exit code 2, Ctrl-C with one sentence and exit code 130."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from hypersphere.messages import INPUT, reason

INTERRUPTED = 130


class Arguments(argparse.ArgumentParser):
    """An argument parser that prints only the error."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{message[:1].upper()}{message[1:]}\n")


def whole_number(at_least: int) -> Callable[[str], int]:
    """Converter for a whole number of at least ``at_least``."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = at_least - 1
        if value < at_least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {at_least}, not {text!r}.")
        return value

    return convert


def run_command(command: Callable[[], int], if_stopped: str = "nothing was written") -> NoReturn:
    """Ends the process with the command's exit code. Prints one sentence if the command was interrupted, or if a file
    or a setting was wrong."""
    try:
        code = command()
    except KeyboardInterrupt:
        print(f"\nStopped; {if_stopped}.", file=sys.stderr)
        code = INTERRUPTED
    except INPUT as error:
        print(f"{reason(error).rstrip('.')}.", file=sys.stderr)
        code = 2
    sys.exit(code)
