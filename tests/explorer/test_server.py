"""The server of the explorer: whom it answers, and what it refuses. A mistake costs a sentence, and it lives on."""

import http.client
import json
import os
import resource
import shutil
import socket
import threading
import time

import numpy as np
import pytest

from hypersphere.explorer import server as serving
from hypersphere.explorer.server import start_server
from tests.explorer.asking import LIMIT, ask, journal, refused, running, saved, tree, upload

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


def test_a_port_in_use_gives_the_next():
    with running() as first:
        port = first.server_address[1]
        second = start_server(port=port)
        assert port < second.server_address[1] < port + 50
        second.close()


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


# --- a body that arrives


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
    whole = saved(np.eye(6) + 0.1)
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


def test_two_clients_at_once_do_not_disturb_each_other(server):
    results = {}

    def client(rows):
        values = np.random.default_rng(rows).normal(size=(rows, 4))
        source = upload(server, f"{rows}.npy", saved(values))
        results[rows] = [tree(server, f"/api/embeddings?source={source}")[1] for _ in range(2)]

    threads = [threading.Thread(target=client, args=(rows,)) for rows in (12, 17, 23)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {rows: [answer["rows"] for answer in found] for rows, found in results.items()} == {
        12: [12, 12], 17: [17, 17], 23: [23, 23]}  # fmt: skip
    assert all(found[0]["name"] == f"{rows}.npy" for rows, found in results.items())


# --- events


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
            file.write(journal((0, 10)) + '{"step": 20, "spl')
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
