"""Plans of files to write, from a saved diagnosis and files in memory."""

from dataclasses import replace

import pytest

from reporters.samples import INPUT_BOUND
from rewriting import Append, marked
from trainperf.errors import TrainperfError
from trainperf.fixes import Fix
from trainperf.model import Equivalence, Finding
from trainperf.patch.apply import Disk, plan
from trainperf.patch.patch import Edits, hash_of

ROOT = "/project"
TRAIN, (MAP, FIT) = marked("ds = ▸x.map(f)◂\n▸model.fit(ds)◂\n")
LOAD, (READ,) = marked("\n\nraw = ▸read('a')◂\n")
BOTH = {f"{ROOT}/train.py": TRAIN.encode(), f"{ROOT}/load.py": LOAD.encode()}


class Variables(Fix):
    """Set a variable."""

    category = "environment"

    def environment(self, finding):
        return {"THREADS": "2"}


FIXES = {"cache": Append(), "steps": Append(), "batch": Append(), "advice": Append()}
FIXES["threads"] = Variables()


def found(id_, site, call="", rewritable=True, equivalence=Equivalence.EXACT):
    data, site = {"call": call}, replace(site, file=f"{ROOT}/{site.file}")
    return Finding(
        id_, "input", "", "", 2.0, "", equivalence, (site,), rewritable=rewritable, data=data
    )


FINDINGS = (
    found("steps", replace(READ, file="load.py"), ".take(1)"),
    found("cache", MAP, ".cache()"),
    found("batch", FIT, ".batch()", equivalence=Equivalence.SEMANTICS),
    found("advice", FIT, rewritable=False),
    found("threads", FIT),
)


def diagnosed(*kept, files=BOTH):
    written = Edits(ROOT, FIXES, files.__getitem__).write(FINDINGS, only=kept)
    return replace(INPUT_BOUND, findings=FINDINGS, patch=written.patch)


KEPT = ("cache", "steps")
SAVED = diagnosed(*KEPT)


def planned(files, *only, saved=SAVED, **known):
    def read(path):
        if path not in files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return files[path]

    return plan(saved, only, FIXES, Disk(read, **known))


def after(made, files=BOTH):
    """The files once the plan is carried out, by name."""
    changed = {**files, **{change.path: change.after for change in made.changes}}
    for change in made.changes:
        assert change.before == files[change.path]
    return {path.rpartition("/")[2]: data.decode() for path, data in changed.items()}


def written_before(files, *names):
    """What an earlier call left: the originals of these files, and the hashes of what it wrote."""
    paths = [f"{ROOT}/{name}" for name in names] or list(files)
    return {path: (BOTH[path], hash_of(path, files[path])) for path in paths}


CACHED = {**BOTH, f"{ROOT}/train.py": TRAIN.replace("map(f)", "map(f).cache()").encode()}


def test_the_whole_patch_is_written_where_nothing_changed():
    made = planned(BOTH)
    assert made.fixes == KEPT
    assert made.diff() == SAVED.patch.diff
    texts = after(made)
    assert "x.map(f).cache()" in texts["train.py"]
    assert "read('a').take(1)" in texts["load.py"]


def test_a_fix_outside_the_patch_is_written_when_it_is_named():
    made = planned(BOTH, "batch", "cache")
    assert "model.fit(ds).batch()" in after(made)["train.py"]
    assert planned(BOTH).all_fixes == KEPT


@pytest.mark.parametrize(
    ("name", "says", "hint"),
    [
        ("cash", "no finding cash", "cache"),
        ("zzz", "no finding zzz", "steps, cache, batch, advice, threads"),
        ("advice", "no edit", "trainperf explain advice"),
    ],
)
def test_what_cannot_be_named_is_refused_with_the_next_step(name, says, hint):
    with pytest.raises(TrainperfError, match=says) as error:
        planned(BOTH, "cache", name)
    assert hint in error.value.hint


def test_one_changed_file_holds_everything_back():
    changed = {**BOTH, f"{ROOT}/load.py": LOAD.encode() + b"# mine\n"}
    with pytest.raises(TrainperfError, match=r"^load\.py was changed since the run: nothing"):
        planned(changed)
    assert planned(changed, "cache").changes
    gone = {f"{ROOT}/train.py": TRAIN.encode() + b"x"}
    with pytest.raises(TrainperfError, match="No such file") as error:
        planned(gone)
    assert "load.py cannot be read" in str(error.value)
    assert "train.py was changed" in str(error.value)


def test_what_is_in_the_source_already_is_left_alone():
    made = planned(BOTH)
    files = {**BOTH, **{change.path: change.after for change in made.changes}}
    known = {"earlier": written_before(files), "applied": KEPT}
    for names in ((), ("cache",), ("steps", "cache")):
        again = planned(files, *names, **known)
        assert again.changes == ()
        assert again.alone.diff
    changed = {**files, f"{ROOT}/train.py": files[f"{ROOT}/train.py"] + b"# mine\n"}
    with pytest.raises(TrainperfError, match=r"train\.py was changed since the run"):
        planned(changed, **known)


def test_a_second_fix_is_written_beside_the_first():
    known = {"earlier": written_before(CACHED, "train.py"), "applied": ("cache",)}
    made = planned(CACHED, "batch", **known)
    assert made.all_fixes == ("cache", "batch")
    assert after(made, CACHED)["train.py"] == "ds = x.map(f).cache()\nmodel.fit(ds).batch()\n"
    assert made.diff().count("\n+") == 2  # the header, and one line
    assert planned(CACHED, "cache", **known).changes == ()
    assert planned(CACHED, **known).all_fixes == KEPT
    edited = {**CACHED, f"{ROOT}/train.py": CACHED[f"{ROOT}/train.py"] + b"# mine\n"}
    with pytest.raises(TrainperfError, match="was changed"):
        planned(edited, "batch", **known)


def test_a_file_that_no_patch_edits_is_known_by_its_findings():
    saved = diagnosed("steps")
    assert planned(BOTH, "cache", saved=saved).changes
    edited = {**BOTH, f"{ROOT}/train.py": TRAIN.encode() + b"# mine\n"}
    with pytest.raises(TrainperfError, match=r"train\.py was changed"):
        planned(edited, "cache", saved=saved)


def test_variables_are_named_and_change_no_file():
    made = planned(BOTH, "threads", "cache")
    assert made.alone.environment == {"THREADS": "2"}
    assert made.alone.diff
    alone = planned(BOTH, "threads")
    assert (alone.changes, alone.alone.diff) == ((), "")
    assert alone.alone.environment == {"THREADS": "2"}


def test_edits_that_would_come_out_otherwise_than_tried_are_refused():
    other = replace(SAVED, patch=replace(SAVED.patch, diff=SAVED.patch.diff + "\n"))
    with pytest.raises(TrainperfError, match="in another way"):
        planned(BOTH, saved=other)


def test_a_fix_that_does_not_go_with_the_others_is_named():
    clash = replace(FINDINGS[1], id="advice", rewritable=True, data={"call": "nonsense"})
    with pytest.raises(TrainperfError, match="advice cannot be written: not an expression"):
        planned(BOTH, "cache", "advice", saved=replace(SAVED, findings=(*FINDINGS[:3], clash)))
