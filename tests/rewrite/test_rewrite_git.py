"""Every diff is applied with the real `git apply`, and the bytes compared."""

import random
import subprocess
from pathlib import Path

import pytest

from rewriting import marked
from trainperf.fixes import Fix
from trainperf.model import Equivalence, Finding
from trainperf.patch.patch import Edits
from trainperf.rewrite import CannotRewrite, Script
from trainperf.source.text import Source

TEXT = '''"""Trains."""
import os
import tensorflow as tf  # the framework


@keep
def load(path):
    return tf.io.read_file(path)


class Data:
    @staticmethod
    def make(files):
        ds = ▸tf.data.Dataset.from_tensor_slices(files)◂
        ds = ▸ds.batch(8)◂  # eight
        ds = ▸ds.shuffle(100)◂
        return (
            ▸ds.map(
                load,  # slow
            )
            .batch(8)◂  # again
        )


▸print("é", "日本", os.environ)◂
model.compile(▸make("adam")◂, run_eagerly=True)
▸model.fit(▸Data.make(▸glob("*")◂)◂, epochs=3, callbacks=[], verbose=0)◂
last = ▸(a + b)(c)◂'''

EXACT = Equivalence.EXACT

EDITS = [
    lambda script, site: script.set_keyword(site, "num_parallel_calls", "tf.data.AUTOTUNE"),
    lambda script, site: script.set_keyword(site, "epochs", "'ü'", position=1),
    lambda script, site: script.remove_keyword(site, "verbose"),
    lambda script, site: script.remove_keyword(site, "callbacks"),
    lambda script, site: script.replace_argument(site, 0, "[1, 2]"),
    lambda script, site: script.append_call(site, ".prefetch(2)"),
    lambda script, site: script.append_call(site, ".cache()"),
    lambda script, site: script.wrap_call(site, "timed({})"),
    lambda script, site: script.drop_call(site),
    lambda script, site: script.decorate(site, "tf.function"),
    lambda script, site: script.remove_statement(site),
    lambda script, site: script.insert_before(site, "if a:\n    b()"),
    lambda script, site: script.insert_after_imports(site.file, "os.umask(0)"),
    lambda script, site: script.module_name(site.file, "numpy"),
]

FORMS = {
    "unix": lambda text: (text + "\n").encode(),
    "no final newline": lambda text: text.encode(),
    "windows": lambda text: (text + "\n").replace("\n", "\r\n").encode(),
    "windows without final newline": lambda text: text.replace("\n", "\r\n").encode(),
    "with a mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "with a form feed": lambda text: text.replace("\n\n\n", "\n\x0c\n\n").encode(),
}


def git(folder, *arguments, **options):
    command = ["git", "-c", "core.autocrlf=false", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, **options)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init", "-q")
    return tmp_path


def applied(folder, script):
    """Apply the script's diff as a user would; check that it does what the script says."""
    wanted, originals = script.contents(), script.originals()
    for path, data in originals.items():
        assert Path(path).read_bytes() == data
    git(folder, "apply", "-", input=script.diff().encode())
    for path, data in wanted.items():
        assert Path(path).read_bytes() == data
    return wanted


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(8))
def test_any_edits_make_a_diff_that_git_applies(repository, form, seed):
    plain, sites = marked(TEXT)
    original = FORMS[form](plain)
    file = repository / "train.py"
    file.write_bytes(original)
    dice = random.Random(f"{form} {seed}")
    script = Script(repository)
    made = 0
    for _ in range(12):
        before = script.diff()
        try:
            dice.choice(EDITS)(script, dice.choice(sites))
            made += script.diff() != before
        except CannotRewrite:
            assert script.diff() == before
    assert made
    assert applied(repository, script)
    git(repository, "apply", "-R", "-", input=script.diff().encode())
    assert file.read_bytes() == original


