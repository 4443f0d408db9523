"""Arguments set where a run had them from: the edited source is run, and its calls compared."""

from __future__ import annotations

import contextlib
import runpy
import sys

import pytest

from rewriting import project_of, site_in
from trainperf.errors import CannotRewrite
from trainperf.rewrite.arguments import RecordedCall, set_argument
from trainperf.rewrite.wanted import Wanted

HEAD = "from loaders import DataLoader\n"

OPTIONS = """\
import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=4)
p.add_argument("-j", "--workers", type=int, default=0)
p.add_argument("--persistent-workers", action="store_true")
"""
BY_FUNCTION = """\
from loaders import DataLoader
def get_loader(name, batch_size, num_workers=0, pin=False):
    return ▸DataLoader(name, batch_size=batch_size, num_workers=num_workers, pin_memory=pin)◂
"""
BRANCH = """\
use_cuda = CUDA
train_kwargs = {'batch_size': 4}
test_kwargs = {'batch_size': 8}
if use_cuda:
    cuda_kwargs = {'num_workers': 1,
                   'pin_memory': True,
                   'shuffle': True}
    train_kwargs.update(cuda_kwargs)
    test_kwargs.update(cuda_kwargs)
a, b = ▸DataLoader("train", **train_kwargs)◂, DataLoader("test", **test_kwargs)
"""
CHOICE = """\
def main(use_cuda):
    kwargs = {"num_workers": 1, "pin_memory": True} if use_cuda else {}
    ▸DataLoader("train", batch_size=4, shuffle=True, **kwargs)◂
    DataLoader("test", batch_size=8, **kwargs)
main(CUDA)
"""
ONE = {
    "a branch that ran not": (
        BRANCH.replace("CUDA", "False"),
        "'batch_size': 4, 'num_workers': 2}",
    ),
    "a branch that ran": (BRANCH.replace("CUDA", "True"), "{'num_workers': 2,"),
    "a choice of none": (CHOICE.replace("CUDA", "False"), 'else {"num_workers": 2}'),
    "a choice of some": (CHOICE.replace("CUDA", "True"), '{"num_workers": 2, "pin'),
    "a number by a choice": (
        """\
fast = False
n = 4 if fast else 0
▸DataLoader('train', num_workers=n)◂
""",
        "n = 4 if fast else 2",
    ),
    "a number by branches": (
        """\
import sys
if sys.argv[1:]:
    n = 8
else:
    n = 0
▸DataLoader('train', num_workers=n)◂
""",
        "n = 2",
    ),
    "a class": (
        """\
class Config:
    num_workers = 0
    lr = 0.1
class Trainer:
    def __init__(self, config):
        self.config = config
        self.loader = ▸DataLoader("train", num_workers=self.config.num_workers)◂
Trainer(Config())
""",
        "num_workers = 2",
    ),
    "a class itself": (
        """\
class CFG:
    workers: int = 0
▸DataLoader('train', num_workers=CFG.workers)◂
""",
        "workers: int = 2",
    ),
    "a class that another one extends": (
        """\
class Base:
    num_workers = 0
class Small(Base):
    lr = 1
class Trainer:
    def __init__(self, config):
        self.config = config
        self.loader = ▸DataLoader("train", num_workers=self.config.num_workers)◂
Trainer(Small())
""",
        "    num_workers = 2",
    ),
    "a dataclass of another file": (
        """\
from configs.base import Config
from loaders import DataLoader
class Trainer:
    def __init__(self, config):
        self.config = config
        self.loader = ▸DataLoader("train", num_workers=self.config.num_workers)◂
config = Config()
print(config.num_workers)
Trainer(config)
# ---- configs/__init__.py
# ---- configs/base.py
from dataclasses import dataclass, field
@dataclass
class Config:
    lr: float = 0.1
    num_workers: int = field(default=0)
""",
        "field(default=2)",
    ),
    "a dataclass within another": (
        """\
from dataclasses import dataclass, field
from loaders import DataLoader
@dataclass
class Data:
    workers: int = 0
@dataclass
class Config:
    data: Data = field(default_factory=Data)
def main(cfg: Config):
    ▸DataLoader('train', num_workers=cfg.data.workers)◂
main(Config())
""",
        "workers: int = 2",
    ),
    "what a dataclass is given": (
        """\
from dataclasses import dataclass
from loaders import DataLoader
@dataclass
class Config:
    lr: float
    num_workers: int = 4
class Trainer:
    def __init__(self, config):
        self.config = config
        self.loader = ▸DataLoader("train", num_workers=self.config.num_workers)◂
Trainer(Config(0.1, num_workers=0))
""",
        "Config(0.1, num_workers=2)",
    ),
    "what a class sets on itself": (
        """\
class Config:
    def __init__(self):
        self.num_workers = 0
class Trainer:
    def __init__(self, config):
        self.config = config
        self.loader = ▸DataLoader("train", num_workers=self.config.num_workers)◂
Trainer(Config())
""",
        "self.num_workers = 2",
    ),
    "a parameter's default, through self": (
        """\
class Data:
    def __init__(self, folder, num_workers=0):
        self.num_workers = num_workers
    def train(self):
        return ▸DataLoader('train', num_workers=self.num_workers)◂
Data('x').train()
""",
        "folder, num_workers=2)",
    ),
    "a default of another file's function": (
        """\
from data import get_loader
get_loader('train', 4)
get_loader('test', 4)
# ---- data.py
from loaders import DataLoader
def get_loader(name, batch_size, num_workers=0, pin=False):
    return ▸DataLoader(name, batch_size=batch_size, num_workers=num_workers, pin_memory=pin)◂
""",
        "batch_size, num_workers=2,",
    ),
    "what the caller gives": (
        """\
import data
data.get_loader('train', 4, num_workers=0)
data.get_loader('test', 4, num_workers=1)
# ---- data.py
from loaders import DataLoader
def get_loader(name, batch_size, num_workers=0, pin=False):
    return ▸DataLoader(name, batch_size=batch_size, num_workers=num_workers, pin_memory=pin)◂
""",
        "'train', 4, num_workers=2)",
    ),
    "a constant of another file": (
        """\
import config
from loaders import DataLoader
▸DataLoader('train', num_workers=config.WORKERS)◂
# ---- config.py
WORKERS = 0
EPOCHS = 3
""",
        "WORKERS = 2",
    ),
    "a constant by its name": (
        """\
from config import WORKERS as n
from loaders import DataLoader
▸DataLoader('train', num_workers=n)◂
# ---- config.py
WORKERS = 0
""",
        "WORKERS = 2",
    ),
    "a constant by a star": (
        """\
from config import *
from loaders import DataLoader
▸DataLoader('train', num_workers=WORKERS)◂
# ---- config.py
WORKERS = 0
""",
        "WORKERS = 2",
    ),
    "options of another file": (
        """\
from options import get_args
from loaders import DataLoader
args = get_args()
▸DataLoader('train', num_workers=args.workers)◂
# ---- options.py
import argparse
def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=4)
    p.add_argument("-j", "--workers", type=int, default=0)
    p.add_argument("--persistent-workers", action="store_true")
    return p.parse_args()
""",
        "type=int, default=2)",
    ),
    "an option, handed down": (
        """\
import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=4)
p.add_argument("-j", "--workers", type=int, default=0)
p.add_argument("--persistent-workers", action="store_true")
def worker(gpu, args):
    ▸DataLoader('train', num_workers=args.workers)◂
def main():
    args = p.parse_args()
    worker(0, args)
main()
""",
        "type=int, default=2)",
    ),
    "an option in a dictionary": (
        """\
import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=4)
p.add_argument("-j", "--workers", type=int, default=0)
p.add_argument("--persistent-workers", action="store_true")
args = p.parse_args()
how = {'batch_size': args.batch_size, 'num_workers': args.workers}
▸DataLoader('train', **how)◂
""",
        "type=int, default=2)",
    ),
    "a bag": (
        """\
from types import SimpleNamespace
from loaders import DataLoader
cfg = SimpleNamespace(lr=1, workers=0)
▸DataLoader('train', num_workers=cfg.workers)◂
""",
        "lr=1, workers=2)",
    ),
    "a dictionary of settings": (
        """\
CFG = {'data': {'workers': 0}, 'lr': 1}
def main(cfg):
    ▸DataLoader('train', num_workers=cfg['data']['workers'])◂
main(CFG)
""",
        "{'workers': 2}",
    ),
    "an option whose default the machine says": (
        """\
import argparse
import os
p = argparse.ArgumentParser()
p.add_argument("--workers", type=int, default=os.cpu_count())
p.set_defaults()
args = p.parse_args()
▸DataLoader('train', num_workers=args.workers)◂
""",
        "type=int, default=2)",
    ),
    "a choice for another system": (
        """\
import os
workers = 0
▸DataLoader('train', num_workers=0 if os.name == 'nt' else workers)◂
""",
        "workers = 2",
    ),
    "a dictionary whose other entries are read": (
        """\
CFG = {'data': {'workers': 0}, 'lr': 1}
rate = [CFG['lr'], 3][0]
▸DataLoader('train', num_workers=CFG['data']['workers'])◂
""",
        "{'workers': 2}",
    ),
    "the default of get": (
        """\
CFG = {'lr': 1}
▸DataLoader('train', num_workers=CFG.get('workers', 0))◂
""",
        "CFG.get('workers', 2)",
    ),
    "keywords of a function": (
        """\
def loader(name, **how):
    return ▸DataLoader(name, **how)◂
loader('train', batch_size=4, num_workers=0)
loader('test', num_workers=1)
""",
        "batch_size=4, num_workers=2)",
    ),
    "keywords on an object": (
        """\
class Data:
    def __init__(self):
        self.how = dict(batch_size=4)
    def train(self):
        return ▸DataLoader('train', **self.how)◂
Data().train()
""",
        "dict(batch_size=4, num_workers=2)",
    ),
    "keywords merged": (
        """\
how = dict(num_workers=0)
how.update(drop_last=True)
more = {**how, 'shuffle': True}
▸DataLoader('train', **more)◂
""",
        "dict(num_workers=2)",
    ),
    "an entry set later": (
        """\
how = dict(num_workers=8)
if not __file__.endswith('.sh'):
    how['num_workers'] = 0
▸DataLoader('train', **how)◂
""",
        "how['num_workers'] = 2",
    ),
    "lines of a dictionary": (
        """\
how = {
    'batch_size': 4,
    'shuffle': True,  # as ever
}
▸DataLoader('train', **how)◂
""",
        "    'num_workers': 2,\n}",
    ),
    "several numbers of one line": (
        """\
epochs, n = 3, 0
▸DataLoader('train', num_workers=n)◂
""",
        "epochs, n = 3, 2",
    ),
    "what only the machine says": (
        """\
import os
from loaders import DataLoader
how = dict(num_workers=os.cpu_count() * 0, batch_size=4)
▸DataLoader('train', **how)◂
""",
        "dict(num_workers=2, batch_size=4)",
    ),
}


