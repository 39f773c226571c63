"""``python -m benchmarks.engine``: the engine beside the bare matrix products and the plain form."""

import sys
from pathlib import Path

from hypersphere.studies.benchmark.engine import main

if __name__ == "__main__":
    sys.exit(main(results=Path(__file__).parent / "results" / "engine.json"))
