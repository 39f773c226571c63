"""Ctrl-C and SIGTERM: what was trained is saved, and nothing is promised that was not."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from hypersphere.cli.app import app
from hypersphere.training import finish as finishing
from hypersphere.training import interruption
from hypersphere.training import run as running
from hypersphere.training.checkpoints import last_sealed, trouble
from hypersphere.training.interruption import Interrupted, Interruption
from hypersphere.training.load import parse_recipe
from hypersphere.training.run import train
from hypersphere.training.score_callback import ScoreCallback
from hypersphere.training.trainer import ObjectiveTraining
from tests.training import worlds
from tests.training.worlds import ENVIRONMENT, assert_same, quiet

SETTINGS: dict[str, Any] = {
    "steps": 9,
    "checkpoint": {"every": 500},  # which becomes 2
    "schedule": {"name": "constant"},  # at a rate of zero, a step too many would not show
    "evaluation": {"best": False, "every": 4},
}


def signalled(monkeypatch: pytest.MonkeyPatch, step: int, *numbers: int) -> None:
    """The signals come in the middle of a step."""
    usual = ObjectiveTraining.training_step

    def hit(self: Any, *given: Any, **more: Any) -> Any:
        if self.state.global_step + 1 == step:
            for number in numbers:
                signal.raise_signal(number)
        return usual(self, *given, **more)

    monkeypatch.setattr(ObjectiveTraining, "training_step", hit)


def command(folder: Path, *words: str) -> Result:
    path = worlds.recipe_file(folder, **worlds.digits_recipe(folder, **SETTINGS))
    return CliRunner().invoke(app, ["train", str(path), *words])


def saved(run: Path) -> int | None:
    """The newest checkpoint, which is whole."""
    step = last_sealed(run / "checkpoints")
    assert step is None or trouble(run / "checkpoints" / f"checkpoint-{step}") == ""
    return step


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    return train(parse_recipe(worlds.digits_recipe(folder, **SETTINGS)), echo=quiet).folder


def moments() -> dict[str, tuple[Any, str, str]]:
    """Where a run may be outside its steps, and the sentence it ends with."""
    continues = "step 9 is saved, and the same command with --resume continues it"
    return {
        "preparing": (running, "_try_out", "nothing was begun"),
        "at step 0": (
            ScoreCallback,
            "_evaluate",
            "nothing is saved, so the same command with --resume begins it again",
        ),
        "finishing": (finishing, "_keep_views", continues),
    }


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signalled_run_saves_its_step_and_resumes_to_the_weights_of_an_uninterrupted_one(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    before = [signal.getsignal(each) for each in interruption.SIGNALS]
    signalled(monkeypatch, 3, number)
    done = command(tmp_path)
    assert done.exit_code == code
    assert "Interrupted; step 3 is saved, and the same command with --resume continues it." in done.stderr
    assert saved(tmp_path / "run") == 3
    assert [signal.getsignal(each) for each in interruption.SIGNALS] == before
    monkeypatch.undo()
    again = command(tmp_path, "--resume")
    assert again.exit_code == 0 and "Continuing from step 3." in again.stdout
    assert_same(whole, tmp_path / "run")


def test_a_run_on_text_saves_its_step_at_a_sigterm_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signalled(monkeypatch, 3, signal.SIGTERM)
    path = worlds.recipe_file(tmp_path, **worlds.text_recipe(tmp_path))
    done = CliRunner().invoke(app, ["train", str(path)])
    assert done.exit_code == 143
    assert "Interrupted; step 3 is saved, and the same command with --resume continues it." in done.stderr
    assert saved(tmp_path / "run") == 3


def test_a_second_signal_ends_at_once_and_only_what_is_saved_is_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interruption, "ONE_PRESS", 0.0)
    signalled(monkeypatch, 4, signal.SIGINT, signal.SIGTERM)
    done = command(tmp_path)
    assert done.exit_code == 143
    assert "Interrupted; step 2 is saved, and the same command with --resume continues it." in done.stderr
    assert saved(tmp_path / "run") == 2


def test_a_signal_delivered_twice_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal sends it to all processes, and a launcher passes on its own."""
    signalled(monkeypatch, 3, signal.SIGINT, signal.SIGINT)
    assert command(tmp_path).exit_code == 130
    assert saved(tmp_path / "run") == 3


@pytest.mark.parametrize("moment", list(moments()))
def test_outside_its_steps_a_run_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    where, name, sentence = moments()[moment]
    usual: Callable[..., Any] = getattr(where, name)

    def hit(*given: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return usual(*given)

    monkeypatch.setattr(where, name, hit)
    done = command(tmp_path)
    assert done.exit_code == 143 and f"Interrupted; {sentence}." in done.stderr
    assert (tmp_path / "run").exists() == (moment != "preparing")
    if moment == "at step 0":
        monkeypatch.undo()
        again = command(tmp_path, "--resume")
        assert again.exit_code == 0 and "Continuing from step 0." in again.stdout


def test_an_import_that_the_signal_cut_off_is_an_interruption() -> None:
    with pytest.raises(Interrupted, match="stopped by SIGINT"), Interruption():
        try:
            signal.raise_signal(signal.SIGINT)
        except Interrupted as error:
            raise ImportError("half a library") from error


def test_a_signal_while_libraries_are_imported_ends_the_command_with_a_sentence() -> None:
    code = (
        "import signal; from hypersphere.cli.starting import nothing_begun\n"
        "with nothing_begun():\n"
        "    try:\n"
        "        signal.raise_signal(signal.SIGTERM)\n"
        "    except BaseException:\n"
        "        pass\n"
        "print('swallowed')"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (143, "", "Interrupted; nothing was begun.")


def test_a_save_that_fails_is_not_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signalled(monkeypatch, 5, signal.SIGINT)
    usual = running.checkpoints.seal

    def full(folder: Path) -> None:
        if folder.name == "checkpoint-5":
            raise OSError(28, "No space left on device")
        usual(folder)

    monkeypatch.setattr(running.checkpoints, "seal", full)
    done = command(tmp_path)
    assert done.exit_code == 130
    assert "Checkpoint of step 5 could not be written" in done.stdout
    assert "Interrupted; step 4 is saved, and the same command with --resume continues it." in done.stderr


def test_ignored_signals_stay_ignored_and_threads_get_no_handler() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    entered = []

    def elsewhere() -> None:
        with Interruption():
            entered.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert entered == [signal.SIG_DFL]
    with pytest.raises(Interrupted, match="stopped by SIGTERM"), Interruption():
        signal.raise_signal(signal.SIGTERM)
