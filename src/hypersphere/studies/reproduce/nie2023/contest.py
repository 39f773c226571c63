"""Nie et al. 2023: Tables 1 and 2 and Figure 1, read from the contest nie-objectives."""

from hypersphere.studies.reproduce.nie2023.checkpoints import fig1
from hypersphere.studies.reproduce.nie2023.scores import table1
from hypersphere.studies.reproduce.nie2023.settings import table2

__all__ = ["fig1", "table1", "table2"]
