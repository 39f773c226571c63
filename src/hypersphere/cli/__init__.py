"""The command ``hypersphere``; typer and rich are imported when it runs."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of ``hypersphere`` and ``python -m hypersphere``."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        print("The command needs typer and rich: pip install 'hypersphere-lab[cli]'.", file=sys.stderr)
        sys.exit(2)
    from hypersphere.cli.starting import nothing_begun

    with nothing_begun():
        from hypersphere.cli.app import app

    app(prog_name="hypersphere")
