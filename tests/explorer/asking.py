"""A running server, questions to it, and files to give it. Every answer is checked for the headers that all have."""

import base64
import http.client
import io
import json
import threading
from contextlib import contextmanager
from urllib.parse import quote

import numpy as np

from hypersphere.explorer.server import start_server

LIMIT = 200_000  # bytes of an upload in these tests
SENTENCES = 300  # characters of an error
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


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


def saved(values):
    """An array as the bytes of an npy."""
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def journal(steps, trouble_from=None):
    """The metrics of a run, as training writes them."""
    records = []
    for step in steps:
        verdicts = [] if trouble_from is None or step < trouble_from else ["overfitting"]
        numbers = {"alignment": 1 / (1 + step), "uniformity": -2.0, "infonce": 1.0, "objective": 2.0}
        records.append(
            {"step": step, "split": "training", "rows": 8.0, "dimension": 4.0, **numbers, "verdicts": verdicts}
        )
    return "".join(json.dumps(record) + "\n" for record in records)
