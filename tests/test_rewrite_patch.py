from rewriting import marked
from trainperf.fixes import Fix
from trainperf.model import Equivalence, Finding, NotTaken
from trainperf.rewrite import build_patch, preview

PLAIN, (CALL,) = marked("import os\nds = ▸x.map(f)◂\n")


class Append(Fix):
    """Append a call."""

    def rewrite(self, script, finding):
        script.append_call(finding.where[0], finding.data["call"])


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
    patch = build_patch("/project", findings, FIXES, read)
    assert added(patch.diff) == ["ds = x.map(f).cache()"]
    assert patch.findings == ("append",)
    assert patch.skipped == (
        NotTaken("half", "the call does not name missing"),
        NotTaken("broken", "the rewrite failed: KeyError: 'oops'"),
        NotTaken("unknown", "no fix of that name can edit source"),
        NotTaken("explain", "no fix of that name can edit source"),
        NotTaken("silent", "the source has it already"),
        NotTaken("append", "changes the experiment (semantics): not in the default patch"),
        NotTaken("append", "not an expression: ''"),
    )


def test_a_missing_file_costs_the_edit_and_not_the_report(tmp_path):
    patch = build_patch(tmp_path, [finding("append", call=".cache()")], FIXES)
    assert patch.diff == ""
    assert patch.findings == ()
    assert "cannot be read" in patch.skipped[0].reason


def test_no_findings_make_an_empty_patch():
    patch = build_patch("/project", [], FIXES, read)
    assert (patch.diff, patch.findings, patch.skipped) == ("", (), ())


def test_a_patch_holds_the_edits_of_all_findings_in_their_order():
    findings = [finding("append", call=".a()"), finding("append", call=".b()")]
    patch = build_patch("/project", findings, FIXES, read)
    assert added(patch.diff) == ["ds = x.map(f).a().b()"]
    assert patch.findings == ("append",)


def test_a_preview_shows_one_finding_alone():
    assert preview("/project", finding("half"), FIXES["half"], read) == ""
    assert preview("/project", finding("broken"), FIXES["broken"], read) == ""
    assert preview("/project", finding("explain"), None, read) == ""
    shown = preview("/project", finding("append", call=".a()"), FIXES["append"], read)
    assert added(shown) == ["ds = x.map(f).a()"]
    assert shown.startswith("--- a/train.py\n+++ b/train.py\n@@ -1,2 +1,2 @@\n")
