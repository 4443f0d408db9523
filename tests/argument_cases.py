"""Scripts that have an argument of a loader from somewhere, as people write them.

`# ---- name` begins another file; train.py comes first, and imports the loader by itself. The call
is marked. ONE has, with each, what stands in the edited file.
"""

from __future__ import annotations

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
