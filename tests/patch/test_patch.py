import hashlib
from dataclasses import replace

from rewriting import Append, Variables, marked
from trainperf.fixes import Fix
from trainperf.model import Equivalence, Finding, NotTaken
from trainperf.patch.patch import Edits

PLAIN, (CALL,) = marked("import os\nds = ▸x.map(f)◂\n")


class HalfWay(Fix):
    """Edit, then meet what cannot be edited."""

    def rewrite(self, script, finding):
        script.append_call(finding.where[0], ".half()")
        script.remove_keyword(finding.where[0], "missing")


class Broken(Fix):
    """Go wrong."""

    def rewrite(self, script, finding):
        script.append_call(finding.where[0], ".broken()")
        raise KeyError("oops")


class Explain(Fix):
    """Only explain."""


class Silent(Fix):
    """Change nothing."""

    def rewrite(self, script, finding):
        script.set_keyword(finding.where[0], "f", "f", position=0)


FIXES = {
    "variables": Variables(),
    "append": Append(),
    "half": HalfWay(),
    "broken": Broken(),
    "explain": Explain(),
    "silent": Silent(),
}


def read(path):
    return PLAIN.encode()


def finding(fix, rewritable=True, equivalence=Equivalence.EXACT, **data):
    return Finding(
        fix, "input", fix, "", 2.0, "", equivalence, (CALL,), rewritable=rewritable, data=data
    )


def added(diff):
    lines = diff.splitlines()
    return [line[1:] for line in lines if line[0] == "+" and not line.startswith("+++")]


def test_what_cannot_be_written_is_skipped_with_its_reason_and_leaves_no_trace():
    findings = [
        finding("half"),
        finding("broken"),
        finding("append", call=".cache()"),
        finding("unknown"),
        finding("explain"),
        finding("silent"),
        finding("append", equivalence=Equivalence.SEMANTICS, call=".other()"),
        finding("append", rewritable=False, call=".never()"),
        finding("append", call="nonsense"),
    ]
    patch = Edits("/project", FIXES, read).write(findings).patch
    assert added(patch.diff) == ["ds = x.map(f).cache()"]
    assert patch.findings == ("append",)
    assert patch.skipped == (
        NotTaken("half", "the call does not name missing"),
        NotTaken("broken", "the rewrite failed: KeyError: 'oops'"),
        NotTaken("unknown", "no edit can be written for it here"),
        NotTaken("explain", "no edit can be written for it here"),
        NotTaken("silent", "the source has it already"),
        NotTaken("append", "changes the experiment (semantics): not in the default patch"),
        NotTaken("append", "not an expression: ''"),
    )


def test_a_missing_file_costs_the_edit_and_not_the_report(tmp_path):
    patch = Edits(tmp_path, FIXES).write([finding("append", call=".cache()")]).patch
    assert patch.diff == ""
    assert patch.findings == ()
    assert "cannot be read" in patch.skipped[0].reason


def test_a_patch_holds_the_edits_of_all_findings_in_their_order():
    findings = [finding("append", call=".a()"), finding("append", call=".b()")]
    patch = Edits("/project", FIXES, read).write(findings).patch
    assert added(patch.diff) == ["ds = x.map(f).a().b()"]
    assert patch.findings == ("append",)


def test_a_head_whose_body_stays_as_it_is_has_one():
    before, (site,) = marked("def load(x):\n    y = x + 1\n    return ▸y.double()◂\n")

    class Split(Fix):
        """Make two functions of one."""

        def rewrite(self, script, finding):
            script.split_function(site, "return y", "def load_double(y):")

    given = replace(finding("append"), where=(site,))
    assert Edits("/project", {given.id: Split()}, lambda path: before.encode()).lines(given) == (
        "    return y\n\n\ndef load_double(y):\n    ..."
    )


def test_an_edit_is_made_once_however_often_it_is_shown_and_written():
    class Counts(Append):
        """Count how often the edit is made."""

        made = 0

        def rewrite(self, script, finding):
            Counts.made += 1
            super().rewrite(script, finding)

    findings = [finding("append", call=".a()"), finding("append", call=".b()")]
    edits = Edits("/project", {"append": Counts()}, read)
    again = replace(findings[0], bound=3.0)
    assert edits.lines(findings[0]) == edits.lines(again) != ""
    assert edits.write(findings) == edits.write(findings, ("append",))
    assert edits.write([again], ("append",)).patch.diff == edits.write(findings[:1]).patch.diff
    assert Counts.made == 2  # one on the script as it is, one on top of the other


def test_only_the_named_findings_are_written_in_the_order_of_their_names():
    findings = [
        finding("append", call=".a()"),
        finding("half"),
        finding("explain", rewritable=False),
        finding("variables", THREADS="2"),
    ]
    patch = Edits("/project", FIXES, read).write(findings, only=["variables", "append"]).patch
    assert patch.findings == ("variables", "append")
    assert patch.skipped == ()
    patch = Edits("/project", FIXES, read).write(findings, only=["explain", "missing"]).patch
    assert patch.findings == ()
    assert [each.what for each in patch.skipped] == ["explain"]
    assert Edits("/project", FIXES, read).write(findings, only=[]).patch.findings == ()


def test_variables_are_part_of_the_patch_and_must_agree():
    findings = [finding("variables", THREADS="2", MODE="x"), finding("variables", THREADS="3")]
    patch = Edits("/project", FIXES, read).write(findings).patch
    assert patch.diff == ""
    assert patch.environment == {"THREADS": "2", "MODE": "x"}
    assert patch.findings == ("variables",)
    assert patch.skipped == (NotTaken("variables", "another fix sets THREADS to 2"),)
    again = Edits("/project", FIXES, read).write([findings[0], findings[0]]).patch
    assert again.skipped == (NotTaken("variables", "the source has it already"),)


def test_a_patch_names_its_root_and_the_hashes_of_what_it_starts_from(tmp_path):
    (tmp_path / "train.py").write_text(PLAIN)
    (tmp_path / "link").symlink_to(tmp_path)
    written = Edits(tmp_path / "link", FIXES).write([finding("append", call=".a()")])
    assert written.patch.root == str(tmp_path)
    (file,) = written.patch.files
    assert file.path == str(tmp_path / "train.py")
    assert file.sha256 == hashlib.sha256(PLAIN.encode()).hexdigest()
    assert list(written.contents) == [file.path]
    assert Edits(tmp_path, FIXES).write([]).patch.root == str(tmp_path)