IN_THE_CALL = {
    "keywords that others take": """\
def named(batch_size=1):
    return batch_size


def main(**how):
    named(**how)
    ▸DataLoader('train', **how)◂


main(batch_size=4)
""",
    "keywords on an object that others take": """\
class Data:
    def __init__(self):
        self.how = {"batch_size": 4}

    def train(self):
        dict(**self.how)
        return ▸DataLoader('train', **self.how)◂


Data().train()
""",
    "two branches alike": """\
if __name__ == 'x':
    n = 0
else:
    n = 0
▸DataLoader('train', num_workers=n)◂
""",
    "dictionaries alike": """\
how = {'num_workers': 0} if __name__ == 'x' else {}
▸DataLoader('train', **how)◂
""",
    "another reader": """\
n = 0
seed = [3, 4][n]
▸DataLoader('train', num_workers=n)◂
""",
    "a dictionary for others": """\
how = {}
dict(list(how))
▸DataLoader('train', **how)◂
""",
    "what is worked out": """\
k = 1
n = k - 1
▸DataLoader('train', num_workers=n)◂
""",
    "set by name": """\
class C:
    n = 0
setattr(C, 'n', 0)
▸DataLoader('train', num_workers=C.n)◂
""",
    "set twice": """\
class C:
    n = 0
c = C()
c.n = 0
▸DataLoader('train', num_workers=c.n)◂
""",
    "taken out": """\
how = dict(num_workers=0)
del how['num_workers']
▸DataLoader('train', **how)◂
""",
    "a function that changes it": """\
def grow(d):
    d['num_workers'] = 0
how = dict(shuffle=True)
grow(how)
▸DataLoader('train', **how)◂
""",
    "a number counted": """\
n = 0
n += 0
▸DataLoader('train', num_workers=n)◂
""",
    "in a loop": """\
for n in [0]:
    ▸DataLoader('train', num_workers=n)◂
""",
    "a number that a function sets": """\
n = 0
def setup():
    global n
    n = 0
setup()
▸DataLoader('train', num_workers=n)◂
""",
    "a number that is compared where it is named": """\
if (n := 0) == 0:
    ▸DataLoader('train', num_workers=n)◂
""",
    "an object that nobody knows": """\
import json
c = [type('C', (), dict(n=0))]
▸DataLoader('train', num_workers=c[0].n)◂
""",
}

