"""What is asked below /api/: its own folders alone, never a program, and a sentence for any mistake."""

import io
from urllib.parse import quote

import numpy as np
import pytest

from tests.explorer.asking import LIMIT, ask, refused, running, saved, tree, upload


@pytest.mark.parametrize(
    "path",
    ["/../secret.png", "/%2e%2e/secret.png", "/..%2fsecret.png", "/page/../server.py", "/server.py", "//secret.png",
     "/api/figure/papers/../secret.png", "/api/figure/papers/%2e%2e/secret.png", "/api/figure/papers/..%2fsecret.png",
     "/api/figure/papers/%252e%252e/secret.png", "/api/figure/papers//etc/passwd.png",
     "/api/figure/papers/..\\secret.png",
     "/api/figure/runs/first/linked.png", "/api/figure/runs/linked/secret.png", "/api/figure/papers/li2024/fig2",
     "/api/figure/runs/first/metrics.jsonl", "/api/figure/papers/a%00.png", "/api/figure/runs/stolen/recipe.yaml",
     "/api/figure/nothing/x.png", "/api/runs/runs/linked", "/api/runs/runs/../../secret", "/api/runs/runs/%2e%2e",
     "/api/runs/runs/stolen", "/api/runs/etc/passwd", "/api/studies/studies/%2e%2e", "/api/report/studies/..%2f..",
     "/api/embeddings?source=run:runs/../..", "/api/embeddings?source=run:runs/linked",
     "/api/embeddings?source=/etc/passwd",
     "/api/embeddings?source=upload:../views.npz", "/api/nothing", "/api/"],
)  # fmt: skip
def test_nothing_outside_the_folders_is_answered(server, path):
    refused(server, path, 404, ".")


def test_an_objective_from_a_file_is_never_executed(server, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("raise SystemExit('executed')\n")
    for name in (f"{mine}:loss", "mine.py:loss"):
        refused(server, f"/api/map?objective={quote(name)}", 400, "no objective")
    refused(server, f"/api/map?objective=mixup&base={quote(str(mine))}:loss", 400, "is a number")


def test_the_catalogue_names_what_the_server_has(server):
    status, answer = tree(server, "/api/catalogue")
    names = [each["name"] for each in answer["objectives"]]
    assert status == 200 and "met" in names and answer["version"] and answer["given"] == "views.npz"
    assert answer["largest_upload"] == LIMIT and answer["has"] == {"runs": True, "studies": True, "results": True}


def test_the_embeddings_of_a_run_are_examined(server):
    status, answer = tree(server, "/api/embeddings?source=run:runs/first")
    assert status == 200 and answer["name"] == "first" and answer["rows"] == 40
    refused(server, "/api/embeddings?source=run:runs/begun", 404, "nothing")
    refused(server, "/api/embeddings", 404, "hoose embeddings")


def test_two_files_are_two_views_and_a_text_names_their_rows(server):
    draw = np.random.default_rng(1)
    z = draw.normal(size=(30, 5))
    first, second = (upload(server, "<img src=x>.npy", saved(values)) for values in (z, z + 0.1))
    texts = upload(server, "rows.txt", "\n".join(f"<b>line {row}</b>" for row in range(30)).encode())
    status, answer = tree(server, f"/api/embeddings?source={first}&second={second}&texts={texts}")
    assert status == 200 and answer["views"] == 2 and answer["name"] == "<img src=x>.npy"
    pair = answer["pairs"]["nearest"][0]
    assert pair["texts"] == [f"<b>line {row}</b>" for row in pair["rows"]]
    short = upload(server, "short.txt", b"one line")
    refused(server, f"/api/embeddings?source={first}&texts={short}", 400, "1 lines, but there are 30 rows")
    assert tree(server, f"/api/embeddings?source={first}")[1]["anatomy"]["sentence"].startswith("An anatomy needs two")


def test_parquet_for_embedding_atlas(server, folders):
    pq = pytest.importorskip("pyarrow.parquet")
    kept = sorted(server.api.uploads.folder.iterdir())
    status, headers, content = ask(server, "/api/parquet?source=given")
    assert status == 200 and headers["Content-Disposition"] == "attachment; filename*=UTF-8''views.parquet"
    table = pq.read_table(io.BytesIO(content)).to_pydict()
    loaded = np.load(folders / "views.npz")
    np.testing.assert_allclose(np.array(table["vector"]), loaded["z1"], rtol=1e-6)
    one, two = loaded["z1"][3], loaded["z2"][3]
    assert table["positive_cosine"][3] == pytest.approx(one @ two / np.linalg.norm(one) / np.linalg.norm(two), rel=1e-5)
    assert table["row"] == list(range(40)) and table["label"][:3] == ["0", "1", "0"]
    assert sorted(server.api.uploads.folder.iterdir()) == kept


def test_a_study_given_by_its_own_folder(folders):
    with running(folders={"studies": folders / "studies" / "pair", "runs": folders / "runs" / "first"}) as server:
        study = tree(server, "/api/studies")[1]["studies"][0]
        assert (study["id"], study["name"]) == ("studies", "pair")
        assert tree(server, "/api/studies/studies")[1]["verdict"] == ["b is better."]
        assert ask(server, "/api/report/studies")[0] == 200
        assert tree(server, "/api/runs/runs")[1]["steps"] == 20


def test_without_folders_every_page_has_a_sentence():
    with running() as server:
        assert "--runs DIR" in tree(server, "/api/runs")[1]["sentence"]
        assert "--studies DIR" in tree(server, "/api/studies")[1]["sentence"]
        assert "--results DIR" in tree(server, "/api/papers")[1]["sentence"]
        refused(server, "/api/runs/runs/x", 404, "--runs DIR")
