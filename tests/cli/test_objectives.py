"""``hypersphere objectives``: the table, one objective, and what is said about a name that does not exist."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from hypersphere.anatomy.description import describe, sections
from hypersphere.cli.app import app
from hypersphere.objectives import list_objectives, list_presets

runner = CliRunner()


def test_the_table_has_a_line_for_every_objective() -> None:
    done = runner.invoke(app, ["objectives"])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["name", *list_objectives()]
    assert "margin=0.45" in next(line for line in lines if line.startswith("met "))


def test_on_a_terminal_the_table_fits_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": "80", "FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    done = runner.invoke(app, ["objectives"])
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert len(done.stdout.splitlines()) > len(list_objectives())


def test_one_objective_is_told_in_full() -> None:
    said = runner.invoke(app, ["objectives", "infonce"]).stdout
    assert "L_i = -log( e^{s_ii/τ} / Σ_j e^{s_ij/τ} )" in said
    assert re.search(r"temperature +0\.05 +a number above 0, may be learned", said)
    assert "Nie et al. 2023" in said
    assert "Components of its gradient" in said
    assert "Use it when in doubt" in said
    assert "ntxent adds the anchor's own view to the denominator" in said
    assert "symmetric=True, learnable=True" in said  # open_clip's preset


def test_a_required_setting_and_the_components_are_shown() -> None:
    assert "num_classes  required  a whole number at least 1" in runner.invoke(app, ["objectives", "cloa"]).stdout
    assert "margin(margin=0.3)" in runner.invoke(app, ["objectives", "paradigm"]).stdout


@pytest.mark.parametrize("name", list_objectives() + list_objectives("*/*"))
def test_every_objective_says_what_it_is_when_to_use_it_and_where_it_comes_from(name: str) -> None:
    of = describe(name)
    assert all([of.summary, of.formula, of.use.startswith("Use it"), of.paper, of.relations])
    assert "``" not in of.formula + of.use + of.relations
    assert ">>>" not in of.formula + of.relations
    assert set(of.presets) == {preset for preset, objective in list_presets() if objective == name}
    said = runner.invoke(app, ["objectives", name])
    assert said.exit_code == 0
    assert of.summary in " ".join(said.stdout.split())


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("mh?", ["mhe", "mhs"]),
        ("*info*", ["artanh_infonce", "infonce", "mv_infonce"]),
        ("vic", ["mvicreg", "vicreg"]),
        ("printed/mm*", ["printed/mmhe", "printed/mmhs"]),
    ],
)
def test_a_pattern_or_a_part_of_the_name_chooses(pattern: str, names: list[str]) -> None:
    assert list_objectives(pattern) == names
    done = runner.invoke(app, ["objectives", pattern])
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["name", *names]
    assert [each["name"] for each in json.loads(runner.invoke(app, ["objectives", pattern, "--json"]).stdout)] == names


def test_a_whole_name_is_no_pattern() -> None:
    assert list_objectives("barlow") == ["barlow", "mbarlow"]
    assert runner.invoke(app, ["objectives", "barlow"]).stdout.startswith("barlow  ")
    assert runner.invoke(app, ["objectives", "released/mpt"]).stdout.startswith("released/mpt  ")
    assert list_objectives("nothing*") == []


def test_a_docstring_of_one_line_is_enough() -> None:
    assert sections("Squared hinge.") == {"formula": "", "source": "", "use": "", "relations": ""}


def test_json_is_for_machines() -> None:
    rows = json.loads(runner.invoke(app, ["objectives", "--json"]).stdout)
    assert [each["name"] for each in rows] == list_objectives()
    met = json.loads(runner.invoke(app, ["objectives", "met", "--json"]).stdout)
    assert met == next(each for each in rows if each["name"] == "met")
    (margin, *_) = met["parameters"]
    assert (margin["name"], margin["default"], margin["allowed"]) == ("margin", 0.45, "a number at least 0")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["objectives", "infonec"], "There is no objective 'infonec'; did you mean 'infonce' or 'mv_infonce'?"),
        (["objectives", "MET"], "There is no objective 'MET'; did you mean 'met'?"),
        (["objectives", "zzzz"], "There is no objective 'zzzz'; 'hypersphere objectives' lists those there are."),
        (["objectives", "mix?"], "There is no objective 'mix?'; did you mean 'mixup'?"),
        (["objectives", "mhx*"], "There is no objective 'mhx*'; did you mean 'mhs' or 'mhe'?"),
        (["objectives", "q*"], "There is no objective 'q*'; 'hypersphere objectives' lists those there are."),
        (["objectives", "--bogus"], "No such option: --bogus"),
    ],
    ids=lambda value: " ".join(value[:-1]) if isinstance(value, list) else "",
)
def test_bad_input_gets_one_sentence_and_exit_code_2(given: list[str], said: str) -> None:
    done = runner.invoke(app, given)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
