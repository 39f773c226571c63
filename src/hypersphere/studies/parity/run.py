"""Finds an interpreter for every peer and collects what the peers' workers measure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from hypersphere import __version__
from hypersphere.messages import one_line
from hypersphere.studies.benchmark.peers import peers_environment
from hypersphere.studies.parity.setups import PEERS

TIMEOUT = 1800.0  # seconds for all set-ups of a peer


def command(peer: str) -> str:
    """The command that installs a peer."""
    return "python benchmarks/peers_env/create.py" if PEERS[peer].apart else f"pip install {peer}"


def interpreter(peer: str, pythons: Mapping[str, str]) -> str | None:
    """The given one; this one if it has the peer; else that of benchmarks/peers_env, if it was made."""
    if peer in pythons:
        return pythons[peer]
    if find_spec(PEERS[peer].module) is not None:
        return sys.executable
    apart = peers_environment() if PEERS[peer].apart else None
    return None if apart is None else str(apart)


def ask(python: str, peer: str, processes: Sequence[int]) -> dict[str, Any]:
    """What the worker answers, or {"failed": why}."""
    environment = dict(os.environ)
    if python != sys.executable:  # another environment finds its own packages
        environment.pop("PYTHONPATH", None)
    words = [python, "-W", "ignore", "-m", "hypersphere.studies.parity.worker", peer, json.dumps(list(processes))]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=TIMEOUT)
        answer: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"failed": f"it took more than {TIMEOUT:g} s"}
    except OSError as error:
        return {"failed": f"{python} cannot be started ({error.strerror})"}
    except ValueError:
        lines = done.stderr.strip().splitlines() or [f"its process ended with code {done.returncode}"]
        return {"failed": one_line(lines[-1])}
    return answer


def run(
    peers: Sequence[str], processes: Sequence[int], pythons: Mapping[str, str], progress: Callable[[str], object]
) -> dict[str, Any]:
    """Measures every peer that is installed. "absent" has the others with the reason."""
    measured: dict[str, Any] = {}
    absent: dict[str, str] = {}
    for peer in peers:
        python = interpreter(peer, pythons)
        if python is None:
            absent[peer] = f"not installed; `{command(peer)}` installs it"
            continue
        progress(f"measuring {peer}")
        answer = ask(python, peer, processes)
        if "failed" in answer:
            absent[peer] = f"cannot be measured: {answer['failed']}"
        else:
            measured[peer] = answer
    return {"hypersphere": __version__, "processes": list(processes), "peers": measured, "absent": absent}
