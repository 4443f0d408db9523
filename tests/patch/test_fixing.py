"""`trainperf fix`: from a saved run into files on disk, and back."""

import json
import os
import subprocess
from dataclasses import replace

import pytest
from click.testing import CliRunner

from reporters.samples import INPUT_BOUND
from rewriting import finding_of, marked
from trainperf import store
from trainperf.commands.cli import cli
from trainperf.errors import TrainperfError
from trainperf.fixes import all_fixes
from trainperf.model import Equivalence, ExperimentChange, Outcome, Trial
from trainperf.patch import fix as fixing
from trainperf.patch.patch import Edits

TEXT = "# é\r\nds = ▸x.map(f)◂\r\nds = ▸ds.interleave(g)◂"
FIXED = "# é\r\nds = x.map(f, num_parallel_calls=tf.data.AUTOTUNE)\r\nds = ds.interleave(g)"
BOTH = FIXED[:-1] + ", num_parallel_calls=tf.data.AUTOTUNE)"
FIXES = {fix.id: fix for fix in all_fixes()}
MAP, INTERLEAVE = "tf_map_parallel", "tf_interleave_parallel"
PREAMBLE = "import tensorflow as tf\r\n"


@pytest.fixture
def run(tmp_path):
    """A run whose patch has one of its two findings, the script beside it."""
    project = tmp_path / "my project"
    project.mkdir()
    plain, sites = marked(PREAMBLE + TEXT)
    script = project / "train.py"
    script.write_bytes(b"\xef\xbb\xbf" + plain.encode())
    findings = tuple(
        finding_of(
            FIXES[id_],
            title="",
            text="",
            bound=2.0,
            bound_basis="",
            where=(replace(site, file=str(script)),),
            equivalence=Equivalence.SEMANTICS if id_ == INTERLEAVE else None,
        )
        for id_, site in zip((MAP, INTERLEAVE), sites, strict=True)
    )
    patch = Edits(project, FIXES).write(findings).patch
    assert patch.findings == (MAP,)
    report = tmp_path / "run" / "diagnosis.json"
    saved = replace(INPUT_BOUND, findings=findings, patch=patch, trials=(), stack=None)
    store.save(saved, report)
    return report


def script(run):
    return run.parent.parent / "my project" / "train.py"


def text(run):
    return script(run).read_bytes().decode("utf-8-sig").removeprefix(PREAMBLE)


def test_the_patch_is_written_with_encoding_and_line_endings_kept(run):
    fixed = fixing.fix(run, (), dry=False)
    assert text(run) == FIXED
    assert script(run).read_bytes().startswith(b"\xef\xbb\xbf")
    assert fixed.lines[:2] == ("train.py: 1 edit", f"fixes: {MAP}")
    assert fixed.diff == store.load(run).patch.diff


def test_the_files_as_they_were_are_kept_and_the_printed_command_brings_them_back(run):
    script(run).chmod(0o640)
    before, found = script(run).read_bytes(), script(run).stat()
    fixed = fixing.fix(run, (), dry=False)
    assert (run.parent / "before" / "train.py").read_bytes() == before
    (undo,) = [line for line in fixed.lines if line.startswith("to undo it: ")]
    subprocess.run(undo.removeprefix("to undo it: "), shell=True, check=True)
    assert script(run).read_bytes() == before
    after = script(run).stat()
    assert (after.st_mode, after.st_mtime) == (found.st_mode, found.st_mtime)
    fixing.fix(run, (), dry=False)
    assert text(run) == FIXED


def test_a_second_call_says_that_it_is_there_already(run):
    fixing.fix(run, (), dry=False)
    for dry in (True, False):
        fixed = fixing.fix(run, (), dry=dry)
        assert fixed.lines == (f"already in the source: {MAP}",)
        assert fixed.diff == ""
    assert text(run) == FIXED


def test_what_was_undone_does_not_stand_in_the_way_of_another_fix(run):
    saved, other = store.load(run), script(run).with_name("other.py")
    other.write_bytes(script(run).read_bytes())
    findings = [
        replace(one, where=(replace(one.where[0], file=str(other)),)) if one.id == MAP else one
        for one in saved.findings
    ]
    patch = Edits(script(run).parent, FIXES).write(findings).patch
    store.save(replace(saved, findings=tuple(findings), patch=patch), run)
    (*_, undo) = fixing.fix(run, (MAP,), dry=False).lines
    subprocess.run(undo.removeprefix("to undo it: "), shell=True, check=True)
    fixing.fix(run, (INTERLEAVE,), dry=False)
    assert fixing.fix(run, (INTERLEAVE,), dry=False).lines[0].startswith("already in the source")
    fixing.fix(run, (MAP,), dry=False)
    assert other.read_bytes().decode("utf-8-sig").removeprefix(PREAMBLE) == FIXED