LEFT_ALONE = {
    "YAML": (
        """\
import yaml
cfg = yaml.safe_load(open('c.yaml'))
▸DataLoader('train', num_workers=cfg['workers'])◂
""",
        r"yaml\.safe_load",
    ),
    "YAML, by keywords": (
        """\
import yaml
cfg = yaml.safe_load(open('c.yaml'))
▸DataLoader('train', **cfg['loader'])◂
""",
        r"yaml\.safe_load",
    ),
    "OmegaConf": (
        """\
from omegaconf import OmegaConf
cfg = OmegaConf.load('c.yaml')
def f(c):
    ▸DataLoader('train', num_workers=c.data.n)◂
f(cfg)
""",
        r"OmegaConf",
    ),
    "JSON": (
        """\
import json
with open('c.json') as f:
    cfg = json.load(f)
▸DataLoader('train', num_workers=cfg['n'])◂
""",
        r"json\.load",
    ),
    "Hydra": (
        """\
import hydra
@hydra.main(config_path='c')
def main(cfg):
    ▸DataLoader('train', num_workers=cfg.data.workers)◂
main()
""",
        r"Hydra",
    ),
    "a variable of the environment": (
        """\
import os
n = int(os.environ.get('N', 0))
▸DataLoader('train', num_workers=n)◂
""",
        r"environment",
    ),
}