@pytest.mark.parametrize("seed", range(8))
def test_edits_give_the_same_result_in_any_order(seed):
    """Those that belong to different places; at one place the order asked counts."""
    plain, sites = marked(TEXT)
    dice = random.Random(seed)
    chosen = [
        (EDITS[0], sites[3]),
        (EDITS[5], sites[3]),
        (EDITS[1], sites[6]),
        (EDITS[3], sites[6]),
        (EDITS[7], sites[7]),
        (EDITS[12], sites[0]),
        (EDITS[13], sites[0]),
    ]
    results = []
    for _ in range(2):
        script = Script("/project", read=lambda path: plain.encode())
        dice.shuffle(chosen)
        for edit, site in chosen:
            edit(script, site)
        results.append(script.sources())
    assert results[0] == results[1]


def test_several_files_in_folders_with_odd_names_make_one_diff(repository):
    names = ["train.py", "my data/load it.py", 'a"b\\c.py', "tab\there.py", "größe/日本.py"]
    plain, sites = marked("ds = ▸x.batch(8)◂\n")
    script = Script(repository)
    for name in names:
        path = repository / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(plain)
        script.append_call(type(sites[0])(str(path), 1, "", 5, 1, 15), ".cache()")
    applied(repository, script)
    assert {(repository / name).read_text() for name in names} == {"ds = x.batch(8).cache()\n"}


def test_the_diff_applies_in_a_folder_of_a_larger_repository(repository):
    folder = repository / "training"
    folder.mkdir()
    (folder / "train.py").write_text("ds = x.batch(8)")
    git(repository, "add", ".")
    script = Script(folder)
    _, sites = marked("ds = ▸x.batch(8)◂")
    script.append_call(sites[0], ".cache()")
    applied(folder, script)


def test_another_encoding_is_kept_and_a_diff_that_cannot_carry_it_is_refused(repository):
    file = repository / "train.py"
    text = "# coding: latin-1\n# é\n\n\n\n\nds = x.batch(8)\n"
    file.write_bytes(text.encode("latin-1"))
    _, sites = marked(text.replace("x.batch(8)", "▸x.batch(8)◂"))
    script = Script(repository)
    script.append_call(sites[0], ".cache('é')")
    assert script.contents()[str(file)].endswith(b".cache('\xe9')\n")
    with pytest.raises(CannotRewrite, match="iso-8859-1"):
        script.diff()
    script = Script(repository)
    script.append_call(sites[0], ".cache()")
    applied(repository, script)
    with pytest.raises(CannotRewrite, match="iso-8859-1"):
        script.append_call(sites[0], ".cache('日')")


class Cache(Fix):
    """Cache and prefetch."""

    def rewrite(self, script, finding):
        script.append_call(finding.where[0], ".cache()")
        script.module_name(finding.where[0].file, "numpy")


LATIN = "# coding: latin-1\n" + "#\n" * 9 + "x = 1\n" * 9 + "# \xe9\n"
TRIED = {**FORMS, "latin-1": lambda text: (text + "\n" * 9 + LATIN[18:]).encode("latin-1")}


@pytest.mark.parametrize("form", TRIED)
def test_what_is_tried_is_byte_for_byte_what_the_patch_makes(repository, form):
    start = "# coding: latin-1\n\n\n" if form == "latin-1" else ""
    plain, (site,) = marked(start + "import os\n\n\nds = ▸x.batch(8)◂")
    data = TRIED[form](plain)
    (repository / "train.py").write_bytes(data)
    finding = Finding("cache", "input", "", "", 2.0, "", EXACT, (site,), rewritable=True)
    written = Edits(repository, {"cache": Cache()}).write([finding])
    (repository / "fix.diff").write_bytes(written.patch.diff.encode())
    git(repository, "apply", "fix.diff")
    assert written.patch.findings == ("cache",)
    assert written.contents == {
        str(repository / "train.py"): (repository / "train.py").read_bytes()
    }
    assert written.contents[str(repository / "train.py")] != data


def test_an_encoding_that_does_not_come_back_the_same_is_refused():
    with pytest.raises(CannotRewrite, match="does not come back"):
        Source("train.py", b"# coding: utf-7\nx = '+AGE-'\n")


def test_nothing_is_written_by_editing(repository):
    file = repository / "train.py"
    file.write_text("ds = x.batch(8)")
    script = Script(repository)
    script.append_call(marked("ds = ▸x.batch(8)◂")[1][0], ".cache()")
    assert script.sources() == {str(file): "ds = x.batch(8).cache()"}
    assert file.read_text() == "ds = x.batch(8)"