def test_fixes_are_written_one_after_another(run):
    fixing.fix(run, (MAP,), dry=False)
    fixed = fixing.fix(run, (INTERLEAVE,), dry=False)
    assert text(run) == BOTH
    assert f"{INTERLEAVE} changes the experiment" in fixed.lines
    kept = (run.parent / "before" / "train.py").read_bytes().decode("utf-8-sig")
    assert kept == marked(PREAMBLE + TEXT)[0]
    assert fixing.fix(run, (MAP, INTERLEAVE), dry=False).diff == ""


def test_a_fix_that_was_tried_in_vain_is_written_with_a_word_of_it(run):
    saved = store.load(run)
    trial = Trial(INTERLEAVE, Outcome.SLOWER, "0.9× as fast")
    store.save(replace(saved, trials=(trial,)), run)
    lines = fixing.fix(run, (INTERLEAVE,), dry=False).lines
    assert f"{INTERLEAVE} was not kept by the run: slower (0.9× as fast)" in lines


@pytest.fixture
def apart(run):
    """The run, with the other fix hidden until it was tried, and measured apart."""
    saved = store.load(run)
    finding = next(one for one in saved.findings if one.id == INTERLEAVE)
    advice = "Compare the accuracy."
    change = ExperimentChange(
        finding=replace(finding, advice=advice),
        why="",
        losses_differ=False,
        unit="samples",
        before_per_s=200.0,
        ways=(Trial(INTERLEAVE, Outcome.CHANGES, ""),),
        patch=replace(saved.patch, diff="", findings=(INTERLEAVE,)),
    )
    others = tuple(one for one in saved.findings if one.id != INTERLEAVE)
    store.save(replace(saved, findings=others, experiment_changes=(change,)), run)
    return run


def test_what_would_change_the_experiment_is_written_by_its_name_only(apart):
    fixing.fix(apart, (), dry=False)
    assert text(apart) == FIXED
    lines = fixing.fix(apart, (INTERLEAVE,), dry=False).lines
    assert text(apart) == BOTH
    assert {f"{INTERLEAVE} changes the experiment", "Compare the accuracy."} <= set(lines)


def test_its_files_are_known_though_the_patch_does_not_touch_them(apart):
    saved = store.load(apart)
    empty = replace(saved.patch, diff="", findings=(), files=())
    store.save(replace(saved, patch=empty, created="2001-01-01T00:00:00+00:00"), apart)
    assert fixing.fix(apart, (INTERLEAVE,), dry=True).diff
    script(apart).write_bytes(script(apart).read_bytes() + b"\r\n")
    with pytest.raises(TrainperfError, match="was changed since the run"):
        fixing.fix(apart, (INTERLEAVE,), dry=False)


def test_a_changed_file_is_refused_and_nothing_is_kept(run):
    script(run).write_bytes(script(run).read_bytes() + b"\r\n")
    with pytest.raises(TrainperfError, match=r"train\.py was changed since the run") as error:
        fixing.fix(run, (), dry=False)
    assert error.value.hint
    assert list(run.parent.iterdir()) == [run]


IMPORTING = """\
from torch.utils.data import DataLoader

from settings import args

loader = ▸DataLoader(data, batch_size=args.batch_size)◂
"""


def test_modules_that_are_looked_for_and_not_there_are_no_hindrance(tmp_path):
    """Where `args` comes from is looked for in the user's files; `torch` is none of them."""
    plain, (site,) = marked(IMPORTING)
    file = tmp_path / "train.py"
    file.write_text(plain)
    (tmp_path / "settings.py").write_text("args = make()\n")
    finding = finding_of(FIXES["batch_size"], where=(replace(site, file=str(file)),),
        data={"batch_size": 8, "batch": 16},
    )  # fmt: skip
    patch = Edits(tmp_path, FIXES).write((finding,), only=()).patch
    report = tmp_path / "run" / "diagnosis.json"
    saved = replace(INPUT_BOUND, findings=(finding,), patch=patch, trials=(), stack=None)
    store.save(replace(saved, created="2999-01-01T00:00:00+00:00"), report)
    fixing.fix(report, ("batch_size",), dry=False)
    assert "batch_size=2 * args.batch_size" in file.read_text()


@pytest.mark.parametrize("like", [True, False], ids=["the same", "another"])
def test_a_file_replaced_by_a_link_out_of_the_folder_is_refused(run, tmp_path, like):
    outside = script(run).rename(tmp_path / "outside.py")
    script(run).symlink_to(outside)
    before = outside.read_bytes() if like else b"x = 1"
    outside.write_bytes(before)
    with pytest.raises(TrainperfError):
        fixing.fix(run, (), dry=False)
    assert outside.read_bytes() == before


