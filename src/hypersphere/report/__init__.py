"""Results for a reader: tables, pages, and files written whole or not at all."""

from hypersphere.report.files import atomic_write
from hypersphere.report.tables import markdown_table

__all__ = ["atomic_write", "markdown_table"]
