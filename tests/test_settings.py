from dataclasses import fields
from pathlib import Path

import pytest

from trainperf.errors import TrainperfError
from trainperf.settings import Settings, duration, load_settings


def pyproject(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")


WRONG = [
    ("budget = 0", "budget"),
    ("budget = -3", "budget"),
    ("budget = nan", "budget"),
    ("budget = inf", "budget"),
    ("budget = true", "budget"),
    ('budget = "3 parsecs"', "budget"),
    ('budget = ""', "budget"),
    ("budget = []", "budget"),
    ('quiet = "perhaps"', "quiet"),
    ("quiet = 2", "quiet"),
    ("trials = 3", "trials"),
    ('sequential = "maybe"', "sequential"),
    ("allow-semantic = []", "allow-semantic"),
    ("output-dir = 1", "output-dir"),
    ('json = ""', "json"),
    ("fail-on = 0.5", "fail-on"),
    ("fail-on = true", "fail-on"),
    ('fail-on = "sometimes"', "fail-on"),
    ('fail-on = "nan"', "fail-on"),
    ("ignore = [1]", "ignore"),
    ("ignore = 1", "ignore"),
    ("price-per-hour = 0", "price-per-hour"),
    ('price-per-hour = "cheap"', "price-per-hour"),
    ("output-format = 3", "output-format"),
]


@pytest.mark.parametrize(("line", "key"), WRONG)
def test_a_wrong_value_is_refused_with_its_file_its_key_and_what_is_wanted(tmp_path, line, key):
    pyproject(tmp_path, f"[tool.trainperf]\n{line}\n")
    with pytest.raises(TrainperfError) as error:
        load_settings(tmp_path, {})
    assert str(tmp_path / "pyproject.toml") in str(error.value)
    assert f"{key} = " in str(error.value)
    assert "wanted" in error.value.hint


def test_an_unknown_key_is_refused_with_the_one_that_was_meant(tmp_path):
    pyproject(tmp_path, "[tool.trainperf]\noutput-dri = 'x'\n")
    with pytest.raises(TrainperfError, match="output-dri") as error:
        load_settings(tmp_path, {})
    assert error.value.hint == "did you mean output-dir?"
    with pytest.raises(TrainperfError, match="environment") as error:
        load_settings(tmp_path.parent, {"TRAINPERF_BUDGT": "3"})
    assert error.value.hint == "did you mean budget?"
    with pytest.raises(TrainperfError, match="command line") as error:
        load_settings(tmp_path.parent, {}, {"zzz": 1})
    assert error.value.hint.startswith("the settings are allow-semantic, budget, extra")


@pytest.mark.parametrize(
    ("text", "message"),
    [("[tool.trainperf", "cannot be read"), ("[tool]\ntrainperf = 3\n", "not a table")],
)
def test_a_broken_pyproject_is_named(tmp_path, text, message):
    pyproject(tmp_path, text)
    with pytest.raises(TrainperfError, match=message) as error:
        load_settings(tmp_path, {})
    assert "pyproject.toml" in str(error.value)
    assert error.value.hint


def test_variables_of_others_and_empty_ones_are_let_be(tmp_path):
    env = {"TRAINPERF_RUN": "run.json", "STEPS": "3", "TRAINPERF_STEPS": "", "BUDGET": "x"}
    assert load_settings(tmp_path, env) == Settings()


def test_nothing_given_is_the_defaults(tmp_path):
    assert load_settings(tmp_path / "missing.py", {}, {"budget": None}) == Settings()


def test_every_field_can_be_set_under_the_name_of_its_flag(tmp_path):
    pyproject(
        tmp_path,
        """
        [tool.trainperf]
        budget = "3min"
        measure = 5
        extra_s = 1.5
        stall = "1.5m"
        full-run = "10min"
        trials = false
        sequential = true
        allow-semantic = "yes"
        quiet = true
        full = true
        output-dir = "runs"
        run-dir = "records"
        json = "report.json"
        patch = "/elsewhere/fix.patch"
        trace = "trace.json.gz"
        fail-on = 1.2
        ignore = ["tf_interleave_parallel", "tf-map-parallel"]
        only = ["tf_cache"]
        price-per-hour = 1.21
        output-format = ["terminal", "html=report.html"]
        python = ".venv"
        """,
    )
    script = tmp_path / "package" / "train.py"
    settings = load_settings(script, {})
    assert settings == Settings(
        budget_s=180.0,
        measure_s=5.0,
        extra_s=1.5,
        stall_s=90.0,
        full_run_s=600.0,
        trials=False,
        sequential=True,
        allow_semantic=True,
        quiet=True,
        full=True,
        output_dir=tmp_path / "runs",
        run_dir=tmp_path / "records",
        json=tmp_path / "report.json",
        patch=Path("/elsewhere/fix.patch"),
        trace=tmp_path / "trace.json.gz",
        fail_on=1.2,
        ignore=("tf_interleave_parallel", "tf_map_parallel"),
        only=("tf_cache",),
        price_per_hour=1.21,
        output_format=("terminal", f"html={tmp_path / 'report.html'}"),
        python=tmp_path / ".venv",
    )
    for field in fields(Settings):
        if field.name != "budget_s":  # its default was written out
            assert getattr(settings, field.name) != getattr(Settings(), field.name)


def test_flags_win_over_the_environment_and_that_over_the_nearest_file(tmp_path):
    pyproject(tmp_path, "[tool.trainperf]\nmeasure = 1\n")
    pyproject(tmp_path / "a", "[tool.trainperf]\nmeasure = 2\nbudget = 20\nextra = 2\n")
    pyproject(tmp_path / "a" / "b", "[tool.other]\nx = 1\n")
    env = {"TRAINPERF_BUDGET": "30s", "TRAINPERF_EXTRA": "3"}
    settings = load_settings(tmp_path / "a" / "b", env, {"extra": "4", "measure": None})
    assert (settings.measure_s, settings.budget_s, settings.extra_s) == (2.0, 30.0, 4.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(90, 90), ("90", 90), ("90s", 90), ("1.5m", 90), ("3min", 180), ("2 h", 7200), ("500ms", 0.5)],
)
def test_a_time_is_read_in_its_unit(text, seconds):
    assert duration(text) == pytest.approx(seconds)
