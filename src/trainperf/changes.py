"""A change that somebody wants proved, whatever form it has: the same run with the change in it.

Nothing of the user's is written. Python files run in place of theirs (`Run.sources`); all else is
laid into the copy-on-write view (`Run.files`), where there is one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainperf.errors import TrainperfError
from trainperf.model import Run
from trainperf.recording.cells import is_configuration, is_notebook
from trainperf.run.launchers import program

UNREAD = (".md", ".rst", ".txt", ".png", ".svg", ".pyi")
"""Files that no training reads as its settings; those whose names begin with a dot neither."""
HYDRA = re.compile(r"\bhydra\b|\bOmegaConf\.from_cli\b")
LINK, SUBMODULE = "120000", "160000"

Contents = Mapping[str, bytes | None]
"""What files hold with a change, by absolute path; None: they are not there."""


@dataclass(frozen=True)
class Change:
    """A change as it was asked for; what is given together is one change.

    `diffs` are files, "-" for standard input; `file` stands in the place of the script; `rev` is a
    revision of the git repository; `arguments` and `environment` are NAME=VALUE; `fixes` are ids.
    """

    name: str = ""
    diffs: tuple[str, ...] = ()
    file: str | None = None
    rev: str | None = None
    arguments: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    python: str | None = None
    fixes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Its name, else what it consists of."""
        parts = [*self.diffs, self.file, self.rev, *self.arguments, *self.environment]
        parts += [self.python, *self.fixes]
        return self.name or ", ".join("the diff" if one == "-" else one for one in parts if one)


def changed_run(change: Change, run: Run, folder: Path) -> tuple[Run, tuple[str, ...]]:
    """Return `run` with the change in it, but for its fixes, and what of it has no part in that.

    `folder` is the run's own. Raises `TrainperfError` where the change cannot be made.
    """
    contents: dict[str, bytes | None] = {}

    def read(path: str) -> bytes | None:
        if path not in contents:
            return Path(path).read_bytes() if os.path.isfile(path) else None
        return contents[path]

    if change.rev is not None:
        contents |= Repository.around(run.cwd).contents(change.rev)
    if change.file is not None:
        contents[script_of(run)] = _other(change.file, run)
    for diff in change.diffs:
        contents |= patched(_text(diff, run.cwd), run.cwd, read, diff)
    env = dict(_pair(one, "--env") for one in change.environment)
    command = run.command
    for setting in change.arguments:
        command = with_argument(command, setting, _source(run))
    if change.python is not None:
        command = (_interpreter(change.python, run), *command[1:])
    made = replace(run, command=command, env={**run.env, **env})
    return laid(made, contents, folder)


def laid(run: Run, contents: Contents, folder: Path) -> tuple[Run, tuple[str, ...]]:
    """Return the run with files that hold `contents`, and sentences on what is left as it is."""
    sources, files, left = dict(run.sources), dict(run.files), list[str]()
    modules: dict[str, bytes] = {}
    named = {
        os.path.realpath(os.path.join(run.cwd, word.rpartition("=")[2])) for word in run.command
    }
    for path, data in contents.items():
        there = os.path.isfile(path)
        given = path in named and (is_configuration(path) or is_notebook(path))
        if there and data is not None and (path.endswith(".py") or given):
            sources[path] = data
        elif any(path.startswith(f"{guarded}/") for guarded in run.guarded):
            files[path] = data
        elif path.endswith(".py"):
            if data is None:
                left.append(f"{_short(path, run)} is not removed: nothing is to be written")
            else:
                modules[_module(path, run)] = data
        elif not path.endswith(UNREAD) and not os.path.basename(path).startswith("."):
            raise TrainperfError(
                f"{_short(path, run)} cannot be given to the script as the change has it: this "
                "machine permits no copy-on-write view of folders",
                hint="name a changed copy of it in the command, or run where user namespaces are "
                "permitted",
            )
    env = dict(run.env)
    if modules:
        place = folder / "modules"
        for name, text in modules.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(text)
        before = env.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(place), before)))
    return replace(run, sources=sources, files=files, env=env), tuple(left)


