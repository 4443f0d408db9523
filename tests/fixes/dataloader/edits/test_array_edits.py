"""Collate functions that go through arrays give the batches that they gave before."""

from __future__ import annotations

from typing import Any

import pytest

from rewriting import changed, executed, result, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes.dataloader.torch_python_collate import to_arrays

torch = pytest.importorskip("torch")
import numpy as np  # noqa: E402

HEAD = "import numpy as np\nimport torch\n\n\n▸def collate(samples):◂\n"

ROWS = [([0.1, 2.0, 1e30], [1, 2, 3]), ([4.0, 5.5, 1 / 3], [2**40, 5, 6])]
ARRAYS = [(np.array(row), np.array(tags)) for row, tags in ROWS]
RAGGED = [([0.1, 2.0], [1]), ([1 / 3], [5, 6, 7]), ([], [])]


def batches(body: str, samples: list[Any]) -> list[Any]:
    """The batch as it was, and as the edited function makes it."""
    text = HEAD + body
    script, sites = script_of(text)
    to_arrays(script, sites[0])
    new = changed(script)
    made = []
    for source in (text.replace("▸", "").replace("◂", ""), new):
        names = executed(source)
        made.append(names["collate"](samples))
    return made


@pytest.mark.filterwarnings("ignore:Creating a tensor")
@pytest.mark.parametrize("samples", [ROWS, ARRAYS])
@pytest.mark.parametrize(
    "body",
    [
        "    return torch.tensor([row for row, _ in samples], dtype=torch.float32)\n",
        "    return torch.tensor([list(row) for row, _ in samples], dtype=torch.double)\n",
        "    return torch.FloatTensor([row for row, _ in samples])\n",
        "    return torch.LongTensor([tags for _, tags in samples])\n",
        "    rows = [t for _, t in samples]\n    return torch.tensor(rows, dtype=torch.long)\n",
        """\
    rows = []
    for row, _ in samples:
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float16)
""",
    ],
)
def test_lists_become_the_same_tensor(body: str, samples: list[Any]) -> None:
    old, new = batches(body, samples)

    assert new.dtype == old.dtype
    assert torch.equal(new, old)


@pytest.mark.parametrize(
    "out",
    [
        "torch.zeros(len(samples), 4)",
        "torch.full((len(samples), 4), -1, dtype=torch.float64)",
        "np.zeros((len(samples), 4), dtype=np.float32)",
    ],
)
def test_rows_are_filled_as_before(out: str) -> None:
    body = f"    out = {out}\n    for i, (row, _) in enumerate(samples):\n"
    body += "        for j, x in enumerate(row):\n            out[i, j] = x\n    return out\n"
    old, new = batches(body, RAGGED)

    assert new.dtype == old.dtype
    assert bool((new == old).all())


@pytest.mark.parametrize(
    "body",
    [
        # a dtype that cannot be told
        "    return torch.tensor([row for row, _ in samples], dtype=kind)\n",
        # gradients, a device: more than a list that becomes a tensor
        "    return torch.tensor([r for r in samples], dtype=torch.float32, device='cuda')\n",
        # a list made elsewhere
        "    return torch.tensor(samples, dtype=torch.float32)\n",
        # elsewhere
        """\
    out = torch.zeros(2, 4)
    for j, x in enumerate(samples[0]):
        out[0, j + 1] = x
    return out
""",
        """\
    out = torch.zeros(2, 4)
    for j, x in enumerate(samples[0], 1):
        out[0, j] = x
    return out
""",
        # into what is no array made here
        "    for j, x in enumerate(samples[0]):\n        shared[0, j] = x\n    return shared\n",
    ],
)
def test_what_is_not_plain_is_left_alone(body: str) -> None:
    script, sites = script_of(HEAD + body)
    with pytest.raises(CannotRewrite):
        to_arrays(script, sites[0])
    assert result(script) is None
