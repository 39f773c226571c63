"""The documents are true: their code runs and prints what they show, their tables match registry and results."""

from __future__ import annotations

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import yaml

import hypersphere as hs
from hypersphere.objectives import table
from hypersphere.studies.benchmark import summary
from hypersphere.studies.benchmark.measures import format_ratio, format_seconds
from hypersphere.training import keys

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
RESULTS = ROOT / "benchmarks" / "results"


def results(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def code(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), re.DOTALL)


def run(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100, check=False)


def test_the_smallest_objective_of_contributing_runs_as_printed(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(code("CONTRIBUTING.md")[0], encoding="utf-8")
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "SquaredTriplet(margin=0.5) is ready\n"


def test_the_first_lines_of_the_readme_print_what_it_shows() -> None:
    (block,) = re.findall(r"```pycon\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    example = doctest.DocTestParser().get_doctest(block, {}, "README.md", "README.md", 0)
    assert len(example.examples) == 6
    assert doctest.DocTestRunner().run(example).failed == 0


def test_the_ten_lines_of_the_python_page_run_as_printed(tmp_path: Path) -> None:
    script = tmp_path / "ten.py"
    script.write_text(code("docs/python.md")[0], encoding="utf-8")
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert "alignment" in done.stdout


def test_the_python_pages_toy_encoder_trains_with_ten_objectives(capsys: pytest.CaptureFixture[str]) -> None:
    exec(code("docs/python.md")[1], {"__name__": "__main__"})
    assert len(capsys.readouterr().out.splitlines()) == 10


def adapters() -> dict[str, str]:
    """The code of the integrations page, by section."""
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    sections = (text.partition("\n") for text in page.split("\n## ")[1:])
    return {name: "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)) for name, _, text in sections}


RUN_ELSEWHERE = {  # in tests/integrations, where their libraries need more
    "sentence-transformers", "transformers", "Lightning", "accelerate and a plain loop", "torchmetrics",
    "torch.compile, FSDP, bf16, accumulation, checkpointing",
}  # fmt: skip


@pytest.mark.parametrize("section", [name for name, block in adapters().items() if block and name not in RUN_ELSEWHERE])
def test_the_call_forms_of_the_integrations_page_run_as_printed(section: str) -> None:
    """In this process: they need neither a main module nor several processes."""
    block = adapters()[section]
    assert len(block.splitlines()) <= 12  # ten without the imports
    exec(block, {})


def test_the_other_sections_of_the_integrations_page_are_run_by_their_tests() -> None:
    assert {name for name in RUN_ELSEWHERE if adapters().get(name)} == RUN_ELSEWHERE


def test_the_three_contracts_of_the_engine_page_stream_as_it_says() -> None:
    names: dict[str, Any] = {}
    exec(code("docs/engine.md")[0], names)
    for name, sees in (("Softmax", "logsumexp"), ("Triplet", "hardest"), ("Quadratic", "all")):
        objective = names[name]()
        assert objective.sees == sees
        hs.testing.assert_gradient_exact(objective)
        hs.testing.assert_streams_exactly(objective)
        hs.testing.assert_survives(objective)


def test_the_readmes_loss_of_ones_own_is_contributings() -> None:
    assert code("README.md")[0] in code("CONTRIBUTING.md")[0]


def test_the_page_of_objectives_is_the_registrys() -> None:
    text = (ROOT / "docs" / "objectives.md").read_text(encoding="utf-8")
    assert table.refresh(text) == text, "run: python -m hypersphere.objectives.table docs/objectives.md"


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in DOCS)])
def test_links_within_the_repository_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        path, _, section = target.partition("#")
        file = (ROOT / document).parent / path if path else ROOT / document
        assert file.exists(), target
        if section:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert section in [re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings], target


def test_the_readmes_speed_is_the_benchmarks() -> None:
    folder = RESULTS / "objectives"
    about = json.loads((folder / "benchmark.json").read_text(encoding="utf-8"))
    (text,) = summary.overview(about["cells"], about)
    for document in (ROOT / "README.md", folder / "benchmark.md"):
        assert text in document.read_text(encoding="utf-8"), "run: " + (summary.__doc__ or "").splitlines()[2].strip()


def test_the_speed_pages_medians_are_the_benchmarks() -> None:
    page, cells = (
        (ROOT / "docs" / "speed.md").read_text(encoding="utf-8"),
        results("objectives/benchmark.json")["cells"],
    )
    for size in (64, 256, 1024, 4096, 16384):
        here = [cell for cell in cells if cell["by"] == "plain" and cell["size"] == size]
        times = [cell["ours_to_this_seconds"] for cell in here if cell["ours_to_this_seconds"]]
        memory = [cell["ours_to_this_bytes"] for cell in here if cell["ours_to_this_bytes"]]
        medians = f"{format_ratio(median(times))} | {format_ratio(median(memory))}"
        assert f"| {size:,} | {len(times)} | {medians} | {sum(time < 1 for time in times)} |\n" in page


