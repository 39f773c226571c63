"""The fair contest of objectives: tuned alike, repeated over seeds, tested once."""

from hypersphere.studies.compare.run import compare
from hypersphere.studies.compare.study import Study, read_study

__all__ = ["Study", "compare", "read_study"]
