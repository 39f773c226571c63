"""All commands under one name: help, versions, names that do not exist."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hypersphere import __version__
from tests.cli.command import refused, run


@pytest.mark.parametrize("command", [[], ["objectives"], ["benchmark"], ["benchmark", "objectives"]])
def test_every_command_helps_with_an_example(command: list[str]) -> None:
    done = run(*command, "--help")
    assert done.exit_code == 0
    assert "Example: hypersphere" in done.stdout


@pytest.mark.parametrize("command", [[], ["benchmark"]])
def test_a_group_alone_shows_its_help(command: list[str]) -> None:
    done = run(*command)
    assert done.exit_code == 0
    _, _, commands = done.stdout.partition("Commands:")
    assert commands
    assert "..." not in commands  # each command's line fits into 80 columns


def test_without_typer_one_sentence_says_what_to_install() -> None:
    script = "import sys; sys.modules['typer'] = None\nfrom hypersphere.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == "The command needs typer and rich: pip install 'hypersphere-lab[cli]'.\n"


def test_the_version_is_printed_and_a_command_that_does_not_exist_is_refused() -> None:
    assert run("--version").stdout == f"hypersphere {__version__}\n"
    refused(run("objectivs"), "No such command 'objectivs'")
