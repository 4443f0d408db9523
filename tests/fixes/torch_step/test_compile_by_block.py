"""A model compiled block by block computes the same, by the code of one block."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from fixes.boxes import CUDA_TRACE, GPU
from fixes.case_text import evidence_of
from rewriting import changed, executed, script_of
from trainperf.fixes.findings import findings_to_try
from trainperf.fixes.torch_step.compiling import BY_BLOCK, COMPILED, IN_GRAPHS, TorchCompile
from trainperf.model import Evidence, Finding, Operator, Site, Trainer
from trainperf.model.torch import Blocks

torch = pytest.importorskip("torch")

SCRIPT = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.line(x).relu()


class Net(nn.Module):
    def __init__(self, depth=6):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(depth))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x


torch.manual_seed(0)
net = ▸Net()◂
losses = []
for step in range(3):
    loss = net(torch.ones(4, 8)).square().mean()
    loss.backward()
    losses.append(loss.item())
"""
BLOCKS = (Blocks(".blocks", "Block", 6),)
RUN = "torch_loop_samplers"
IN_BLOCKS = {"torch.models[0].blocks": list(BLOCKS)}


def to_try(evidence: Evidence) -> Finding:
    (finding,) = findings_to_try(evidence, (), among=[TorchCompile()])
    return finding


def test_each_block_runs_compiled_and_one_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.utils import counters

    own = torch.nn.Module.compile
    monkeypatch.setattr(
        torch.nn.Module, "compile", lambda self: own(self, backend="eager"), raising=True
    )
    data: dict[str, Any] = {"cls": "Net", COMPILED: BY_BLOCK}
    data["blocks"] = [asdict(blocks) for blocks in BLOCKS]
    script, sites = script_of(SCRIPT)
    evidence = evidence_of(RUN, {**IN_BLOCKS, "torch.models[0].where": sites[0]})
    finding = to_try(evidence)
    assert finding.data["blocks"] == data["blocks"]
    TorchCompile().rewrite(script, replace(finding, data=data))

    before = executed(SCRIPT)
    torch._dynamo.reset()
    counters.clear()
    after = executed(changed(script))
    assert after["losses"] == pytest.approx(before["losses"])
    assert all(one._compiled_call_impl is not None for one in after["net"].blocks)
    assert counters["stats"]["unique_graphs"] == 1
    torch._dynamo.reset()


def test_both_ways_are_tried_where_there_are_blocks() -> None:
    finding = to_try(evidence_of(RUN, IN_BLOCKS))
    assert [variant.data[COMPILED] for variant in finding.variants] == ["the model", BY_BLOCK]
    assert len(to_try(evidence_of(RUN)).variants) == 1


def test_graphs_of_cuda_are_tried_where_a_gpu_waits_for_launches() -> None:
    times = evidence_of(RUN).times.real
    short = (Operator("aten::addmm", 24, times / 10),)
    for gap, ways in ((0.0, ["the model"]), (times, ["the model", IN_GRAPHS])):
        trace = replace(CUDA_TRACE, operators=short, fusable_s=times / 10, gap_s=gap)
        evidence = evidence_of(RUN, {"device": GPU, "torch.trace": trace})
        variants = to_try(evidence).variants
        assert [variant.data[COMPILED] for variant in variants] == ways


def test_where_a_setting_compiles_there_is_one_way() -> None:
    trainer = Trainer(
        "transformers",
        "TrainingArguments",
        Site("train.py", 3, "", 0, 3, 9),
        "call",
        settings={"torch_compile": False},
        defaults={"torch_compile": False},
    )
    evidence = evidence_of(RUN, {**IN_BLOCKS, "torch.trainer": trainer})
    finding = to_try(evidence)
    assert finding.data["trainer"]["name"] == "torch_compile"
    assert finding.variants == ()