def test_originals_that_cannot_be_kept_hold_the_fix_back(run):
    (run.parent / "before").write_text("in the way")
    with pytest.raises(TrainperfError, match="nothing was written"):
        fixing.fix(run, (), dry=False)
    assert text(run) == marked(TEXT)[0]


def test_a_report_elsewhere_keeps_its_files_beside_it(run, tmp_path):
    report = tmp_path / "report.json"
    run.rename(report)
    fixing.fix(report, (), dry=False)
    assert (tmp_path / "report.before" / "train.py").exists()
    assert json.loads((tmp_path / "report.applied.json").read_text())["fixes"] == [MAP]


def test_a_run_without_edits_says_so(run):
    saved = store.load(run)
    store.save(replace(saved, patch=None), run)
    assert "nothing to write" in fixing.fix(run, (), dry=False).lines[0]
    why = replace(saved.patch, diff="", findings=())
    store.save(replace(saved, patch=why), run)
    assert "changes the experiment" in fixing.fix(run, (), dry=False).lines[0]
    store.save(replace(saved, patch=replace(why, skipped=())), run)
    assert fixing.fix(run, (), dry=False).lines == ("nothing to write: this run kept no edit",)


# ---------------------------------------------------------------------- the command


@pytest.fixture
def home(run, monkeypatch):
    """The run where `trainperf` keeps its runs, so that it is the latest."""
    monkeypatch.setenv("TRAINPERF_OUTPUT_DIR", str(run.parent.parent))
    monkeypatch.chdir(run.parent.parent)
    return run


def test_the_command_writes_the_latest_run_and_tells_of_it(home):
    result = CliRunner().invoke(cli, ["fix"])
    assert result.exit_code == 0, result.output
    assert "train.py: 1 edit" in result.stdout
    assert text(home) == FIXED
    again = CliRunner().invoke(cli, ["fix", "run"])
    assert (again.exit_code, again.stdout) == (0, f"already in the source: {MAP}\n")


def test_the_command_prints_a_diff_that_git_takes(home):
    result = CliRunner().invoke(cli, ["fix", "run", "--diff", "--only", MAP])
    assert result.stdout_bytes == store.load(home).patch.diff.encode()
    assert text(home) == marked(TEXT)[0]


def test_the_command_refuses_an_unknown_fix(home):
    result = CliRunner().invoke(cli, ["fix", "--only", "tf_map_paralel"])
    assert isinstance(result.exception, TrainperfError)
    assert MAP in result.exception.hint
    assert os.listdir(home.parent) == ["diagnosis.json"]


def of_trainer(site, **held):
    """A finding that is repaired by a setting of `TrainingArguments`."""
    found = finding_of(
        FIXES["torch_autocast"], title="", text="", bound=2.0, bound_basis="", where=(site,)
    )
    known = {
        "name": "bf16",
        "value": "True",
        "position": None,
        "cls": "TrainingArguments",
        "made": "command",
        "source": "--",
        "reached": True,
        "defaults": {},
        "own": [],
        "arguments": {},
        "given": [],
        "scripts": [],
    }
    return replace(found, data={"dtype": "bfloat16", "trainer": {**known, **held}})


def test_an_option_of_the_command_is_told_and_nothing_is_written(run):
    saved = store.load(run)
    found = of_trainer(saved.findings[0].where[0])
    patch = Edits(saved.patch.root, FIXES).write((found,)).patch
    command = ("python", "train.py", "--out", "a b")
    store.save(replace(saved, command=command, findings=(found,), patch=patch), run)
    before = text(run)
    fixed = fixing.fix(run, (), dry=False)
    assert text(run) == before
    (line,) = fixed.lines
    assert line.startswith("a change of the command, in no file")
    assert line.endswith("run the script as: python train.py --out 'a b' --bf16 True")


def test_a_file_of_settings_is_written_like_source(run):
    saved = store.load(run)
    configuration = script(run).parent / "conf.yaml"
    configuration.write_text("# of mine\nbf16: false\n")
    found = of_trainer(saved.findings[0].where[0], made="file", source=str(configuration))
    patch = Edits(saved.patch.root, FIXES).write((found,)).patch
    store.save(replace(saved, findings=(found,), patch=patch), run)
    fixed = fixing.fix(run, (), dry=False)
    assert configuration.read_text() == "# of mine\nbf16: true\n"
    assert fixed.lines[:2] == ("conf.yaml: 1 edit", "fixes: torch_autocast")
    assert fixing.fix(run, (), dry=False).lines[0] == "already in the source: torch_autocast"
    configuration.write_text("bf16: maybe\n")
    with pytest.raises(TrainperfError, match=r"conf\.yaml was changed since the run"):
        fixing.fix(run, (), dry=False)
