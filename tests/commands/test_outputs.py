"""Which report goes where."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recordings import recording
from reporters.samples import DECODE, HOSTILE, INPUT_BOUND, PARALLEL_MAP
from trainperf.commands import outputs, session
from trainperf.commands.outputs import DOCUMENTS, FORMATS, Output, check, check_outputs, parse
from trainperf.errors import TrainperfError
from trainperf.model import Diagnosis, Event, TraceFile
from trainperf.report.level import Judgement
from trainperf.reporters import REPORTERS
from trainperf.settings import Settings


def write(
    values: list[str],
    diagnosis: Diagnosis = INPUT_BOUND,
    env: dict[str, str] | None = None,
    settings: Settings = Settings(),  # noqa: B008 - frozen
    **names: Any,
) -> None:
    wanted = parse(values)
    check((one.format, one.file) for one in wanted)
    outputs.write(diagnosis, wanted, settings, env=env or {}, **names)


def test_every_reporter_is_a_format_and_every_format_has_a_reporter() -> None:
    assert set(FORMATS) == set(REPORTERS)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([], [Output("terminal")]),
        (["terminal"], [Output("terminal")]),
        (["json"], [Output("json")]),
        (["JSON"], [Output("json")]),
        (["json=-"], [Output("json")]),
        (["html=r.html"], [Output("terminal"), Output("html", Path("r.html"))]),
        (["html=a=b.html"], [Output("terminal"), Output("html", Path("a=b.html"))]),
        (["github"], [Output("terminal"), Output("github")]),
        (["json", "github"], [Output("json"), Output("github")]),
        (["json", "terminal=r.txt"], [Output("json"), Output("terminal", Path("r.txt"))]),
        (["json", "json"], [Output("json")]),
        (["json=a", "json=b"], [Output("terminal"), *(Output("json", Path(n)) for n in "ab")]),
    ],
)
def test_the_terminals_report_is_there_unless_another_takes_stdout(values, wanted) -> None:
    assert list(parse(values)) == wanted
    document = any(one.file is None and one.format == "json" for one in wanted)
    assert outputs.takes_stdout(Settings(output_format=tuple(values))) is document


@pytest.mark.parametrize(
    ("values", "words", "hint"),
    [
        (["pdf"], "no format 'pdf'", "choose from terminal, json"),
        (["sarf=x"], "no format 'sarf'", "did you mean sarif?"),
        ([""], "no format ''", "choose from"),
        (["_paper"], "no format '_paper'", "choose from"),
        (["html="], "no file is named", "html=FILE"),
        (["json", "html"], "json and html would both go to stdout", "html=FILE"),
        (["json", "terminal"], "json and terminal would both", "json=FILE"),
        (["terminal", "sarif"], "terminal and sarif would both", "sarif=FILE"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(values, words, hint) -> None:
    with pytest.raises(TrainperfError) as caught:
        parse(values)
    assert words in str(caught.value)
    assert hint in caught.value.hint


def test_a_file_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(TrainperfError, match="no folder"):
        check([("json", tmp_path / "no" / "report.json")])
    with pytest.raises(TrainperfError, match="is a folder"):
        check([("json", tmp_path)])
    with pytest.raises(TrainperfError, match="json and html would both go to"):
        check([("json", tmp_path / "a"), ("html", tmp_path / "." / "a")])
    check([("json", tmp_path / "report.json"), ("html", Path("/dev/null"))])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("sample", [INPUT_BOUND, HOSTILE], ids=["plain", "hostile"])
def test_a_format_goes_to_its_file_in_utf_8_beside_the_terminals(
    name: str, sample: Diagnosis, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write([f"{name}={tmp_path}/report"], sample)
    text = (tmp_path / "report").read_text("utf-8")
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "trainperf" in text or name == "terminal"
    assert "One step" in capfd.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_on_stdout_is_all_that_is_there(name, capfd) -> None:
    write([name], HOSTILE)
    text = capfd.readouterr().out
    if name in ("json", "sarif"):
        json.loads(text)
    starts = {"html": "<!doctype html>", "markdown": "## "}
    assert text.lower().startswith(starts.get(name, "{"))


def test_one_file_that_fails_does_not_cost_the_others(tmp_path: Path, capfd) -> None:
    wanted = parse([f"json={tmp_path}/gone/a", f"html={tmp_path}/b", "github"])
    with pytest.raises(TrainperfError, match=r"cannot write .*gone/a") as caught:
        outputs.write(INPUT_BOUND, wanted, Settings(), env={})
    assert caught.value.hint
    assert (tmp_path / "b").exists()
    assert "::warning" in capfd.readouterr().out


def test_githubs_commands_come_last_and_its_summary_is_added_to(tmp_path: Path, capfd) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("of an earlier command\n")
    write(["github"], env={"GITHUB_STEP_SUMMARY": str(summary)})
    lines = capfd.readouterr().out.rstrip("\n").split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("::"))
    assert first > 10
    assert all(line.startswith("::") for line in lines[first:])
    assert summary.read_text().startswith("of an earlier command\n## trainperf: ")


@pytest.mark.parametrize(("room", "added"), [(3000, "Left out to keep this short"), (0, "")])
def test_the_summary_stays_below_its_limit_with_what_is_there(tmp_path: Path, room, added) -> None:
    summary = tmp_path / "summary.md"
    summary.write_bytes(b"x" * (1024 * 1024 - room))
    write(["github"], env={"GITHUB_STEP_SUMMARY": str(summary)})
    assert summary.stat().st_size <= 1024 * 1024
    assert added in summary.read_text()


def test_problems_and_fail_on_reach_every_format_that_tells_them(tmp_path: Path, capfd) -> None:
    formats = {"markdown": "12 % slower", "github": "::error title=trainperf check::12 %25 slower",
               "sarif": '"text": "12 % slower"'}  # fmt: skip
    values = [f"{name}={tmp_path}/{name}" for name in formats]
    write(values, judgement=Judgement("any", ("12 % slower",)))
    for name, words in formats.items():
        assert words in (tmp_path / name).read_text("utf-8")
    assert '"level": "error"' in (tmp_path / "sarif").read_text("utf-8")


def test_the_answer_of_a_check_that_passes_is_told_in_every_format(tmp_path: Path, capfd) -> None:
    formats = {"markdown": "check passes: 2 % slower", "html": "check passes: 2\u00a0% slower",
               "github": "::notice title=trainperf check::check passes: 2 %25 slower"}  # fmt: skip
    values = [f"{name}={tmp_path}/{name}" for name in formats]
    write(values, judgement=Judgement(answer="check passes: 2 % slower"))
    for name, words in formats.items():
        assert words in (tmp_path / name).read_text("utf-8")


def test_files_are_relative_to_the_repository(tmp_path: Path) -> None:
    inside = tmp_path / "repository" / "sub"
    inside.mkdir(parents=True)
    site = replace(DECODE, file=str(inside / "train.py"))
    diagnosis = replace(
        INPUT_BOUND, cwd=str(inside), findings=(replace(PARALLEL_MAP, where=(site,)),)
    )

    def named(env: dict[str, str]) -> str:
        write([f"sarif={tmp_path}/sarif"], diagnosis, env)
        (run,) = json.loads((tmp_path / "sarif").read_text())["runs"]
        place = run["results"][0]["locations"][0]["physicalLocation"]
        return str(place["artifactLocation"]["uri"])

    assert named({}) == "train.py"
    assert named({"GITHUB_WORKSPACE": "/elsewhere"}) == "train.py"
    assert named({"GITHUB_WORKSPACE": str(tmp_path / "repository")}) == "sub/train.py"
    (tmp_path / "link").symlink_to("repository")
    assert named({"GITHUB_WORKSPACE": str(tmp_path / "link")}) == "sub/train.py"
    (tmp_path / ".git").mkdir()
    assert named({}) == "repository/sub/train.py"


LOOP: Event = {"e": "loop", "t": 10.0, "kind": "iterator"}


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([{"e": "import", "name": "torch"}], "no training loop was seen"),
        ([LOOP], "the run was over before its steps were traced"),
        (
            [LOOP, {"e": "missing", "what": "a trace of a few steps", "reason": "it is busy"}],
            "it is busy",
        ),
    ],
)
def test_without_a_traced_step_there_is_a_reason_and_no_file(events, reason, tmp_path):
    file = tmp_path / "t.json"
    assert session.write_trace(recording(*events), file) == TraceFile(str(file), reason=reason)
    assert not file.exists()


@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "gone/t.json"])
def test_what_the_tracer_left_is_moved_to_where_it_was_asked_for(name, tmp_path):
    left, file = tmp_path / "trace-1.json", tmp_path / name
    left.write_text("{}")
    traced = {"e": "traced_steps", "steps": 3, "file": str(left), "note": "it was late"}
    trace = session.write_trace(recording(LOOP, traced), file)
    assert not left.exists()
    if "gone" in name:
        assert trace.reason == f"{file} cannot be written: No such file or directory"
    else:
        assert trace == TraceFile(str(file), 3, "it was late")
        data = file.read_bytes()
        assert (gzip.decompress(data) if name.endswith(".gz") else data) == b"{}"


# ------------------------------------------------------- nothing is written over what is read


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """Asks for outputs in a folder with a script and its settings; returns what is said of them."""
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "config.yaml", "notes.txt"):
        Path(name).write_text("x = 1\n")

    def ask(*inputs, **asked):
        files = {name: Path(file) for name, file in asked.items() if name != "output_format"}
        settings = replace(Settings(), **files, output_format=asked.get("output_format", ()))
        with pytest.raises(TrainperfError) as error:
            check_outputs(settings, inputs, ("--trace", settings.trace))
        assert Path("train.py").read_text() == "x = 1\n"
        return str(error.value)

    return ask


@pytest.mark.parametrize(
    "asked",
    [
        {"patch": "train.py"},
        {"json": "./train.py"},
        {"patch": "config.yaml"},
        {"trace": "config.yaml"},
        {"trace": "train.py"},
        {"output_format": ("html=train.py",)},
    ],
)
def test_no_report_takes_the_place_of_what_the_command_names(refused, asked):
    assert "would overwrite" in refused("train.py", "--config", "config.yaml", **asked)


def test_no_report_takes_the_place_of_a_source_by_a_link(refused):
    Path("report.json").symlink_to("train.py")
    assert "would overwrite" in refused("train.py", json="report.json")
    assert "would overwrite" in refused("other.py", patch="train.py")