def test_the_speed_pages_engine_is_that_of_the_results() -> None:
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    both = [results("engine.json"), results("engine-xeon.json")]
    for rows in zip(*(each["objectives"] for each in both), strict=True):
        name, *setting = rows[0]["label"].split()
        assert rows[1]["label"] == rows[0]["label"]
        ratios = " | ".join(f"{row['to_limit']:.2f} | {row['to_plain']:.2f}" for row in rows)
        memory = " | ".join(f"{rows[0]['bytes'][side] / 1e6:.0f} MB" for side in ("ours", "plain"))
        products = sum(rows[0]["products"].values())
        assert f"| {' '.join([f'`{name}`', *setting])} | {products} | {ratios} | {memory} |\n" in page
    for numbers in zip(*map(_of_infonce, both), strict=True):
        assert f" | {' | '.join(numbers)} |\n" in page


def _of_infonce(engine: Any) -> list[str]:
    hand, value, small, large = (engine[k] for k in ("by_hand", "without_gradient", "small_batch", "large_batch"))
    ratios = [hand["to_by_hand"], 1 / hand["to_plain"], value["to_limit"], small["to_plain"], large["to_limit"]]
    times = [format_seconds(each["seconds"]["ours"]) for each in (hand, value, small, large)]
    return [*times, *(f"{ratio:.2f}" for ratio in ratios), f"{large['bytes'] / 1e6:.0f} MB"]


def test_the_speed_pages_other_tables_are_the_results() -> None:
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    training, evaluation, angles = results("training.json"), results("evaluation.json"), results("angles.json")
    rows = [f"| ratio, ours over theirs | {training['speed_ratio']:.2f} |  | {training['memory_ratio']:.2f} |"]
    for name, each in training["medians"].items():
        speed, step, peak = each["sentences_per_second"], each["step_seconds"], each["peak_bytes"] / 2**20
        rows.append(f"| {name} | {speed:.1f} | {step:.3f} | {peak:.0f} |")
    seconds, fits = {name: median(each) for name, each in evaluation["seconds"].items()}, evaluation["classifiers"]
    sts, encoding = seconds["sts_library"], seconds["sts_library"] + seconds["transfer_encoding_library"]
    rows += [
        f" | {seconds['sts_ours']:.1f} s | {sts:.1f} s | {evaluation['sts_ours_over_library']:.2f} |",
        f" | {seconds['both_encoding_ours']:.1f} s | {encoding:.1f} s"
        f" | {evaluation['both_encoding_ours_over_library']:.2f} |",
        f"classifiers on {fits['task']} | {fits['ours_seconds']:.1f} s | {fits['loop_seconds_from_sample']:.0f} s",
        f" | {1 / fits['loop_over_ours']:.3f} |",
        f"from the cache | {evaluation['both_second_time_seconds']:.1f} s |",
        f"| {angles['angles']:,} | {angles['seconds']:.1f} s | {angles['numpy_loop_seconds']:.1f} s"
        f" | {angles['loop_over_ours']:.2f} |",
    ]
    for each in results("diagnose.json"):
        memory = f"{each['megabytes_above_the_input']:.0f} MB | {each['megabytes_of_the_input']:.0f} MB"
        rows.append(f"| {each['rows']:,} × {each['dims']} | {each['processor_seconds']:.1f} s | {memory} |")
    for each in results("compare.json")["studies"]:
        time = f"{each['seconds']:.1f} s | {100 * each['overhead']:.1f} %"
        rows.append(f"| {each['jobs']} | {each['threads']} | {time} |")
    for row in rows:
        assert row in page


def test_every_line_to_install_an_extra_names_this_distribution() -> None:
    """`hypersphere` by itself is somebody else's package on PyPI."""
    project = pytest.importorskip("tomllib").loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
    sources = [*(ROOT / "src").rglob("*.py"), *pages, ROOT / "pyproject.toml"]
    named = [
        wanted
        for source in sources
        for wanted in re.findall(r"(hypersphere[\w-]*)\[([a-z,]+)\]['\"]", source.read_text(encoding="utf-8"))
    ]
    assert len(named) > 10
    for distribution, extras in named:
        assert distribution == project["name"]
        assert set(extras.split(",")) <= set(project["optional-dependencies"])


def test_the_page_of_recipe_keys_is_the_recipes() -> None:
    text = (ROOT / "docs" / "recipe-keys.md").read_text(encoding="utf-8")
    assert keys.page() == text, "run: python -m hypersphere.training.keys docs/recipe-keys.md"


def test_the_version_is_written_in_one_place() -> None:
    """pyproject reads it from the package; a citation has none of its own; the changelog's newest release is it."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in project
    assert re.search(r'\[tool\.hatch\.version\]\npath = "src/hypersphere/__init__\.py"', project)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert "version" not in citation
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    released = [heading.strip("[]").split("]")[0].split()[0] for heading in headings if heading != "Unreleased"]
    assert released[:1] in ([], [hs.__version__])