def _module(path: str, run: Run) -> str:
    """A new module's place on the path of imports. Raises `TrainperfError` where it has none."""
    module = program(run.command)
    in_cwd = module is not None and module.kind == "module"
    root = os.path.realpath(run.cwd) if in_cwd else os.path.dirname(script_of(run))
    name = os.path.relpath(path, root)
    first = os.path.join(root, name.partition(os.sep)[0])
    if name.startswith(os.pardir) or os.path.isdir(first):
        raise TrainperfError(
            f"{_short(path, run)} is new, and in a folder that stands: it cannot be put there, as "
            "this machine permits no copy-on-write view of folders",
            hint="make the file; only what is changed in files that are there has to be a diff",
        )
    return name


def _short(path: str, run: Run) -> str:
    return os.path.relpath(path, os.path.realpath(run.cwd))


# ---------------------------------------------------------------------------- files and diffs


def script_of(run: Run) -> str:
    """The real path of the script in the command. Raises `TrainperfError` where none is."""
    for word in run.command[1:]:
        path = os.path.join(run.cwd, word)
        if word.endswith((".py", ".ipynb")) and os.path.isfile(path):
            return os.path.realpath(path)
    raise TrainperfError(
        "no script stands in the command, so nothing can stand in its place",
        hint="give the change as a diff: --diff FILE",
    )


def _source(run: Run) -> str:
    try:
        return Path(script_of(run)).read_text(errors="replace")
    except (TrainperfError, OSError):
        return ""


def _other(name: str, run: Run) -> bytes:
    path = Path(run.cwd, name)
    try:
        data = path.read_bytes()
        if not is_notebook(name):
            compile(data, name, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError) as error:
        raise TrainperfError(f"--file {name} cannot be run: {error}", hint="check it") from error
    if is_notebook(name) != is_notebook(script_of(run)):
        raise TrainperfError("a notebook and a script cannot stand for each other", "convert one")
    return data