LOADERS = """\
CALLS = []


class DataLoader:
    def __init__(self, dataset, batch_size=1, shuffle=False, num_workers=0, pin_memory=False,
                 persistent_workers=False, prefetch_factor=None, drop_last=False):
        CALLS.append({name: value for name, value in locals().items() if name != "self"})
"""
DEFAULTS = {"num_workers": 0, "pin_memory": False, "persistent_workers": False}


def files_of(text):
    """Return the files of a case: train.py, and those that begin at `# ---- name`."""
    first, *others = text.split("# ---- ")
    files = {"train.py": first}
    for other in others:
        name, _, source = other.partition("\n")
        files[name] = source
    if "DataLoader(" in first and "import DataLoader" not in first:
        files["train.py"] = HEAD + first
    return files


def calls_of(folder, files, command=()):
    """Run train.py among its files; return what its loaders were given."""
    for name, text in {**files, "loaders.py": LOADERS}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("▸", "").replace("◂", ""))
    before, argv = set(sys.modules), sys.argv
    sys.path.insert(0, str(folder))
    sys.argv = ["train.py", *command]
    sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
    try:
        runpy.run_path(str(folder / "train.py"), run_name="__main__")
        return sys.modules["loaders"].CALLS
    finally:
        sys.path.remove(str(folder))
        sys.argv = argv
        sys.dont_write_bytecode = kept
        for name in set(sys.modules) - before:
            if str(folder) in (getattr(sys.modules[name], "__file__", None) or ""):
                del sys.modules[name]


def edited(files, seen, wanted=None):
    """Return the files with the argument of the marked call set."""
    script, plain = project_of(files), site_in(files)
    set_argument(script, plain, wanted or Wanted("num_workers", "2", 5), seen)
    return {name.removeprefix("/project/"): text for name, text in script.sources().items()}


def seen_of(calls, command=()):
    (train,) = [each for each in calls if each["dataset"] == "train"]
    given = tuple(word.partition("=")[0] for word in command if word.startswith("-"))
    return RecordedCall({name: train[name] for name in DEFAULTS}, DEFAULTS, given, ("train.py",))


