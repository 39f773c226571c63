"""Creates an environment for lightly, which `hypersphere benchmark objectives` then finds by itself.

    .venv/bin/python benchmarks/lightly_env/create.py

lightly needs torchvision, whose wheels work only with the build of torch they were made for, so it gets an environment
of its own. The environment has this interpreter's version of torch in the build of the package index, so that the same
torch is measured on both sides; if there is none, pip picks one. This takes minutes and, if torch comes with CUDA,
about 5 GB.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER, ROOT = HERE / "venv", HERE.parents[1]
CHECK = (
    "import torch, torchvision, lightly, lightly.loss, hypersphere.studies.benchmark.worker;"
    "print(f'lightly {lightly.__version__}, torch {torch.__version__}, torchvision {torchvision.__version__}')"
)


def wanted_torch() -> list[str]:
    """This interpreter's torch without the name of its build: === takes a version literally."""
    try:
        return [f"torch==={version('torch').partition('+')[0]}"]
    except PackageNotFoundError:
        return []


def attempt(python: Path, torch: list[str]) -> bool:
    """Whether lightly can be imported with this torch."""
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    steps = (
        [*pip, *torch, "-r", str(HERE / "requirements.txt")],
        [*pip, "--no-deps", "-e", str(ROOT)],
        [str(python), "-W", "ignore", "-c", CHECK],
    )
    return all(subprocess.run(step, check=False).returncode == 0 for step in steps)


def main() -> int:
    for torch in filter(None, (wanted_torch(), ["torch"])):
        print(f"trying {torch[0]}", flush=True)
        shutil.rmtree(FOLDER, ignore_errors=True)
        venv.create(FOLDER, with_pip=True)
        python = FOLDER / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        if attempt(python, torch):
            print(f"ready: {python}")
            return 0
    shutil.rmtree(FOLDER, ignore_errors=True)
    print("lightly cannot be installed here; the benchmark will say that it did not take part.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
