"""``hypersphere explore`` as a user meets it."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from hypersphere.cli.answers import OneSentence
from hypersphere.cli.explore import explore
from hypersphere.explorer import export

app = typer.Typer(cls=OneSentence)
app.callback()(lambda: None)
app.command()(explore)


def run(*words):
    return CliRunner().invoke(app, ["explore", *(str(word) for word in words)])


def refused(answer, sentence):
    assert answer.exit_code == 2, answer.output
    assert sentence in answer.stderr and len(answer.stderr.splitlines()) == 1


def test_a_missing_folder_or_file_is_one_sentence(tmp_path):
    for name in ("runs", "studies", "results"):
        refused(run(f"--{name}", tmp_path / "none"), f"There is no folder {tmp_path / 'none'} (--{name}).")
    refused(run("--embeddings", tmp_path / "z.npy"), "There is no file")
    refused(run("--embeddings", tmp_path), "folder without embeddings.safetensors")
    (tmp_path / "z.pt").write_bytes(b"")
    refused(run("--embeddings", tmp_path / "z.pt"), "mbeddings come as .npy")
    refused(run("--export", tmp_path / "z.pt"), "is a file")
    refused(run("--port", 70000), "65535")


def test_an_address_that_is_not_of_this_computer_is_one_sentence():
    refused(run("--host", "203.0.113.7", "--no-browser"), "No server can listen on 203.0.113.7")


def test_a_page_is_exported(tmp_path, monkeypatch):
    page = tmp_path / "page"
    page.mkdir()
    (page / "explorer.js").write_text("export function mount() {}\n")
    (page / "explorer.css").write_text("")
    monkeypatch.setattr(export.export_page, "__defaults__", (None, page))
    (tmp_path / "results").mkdir()
    answer = run("--export", tmp_path / "out", "--results", tmp_path / "results")
    assert answer.exit_code == 0, answer.output
    assert (
        answer.stdout == f"page: {tmp_path / 'out' / 'index.html'}\n" and (tmp_path / "out" / "explorer.js").is_file()
    )


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_next_free_port_is_named_and_a_signal_ends_it_quietly(tmp_path, number):
    np.save(tmp_path / "z.npy", np.random.default_rng(0).normal(size=(20, 4)))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["explore", "--port", str(port), "--no-browser", "--embeddings", str(tmp_path / "z.npy")]
        process = subprocess.Popen(
            [sys.executable, "-m", "hypersphere", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )  # fmt: skip
        first, second = process.stdout.readline(), process.stdout.readline()
        assert first.startswith(f"Port {port} is in use; this is port ")
        address = second.split()[4]
        assert second == f"The explorer is at {address} (Ctrl-C stops it).\n" and address.startswith(
            "http://127.0.0.1:"
        )
        with urllib.request.urlopen(f"{address}api/runs", timeout=60) as answer:
            assert "--runs DIR" in json.load(answer)["sentence"]
        assert list(tmp_path.glob("hypersphere-*"))
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and errors.strip() == "" and not list(tmp_path.glob("hypersphere-*"))
