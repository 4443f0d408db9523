"""Loaders before and after OpenCV has one thread in their workers; most are left alone."""

from __future__ import annotations

from trainperf.fixes import Example

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
    Example(  # NumPy only: a variable of the environment sets that
        before="import numpy\n\nloader = ▸DataLoader(images, num_workers=8)◂\n",
        after="import numpy\n\nloader = DataLoader(images, num_workers=8)\n",
        data={"item": None},
    ),
    Example(  # one of the user's
        before="import cv2\n\nloader = ▸DataLoader(data, num_workers=8, worker_init_fn=seed)◂\n",
        after="import cv2\n\nloader = DataLoader(data, num_workers=8, worker_init_fn=seed)\n",
        data={"item": None},
    ),
]