@pytest.mark.parametrize("case", ONE)
def test_the_one_place_that_was_live_is_edited(case, tmp_path):
    text, expected = ONE[case]
    files = files_of(text)
    before = calls_of(tmp_path / "before", files)
    after = edited(files, seen_of(before))
    assert len(after) == 1
    (text,) = after.values()
    assert expected in text
    calls = calls_of(tmp_path / "after", {**files, **after})

    others = [name for name in before[0] if name != "num_workers"]
    assert [[e[n] for n in others] for e in calls] == [[e[n] for n in others] for e in before]
    assert {each["num_workers"] for each in calls if each["dataset"] == "train"} == {2}


def test_a_number_that_two_callers_write_out_changes_for_both(tmp_path):
    files = {
        "train.py": "from data import get_loader\nget_loader('train', 4, 0)\n"
        "get_loader('test', 8, 0)\n",
        "data.py": BY_FUNCTION,
    }
    after = edited(files, seen_of(calls_of(tmp_path / "before", files)))
    calls = calls_of(tmp_path / "after", {**files, **after})
    assert list(after) == ["train.py"]
    assert [each["num_workers"] for each in calls] == [2, 2]


@pytest.mark.parametrize("case", IN_THE_CALL)
def test_where_the_place_is_not_sure_the_call_itself_overrules(case, tmp_path):
    files = files_of(IN_THE_CALL[case])
    after = edited(files, seen_of(calls_of(tmp_path / "before", files)))
    before, lines = files["train.py"].splitlines(), after["train.py"].splitlines()
    differ = [
        one
        for one, other in zip(lines, before, strict=True)
        if one != other.replace("▸", "").replace("◂", "")
    ]
    assert len(differ) == 1
    assert "DataLoader('train'" in differ[0]
    calls = calls_of(tmp_path / "after", after)
    assert [each["num_workers"] for each in calls] == [2]


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_what_no_source_holds_is_left_alone_with_the_reason(case):
    text, reason = LEFT_ALONE[case]
    seen = RecordedCall({"num_workers": 0}, DEFAULTS, (), ("train.py",))
    with pytest.raises(CannotRewrite, match=reason):
        edited({"train.py": HEAD + text}, seen)


def test_a_flag_becomes_one_that_is_on_and_may_be_turned_off(tmp_path):
    options = OPTIONS.replace("int, default=0", "int, default=2")
    files = {
        "train.py": f"{HEAD}{options}args = p.parse_args()\n▸DataLoader('train', "
        "num_workers=args.workers, persistent_workers=args.persistent_workers)◂\n"
    }
    seen = seen_of(calls_of(tmp_path / "before", files))
    wanted = Wanted("persistent_workers", "True", None, "num_workers", "False")
    after = edited(files, seen, wanted)
    assert "action=argparse.BooleanOptionalAction, default=True)" in after["train.py"]
    (on,) = calls_of(tmp_path / "on", after)
    (off,) = calls_of(tmp_path / "off", after, ["--no-persistent-workers"])
    assert (on["persistent_workers"], off["persistent_workers"]) == (True, False)


@pytest.mark.parametrize("keep", ["args.persistent_workers", "KEEP"])
def test_what_needs_workers_is_not_on_by_default_where_there_are_none(keep, tmp_path):
    """PyTorch refuses `persistent_workers=True` without workers."""
    files = {
        "train.py": f"{HEAD}{OPTIONS}args = p.parse_args()\nKEEP = False\n▸DataLoader('train', "
        f"num_workers=args.workers, persistent_workers={keep})◂\n"
    }
    seen = seen_of(calls_of(tmp_path / "before", files, ["-j", "2"]), ["-j"])
    wanted = Wanted("persistent_workers", "True", None, "num_workers", "False")
    after = edited(files, seen, wanted)
    assert "persistent_workers=args.workers > 0)" in after["train.py"]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("how = dict(num_workers=2)", "how = dict(num_workers=2, persistent_workers=True)"),
        ("n = 2\nhow = {'num_workers': n}", "'num_workers': n, 'persistent_workers': n > 0}"),
        ("import os\nhow = dict(num_workers=max(1, 2))", "max(1, 2), persistent_workers=True)"),
        ("how = {'num_workers': 2} if 1 else {}", "{'num_workers': 2, 'persistent_workers': True}"),
        ("c = {'num_workers': 2}\nhow = {'shuffle': True, **c}", "2, 'persistent_workers': True}"),
    ],
)
def test_what_needs_workers_is_put_beside_them(how, expected, tmp_path):
    files = {"train.py": f"{HEAD}{how}\n▸DataLoader('train', **how)◂\n"}
    wanted = Wanted("persistent_workers", "True", None, "num_workers", "False")
    after = edited(files, seen_of(calls_of(tmp_path / "before", files)), wanted)
    assert expected in after["train.py"]
    (call,) = calls_of(tmp_path / "after", after)
    assert call["persistent_workers"] is True


