"""Commands that are stopped say so in one sentence."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, signal, sys, time
from hypersphere.studies.arguments import run_command

def work():
    if len(sys.argv) == 1:
        return 3
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
    return 0

run_command(work, *sys.argv[2:])
"""


def ended(*words: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, timeout=50)
    return done.returncode, done.stderr.strip()


def test_a_command_ends_with_its_code() -> None:
    assert ended() == (3, "")


def test_an_interrupted_command_says_what_became_of_it() -> None:
    assert ended("stop") == (130, "Stopped; nothing was written.")
    assert ended("stop", "half of it is kept") == (130, "Stopped; half of it is kept.")
