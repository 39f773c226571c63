"""``python -m hypersphere``."""

from hypersphere.cli import main

main()
