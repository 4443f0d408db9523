"""Loaders before and after OpenCV has one thread in their workers; most are left alone."""

from __future__ import annotations

from rewriting import Example

EXAMPLES = [
    Example(
        before="import cv2\nfrom torch.utils.data import DataLoader\n\n"
        "loader = ▸DataLoader(images, batch_size=32, num_workers=8)◂\n",
        after='''\
import cv2
from torch.utils.data import DataLoader


def one_thread(worker):
    """Let OpenCV compute on one thread in a worker: other workers have the other cores."""
    cv2.setNumThreads(0)


loader = DataLoader(images, batch_size=32, num_workers=8, worker_init_fn=one_thread)
''',
        data={"item": None},
    ),
    Example.untouched(
        "import numpy\n\nloader = ▸DataLoader(images, num_workers=8)◂\n", {"item": None}
    ),
    Example.untouched(
        "import cv2\n\nloader = ▸DataLoader(data, num_workers=8, worker_init_fn=seed)◂\n",
        {"item": None},
    ),
]
