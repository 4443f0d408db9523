"""Datasets before and after what they make is kept; some are left alone."""

from __future__ import annotations

from rewriting import Example
from trainperf.fixes.common.keeping import in_memory
from trainperf.fixes.dataloader.edits import keeping

MEMORY = {"store": "memory", "whole": True, "copied": False, "files": []}
PART = {**MEMORY, "whole": False}

NAMES = {each: each for each in ("functools", "numbers", "os", "pickle")}
IN_MEMORY = in_memory("made_once", functools="functools", numbers="numbers")
COPIED = in_memory("made_once", functools="functools", numbers="numbers", copy="copy")
IN_FILES = keeping.IN_FILES.format(name="made_once", **NAMES)


def _alone(made: str, turned: str, epoch: str = "photos.epoch = EPOCH") -> Example:
    text = f"""\
import random


class Photos:
    @property
    def shift(self):
        return self.epoch % 4

    ▸def __getitem__(self, index):◂
        {made}
        if random.random() < 0.5:
            image = {turned}
        return image


for EPOCH in range(9):
    {epoch}
"""
    return Example.untouched(text, PART)


EXAMPLES = [
    Example(  # items that came out the same when made again
        before="""\
import torch


class Tones:
    ▸def __getitem__(self, index):◂
        return torch.stft(self.waves[index], 256, return_complex=True).abs()
""",
        after="""\
import torch
import functools
import numbers


"""
        + IN_MEMORY
        + """

class Tones:
    @made_once
    def __getitem__(self, index):
        return torch.stft(self.waves[index], 256, return_complex=True).abs()
""",
        data=MEMORY,
    ),
    Example(  # decoded and resized once, flipped anew
        before="""\
import random
from PIL import Image


class Photos:
    ▸def __getitem__(self, index):◂
        path, label = self.files[index]
        image = Image.open(path).convert("RGB")
        image = image.resize((64, 64))
        if random.random() < 0.5:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        return self.to_tensor(image), label
""",
        after="""\
import random
from PIL import Image
import functools
import numbers
import copy


"""
        + COPIED
        + """

@made_once
def made_item(self, index):
    path, label = self.files[index]
    image = Image.open(path).convert("RGB")
    image = image.resize((64, 64))
    return label, image


class Photos:
    def __getitem__(self, index):
        label, image = made_item(self, index)
        if random.random() < 0.5:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        return self.to_tensor(image), label
""",
        data=PART,
    ),
    Example(  # workers share files
        before="""\
import torch


class Tones:
    def __init__(self, waves):
        self.waves = waves

    ▸def __getitem__(self, index):◂
        return torch.stft(self.waves[index], 256, return_complex=True).abs()
""",
        after="""\
import torch
import tempfile
import atexit
import shutil
import functools
import numbers
import os
import pickle


"""
        + IN_FILES
        + """

class Tones:
    def __init__(self, waves):
        self.made_in = tempfile.mkdtemp(prefix="items-")
        atexit.register(shutil.rmtree, self.made_in, ignore_errors=True)
        self.waves = waves

    @made_once
    def __getitem__(self, index):
        return torch.stft(self.waves[index], 256, return_complex=True).abs()
""",
        data={**MEMORY, "store": "files"},
    ),
    Example.untouched(
        "import random\n\n\nclass Crops:\n    ▸def __getitem__(self, index):◂\n"
        "        start = random.randrange(100)\n        return self.waves[index][start:]\n",
        PART,
    ),
    Example(  # a library's dataset
        before="import torch\n\n"
        "loader = ▸torch.utils.data.DataLoader(digits, 64, shuffle=True)◂\n"
        "print(len(loader.dataset))\n",
        after="""\
import torch
import functools
import numbers


"""
        + IN_MEMORY
        + '''

class MadeOnce(torch.utils.data.Dataset):
    """The items of a dataset, each made once."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset)

    @made_once
    def __getitem__(self, index):
        return self.dataset[index]


loader = torch.utils.data.DataLoader(MadeOnce(digits), 64, shuffle=True)
print(len(loader.dataset))
''',
        data={**MEMORY, "wrapped": True},
    ),
    Example.untouched(
        "import torch\n\nloader = ▸DataLoader(digits, 64)◂\nn = loader.dataset.classes\n",
        {**MEMORY, "wrapped": True},
    ),
    Example.untouched(
        """\
import torch


class Windows:
    def set_epoch(self, epoch):
        self.start = epoch

    ▸def __getitem__(self, index):◂
        return torch.stft(self.waves[index][self.start :], 256)
""",
        MEMORY,
    ),
    Example.untouched(
        """\
class Replay:
    def add(self, step):
        self.steps.append(step)

    ▸def __getitem__(self, index):◂
        return encode(self.steps[index])
""",
        MEMORY,
    ),
    # an import that the rest needs, a file that is read on
    _alone(
        "from PIL import ImageOps\n        image = load(self.files[index]).resize((64, 64))",
        "ImageOps.mirror(image)",
    ),
    _alone("image = parse(next(self.lines))", "image[::-1]"),
    _alone("image = parse(self.file.readline())", "image[::-1]"),
    # what the module counts, and what a property tells of the epoch
    _alone("image = load(self.files[index + EPOCH])", "image[::-1]"),
    _alone("image = load(self.files[index + self.shift])", "image[::-1]"),
    # an order that is mixed anew, a setting that grows
    _alone(
        "image = load(self.files[self.order[index]])", "image[::-1]", "random.shuffle(photos.order)"
    ),
    _alone("image = load(self.files[index], setting.size)", "image[::-1]", "setting.size = EPOCH"),
]
