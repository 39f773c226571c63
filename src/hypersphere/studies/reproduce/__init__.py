"""Tables and figures of the papers, recomputed: the claim beside the measurement."""

from hypersphere.studies.reproduce.catalogue import list_items
from hypersphere.studies.reproduce.items import Finding, reproduce

__all__ = ["Finding", "list_items", "reproduce"]