def test_two_arguments_come_into_one_dictionary(tmp_path):
    files = {"train.py": f"{HEAD}how = {{}}\n▸DataLoader('train', **how)◂\n"}
    seen = RecordedCall(DEFAULTS, DEFAULTS, (), ("train.py",))
    script, site = project_of(files), site_in(files)
    set_argument(script, site, Wanted("num_workers", "2", 5), seen)
    set_argument(script, site, Wanted("pin_memory", "True", 7), seen)
    text = script.sources()["/project/train.py"]
    assert "how = {'num_workers': 2, 'pin_memory': True}\n" in text


def test_a_choice_of_two_that_become_the_same_is_one_no_more():
    text = "extra = dict(fused=True) if use_fused else dict()\no = ▸AdamW(groups, **extra)◂\n"
    seen = RecordedCall({"fused": None}, defaults={"fused": None})
    after = edited({"train.py": text}, seen, Wanted("fused", "True"))
    assert after["train.py"].startswith("extra = dict(fused=True)\n")
    text = "n = 2 if fast else 0\n▸DataLoader(x, num_workers=n)◂\n"
    after = edited({"train.py": text}, RecordedCall({"num_workers": 0}))
    assert after["train.py"].startswith("n = 2\n")


def test_a_number_worked_out_from_itself_is_followed_where_it_stayed_what_it_was():
    """As ImageNet's example shares workers out among the ranks of a machine."""
    text = f"{OPTIONS}args = p.parse_args()\nif args.distributed:\n    args.workers = int("
    text += "args.workers / ranks)\n▸DataLoader(x, num_workers=args.workers)◂\n"
    files = {"train.py": text.replace("type=int, default=0", "type=int, default=4")}
    assert "default=2)" in edited(files, RecordedCall({"num_workers": 4}))["train.py"]
    with contextlib.suppress(CannotRewrite):  # 0 is 0 however many share it
        assert (
            "default=0)" in edited({"train.py": text}, RecordedCall({"num_workers": 0}))["train.py"]
        )


@pytest.mark.parametrize("given", [("--workers",), ("-j4",), ("@",)])
def test_what_the_command_gives_is_changed_there(given):
    text = f"{HEAD}{OPTIONS}args = p.parse_args()\nhow = dict(num_workers=args.workers)\n"
    files = {"train.py": text + "▸DataLoader('train', **how)◂\n"}
    with pytest.raises(CannotRewrite, match="--workers sets num_workers: change it in the command"):
        edited(files, RecordedCall({"num_workers": 0}, DEFAULTS, given, ("train.py",)))


def test_a_global_that_the_command_sets_by_its_name_is_changed_there():
    """As scripts do that take `--batch_size=8` for every global of theirs."""
    text = "batch_size = 4\nexec(open('configurator.py').read())\n"
    files = {"train.py": f"{HEAD}{text}▸DataLoader('train', batch_size=batch_size)◂\n"}
    wanted = Wanted("batch_size", "8", 1)
    after = edited(files, RecordedCall({"batch_size": 4}, given=("--lr",)), wanted)
    assert "batch_size = 8\n" in after["train.py"]
    with pytest.raises(CannotRewrite, match="--batch_size sets batch_size"):
        edited(files, RecordedCall({"batch_size": 4}, given=("--batch_size",)), wanted)


def test_files_that_import_a_name_from_each_other_are_no_place():
    files = {
        "train.py": f"{HEAD}from a import N\n▸DataLoader('train', num_workers=N)◂\n",
        "a.py": "from b import N\nN = N\n",
        "b.py": "from a import N\nN = 1\n",
    }
    after = edited(files, RecordedCall({"num_workers": 0}, DEFAULTS, (), ("train.py",)))
    assert "num_workers=2" in after["train.py"]
