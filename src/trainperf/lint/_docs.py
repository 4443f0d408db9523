"""docs/lint.md, its table made from the rules themselves.

python -m trainperf.lint._docs > docs/lint.md
"""

from __future__ import annotations

from trainperf.lint.check import all_rules

INTRODUCTION = """\
# Reading the source: `trainperf lint`

```sh
trainperf lint src/ train.py notebook.ipynb
```

Some causes of slow training can be seen in the source, before anything runs:
`run_eagerly=True` that was left in, a checkpoint after every batch, a `DataLoader` that
decodes images in the training process. `trainperf lint` looks for them. It reads the
files and neither imports nor runs them, so it takes milliseconds a file and needs no
framework, no data and no GPU.

What it says is a suspicion. Nothing was measured: a place may cost nothing in your
training, because the data is small, the GPU is busy anyway or the loop is short. Each
line says why the place *may* be slow; whether it is, and what a repair is worth,
`trainperf diagnose` measures on the script itself. For the same reason there are no
severities and no numbers here. Where a rule is not sure, it says nothing.

```
train.py:31:18: torch_workers a DataLoader without num_workers, whose dataset calls …
1 place that may be slow, in 1 of 4 files.
```

The ids are those of the catalogue ([fixes.md](fixes.md)); `trainperf explain ID` tells
the whole story of one.

## What is read

Files that are named, and `.py` and `.ipynb` files in folders that are named. Left out are
hidden folders, `build`, `dist`, `node_modules`, `__pycache__`, `site-packages` and
virtual environments; links to folders are not followed. Of notebooks the code cells are
read, without what is a command to IPython ([notebooks](notebooks.md)); a cell that does not
parse is reported, and the others are checked even so.

Names are followed through imports (`from torch.utils.data import DataLoader as DL`),
through names that are assigned once, and datasets through chained and assigned stages, in
one file. The dataset class and `collate_fn` of a loader are looked up in the other files
that are checked with it as well (`from data import Images`). What else comes from another
file or is a parameter is unknown, and unknown values are never remarked on. A setting under
an `if` (`if args.debug:`) is not either.

A file that cannot be read or does not parse is reported as such, and the others are
checked even so. A file in which none of the words occurs that the rules look for is not
parsed at all.

## Choosing

| | |
|---|---|
| `--select IDS` | look for these only: `--select torch_workers,rnn_unroll` |
| `--ignore IDS` | do not look for these |
| `ignore = […]` under `[tool.trainperf]` in pyproject.toml | the same, for the project |
| `# trainperf: ignore[ID]` | not at this place: on its line, or on a line of its own above |
| `# trainperf: ignore` | nothing at this place |

## Output and exit status

`--output-format FORMAT` prints `text` (`path:line:column: ID text`; lines and columns
count from 1), `json`, `github` (workflow commands that annotate a pull request) or `sarif`
(2.1.0, for code scanning); `FORMAT=FILE` writes it to a file, and it may be given several
times. The last two formats name files from the root of the repository. Where a repair needs
no thought, such as `False` for the `True` of `run_eagerly=True`, the result in SARIF has it
under `fixes`, for editors that can apply it. A comment that ignores nothing, because its id
does not exist, is told and changes no exit status.

| status | |
|---|---|
| 0 | nothing was found, or `--exit-zero` was given |
| 1 | something was found |
| 2 | wrong usage, or a file was not read; `--exit-zero` does not change this |

## pre-commit

Add this repository to `.pre-commit-config.yaml` with the hook `trainperf-lint`:

```yaml
    hooks:
      - id: trainperf-lint
```

## What it looks for
"""

CLOSING = """\
## What it does not look for

Most of the catalogue needs numbers. A missing `prefetch` or `num_parallel_calls` is no
fault as such: TensorFlow 2.13 and later add both by themselves wherever the function is
free of state. Whether `persistent_workers`, `fused=True`, mixed precision, `torch.compile`
or a larger batch would help, only a run can tell.
"""


def page() -> str:
    """Return the whole page."""
    rows = [f"| `{rule.id}` | {rule.summary} |" for rule in all_rules()]
    table = "\n".join(["| id | what is looked for |", "|---|---|", *rows])
    return f"{INTRODUCTION}\n{table}\n\n{CLOSING}"


if __name__ == "__main__":
    print(page(), end="")
