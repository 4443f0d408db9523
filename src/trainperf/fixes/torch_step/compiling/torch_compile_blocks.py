"""A model that is compiled as a whole, though its blocks are alike."""

from __future__ import annotations

import ast
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Example, Fix
from trainperf.fixes.common.cases import SITE
from trainperf.fixes.common.torch_cases import MODEL, torch_evidence
from trainperf.fixes.common.words import at, ms, worth_counted
from trainperf.fixes.torch_step.compiling._by_block import compile_blocks
from trainperf.model import Equivalence, Evidence, Finding, Length, Missing, TorchModel
from trainperf.model.torch.compiling import Blocks, CompileCall, Compiling
from trainperf.source.statements import dotted

if TYPE_CHECKING:
    from trainperf.rewrite import Script

SNIPPET = """\
for block in model.blocks:  # not: model = torch.compile(model)
    block.compile()"""

DEEP = replace(MODEL, compiled=True, name="model", blocks=(Blocks(".blocks", "Block", 12),))
CALL = CompileCall(SITE)
SHORT = Length(900, "3 epochs", epochs=3)
HEAD = "import torch\n\nmodel = Net()\n"
DATA = {"name": "model", "blocks": [{"path": ".blocks"}]}


def _compiled(
    start_s: float,
    *calls: CompileCall,
    model: TorchModel = DEEP,
    length: Length | Missing = SHORT,
) -> Evidence:
    torch: dict[str, Any] = {"compiling": Compiling(calls, start_s=start_s)}
    return torch_evidence(model=model, torch=torch, length_=length)


class CompileBlocks(Fix):
    """Compile the blocks of a model one by one, not all of it at once.

    ## Why it is slow
    The code of a whole model is written and compiled as one, as often as it has blocks. Where
    they are alike the code of one serves for all, and compiling takes a fraction of the time.

    ## What changes
    `block.compile()` for each block stands in the place of the call that compiles the model. What
    is between blocks runs as it is written. The mathematics is the same, rounding differs.

    ## When not to
    - Where the same code was compiled on this machine before: PyTorch keeps it, and a second
      start is short either way. New machines and containers start without it.
    - In a long training the start is nothing, and code for the whole may run a little faster.
    """

    framework = "torch"
    category = "host"
    equivalence = Equivalence.NUMERICS
    concerns = "outside"
    lasting = False
    counted = True

    silent = [
        torch_evidence(),
        # nothing was compiled in the start, or it was kept from before
        _compiled(0.0, CALL),
        _compiled(0.4, CALL),
        # no blocks; not compiled; compiled one by one
        _compiled(60.0, CALL, model=replace(DEEP, blocks=())),
        _compiled(60.0, CALL, model=replace(DEEP, compiled=False)),
        _compiled(60.0, *(CompileCall(replace(SITE, line=line)) for line in range(3))),
        # next to nothing of the whole training, or nobody knows how long that is
        _compiled(60.0, CALL, length=replace(SHORT, steps=900_000)),
        _compiled(60.0, CALL, length=Missing("no end is seen")),
    ]
    fires = [
        _compiled(60.0, CALL),
        # another name where it is compiled: advice
        _compiled(60.0, CALL, model=replace(DEEP, name="")),
    ]
    examples = [
        Example(
            before=HEAD + "model = ▸torch.compile(model, dynamic=True)◂\nrun(model)\n",
            after=HEAD
            + "for block in model.blocks:\n    block.compile(dynamic=True)\nrun(model)\n",
            data=DATA,
        ),
        Example(
            before=HEAD + "if fast:\n    ▸model.compile()◂\n",
            after=HEAD + "if fast:\n    for block in model.blocks:\n        block.compile()\n",
            data=DATA,
        ),
        # another object, a method of it, or arguments that cannot be seen
        Example.untouched(HEAD + "loss = ▸torch.compile(loss)◂\n", DATA),
        Example.untouched(HEAD + "model.forward = ▸torch.compile(model.forward)◂\n", DATA),
        Example.untouched(HEAD + "model = ▸torch.compile(model, True)◂\n", DATA),
        Example.untouched(HEAD + "fast = ▸torch.compile(model)◂\n", DATA),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a start that compiled a whole model of many blocks, in a training that feels it."""
        compiling, model = evidence.torch.compiling, evidence.torch.model
        if not model.compiled or not model.blocks or len(compiling.calls) != 1:
            return None
        if isinstance(evidence.length_, Missing):
            return None
        (call,), blocks = compiling.calls, model.blocks[0]
        training = evidence.length_.steps * evidence.times.real
        saved = compiling.start_s * (1 - 1 / blocks.count)
        whole = training + compiling.start_s
        if not worth_counted(whole / (whole - saved)):
            return None
        return self.finding(
            title=f"All {blocks.count} blocks of {model.cls} are compiled, and one would do",
            text=f"Compiling ({at(call.where)}) took {ms(compiling.start_s)} of the start; the "
            f"training steps as configured take {ms(training)}. {model.cls} has {blocks.count} "
            f"modules `{blocks.cls}`: the code of one serves for all. What is compiled is kept on "
            "this machine, so its next start is short either way.",
            bound=None,
            bound_basis="the steps stay as they are: what it saves comes once",
            where=(call.where,),
            advice="Compile each block, where machines start without what was compiled before.",
            snippet=SNIPPET,
            data={
                "name": model.name,
                "blocks": [asdict(one) for one in model.blocks],
                "outside": True,
            },
            rewritable=bool(model.name) and call.where.exact,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put a loop over the blocks in the place of the statement that compiles the model."""
        site, name = finding.where[0], finding.data["name"]
        call, (statement, _) = script.call(site), script.source(site.file).statement(site)
        in_place = isinstance(call.func, ast.Attribute) and dotted(call.func.value) == name
        given = [] if in_place else [ast.unparse(one) for one in call.args]
        if in_place:
            alone = isinstance(statement, ast.Expr) and not call.args
        else:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            alone = [ast.unparse(one) for one in targets] == given == [name]
        if not alone or getattr(statement, "value", None) is not call:
            raise CannotRewrite(f"the statement does not compile {name} and nothing else")
        keywords = ", ".join(ast.unparse(one) for one in call.keywords)
        compile_blocks(script, site, name, finding.data["blocks"], keywords, instead=True)
