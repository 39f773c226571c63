"""The server of the explorer: what it answers, and what it refuses. A mistake costs a sentence, and it lives on."""

import http.client
import io
import json
import os
import pickle
import resource
import shutil
import socket
import threading
import time
import zipfile
from contextlib import contextmanager
from urllib.parse import quote

import numpy as np
import pytest

from hypersphere.explorer import embeddings
from hypersphere.explorer import server as serving
from hypersphere.explorer.server import start_server

LIMIT = 200_000  # bytes of an upload in these tests
SENTENCES = 300  # characters of an error


@contextmanager
def running(**given):
    server = start_server(**given)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.close()


def lines(steps, trouble_from=None):
    records = []
    for step in steps:
        verdicts = [] if trouble_from is None or step < trouble_from else ["overfitting"]
        numbers = {"alignment": 1 / (1 + step), "uniformity": -2.0, "infonce": 1.0, "objective": 2.0}
        records.append(
            {"step": step, "split": "training", "rows": 8.0, "dimension": 4.0, **numbers, "verdicts": verdicts}
        )
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Runs, a study and results as the commands write them, beside a secret that no answer may hold."""
    top = tmp_path_factory.mktemp("given")
    (top / "secret.png").write_text("secret")
    (top / "secret.yaml").write_text("secret")
    run = top / "runs" / "first"
    run.mkdir(parents=True)
    (run / "recipe.yaml").write_text("objective:\n  name: <b>met</b>\n")
    (run / "metrics.jsonl").write_text(lines((0, 10, 20), trouble_from=20))
    draw = np.random.default_rng(0)
    z1 = draw.normal(size=(40, 6)).astype(np.float32)
    from safetensors.numpy import save_file

    save_file({"z1": z1, "z2": z1 + 0.1}, run / "embeddings.safetensors")
    begun = top / "runs" / "begun"
    begun.mkdir()
    (begun / "recipe.yaml").write_text("objective: infonce\n")
    (top / "runs" / "linked").symlink_to(top)
    (run / "linked.png").symlink_to(top / "secret.png")
    stolen = top / "runs" / "stolen"
    stolen.mkdir()
    (stolen / "recipe.yaml").symlink_to(top / "secret.yaml")
    study = top / "studies" / "pair"
    (study / "runs").mkdir(parents=True)
    (study / "study.json").write_text("{}")
    summary = {"count": 2, "mean": 70.5, "iqm": 70.5, "deviation": 1.0, "low": 69.0, "high": 72.0}
    rows = [{"name": name, "objective": name, "summary": summary, "validation": 71.0, "seconds": 3.0} for name in "ab"]
    difference = {"name": "b", "mean": 1.25, "adjusted": 0.04}
    tree = {"metric": "knn", "reference": "a", "complete": True, "verdict": ["b is better."], "rows": rows,
            "differences": [difference], "runs": []}  # fmt: skip
    (study / "results.json").write_text(json.dumps(tree))
    (study / "report.html").write_text("<h1>report</h1><script>alert(1)</script>")
    item = top / "results" / "li2024" / "fig2"
    item.mkdir(parents=True)
    tree = {"verdict": "agrees", "claim": "GD falls", "measured": "it does", "clauses": {"falls": True}, "tables": {}}
    (item / "results.json").write_text(json.dumps(tree))
    (item / "fig2.png").write_bytes(b"\x89PNG")
    np.savez(top / "views.npz", z1=z1, z2=z1 + 0.3 * draw.normal(size=z1.shape), labels=np.arange(40) % 2)
    return top


@pytest.fixture(scope="module")
def server(folders):
    given = {"runs": folders / "runs", "studies": folders / "studies"}
    with running(folders=given, given=folders / "views.npz", results=folders / "results", largest=LIMIT) as server:
        yield server


def ask(server, path, method="GET", body=None, **headers):
    """Status, headers and content of an answer; every answer has the policy."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    policy = answer.headers.get_all("Content-Security-Policy")
    assert len(policy) == 1 and policy[0].startswith("default-src 'none'") and "unsafe-eval" not in policy[0]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert b"secret" not in content
    return answer.status, answer.headers, content


