"""What may stand in a JSON or YAML file that was damaged."""

from __future__ import annotations

from pathlib import Path

WRONG = ["null", "-1", '"x"', "[]", "[null]", "{}", '{"a": 1, "a": 2}', '{"a": ', "[" * 100_000, b"\xff"]


def wrong(path: Path, content: str | bytes) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
