"""Datasets before and after they keep a file open; some are left alone."""

from __future__ import annotations

from rewriting import Example

H5 = {"name": "h5py.File"}
ZIP = {"name": "zipfile.ZipFile"}

KEPT = '''

@functools.cache
def kept_open(process, *given, **named):
    """Open a file once in each process, and keep it open."""
    return {opener}(*given, **named)
'''


def _items(imports: str, *body: str) -> str:
    lines = "".join(f"        {line}\n" for line in body)
    return f"""\
{imports}

class Signals(Dataset):
    ▸def __getitem__(self, index):◂
{lines}"""


def _kept(imports: str, opener: str, *body: str) -> str:
    text = _items(imports + KEPT.format(opener=opener), *body)
    return text.replace("▸", "").replace("◂", "")


EXAMPLES = [
    Example(
        before=_items(
            "import h5py\nimport os\n",
            'with h5py.File(self.path, "r") as file:',
            '    return file["x"][index], int(file["y"][index])',
        ),
        after=_kept(
            "import h5py\nimport os\nimport functools\nimport contextlib\n",
            "h5py.File",
            'with contextlib.nullcontext(kept_open(os.getpid(), self.path, "r")) as file:',
            '    return file["x"][index], int(file["y"][index])',
        ),
        data=H5,
    ),
    Example(  # closed by a call
        before=_items(
            "import functools\nimport os\nfrom zipfile import ZipFile\n",
            "archive = ZipFile(self.root / NAME)",
            "data = archive.read(self.names[index])",
            "archive.close()",
            "return decode(data)",
        ),
        after=_kept(
            "import functools\nimport os\nfrom zipfile import ZipFile\n",
            "ZipFile",
            "archive = kept_open(os.getpid(), self.root / NAME)",
            "data = archive.read(self.names[index])",
            "return decode(data)",
        ),
        data=ZIP,
    ),
    Example(
        before=_items(
            "import functools\nimport h5py\nimport os\n",
            "return h5py.File(self.path)['x'][index]",
        ),
        after=_kept(
            "import functools\nimport h5py\nimport os\n",
            "h5py.File",
            "return kept_open(os.getpid(), self.path)['x'][index]",
        ),
        data=H5,
    ),
    # a file for each item, one that is written, one that goes elsewhere, opened by a helper
    Example.untouched(
        _items("import h5py\n", "with h5py.File(self.paths[index]) as file:", "    return file[X]"),
        H5,
    ),
    Example.untouched(
        _items("import h5py\n", "with h5py.File(self.path, 'a') as file:", "    return file[X]"), H5
    ),
    Example.untouched(_items("import h5py\n", "return read(h5py.File(self.path), index)"), H5),
    Example.untouched(_items("import h5py\n", "return read(self.path, index)"), H5),
    Example.untouched(
        _items(
            "import h5py\n",
            "file = h5py.File(self.path)",
            "with file:",
            "    return file['x'][index]",
        ),
        H5,
    ),
]