def tree(server, path, **options):
    status, headers, content = ask(server, path, **options)
    assert headers["Content-Type"] == "application/json; charset=utf-8"
    return status, json.loads(content)


def refused(server, path, status, words, **options):
    found, answer = tree(server, path, **options)
    assert found == status, answer
    sentence = answer["error"]
    assert words in sentence and sentence.endswith((".", "?")) and "\n" not in sentence and len(sentence) <= SENTENCES
    assert str(server.api.uploads.folder) not in sentence


def upload(server, name, content):
    status, answer = tree(server, f"/api/embeddings?name={quote(name)}", method="POST", body=content)
    assert status == 200, answer
    return f"upload:{answer['id']}"


def packed(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


# --- who is answered


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "localhost", "127.0.0.1.evil.example:{port}", "",
             "a@127.0.0.1:{port}", "127.0.0.1:{port}/x", "127.0.0.1:no", "[::1", "[", "::1:{port}"],
)  # fmt: skip
def test_a_foreign_host_is_refused(server, host):
    for path in ("/", "/api/runs"):
        refused(server, path, 421, "own address", Host=host.format(port=server.server_address[1]))


def test_loopback_by_any_of_its_names_is_answered(server):
    port = server.server_address[1]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
        assert tree(server, "/api/runs", Host=host)[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
def test_a_foreign_origin_is_refused(server, origin):
    origin = origin.format(port=server.server_address[1])
    refused(server, "/api/runs", 403, "own page", Origin=origin)
    refused(server, "/api/embeddings?name=z.npy", 403, "own page", method="POST", body=b"x", Origin=origin)


def test_the_own_origin_is_answered_and_another_site_is_not(server):
    assert tree(server, "/api/runs", Origin=server.url.rstrip("/"))[0] == 200
    assert tree(server, "/api/runs", Sec_Fetch_Site="same-origin")[0] == 200
    for site in ("cross-site", "same-site"):
        for path in ("/api/runs", "/%61pi/runs", "/charts.js"):
            refused(server, path, 403, "own page", Sec_Fetch_Site=site)


def test_a_server_on_all_addresses_answers_addresses_and_no_names():
    with running(host="0.0.0.0") as server:
        port = server.server_address[1]
        assert tree(server, "/api/runs", Host=f"192.168.1.5:{port}")[0] == 200
        refused(server, "/api/runs", 421, "own address", Host=f"evil.example:{port}")


def test_other_methods_and_broken_requests_cost_a_sentence(server):
    refused(server, "/api/runs", 501, "Unsupported method", method="DELETE")
    refused(server, "/api/runs", 404, "nothing of that name", method="POST", body=b"")
    refused(server, f"/{'a' * 5000}", 414, "too long")
    refused(server, f"/api/runs?{'a=1&' * 50}", 400, "cannot be read")
    with socket.create_connection(("127.0.0.1", server.server_address[1])) as raw:
        raw.sendall(b"GET nonsense with words HTTP/1.1\r\n\r\n")
        answer = raw.recv(4096)
    assert b"400" in answer.split(b"\r\n")[0] and b"Content-Security-Policy: default-src 'none'" in answer


# --- no file outside


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


# --- the page


def test_the_page_and_its_modules_are_sent(server):
    names = {name for name in os.listdir(os.path.dirname(serving.__file__) + "/page") if name.endswith(".js")}
    assert {"embeddings.js", "runs.js", "papers.js", "charts.js"} <= names
    for name in names:
        status, headers, _ = ask(server, f"/{name}")
        assert status == 200 and headers["Content-Type"].startswith("text/javascript")
    assert b".data-table" in ask(server, "/explorer.css")[2]
    assert ask(server, "/favicon.ico")[0] == 204


def test_no_page_module_writes_markup(server):
    for name, (content, _) in server.files.items():
        for word in (b"innerHTML", b"outerHTML", b"insertAdjacentHTML", b"document.write", b"eval(", b"new Function"):
            assert word not in content, (name, word)


def test_the_catalogue_names_what_the_server_has(server):
    status, answer = tree(server, "/api/catalogue")
    names = [each["name"] for each in answer["objectives"]]
    assert status == 200 and "met" in names and answer["version"] and answer["given"] == "views.npz"
    assert answer["largest_upload"] == LIMIT and answer["has"] == {"runs": True, "studies": True, "results": True}


def test_a_map_without_a_closed_form_is_computed(server):
    status, answer = tree(server, "/api/map?objective=siglip&points=4&negatives=3")
    assert status == 200 and answer["computed"] == "gradient" and "no closed form" in answer["note"]
    assert np.shape(answer["maps"]["dissipation"]) == (4, 4) and len(answer["positive"]) == 4
    one = tree(server, "/api/map?objective=infonce&points=4&temperature=0.05")[1]
    two = tree(server, "/api/map?objective=infonce&points=4&temperature=0.5")[1]
    assert one["computed"] == "closed form" and one["maps"]["dissipation"] != two["maps"]["dissipation"]
    refused(server, "/api/map?objective=siglib", 400, "siglip")
    refused(server, "/api/map?objective=infonce&temperature=-1", 400, "temperature")
    refused(server, "/api/map?objective=infonce&temperature=nan", 400, "is a number")
    refused(server, "/api/map?objective=infonce&heat=1", 400, "no setting")
    refused(server, "/api/map?objective=infonce&points=4000", 400, "from 4 to 40")


# --- embeddings


def test_given_embeddings_are_examined(server):
    status, answer = tree(server, "/api/embeddings?source=given&objective=met&margin=0.4")
    assert status == 200 and (answer["rows"], answer["dims"], answer["views"]) == (40, 6, 2)
    assert answer["diagnosis"]["question"] == "Has it collapsed?" and answer["diagnosis"]["table"]
    assert len(answer["spectrum"]["z1"]) == 6 and sum(answer["cosines"]["positives"]) == 40
    assert answer["anatomy"]["objective"] == "met" and "0.4" in answer["anatomy"]["as"] and answer["anatomy"]["verdict"]
    assert {"infonce", "met"} <= {row["objective"] for row in answer["advice"]["rows"]}
    hardest = answer["pairs"]["hardest"][0]
    assert hardest["rows"][0] != hardest["rows"][1]
    gaps = [pair["cosine"] - pair["positive"] for pair in answer["pairs"]["hardest"]]
    assert gaps == sorted(gaps, reverse=True)


def test_the_nearest_and_farthest_pairs_are_those_of_plain_loops(server, folders):
    answer = tree(server, "/api/embeddings?source=given")[1]
    loaded = np.load(folders / "views.npz")
    z1, z2 = (loaded[name] / np.linalg.norm(loaded[name], axis=1, keepdims=True) for name in ("z1", "z2"))
    pairs = sorted(((float(z1[i] @ z1[j]), {i, j}) for i in range(40) for j in range(i)), key=lambda pair: -pair[0])
    assert [set(pair["rows"]) for pair in answer["pairs"]["nearest"]] == [rows for _, rows in pairs[:12]]
    order = np.argsort([float(z1[i] @ z2[i]) for i in range(40)])[:12]
    assert [pair["rows"][0] for pair in answer["pairs"]["farthest"]] == order.tolist()


def test_the_embeddings_of_a_run_are_examined(server):
    status, answer = tree(server, "/api/embeddings?source=run:runs/first")
    assert status == 200 and answer["name"] == "first" and answer["rows"] == 40
    refused(server, "/api/embeddings?source=run:runs/begun", 404, "nothing")
    refused(server, "/api/embeddings", 404, "hoose embeddings")


def test_two_files_are_two_views_and_a_text_names_their_rows(server):
    draw = np.random.default_rng(1)
    z = draw.normal(size=(30, 5))
    files = [io.BytesIO(), io.BytesIO()]
    for file, values in zip(files, (z, z + 0.1), strict=True):
        np.save(file, values)
    first, second = (upload(server, "<img src=x>.npy", file.getvalue()) for file in files)
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


class Evil:
    def __reduce__(self):
        return os.system, ("touch executed",)


def bad_files():
    objects = io.BytesIO()
    np.save(objects, np.array([Evil(), Evil()], dtype=object), allow_pickle=True)
    good = packed(z1=np.ones((4, 3)))
    lying = io.BytesIO()
    with zipfile.ZipFile(lying, "w") as archive:
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (9999999, 99999), }".ljust(117) + b"\n"
        archive.writestr("z1.npy", b"\x93NUMPY\x01\x00v\x00" + header)
    return {
        "objects.npy": (objects.getvalue(), "Python objects"),
        "objects.npz": (packed(z1=np.array([Evil()], dtype=object)), "Python objects"),
        "pickle.npy": (pickle.dumps(Evil()), "cannot be read as npy"),
        "half.npz": (good[: len(good) // 2], "cannot be read as npz"),
        "lying.npz": (lying.getvalue(), "cannot be read as npz"),
        "words.npz": (b"PK\x03\x04 nonsense", "cannot be read as npz"),
        "empty.npy": (b"", "cannot be read as npy"),
        "header.safetensors": (b"\xff" * 64, "cannot be read as safetensors"),
        "text.parquet": (b"PAR1 nonsense PAR1", "cannot be read as parquet"),
        "several.npz": (packed(a=np.ones((4, 3)), b=np.ones((4, 3)), c=np.ones((4, 3))), "which are the embeddings"),
        "infinite.npz": (packed(z1=np.full((4, 3), np.inf)), "NaN or Inf"),
        "shapes.npz": (packed(z1=np.ones((4, 3)), z2=np.ones((5, 3))), "one shape"),
        "many.npz": (packed(**{f"a{k}": np.ones(1) for k in range(70)}), "at most 64 arrays"),
    }


@pytest.mark.parametrize("name", bad_files())
def test_a_bad_file_costs_a_sentence(server, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content, words = bad_files()[name]
    refused(server, f"/api/embeddings?source={upload(server, name, content)}", 400, words)
    assert not (tmp_path / "executed").exists()
    assert tree(server, "/api/catalogue")[0] == 200


def test_a_bomb_is_not_unpacked(server):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "ab":
            archive.writestr(f"{name}.npy", b"\0" * 1000)
    bomb = file.getvalue().replace((1000).to_bytes(4, "little"), (2**32 - 2).to_bytes(4, "little"))
    refused(server, f"/api/embeddings?source={upload(server, 'bomb.npz', bomb)}", 400, "once unpacked")


def test_a_parquet_of_too_many_equal_numbers_is_not_read(server, monkeypatch):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    pq.write_table(pa.table({name: pa.array(np.zeros(200_000, dtype=np.float32)) for name in "xy"}), file)
    small = upload(server, "zeros.parquet", file.getvalue())
    assert len(file.getvalue()) < 20_000
    monkeypatch.setattr(embeddings, "UNPACKED", 2**20)
    refused(server, f"/api/embeddings?source={small}", 400, "zeros.parquet takes 3 MB once unpacked")


def test_a_given_file_may_be_of_any_size(server, monkeypatch):
    monkeypatch.setattr(embeddings, "UNPACKED", 100)
    monkeypatch.setattr(embeddings, "MEMBERS", 1)
    assert tree(server, "/api/embeddings?source=given&objective=mpt")[0] == 200


# --- uploads


def test_a_file_of_another_kind_is_refused_before_it_is_read(server):
    kept = sorted(server.api.uploads.folder.iterdir())
    for name in ("model.pt", "z.pkl", "z", "", "../../z.exe"):
        refused(server, f"/api/embeddings?name={quote(name)}", 400, "come as .npy", method="POST", body=b"x" * 1000)
    assert sorted(server.api.uploads.folder.iterdir()) == kept


def test_an_upload_beyond_the_limit_is_refused(server):
    before = sorted(server.api.uploads.folder.iterdir())
    for size in (LIMIT + 1, 5 * LIMIT):
        refused(server, "/api/embeddings?name=z.npy", 413, "larger than", method="POST", body=b"x" * size)
    assert sorted(server.api.uploads.folder.iterdir()) == before
    assert upload(server, "z.npy", b"x" * LIMIT)


def test_a_gigabyte_in_chunks_does_not_grow_the_memory(server):
    piece, before = b"x" * 2**20, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kept = sorted(server.api.uploads.folder.iterdir())

    def pieces():
        for _ in range(1024):
            yield piece

    refused(server, "/api/embeddings?name=z.npy", 413, "larger than", method="POST", body=pieces())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # kilobytes
    assert sorted(server.api.uploads.folder.iterdir()) == kept


def test_a_small_upload_in_chunks_is_kept(server):
    file = io.BytesIO()
    np.save(file, np.eye(6) + 0.1)
    whole = file.getvalue()
    source = upload(server, "z.npy", iter([whole[:100], whole[100:]]))
    assert tree(server, f"/api/embeddings?source={source}")[1]["rows"] == 6


@pytest.mark.parametrize(
    "head, body",
    [(b"Content-Length: 1000", b"short"), (b"Content-Length: -5", b""), (b"Content-Length: many", b""), (b"X: y", b""),
     (b"Transfer-Encoding: chunked", b"zz\r\nabc\r\n"), (b"Transfer-Encoding: chunked", b"5\r\nab"),
     (b"Transfer-Encoding: chunked", b"ffffffffffff\r\nab")],
)  # fmt: skip
def test_a_broken_upload_keeps_nothing(server, head, body):
    kept = sorted(server.api.uploads.folder.iterdir())
    with socket.create_connection(("127.0.0.1", server.server_address[1])) as raw:
        host = b"Host: 127.0.0.1:%d" % server.server_address[1]
        raw.sendall(b"POST /api/embeddings?name=z.npy HTTP/1.1\r\n%s\r\n%s\r\n\r\n%s" % (host, head, body))
        raw.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: raw.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400") and b'{"error": "' in answer
    assert sorted(server.api.uploads.folder.iterdir()) == kept


def test_the_oldest_upload_makes_room(tmp_path, monkeypatch):
    monkeypatch.setattr("hypersphere.explorer.uploads.MOST_KEPT", 3)
    with running() as server:
        sources = [upload(server, "z.npy", b"x" * (10 + k)) for k in range(5)]
        assert len(list(server.api.uploads.folder.iterdir())) == 3
        refused(server, f"/api/embeddings?source={sources[0]}", 404, "no longer kept")
        folder = server.api.uploads.folder
    assert not folder.exists()


def test_two_clients_at_once_do_not_disturb_each_other(server):
    results = {}

    def client(rows):
        file = io.BytesIO()
        np.save(file, np.random.default_rng(rows).normal(size=(rows, 4)))
        source = upload(server, f"{rows}.npy", file.getvalue())
        results[rows] = [tree(server, f"/api/embeddings?source={source}")[1] for _ in range(2)]

    threads = [threading.Thread(target=client, args=(rows,)) for rows in (12, 17, 23)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {rows: [answer["rows"] for answer in found] for rows, found in results.items()} == {
        12: [12, 12], 17: [17, 17], 23: [23, 23]}  # fmt: skip
    assert all(found[0]["name"] == f"{rows}.npy" for rows, found in results.items())


# --- runs, studies, papers


def test_runs_are_listed_with_their_state(server):
    rows = {row["id"]: row for row in tree(server, "/api/runs")[1]["runs"]}
    assert {"runs/first", "runs/begun"} <= rows.keys() and "runs/linked" not in rows
    assert rows["runs/first"]["objective"] == "<b>met</b>" and rows["runs/first"]["embeddings"]
    assert rows["runs/first"]["state"] == "running" and not rows["runs/begun"]["embeddings"]


def test_curves_and_the_verdict_where_it_happened(server):
    run = tree(server, "/api/runs/runs/first")[1]
    panel = next(panel for panel in run["panels"] if panel["title"] == "Alignment and uniformity")
    assert [point[:2] for point in panel["curves"][0]["points"]] == [[0, 1.0], [10, 1 / 11], [20, 1 / 21]]
    assert [(event["step"], event["name"]) for event in run["events"]] == [(20, "overfitting")]
    assert run["recipe"] == "objective:\n  name: <b>met</b>\n" and run["steps"] == 20


def test_a_run_without_a_measurement_has_a_sentence(server):
    run = tree(server, "/api/runs/runs/begun")[1]
    assert run["panels"] == [] and run["sentence"].startswith("The run has no measurement yet")


def test_a_run_that_is_being_written_is_followed(tmp_path):
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    (run / "recipe.yaml").write_text("objective: met\n")
    with running(folders={"runs": tmp_path / "runs"}) as server:
        events = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
        events.request("GET", "/api/events")
        stream = events.getresponse()
        assert stream.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert stream.readline() == b"event: ready\n"
        stream.readline(), stream.readline()
        with (run / "metrics.jsonl").open("w") as file:
            file.write(lines((0, 10)) + '{"step": 20, "spl')
        assert stream.readline() == b"event: changed\n"
        assert json.loads(stream.readline().removeprefix(b"data: ")) == {"ids": ["runs/one"]}
        assert tree(server, "/api/runs/runs/one")[1]["steps"] == 10  # the incomplete line is left out
        (run / "metrics.jsonl").write_text('{"step": "x"}\n')
        assert "cannot be read now" in tree(server, "/api/runs/runs/one")[1]["sentence"]
        shutil.rmtree(run)
        refused(server, "/api/runs/runs/one", 404, "nothing of that name")
        events.close()


def test_a_stream_ends_with_the_server_and_streams_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "LISTENERS", 1)
    with running(folders={"runs": tmp_path}) as server:
        events = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
        events.request("GET", "/api/events")
        stream = events.getresponse()
        assert stream.readline() == b"event: ready\n"
        refused(server, "/api/events", 503, "follow runs already")
        began = time.monotonic()
    assert stream.read().endswith(b"\n") and time.monotonic() - began < 5


def test_a_study_has_its_table_and_a_report_that_runs_no_program(server):
    assert [row["id"] for row in tree(server, "/api/studies")[1]["studies"]] == ["studies/pair"]
    study = tree(server, "/api/studies/studies/pair")[1]
    assert study["verdict"] == ["b is better."] and study["report"] and not study["picture"]
    assert study["rows"][1] == ["b", "70.50", "69.00 to 72.00", "+1.25", "0.04", "71.00", "2", "3.0"]
    assert study["rows"][0][3] == "reference"
    status, headers, content = ask(server, "/api/report/studies/pair")
    assert status == 200 and b"<h1>report</h1>" in content
    assert "sandbox" in headers["Content-Security-Policy"] and "script-src" not in headers["Content-Security-Policy"]


def test_a_study_given_by_its_own_folder(folders):
    with running(folders={"studies": folders / "studies" / "pair", "runs": folders / "runs" / "first"}) as server:
        study = tree(server, "/api/studies")[1]["studies"][0]
        assert (study["id"], study["name"]) == ("studies", "pair")
        assert tree(server, "/api/studies/studies")[1]["verdict"] == ["b is better."]
        assert ask(server, "/api/report/studies")[0] == 200
        assert tree(server, "/api/runs/runs")[1]["steps"] == 20


def test_papers_stand_beside_what_was_measured(server):
    papers = tree(server, "/api/papers")[1]["papers"]
    items = {item["name"]: item for paper in papers for item in paper["items"]}
    assert items["li2024/fig2"]["verdict"] == "agrees" and items["li2024/fig2"]["measured"] == "it does"
    assert items["li2024/fig3"]["verdict"] == "not run yet" and items["li2024/fig3"]["command"].endswith("li2024/fig3")
    path = items["li2024/fig2"]["figures"][0]
    status, headers, content = ask(server, f"/api/figure/papers/{path}")
    assert status == 200 and headers["Content-Type"] == "image/png" and content == b"\x89PNG"


def test_without_folders_every_page_has_a_sentence():
    with running() as server:
        assert "--runs DIR" in tree(server, "/api/runs")[1]["sentence"]
        assert "--studies DIR" in tree(server, "/api/studies")[1]["sentence"]
        assert "--results DIR" in tree(server, "/api/papers")[1]["sentence"]
        refused(server, "/api/runs/runs/x", 404, "--runs DIR")


def test_a_port_in_use_gives_the_next():
    with running() as first:
        port = first.server_address[1]
        second = start_server(port=port)
        assert port < second.server_address[1] < port + 50
        second.close()
