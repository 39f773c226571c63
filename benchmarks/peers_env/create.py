"""Creates an environment for the peers that cannot be installed beside us, where `hypersphere parity`, `hypersphere
benchmark objectives`, train.py and suites.py then find them.

    .venv/bin/python benchmarks/peers_env/create.py

The peers (requirements.txt) are installed without their dependencies, because some require versions of torch that
exclude each other. They get this interpreter's version of torch, what needs.txt lists, and torchvision, of which the
Python part is enough. This takes minutes and about 2 GB.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER, ROOT = HERE / "venv", HERE.parents[1]
CHECK = """
import json, subprocess, sys
from hypersphere.studies.parity.setups import PEERS
for name, peer in PEERS.items():
    if peer.apart:
        done = subprocess.run([sys.executable, "-m", "hypersphere.studies.parity.worker", name, "[1]"],
                              capture_output=True, text=True)
        answer = json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr.strip()[-200:]}
        print(f"{name}: {answer.get('version') or 'does not take part: ' + answer['failed']}")
"""


def main() -> int:
    torch = version("torch").partition("+")[0]
    matching = f"0.{int(torch.split('.')[1]) + 15}.0"  # torchvision 0.28 is for torch 2.13, and so on
    shutil.rmtree(FOLDER, ignore_errors=True)
    venv.create(FOLDER, with_pip=True)
    python = str(FOLDER / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))

    def run(*command: str, quiet: bool = False) -> bool:
        return subprocess.run([python, *command], check=False, capture_output=quiet).returncode == 0

    def install(*what: str) -> bool:
        return run("-m", "pip", "install", "-q", "--disable-pip-version-check", *what)

    ready = (
        install(f"torch=={torch}", "-r", str(HERE / "needs.txt"), "-c", str(ROOT / "constraints.txt"))
        and install("--no-deps", "-r", str(HERE / "requirements.txt"))
        and install("--no-deps", "-e", str(ROOT))
    )
    if not ready:
        shutil.rmtree(FOLDER, ignore_errors=True)
        print("The environment could not be created.", file=sys.stderr)
        return 1
    imports = ("-W", "ignore", "-c", "import torchvision")
    if install("--no-deps", f"torchvision=={matching}") and not run(*imports, quiet=True):
        # It was made for another build of torch: its operators cannot be loaded, and it fails to describe their shapes.
        next(FOLDER.rglob("torchvision/_meta_registrations.py")).write_text("")
    run("-W", "ignore", "-c", CHECK)
    print(f"ready: {python}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
