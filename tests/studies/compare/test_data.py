"""Data that is missing is named before anything starts."""

import pytest

from hypersphere.studies.compare import compare, process


@pytest.mark.parametrize(
    ("recipe", "words", "sentence"),
    [
        ("digits", ["data.source=nowhere"], "there is no image set 'nowhere'"),
        ("small-text", ["data.source=nowhere.txt", "evaluation.sts=nowhere"], "there is no text file nowhere.txt"),
    ],
)
def test_a_study_whose_data_is_not_here_is_refused_before_anything_starts(
    recipe, words, sentence, tmp_path, monkeypatch
):
    monkeypatch.setattr(process, "start", lambda *args, **rest: pytest.fail("a run was started"))
    with pytest.raises(FileNotFoundError, match=sentence):
        compare(recipe, ["ntxent"], words, output=str(tmp_path / "study"), echo=[].append)
    assert not (tmp_path / "study").exists()
