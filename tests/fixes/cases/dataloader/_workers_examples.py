"""Loaders before and after they get workers; some are left alone."""

from __future__ import annotations

from rewriting import Example

EXAMPLES = [
    Example(
        before="loader = ▸DataLoader(dataset, batch_size=32, shuffle=True)◂\n",
        after="loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=4)\n",
        data={"workers": 4, "variants": [{"workers": 2}, {"workers": 4}]},
    ),
    Example(
        before="loader = ▸data.DataLoader(\n    dataset,\n    num_workers=0,\n)◂\n",
        after="loader = data.DataLoader(\n    dataset,\n    num_workers=2,\n)\n",
        data={"workers": 2},
    ),
    Example(
        before="loader = ▸DataLoader(dataset, 32, True, None, None, 1)◂\n",
        after="loader = DataLoader(dataset, 32, True, None, None, 8)\n",
        data={"workers": 8},
    ),
    Example.untouched("loader = ▸DataLoader(dataset, num_workers=args.workers)◂\n", {"workers": 4}),
    Example(  # by an option, whose default it was
        before='p.add_argument("--workers", type=int, default=0)\nargs = p.parse_args()\n'
        "loader = ▸DataLoader(dataset, num_workers=args.workers)◂\n",
        after='p.add_argument("--workers", type=int, default=4)\nargs = p.parse_args()\n'
        "loader = DataLoader(dataset, num_workers=args.workers)\n",
        data={"workers": 4, "now": 0, "given": ["--epochs"]},
    ),
    Example.untouched(
        'loader = ▸DataLoader(data, num_workers=int(os.environ.get("N", "0")))◂\n', {"workers": 4}
    ),
    Example(  # settings that cannot be seen
        before="loader = ▸DataLoader(dataset, **settings)◂\n",
        after='loader = DataLoader(dataset, **{**settings, "num_workers": 4})\n',
        data={"workers": 4},
    ),
    Example(  # that depend on the machine
        before="""\
how = {"num_workers": 1, "pin_memory": True} if use_cuda else {}
loader = ▸torch.utils.data.DataLoader(
dataset,
batch_size=size,
**how
)◂
""",
        after="""\
how = {"num_workers": 1, "pin_memory": True} if use_cuda else {"num_workers": 2}
loader = torch.utils.data.DataLoader(
dataset,
batch_size=size,
**how
)
""",
        data={"workers": 2, "now": 0},
    ),
    Example(  # from a configuration
        before="loader = ▸DataLoader(dataset, num_workers=self.config.data.workers)◂\n",
        after="loader = DataLoader(dataset, num_workers=2)\n",
        data={"workers": 2, "now": 0, "given": []},
    ),
    Example(
        before='loader = ▸DataLoader(dataset, num_workers=cfg["workers"])◂\n',
        after="loader = DataLoader(dataset, num_workers=2)\n",
        data={"workers": 2, "now": 0, "given": []},
    ),
    Example(
        before="loader = ▸DataLoader(dataset, num_workers=int(opt.workers))◂\n",
        after="loader = DataLoader(dataset, num_workers=2)\n",
        data={"workers": 2, "now": 0, "given": []},
    ),
    Example.untouched(
        'loader = ▸DataLoader(dataset, num_workers=int(os.environ["N"]))◂\n',
        {"workers": 2, "now": 0, "given": []},
    ),
    Example.untouched(
        "loader = ▸DataLoader(dataset, num_workers=int(opt.workers))◂\n",
        {"workers": 2, "now": 0, "given": ["--workers"]},
    ),
    Example.untouched("loader = ▸DataLoader(dataset, **one, **two)◂\n", {"workers": 4}),
    Example.untouched("loader = ▸Batches(dataset, 32)◂\n", {"workers": 4}),
]