def _text(diff: str, cwd: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if diff == "-" else Path(cwd, diff).read_bytes()
    except OSError as error:
        raise TrainperfError(
            f"{diff} cannot be read: {error.strerror}", "check the path"
        ) from error


def patched(
    diff: bytes, cwd: str, read: Callable[[str], bytes | None], name: str = "-"
) -> dict[str, bytes | None]:
    """Return what a diff makes of the files it names, which are read by `read`.

    Names are relative to `cwd`, or to the git work tree around it. `git apply` does it, on copies.
    Raises `TrainperfError` where it does not apply.
    """
    called = "the diff" if name == "-" else name
    with tempfile.TemporaryDirectory() as folder:
        top = _git(cwd, "rev-parse", "--show-toplevel", fails=True).decode().strip()
        bases = [os.path.realpath(base) for base in (cwd, top) if base]
        ways = [(base, strip, _touched(diff, strip, folder)) for base in bases for strip in (1, 0)]
        base, strip, names = max(ways, key=lambda way: (_known(way[0], way[2], read), bool(way[2])))
        if not names:
            raise TrainperfError(
                f"there is no diff in {called}", "git diff > change.diff makes one"
            )
        before = {one: read(os.path.join(base, one)) for one in names}
        for one, data in before.items():
            if data is not None:
                place = Path(folder, one)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
        words = ("apply", f"-p{strip}", "--whitespace=nowarn")
        done = _run_git(folder, *words, "-", given=diff)
        if done.returncode:
            there = _run_git(folder, *words, "--check", "-R", "-", given=diff).returncode == 0
            raise _not_applied(called, done.stderr.decode(errors="replace"), there)
        after = {one: Path(folder, one) for one in names}
        found = {
            one: place.read_bytes() if place.is_file() else None for one, place in after.items()
        }
    return {os.path.join(base, one): data for one, data in found.items() if data != before[one]}


def _known(base: str, names: Sequence[str], read: Callable[[str], bytes | None]) -> int:
    """How many of the files that a diff names are there."""
    return sum(read(os.path.join(base, name)) is not None for name in names)


def _touched(diff: bytes, strip: int, folder: str) -> list[str]:
    """The files that a diff names, relative; none where it is no diff."""
    counted = _git(folder, "apply", "--numstat", "-z", f"-p{strip}", "-", given=diff, fails=True)
    names = [line.split("\t", 2)[2] for line in os.fsdecode(counted).split("\0") if line]
    names += re.findall(r"^(?:rename|copy) from (.+)$", os.fsdecode(diff), re.MULTILINE)
    return [one for one in names if not os.path.isabs(one) and os.pardir not in one.split("/")]


def _not_applied(called: str, error: str, there: bool) -> TrainperfError:
    if there:
        return TrainperfError(
            f"{called} does not apply, as the files hold it already",
            hint="trainperf check --against HEAD -- SCRIPT proves the working tree as it is",
        )
    where = re.search(r"patch failed: (.+):(\d+)", error) or re.search(
        r"error: ([^:\n]+):()", error
    )
    place = f": {where[1]}{f', line {where[2]}' if where[2] else ''}" if where else ""
    return TrainperfError(f"{called} does not apply{place}", "make it from the files as they are")


# ---------------------------------------------------------------------------- the git repository


@dataclass(frozen=True)
class Repository:
    """A git work tree. It is only read: the index is not even refreshed."""

    top: str

    @classmethod
    def around(cls, folder: str) -> Repository:
        """The one that holds a folder. Raises `TrainperfError` if none does."""
        top = _git(folder, "rev-parse", "--show-toplevel", fails=True).decode().strip()
        if not top:
            raise TrainperfError(f"{folder} is in no git repository", "go where the code is kept")
        return cls(os.path.realpath(top))

    def commit(self, rev: str) -> str:
        """The commit that `rev` names, in full. Raises `TrainperfError` if there is none."""
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}")
        found = _git(self.top, *words, fails=True).decode().strip()
        if not found:
            raise TrainperfError(
                f"there is no revision {rev} here",
                hint="git fetch gets it; in a workflow actions/checkout needs fetch-depth: 0",
            )
        return found

    def bisecting(self) -> bool:
        """Whether `git bisect` is under way."""
        told = _git(self.top, "rev-parse", "--git-path", "BISECT_LOG").decode().strip()
        return os.path.exists(os.path.join(self.top, told))

    def fork(self) -> str:
        """The commit at which the branch left the default one. Raises `TrainperfError`."""
        head = _git(self.top, "symbolic-ref", "--short", "refs/remotes/origin/HEAD", fails=True)
        for branch in (head.decode().strip(), "origin/main", "origin/master", "main", "master"):
            found = _git(self.top, "merge-base", "HEAD", branch, fails=True) if branch else b""
            if found:
                return found.decode().strip()
        raise TrainperfError(
            "which branch is the default one is not known here",
            hint="name a revision: trainperf check --against REV -- SCRIPT",
        )

    def contents(self, rev: str) -> dict[str, bytes | None]:
        """What the files hold in `rev` that are others in the work tree.

        Files that git does not know stay as they are.
        """
        commit = self.commit(rev)
        if unmerged := os.fsdecode(_git(self.top, "ls-files", "--unmerged", "-z")):
            name = unmerged.partition("\0")[0].partition("\t")[2]
            raise TrainperfError(f"{name} is not merged yet", "end the merge first")
        told = os.fsdecode(_git(self.top, "diff", "--raw", "-z", "--no-renames", "--no-ext-diff",
                                "--ignore-submodules=dirty", commit))  # fmt: skip
        fields = told.split("\0")[:-1]
        found: dict[str, bytes | None] = {}
        for entry, name in zip(fields[::2], fields[1::2], strict=True):
            before, now, _, _, status = entry.lstrip(":").split()
            if SUBMODULE in (before, now) or LINK in (before, now):
                kind = "submodule" if SUBMODULE in (before, now) else "symbolic link"
                raise TrainperfError(
                    f"{name} is a {kind}, and another one in {rev}",
                    hint="check that revision out in a folder of its own, and diagnose it there",
                )
            gone = status == "A"
            data = None if gone else _git(self.top, "cat-file", "--filters", f"{commit}:{name}")
            path = Path(self.top, name)
            if data is None or not path.is_file() or path.read_bytes() != data:
                found[str(path)] = data
        return found


