"""The cases of `torch_debug_modes`."""

from __future__ import annotations

from fixes.cases.common.cases import GPU
from fixes.cases.common.torch_cases import split, torch_evidence
from rewriting import Example
from trainperf.model import Missing

CALL = {"file": "train.py", "line": 3, "function": "main", "col": 4, "end_line": 3, "end_col": 44}

DEBUGGED = {"anomaly": True, "anomaly_where": CALL}

silent = [
    torch_evidence(),
    torch_evidence(device=GPU),
    # there is little to choose between on a CPU
    torch_evidence(flags={"deterministic": True}),
    # what is on is a small part: the loop waits for its input
    torch_evidence(
        flags=DEBUGGED, resident=0.020, input=0.099, split=split(forward=0.001, rest=0.001)
    ),
    torch_evidence(flags={"profiler": True}, resident=0.020, input=0.099),
    # nothing is known of it
    torch_evidence(flags={"anomaly": None, "profiler": None, "deterministic": None}),
]

fires = [
    torch_evidence(flags=DEBUGGED),
    torch_evidence(flags={"anomaly": True}),
    torch_evidence(flags={"profiler": True}),
    torch_evidence(flags={"deterministic": True}, device=GPU),
    torch_evidence(flags={**DEBUGGED, "profiler": True, "deterministic": True}, device=GPU),
    torch_evidence(flags=DEBUGGED, split=Missing("not timed")),
]

examples = [
    Example(
        before="▸torch.autograd.set_detect_anomaly(True)◂\nmodel = Net()\n",
        after="torch.autograd.set_detect_anomaly(False)\nmodel = Net()\n",
    ),
    Example(
        before="▸torch.use_deterministic_algorithms(mode=True, warn_only=True)◂\n",
        after="torch.use_deterministic_algorithms(mode=False, warn_only=True)\n",
    ),
    Example(
        before="import torch\n\nfor x in loader:\n"
        "    with ▸torch.autograd.detect_anomaly(check_nan=True)◂:\n        backward(x)\n",
        after="import torch\n\nfor x in loader:\n"
        "    with torch.autograd.set_detect_anomaly(False):\n        backward(x)\n",
    ),
    Example.untouched("▸torch.autograd.set_detect_anomaly(args.debug)◂\n"),
    Example(  # by a constant, or a choice
        before="DEBUG = True\nlevel = 3\n▸torch.autograd.set_detect_anomaly(DEBUG)◂\n",
        after="DEBUG = False\nlevel = 3\ntorch.autograd.set_detect_anomaly(DEBUG)\n",
        data={"arguments": {"mode": True}},
    ),
    Example(  # that more hangs on
        before="DEBUG = True\nsteps = 3 if DEBUG else 900\n"
        "▸torch.autograd.set_detect_anomaly(DEBUG)◂\n",
        after="DEBUG = True\nsteps = 3 if DEBUG else 900\n"
        "torch.autograd.set_detect_anomaly(False)\n",
        data={"arguments": {"mode": True}},
    ),
    Example.untouched("trainer = Trainer(detect_anomaly=True)\n▸trainer.fit(model)◂\n"),
]
