from dataclasses import replace

import pytest

from rewriting import Append, Variables, marked
from trainperf.fixes import Fix
from trainperf.model import Equivalence, Finding, Run, Variant
from trainperf.patch.patch import Edits
from trainperf.recording.run import Epoch
from trainperf.trial.candidates import (
    BETWEEN,
    NO_EDIT,
    OUTSIDE,
    Candidate,
    Changes,
    candidates,
)

PLAIN, (MAP, BATCH) = marked("ds = ▸files.map(load)◂\nds = ▸ds.batch(8)◂\n")


class Slow(Append):
    """Append what takes an epoch to show."""

    warm_up_epochs = 1


class Between(Append):
    """Append what saves between epochs."""

    between_epochs = True


class Impossible(Fix):
    """Edit what is not there."""

    def rewrite(self, script, finding):
        script.remove_keyword(finding.where[0], "missing")


FIXES = {
    "one": Append(),
    "two": Append(),
    "slow": Slow(),
    "between": Between(),
    "impossible": Impossible(),
    "variables": Variables(),
    "others": Variables(),
}


def finding(
    fix,
    bound=2.0,
    where=(MAP,),
    equivalence=Equivalence.EXACT,
    slices="steps",
    variants=(),
    **data,
):
    rewritable = data.pop("rewritable", True)
    made = Finding(fix, "input", fix, "", bound, "", equivalence, where, rewritable=rewritable)
    return replace(made, data=data, slices=slices, variants=variants)


def append(fix, call, where=MAP, bound=2.0, **fields):
    return finding(fix, bound, (where,), call=call, **fields)


@pytest.fixture
def run(tmp_path):
    (tmp_path / "train.py").write_text(PLAIN)
    return Run(("python", "train.py"), str(tmp_path), "train.py", env={"KEPT": "1"}, seed=3)


def chosen(run, *findings, semantic=False):
    return candidates(Changes(run, findings, Edits(run.cwd, FIXES), fixes=FIXES), semantic)


def joined(run, ids, *findings):
    return Changes(run, findings, Edits(run.cwd, FIXES), fixes=FIXES).join(ids)


def text_of(candidate):
    ((_, text),) = candidate.run.sources.items()
    return text.decode()


def test_what_is_left_alone_is_named_with_its_reason_and_its_bound(run):
    found, skipped = chosen(
        run,
        finding("one", 3.0, rewritable=False),
        finding("impossible", 1.2),
        finding("unknown", None),
    )
    assert found == []
    assert [(one.fix, one.reason, one.bound) for one in skipped] == [
        ("one", NO_EDIT, 3.0),
        ("impossible", "the call does not name missing", 1.2),
        ("unknown", "no edit can be written for it here", None),
    ]


def test_a_candidate_runs_the_very_bytes_of_its_patch(run, tmp_path):
    ((one,), _) = chosen(run, append("one", ".cache()"))
    assert list(one.run.sources) == [str(tmp_path / "train.py")]
    assert text_of(one) == PLAIN.replace("map(load)", "map(load).cache()")
    assert (tmp_path / "train.py").read_text() == PLAIN


def test_several_fixes_together_hold_all_their_edits_and_no_bound(run):
    both = joined(
        run, ("one", "two"), append("one", ".a()"), append("two", ".b()", BATCH), finding("others")
    )
    assert isinstance(both, Candidate)
    assert (both.name, both.fixes, both.bound) == ("one+two", ("one", "two"), None)
    assert text_of(both) == "ds = files.map(load).a()\nds = ds.batch(8).b()\n"


def test_each_way_to_make_a_fix_is_a_candidate_of_its_own(run):
    ways = Variant({"call": ".a()", "n": 1}), Variant({"call": ".b()", "n": 2}, 2.0)
    found, skipped = chosen(run, append("one", ".a()", variants=ways))
    assert skipped == []
    assert [one.name for one in found] == ["one (call=.a(), n=1)", "one (call=.b(), n=2)"]
    assert [".a()" in text_of(found[0]), ".b()" in text_of(found[1])] == [True, True]
    assert found[1].finding.data["call"] == ".b()"
    assert [candidate.work for candidate in found] == [1.0, 2.0]
    assert [candidate.bound for candidate in found] == [2.0, None]
    assert [candidate.most for candidate in found] == [2.0, 2.0]


def test_what_saves_between_epochs_is_tried_only_if_it_is_known_how_long_one_is(run):
    between, epoch = append("between", ".a()"), Epoch(20, 0.5, 0.1)
    found, skipped = chosen(run, between)
    assert (found, [one.reason for one in skipped]) == ([], [BETWEEN])
    found, skipped = chosen(run, append("between", ".a()", slices=epoch), append("one", ".b()"))
    assert {one.name: one.epoch for one in found} == {"between": epoch, "one": None}
    assert skipped == []


def test_what_a_finding_saves_outside_the_steps_is_not_tried_in_steps(run):
    outside = finding("one", MAP, call=".cache()", slices="none")
    _, skipped = chosen(run, outside)
    assert [one.reason for one in skipped] == [OUTSIDE]