def _git(folder: str, *words: str, given: bytes | None = None, fails: bool = False) -> bytes:
    """What git prints; b"" where it may fail, and does. Raises `TrainperfError`."""
    done = _run_git(folder, *words, given=given)
    if not done.returncode:
        return done.stdout
    if fails:
        return b""
    error = done.stderr.decode(errors="replace").strip().partition("\n")[0]
    raise TrainperfError(f"git {words[0]} failed: {error}", hint="try it in this folder")


def _run_git(
    folder: str, *words: str, given: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    if words[0] == "apply":  # on copies, in a folder of no repository
        env["GIT_CEILING_DIRECTORIES"] = os.path.dirname(os.path.realpath(folder))
        env = {name: text for name, text in env.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")}
    try:
        return subprocess.run(
            ("git", "-c", "diff.autoRefreshIndex=false", *words),
            cwd=folder,
            env=env,
            input=given or b"",
            capture_output=True,
        )
    except FileNotFoundError as error:
        raise TrainperfError("git is not installed, which diffs need", "install git") from error


# ---------------------------------------------------------------------------- the command


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise TrainperfError(f"{option} {text}: a value is missing", f"write {option} NAME=VALUE")
    return name, value


def with_argument(command: Sequence[str], setting: str, source: str) -> tuple[str, ...]:
    """Return the command with an argument of the script set to a value, as the script takes it.

    `setting` is NAME=VALUE, or NAME for a flag. Where the command has the argument its value is
    replaced; else it goes to the end: `--name=value`, in the spelling that `source`, the script,
    has, or `name=value` where that is a Hydra application.
    """
    name, equals, value = setting.lstrip("-").partition("=")
    spelled = re.sub(r"[-_]", "[-_]", re.escape(name).replace(r"\-", "-"))
    option, words = re.compile(rf"--?{spelled}"), list(command)
    for place in range(len(words) - 1, 0, -1):
        word, sign, _ = words[place].partition("=")
        if option.fullmatch(word) or (sign and re.fullmatch(rf"\+{{0,2}}{spelled}", word)):
            if sign:
                words[place] = f"{word}={value}"
            elif equals and place + 1 < len(words):
                words[place + 1] = value
            return tuple(words)
    if equals and HYDRA.search(source):
        return (*words, f"{name}={value}")
    written = re.search(rf"""["'](--?{spelled})["']""", source)
    known = written[1] if written else ("-" if len(name) == 1 else "--") + name
    if not equals:
        return (*words, known)
    return (*words, f"{known}={value}") if known.startswith("--") else (*words, known, value)


def _interpreter(python: str, run: Run) -> str:
    ours = os.path.basename(run.command[0]).startswith("python")
    if not ours or program(run.command) is None:
        raise TrainperfError(
            f"--python has no place in a command of {run.command[0]}",
            hint="it needs a script that Python runs: trainperf try --python … -- train.py",
        )
    path = os.path.join(run.cwd, python) if os.sep in python else python
    found = shutil.which(path)
    if found is None:
        raise TrainperfError(
            f"there is no interpreter {python}", "name one, such as .venv/bin/python"
        )
    return found


def laid_over(run: Run, changed: Run, plain: Run) -> Run | str:
    """`run` with all that `changed` has other than `plain`, or at what the two meet."""
    for path in changed.sources.keys() | changed.files.keys():
        if path in run.sources or path in run.files:
            return f"they change the same file: {os.path.basename(path)}"
    env = {name: text for name, text in changed.env.items() if plain.env.get(name) != text}
    for name, text in env.items():
        if run.env.get(name, text) not in (text, plain.env.get(name)):
            return f"they set the same variable: {name}"
    command, words = list(run.command), len(plain.command)
    for place, (before, now) in enumerate(zip(plain.command, changed.command, strict=False)):
        if before == now:
            continue
        if command[place] not in (before, now):
            return f"they change the same word of the command: {before}"
        command[place] = now
    return replace(
        run,
        command=(*command, *changed.command[words:]),
        env={**run.env, **env},
        sources={**run.sources, **changed.sources},
        files={**run.files, **changed.files},
    )
