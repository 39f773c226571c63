"""Files in SentEval's layout with the right row counts and made-up English, for tests without the real sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hypersphere.data.sts import BENCHMARK_ROWS, PARTS, SICK_FILES
from hypersphere.data.transfer import MRPC_FILES, SST2_ROWS, TREC_FILES, TREC_KINDS, TWO_FILES

NOUNS = ("man", "dog", "car", "river", "song", "plan", "team", "tree")
VERBS = ("sees", "follows", "makes", "finds", "leaves", "likes")
UNSCORED = 5  # pairs without gold in each part of 2015 and 2016


def sentence(number: int) -> str:
    """Distinct numbers below 8·6·8·8 give distinct sentences."""
    number, noun = divmod(number, 8)
    number, verb = divmod(number, 6)
    number, other = divmod(number, 8)
    ending = " and the sky" * (number % 3)
    return f"the {NOUNS[noun]} {VERBS[verb]} the {NOUNS[other]} of {NOUNS[number % 8]}{ending} ."


def lines(rows: list[str]) -> str:
    return "".join(row + "\n" for row in rows)


def pairs(count: int, seed: int) -> list[tuple[str, str, float]]:
    draw = np.random.default_rng(seed)
    numbers, scores = draw.integers(0, 3072, (count, 2)), draw.integers(4, 21, count) / 4
    return [(sentence(a), sentence(b), score) for (a, b), score in zip(numbers.tolist(), scores, strict=True)]


def write_sts(root: Path) -> Path:
    for task, parts in PARTS.items():
        home = root / "STS" / f"{task}-en-test"
        home.mkdir(parents=True)
        for seed, (part, count) in enumerate(parts.items()):
            rows = [(f"{a}\t{b}", f"{score}") for a, b, score in pairs(count, seed)]
            if task in ("STS15", "STS16"):
                rows[1:1] = [(f"{sentence(0)}\tan unscored pair of the set", "")] * UNSCORED
            (home / f"STS.input.{part}.txt").write_text(lines([row[0] for row in rows]))
            (home / f"STS.gs.{part}.txt").write_text(lines([row[1] for row in rows]))
    (root / "STS" / "STS12-en-test" / "STS.gs.ALL.txt").write_text("1.0\n" * 3108)
    (root / "STS" / "STS13-en-test" / "STS.gs.SMT.txt").write_text("1.0\n" * 750)
    (root / "STS" / "STSBenchmark").mkdir()
    for seed, (split, count) in enumerate(BENCHMARK_ROWS.items()):
        rows = [f"news\tMSR\t2012\t{i}\t{s}\t{a}\t{b}" for i, (a, b, s) in enumerate(pairs(count, seed))]
        rows[3] += "\tsource\tsource"  # some rows name the licences of their sentences
        (root / "STS" / "STSBenchmark" / f"sts-{split}.csv").write_text(lines(rows))
    (root / "SICK").mkdir()
    for seed, (name, count) in enumerate(SICK_FILES.values()):
        rows = [f"{i}\t{a}\t{b}\t{s}\tNEUTRAL" for i, (a, b, s) in enumerate(pairs(count, seed))]
        (root / "SICK" / name).write_text(
            lines(["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tjudgment", *rows])
        )
    return root


def write_transfer(root: Path) -> Path:
    for task, files in TWO_FILES.items():
        (root / task).mkdir(parents=True)
        for half, (name, count) in enumerate(files):
            rows = [sentence(2 * i + half) for i in range(count)]
            if task == "CR":
                rows[7] = " "
            (root / task / name).write_text(lines(rows))
    (root / "SST" / "binary").mkdir(parents=True)
    for split, count in SST2_ROWS.items():
        rows = [f"{sentence(i % 3072)} \t{i % 2}" for i in range(count)]
        (root / "SST" / "binary" / f"sentiment-{split}").write_text(lines(rows))
    (root / "TREC").mkdir()
    for name, count in TREC_FILES.values():
        rows = [f"{TREC_KINDS[i % 6]}:kind what is {sentence(i % 3072)}" for i in range(count)]
        rows[0] = "HUM:ind Who is the man of the caf\xe9 ?"
        (root / "TREC" / name).write_bytes(lines(rows).encode("latin-1"))
    (root / "MRPC").mkdir()
    for name, count in MRPC_FILES.values():
        rows = [f"{i % 2}\t{i}\t{i}\t{sentence(i % 3072)}\t{sentence((i * 7) % 3072)}" for i in range(count)]
        text = "\ufeff" + lines(["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *rows])
        (root / "MRPC" / name).write_text(text, encoding="utf-8")
    return root
