"""Tables and figures of the papers, drawn again from computation: what was claimed beside what was measured."""

from hypersphere.studies.reproduce.catalogue import list_items
from hypersphere.studies.reproduce.items import Finding, reproduce

__all__ = ["Finding", "list_items", "reproduce"]
