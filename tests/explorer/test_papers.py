"""The items of the papers, published beside measured."""

from hypersphere.explorer.papers import shipped_results
from tests.explorer.asking import ask, tree


def test_papers_stand_beside_what_was_measured(server):
    papers = tree(server, "/api/papers")[1]["papers"]
    items = {item["name"]: item for paper in papers for item in paper["items"]}
    assert items["li2024/fig2"]["verdict"] == "agrees" and items["li2024/fig2"]["measured"] == "it does"
    assert items["li2024/fig3"]["verdict"] == "not run yet" and items["li2024/fig3"]["command"].endswith("li2024/fig3")
    path = items["li2024/fig2"]["figures"][0]
    status, headers, content = ask(server, f"/api/figure/papers/{path}")
    assert status == 200 and headers["Content-Type"] == "image/png" and content == b"\x89PNG"


def test_the_results_of_a_source_tree_are_found():
    assert shipped_results() is None or (shipped_results() / "li2024").is_dir()
