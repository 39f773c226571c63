"""``hypersphere diagnose`` as a user meets it."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.cli import command
from tests.cli.command import refusal, refused

run = partial(command.run, "diagnose")


@pytest.fixture
def views(tmp_path):
    draw = np.random.default_rng(0)
    z1 = draw.normal(size=(60, 8)).astype(np.float32)
    path = tmp_path / "views.npz"
    np.savez(path, z1=z1, z2=z1 + 0.2 * draw.normal(size=(60, 8)).astype(np.float32), labels=np.arange(60) % 2)
    return path


def test_a_table_and_a_verdict(views):
    answer = run(views)
    assert answer.exit_code == 0, answer.output
    assert "60 rows of 8 dimensions, two views" in answer.stdout
    for word in ("alignment", "Wasserstein uniformity", "effective rank of unit rows", "hubness", "class gap"):
        assert word in answer.stdout
    lines = [line for line in answer.stdout.splitlines() if line]
    assert lines[1].startswith("Has it collapsed? No: 75 % of the variance is along ")
    assert lines[2] == "Verdict: classes mixed." and "Remedy:" in answer.stdout and "length one" in answer.stdout
    numbers = answer.stdout.partition("alignment")[2].partition("Rows were")[0]
    assert all(len(line) <= 100 for line in numbers.splitlines())


def test_a_collapse_is_answered_first_and_in_json(tmp_path):
    np.save(tmp_path / "z.npy", 1 + 1e-4 * np.random.default_rng(0).normal(size=(50, 8)))
    answer = run(tmp_path / "z.npy")
    assert answer.stdout.splitlines()[2].startswith("Has it collapsed? Yes: nearly all rows lie on one point")
    assert json.loads(run(tmp_path / "z.npy", "--json").stdout)["collapsed"] is True


def test_json_is_for_machines(views):
    tree = json.loads(run(views, "--json").stdout)
    assert tree["source"] == "views.npz" and tree["rows"] == 60
    assert tree["pairs"]["found_first"] == 1 and len(tree["views"]) == 2


def test_a_page_is_one_file_with_four_pictures(views, tmp_path):
    page = tmp_path / "new" / "page.html"
    answer = run(views, "--page", page)
    assert answer.exit_code == 0 and f"page: {page}" in answer.stdout
    text = page.read_text(encoding="utf-8")
    assert text.count("<figure>") == text.count("<svg ") == 4
    assert "classes mixed" in text.lower() and "What to do" in text
    assert not any(word in text for word in ("<script", "<link", "src=", "@import", "url(http"))
    assert [path.name for path in page.parent.iterdir()] == ["page.html"]


def test_two_files_and_labels_from_a_text(tmp_path):
    draw = np.random.default_rng(0)
    centres = 4 * draw.normal(size=(3, 8))
    z = centres[np.arange(60) % 3] + draw.normal(size=(60, 8))
    np.save(tmp_path / "a.npy", z)
    np.save(tmp_path / "b.npy", z + 0.01)
    (tmp_path / "labels.txt").write_text("\n".join(str(place % 3) for place in range(60)), encoding="utf-8")
    answer = run(tmp_path / "a.npy", tmp_path / "b.npy", "--labels", tmp_path / "labels.txt", "--json")
    tree = json.loads(answer.stdout)
    assert tree["classes"]["agreement"] > 0.9 and tree["pairs"]["alignment"] < 0.01


def test_arrays_are_chosen_by_name(tmp_path):
    draw = np.random.default_rng(0)
    query, passage = draw.normal(size=(2, 30, 5))
    np.savez(tmp_path / "z.npz", query=query, passage=passage, other=np.ones(3))
    tree = json.loads(run(tmp_path / "z.npz", "--arrays", "query,passage", "--json").stdout)
    assert "positives not aligned" in tree["verdict"]
    refused(run(tmp_path / "z.npz"), "say which")


def test_bad_words_get_one_sentence(model, text, views, tmp_path):
    refused(run(model), "--text FILE")
    refused(run(model, "--text", tmp_path / "no.txt"), "there is no text")
    refused(run(model, "--text", text, "--views", "two"), "one, dropout, pairs")
    refused(run(model, views, "--text", text), "leave FILE2 out")
    refused(run(views, "--views", "dropout"), "give FILE2")
    refused(run(tmp_path / "nothing", "--text", text), "not the folder of a model")
    refused(run("nowhere.npy"), "there is no file nowhere.npy")
    refused(run(text), "not as lines.txt")
    refused(run(tmp_path), "embeddings.safetensors")
    refused(run(views, "--labels", tmp_path / "no"), "with labels")
    refused(run(views, "--samples", 1), "at least 2")
    refused(run(views, "--page", text / "page.html"), "cannot be written")
    (tmp_path / "short.txt").write_text("one line", encoding="utf-8")
    refused(run(model, "--text", tmp_path / "short.txt"), "short.txt holds 1 instance with text")


@pytest.mark.parametrize(
    "array, sentence",
    [
        (np.ones((1, 4)), "has 1 row"),
        (np.ones(7), "shape (N, D)"),
        (np.array([[1.0, np.nan], [1, 2], [3, 4]]), "NaN or Inf in 1 of 3 rows (row 0)"),
        (np.array([["a", "b"], ["c", "d"]]), "real numbers"),
        (np.array([[None, 1], [2, 3]], dtype=object), "Python objects"),
    ],
)
def test_bad_embeddings_get_one_sentence(array, sentence, tmp_path):
    np.save(tmp_path / "z.npy", array, allow_pickle=True)
    refused(run(tmp_path / "z.npy"), sentence)


def test_help_has_the_options():
    words = run("--help").output
    assert all(option in words for option in ("--text", "--views", "--page", "--json", "--labels", "--arrays"))


def test_options_without_effect_are_refused(model, text, views, tmp_path):
    refused(run(model, "--text", text, "--arrays", "z1"), "a model on a text has none")
    np.save(tmp_path / "z.npy", np.eye(4))
    refused(run(tmp_path / "z.npy", "--arrays", "z1"), "an .npy holds one array")
    refused(run(views, "--arrays", " ,"), "names no array")


def test_columns_left_out_are_named(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = np.random.default_rng(0).normal(size=(50, 3))
    columns = {f"x{place}": rows[:, place] for place in range(3)}
    pq.write_table(pa.table({"year": np.arange(50), **columns}), tmp_path / "z.parquet")
    told = "Columns of whole numbers were left out: year."
    assert told in run(tmp_path / "z.parquet").stdout
    tree = json.loads(run(tmp_path / "z.parquet", "--json").stdout)
    assert tree["dims"] == 3 and tree["read"] == told


def test_a_page_never_takes_the_place_of_data(views, text, model, tmp_path, monkeypatch):
    """And this is said before anything is computed."""
    monkeypatch.setattr("hypersphere.cli.diagnose._check", None)
    z, labels = tmp_path / "z.npy", tmp_path / "labels.html"
    np.save(z, np.eye(4))
    labels.write_text("a\nb\na\nb\n")
    (tmp_path / "link.html").symlink_to(z)
    (tmp_path / "folder.html").mkdir()
    before = {path: path.read_bytes() for path in (views, z, labels, text)}
    for words, sentence in [
        ((z, "--page", z), "is read here"),
        ((z, "--page", tmp_path / "link.html"), "is read here"),
        ((z, views, "--page", views), "is read here"),
        ((z, "--labels", labels, "--page", labels), "is read here"),
        ((model, "--text", text, "--page", text), "is read here"),
        ((z, "--page", views), "ends in .html or .htm"),
        ((z, "--page", tmp_path / "page"), "ends in .html or .htm"),
        ((z, "--page", tmp_path / "folder.html"), "is a folder"),
        ((z, "--page", z / "page.html"), "cannot be written"),
    ]:
        refused(run(*words), sentence)
    assert {path: path.read_bytes() for path in before} == before
    assert not (tmp_path / "page").exists()


def test_a_page_goes_through_links_and_into_fifos(tmp_path, monkeypatch):
    monkeypatch.setattr("hypersphere.report.diagnosis.diagnosis_page", lambda *given: "<html>page</html>")
    z, real, link, fifo = (tmp_path / name for name in ("z.npy", "real.html", "link.html", "fifo"))
    np.save(z, np.random.default_rng(0).normal(size=(40, 4)))
    link.symlink_to(real)
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    assert run(z, "--page", link).exit_code == run(z, "--page", fifo).exit_code == 0
    assert os.read(reader, 1000) == real.read_bytes() == b"<html>page</html>"
    os.close(reader)
    assert link.is_symlink() and fifo.is_fifo()


def test_floats_of_eight_bits_are_read(tmp_path):
    import torch
    from safetensors.torch import save_file

    z = torch.randn(40, 8, generator=torch.Generator().manual_seed(0)).to(torch.float8_e4m3fn)
    save_file({"z1": z}, tmp_path / "short.safetensors")
    np.save(tmp_path / "long.npy", z.float().numpy())
    short, long = (json.loads(run(tmp_path / name, "--json", "--samples", 20).stdout)
                   for name in ("short.safetensors", "long.npy"))  # fmt: skip
    assert short["rows"] == 40 and short["views"] == long["views"]


def test_floats_of_four_bits_get_one_sentence(tmp_path):
    import torch
    from safetensors.torch import save_file

    kind = getattr(torch, "float4_e2m1fn_x2", None)
    if kind is None:
        pytest.skip("this torch has none")
    save_file({"z1": torch.ones(4, 4, dtype=torch.uint8).view(kind)}, tmp_path / "z.safetensors")
    refused(run(tmp_path / "z.safetensors"), "at least 8 bits")


def test_a_seed_beyond_the_generators_range_gets_one_sentence(views):
    for seed in (10**22, -1):
        refused(run(views, "--seed", seed), "invalid value for '--seed'")


def test_labels_of_ones_own_stand_in_for_a_bad_column(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = np.random.default_rng(0).normal(size=(6, 3)).tolist()
    pq.write_table(pa.table({"z": rows, "labels": [0, 1, None, 1, 0, 1]}), tmp_path / "z.parquet")
    refused(run(tmp_path / "z.parquet"), "is null in row 2; every row needs a label (-1 stands for none)")
    (tmp_path / "labels.txt").write_text("a\nb\na\nb\na\nb\n")
    tree = json.loads(run(tmp_path / "z.parquet", "--labels", tmp_path / "labels.txt", "--json").stdout)
    assert tree["classes"]["classes"] == 2


def test_labels_below_minus_one_get_one_sentence(views, tmp_path):
    (tmp_path / "labels.txt").write_text("\n".join(str(place % 3 - 2) for place in range(60)))
    refused(run(views, "--labels", tmp_path / "labels.txt"), "labels hold -2; classes are numbered from 0")


def test_names_and_texts_command_no_terminal(here: Path) -> None:
    name = os.fsdecode(b"\xff\x1b[2J.npy")
    np.save(here / name, np.random.default_rng(0).normal(size=(20, 4))[[*range(10)] * 2])  # equal rows are shown
    (here / "lines.txt").write_text("".join(f"\x1b[2J line {row}\n" for row in range(20)))
    answer = run(name, "--text", "lines.txt", "--page", "page.html")
    assert answer.exit_code == 0, answer.output
    assert r"\udcff\x1b[2J.npy: 20 rows" in answer.stdout and r"\x1b[2J line" in answer.stdout
    assert "\x1b" not in answer.output + (here / "page.html").read_text()
    assert r"There is no file nowhere\udcff\x1b[2J.npy" in refusal("diagnose", f"nowhere{name}")
