"""Bad input by families, on the command line: one short sentence, exit code 2, nothing left behind, in seconds."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from hypersphere.cli.answers import OneSentence, fail
from hypersphere.cli.app import app
from hypersphere.messages import LONGEST
from tests.training import worlds


def refused(*words: Any) -> str:
    """The sentence with which the command refuses."""
    answer = CliRunner().invoke(app, [str(word) for word in words])
    assert answer.exit_code == 2, answer.output
    lines = answer.stderr.splitlines()
    assert len(lines) == 1 and len(lines[0]) <= LONGEST, answer.stderr
    assert lines[0].isprintable()
    return lines[0]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- recipes ----

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
RECIPES = {
    "an alias bomb": (BOMB, "more than 20,000 values"),
    "deep lists": ("task: " + "[" * 100_000, "nested more than 64 levels"),
    "deep objects": ("{a: " * 5000, "nested more than 64 levels"),
    "a tag that runs a program": ("task: !!python/object/apply:os.system [ls]", "tags are not read"),
    "a tag of one's own": ("task: !mine image", "tags are not read"),
    "a key given twice": ("steps: 3\ntask: image\nsteps: 4", "(line 1): the key 'steps' is there twice"),
    "an object that holds itself": ("data: &x {source: *x}", "it holds itself"),
    "a key that is no word": ("? [task]\n: image", "a key is not a word"),
    "a number of a thousand digits": (f"steps: 0x{'f' * 1000}", "a number has 1002 digits"),
    "a text of a million characters": (f"task: {'x' * 10**6}", "larger than 262,144 bytes"),
    "a long value": (f"task: {'x' * 10**5}", "task is 'xxxx"),
    "no UTF-8": (b"task: \xff", "is not text in UTF-8"),
    "control characters": ('task: "\\e[2J"', r"task is '\x1b[2J'"),
    "a list": ("[1, 2]", "must hold sections such as data"),
}


@pytest.mark.parametrize("family", RECIPES)
def test_a_recipe_that_cannot_be_read_is_refused(family: str, here: Path) -> None:
    text, words = RECIPES[family]
    (here / "r.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert words.lower() in refused("train", "r.yaml").lower()
    assert os.listdir(here) == ["r.yaml"]


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["steps=3", "steps=4"], "steps is given twice"),
        (["batch=3", "batch.size=4"], "batch.size is given twice"),
        (["output=!x"], "tags are not read"),
        (["output=&x y"], "it has an anchor"),
        (["head={kind: mlp, kind: none}"], "the key 'kind' is there twice"),
        (["head={kind: none} # no head"], "there is more text before or after its value"),
        (["objective={base: " + "[" * 1000], "nested more than 64 levels"),
        ([f"{'x' * 10**5}=1"], "has no key xxx"),
        ([f"objective={'x' * 10**5}"], "There is no objective 'xxx"),
        (["objective=\x1b[2J"], r"objective=\x1b[2J"),
        (["output=\udcff"], r"output=\udcff"),
        (["output=~nosuchuser/run"], "There is no home folder ~nosuchuser"),
        (["data.source=~nosuchuser/x"], "There is no home folder ~nosuchuser"),
        (["data.source=nowhere"], "There is no image set 'nowhere'"),
        (["encoder.width=4000000"], "would take 5,760,0"),
        (["encoder=mlp", "encoder.hidden=[1000000, 1000000]"], "would take 4,000 GB"),
        (["head.hidden=[1000000000000]"], "would take 512,000 GB"),
        (["augmentation.size=1000000"], "would take 2,048,000 GB"),
        (["batch=1000000000000"], "less than one batch of 1000000000000"),
    ],
)
def test_words_that_cannot_be_meant_are_refused_and_leave_nothing(words: list[str], sentence: str, here: Path) -> None:
    assert sentence in refused("train", "digits", *words)
    assert os.listdir(here) == []  # not even an empty runs/


def test_a_word_is_taken_as_it_was_typed() -> None:
    from hypersphere.training.load import read_recipe

    for name in ("my run #1", "#1", "2024-05-01", "--- x", "a  b"):
        assert read_recipe("digits", [f"output={name}"]).output == name
    assert read_recipe("digits", ["output='#1'"]).output == "#1"


# ---- files of a run, of a model, of a cache ----

WRONG = ["null", "-1", '"x"', "[]", "[null]", "{}", '{"a": 1, "a": 2}', '{"a": ', "[" * 100_000, b"\xff"]


def wrong(path: Path, content: str | bytes) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("name", ["recipe.yaml", "environment.json"])
def test_a_run_with_a_damaged_file_is_not_resumed(name: str, here: Path) -> None:
    from hypersphere.training.folder import describe
    from hypersphere.training.load import parse_recipe

    tree = worlds.digits_recipe(here)
    worlds.recipe_file(here, **tree)
    describe(here / "run", parse_recipe(tree))
    before = {path.name for path in (here / "run").iterdir()}
    for content in WRONG:
        wrong(here / "run" / name, content)
        assert "run does not hold how its run was started" in refused("train", here / "recipe.yaml", "--resume")
        assert {path.name for path in (here / "run").iterdir()} == before


@pytest.mark.parametrize("name", ["recipe.yaml", "model/encoder.json", "probes.json"])
def test_a_run_with_a_damaged_file_is_not_probed(name: str, here: Path) -> None:
    from hypersphere.encoders.image import create_image_encoder, save_image_encoder

    encoder = create_image_encoder("small-cnn", channels=1, size=8, width=8)
    about = {"name": "small-cnn", "channels": 1, "size": 8, "options": {"width": 8}}
    save_image_encoder(here / "model", encoder, {**about, "normalise": {"mean": [0.5], "std": [0.5]}})
    worlds.recipe_file(here, task="image", data={"source": "digits"})
    for content in [*WRONG, "[{}]", '[{"key": 1, "score": {"labels": "x"}}]']:
        if name != "probes.json" or content != "[]":
            wrong(here / name, content)
            refused("probe", here, "--kind", "knn", "--labels", "1.0", "--seeds", "1")
    for key, value in [("channels", 0), ("size", "x"), ("options", []), ("options", {"width": 10**9}),
                       ("normalise", {"mean": "x", "std": [1]}), ("name", 3)]:  # fmt: skip
        if name == "model/encoder.json":
            (here / name).write_text(json.dumps({**about, "normalise": None, key: value}))
            assert "encoder.json" in refused("probe", here, "--kind", "knn", "--labels", "1.0", "--seeds", "1")


def test_a_model_with_a_damaged_file_is_refused(tmp_path: Path) -> None:
    from hypersphere.encoders.checkpoint import open_sentence_model
    from tests.evaluation.tiny_model import write_tiny_model

    model = write_tiny_model(tmp_path)
    for path in [path for path in sorted(model.rglob("*.json")) if path.name != "tokenizer.json"]:
        whole = path.read_bytes()
        for content in [each for each in WRONG if each not in ("{}", "[]" if path.name == "modules.json" else "{}")]:
            wrong(path, content)
            with pytest.raises(ValueError, match=rf"{path.name} is damaged"):
                open_sentence_model(model)
        path.write_bytes(whole)
    config = json.loads((model / "config.json").read_text())
    for key, value in [("hidden_size", "x"), ("num_attention_heads", [1]), ("vocab_size", 10**12)]:
        (model / "config.json").write_text(json.dumps({**config, key: value}))
        with pytest.raises(ValueError, match="could not be loaded"):
            open_sentence_model(model)


def test_a_module_outside_its_model_is_refused(tmp_path: Path) -> None:
    from hypersphere.encoders.checkpoint import module_folders

    (tmp_path / "modules.json").write_text('[{"path": "../elsewhere"}]')
    with pytest.raises(ValueError, match=r"modules.json is damaged"):
        module_folders(tmp_path)


def test_a_damaged_cache_is_filled_again(tmp_path: Path) -> None:
    from hypersphere.evaluation.embeddings import embed
    from hypersphere.evaluation.sentence_model import SentenceModel

    class Model:
        def encode(self, texts: list[str]) -> np.ndarray:
            return np.asarray([[len(text), 1.0] for text in texts], dtype=np.float32)

    def run() -> Any:
        return embed(SentenceModel("m", "mark", Model), ["a", "bb"], tmp_path)

    (_, about), folder = run(), tmp_path / "embeddings" / "mark"
    (chunk,) = folder.glob("*.safetensors")
    for content in [*WRONG, json.dumps({"model": "m", "pooling": [1], "max_length": "x"})]:
        wrong(folder / "about.json", content)
        assert run()[1] == about
    for header in (b"[" * 100_000, b"null", b'{"__metadata__": 3}'):
        chunk.write_bytes(len(header).to_bytes(8, "little") + header)
        store, _ = run()
        assert store.discarded == [chunk] and store.rows(["bb"]).tolist() == [[2.0, 1.0]]


# ---- data: what is packed, and how much of it ----


def test_a_gz_is_not_unpacked_beyond_what_it_declares(here: Path) -> None:
    (here / "set").mkdir()
    head = struct.pack(">4B3I", 0, 0, 8, 3, 2, 4, 4)
    (here / "set" / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + bytes(2**26)))
    tracemalloc.start()
    assert "declares 2×4×4 and so 48 bytes, but has more" in refused("train", "digits", "data.source=set")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**25


def test_a_size_that_no_memory_holds_is_refused(here: Path) -> None:
    (here / "set").mkdir()
    (here / "set" / "train-images-idx3-ubyte").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, *[2**32 - 1] * 3))
    assert "more than this machine's memory" in refused("train", "digits", "data.source=set")
    with (here / "z.npy").open("wb") as file:
        about = {"descr": "<f4", "fortran_order": False, "shape": (10**12, 10**6)}
        np.lib.format.write_array_header_1_0(file, about)
    assert "z.npy cannot be read" in refused("diagnose", "z.npy")


def test_an_archive_is_not_unpacked_beyond_cifars_size(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypersphere.data.image_files.MOST_BYTES", 2**20)
    with tarfile.open(here / "large.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("data_batch_1.bin")
        member.size = 2**22
        archive.addfile(member, io.BytesIO(bytes(2**22)))
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.XHDTYPE, 2**40  # a header that says it is a terabyte long
    (here / "header.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
    with tarfile.open(here / "many.tar", "w") as archive:
        for number in range(1001):
            archive.addfile(tarfile.TarInfo(str(number)))
    for name, words in (("large.tar.gz", "holds more than 1,048,576 bytes"), ("header.tar", "asks for more"),
                        ("many.tar", "holds more than 1000 files")):  # fmt: skip
        assert words in refused("train", "digits", f"data.source={name}")


def test_a_text_without_line_ends_is_refused(here: Path) -> None:
    from hypersphere.data.text import read_corpus

    for name in ("one.txt.gz", "one.csv.gz", "one.jsonl.gz"):
        (here / name).write_bytes(gzip.compress(b"a" * 2_000_000))
        with pytest.raises(ValueError, match=r"line 1 of .* is longer than 1,000,000 characters"):
            read_corpus(name)


@pytest.mark.parametrize(
    "labels, words",
    [
        ("[0, 1000000000000]", "has the label 1000000000000"),
        ("[0, 1.5]", "is not a list of whole numbers"),
        ("{}", "should hold a list"),
        ("[" * 100_000, "nested more than 64 levels"),
        (f"[0, {'9' * 5000}]", "is not accepted"),
    ],
)
def test_labels_that_cannot_be_are_refused(labels: str, words: str, here: Path) -> None:
    from PIL import Image

    (here / "set").mkdir()
    Image.fromarray(np.zeros((2, 64, 3), np.uint8)).save(here / "set" / "data_batch_1.png")
    (here / "set" / "train_labels.json").write_text(labels)
    assert words in refused("train", "digits", "data.source=set")


@pytest.mark.parametrize("line", ["[" * 100_000, "{", "5", "[]", '{"a": {"b": 1}}', '{"a": "x", "a": "y"}'])
def test_a_line_that_is_no_object_is_refused(line: str, here: Path) -> None:
    from hypersphere.data.text import read_corpus

    (here / "x.jsonl").write_text(f'{{"a": "fine"}}\n{line}\n')
    with pytest.raises(ValueError, match=r"^line 2 of x.jsonl") as caught:
        read_corpus("x.jsonl")
    assert len(str(caught.value)) < LONGEST


# ---- names and consoles ----


def test_names_and_texts_command_no_terminal(here: Path) -> None:
    name = os.fsdecode(b"\xff\x1b[2J.npy")
    np.save(here / name, np.random.default_rng(0).normal(size=(20, 4))[[*range(10)] * 2])  # equal rows are shown
    (here / "lines.txt").write_text("".join(f"\x1b[2J line {row}\n" for row in range(20)))
    answer = CliRunner().invoke(app, ["diagnose", name, "--text", "lines.txt", "--page", "page.html"])
    assert answer.exit_code == 0, answer.output
    assert r"\udcff\x1b[2J.npy: 20 rows" in answer.stdout and r"\x1b[2J line" in answer.stdout
    assert "\x1b" not in answer.output + (here / "page.html").read_text()
    assert r"There is no file nowhere\udcff\x1b[2J.npy" in refused("diagnose", f"nowhere{name}")


def test_a_console_without_greek_gets_escapes() -> None:
    answer = CliRunner(charset="ascii").invoke(app, ["objectives", "infonce"])
    assert answer.exit_code == 0 and r"e^{s_ii/\u03c4}" in answer.stdout


# ---- what no command foresaw ----


def answer_to(error: Exception, *words: str) -> Any:
    own = typer.Typer(cls=OneSentence, pretty_exceptions_enable=False)
    own.callback()(lambda: None)

    @own.command()
    def fail(name: str = "") -> None:
        raise error

    return CliRunner().invoke(own, ["fail", *words])


@pytest.mark.parametrize(
    "error, code, words",
    [
        (ValueError("z.npy is odd"), 2, "z.npy is odd."),
        (FileNotFoundError(2, "No such file", "z.npy"), 2, "z.npy: No such file."),
        (MemoryError(), 2, "There is not enough memory for it."),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 1 bytes"), 2, "There is not enough memory for it."),
        (RecursionError("maximum recursion depth exceeded"), 2, "It is nested too deeply."),
        (EOFError("half a file"), 2, "EOFError: half a file."),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd"), 2, "'utf-8' codec can't decode byte 0xff"),
        (ValueError("\x1b[2J" + "x" * 10**6), 2, r"\x1b[2Jxxx"),
        (KeyError("x" * 1000), 1, "Unexpected KeyError: KeyError: 'xxx"),
    ],
)
def test_an_error_that_no_command_foresaw_is_a_sentence(error: Exception, code: int, words: str) -> None:
    answer = answer_to(error)
    assert answer.exit_code == code, answer.output
    (line,) = filter(None, answer.stderr.splitlines())
    assert line.startswith(words) and len(line) <= LONGEST + 1
    assert line.endswith("--debug shows where.") == (code == 1)


def test_debug_shows_where_an_error_came_from(here: Path) -> None:
    told = answer_to(KeyError("x"), "--debug").stderr
    assert "Traceback" in told and "raise error" in told
    (here / "r.yaml").write_text("a: 1\na: 2")
    for words in (["--debug", "train", "r.yaml"], ["train", "r.yaml", "--debug"]):
        told = CliRunner().invoke(app, words)
        assert told.exit_code == 2 and "Traceback" in told.stderr and told.stderr.endswith("is there twice.\n")
    assert "Traceback" not in CliRunner().invoke(app, ["train", "r.yaml"]).stderr
    assert "--debug" in answer_to(KeyError("x"), "--name", "--", "--debug").stderr  # after --, a word like any other


def test_a_refusal_is_cut_in_its_middle(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        fail(f"the file {'x' * 1000} is odd; remove it.")
    told = capsys.readouterr().err.rstrip("\n")
    assert len(told) <= LONGEST and told.startswith("The file xxx") and told.endswith("x is odd; remove it.")
