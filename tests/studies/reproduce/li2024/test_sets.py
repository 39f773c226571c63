"""Tables 3 and 4 with and without the seven sets."""

from hypersphere.studies.reproduce.items import find
from tests.studies.reproduce.li2024.worlds import stages


def test_without_the_seven_sets_table_3_reads_stsb():
    finding = find("li2024/table3")(stages(sets=False))
    assert finding.verdict == "agrees" and "STS-B test (the seven sets were not evaluated)" in finding.measured
    assert find("li2024/table4")(stages(sets=False)).verdict == "undecided"
