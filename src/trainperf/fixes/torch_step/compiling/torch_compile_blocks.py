"""A model that is compiled as a whole, though its blocks are alike."""

from __future__ import annotations

import ast
from dataclasses import asdict

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.words import at, ms, worth_counted
from trainperf.fixes.torch_step.compiling.torch_compile import compile_blocks
from trainperf.model import Equivalence, Evidence, Finding, Missing
from trainperf.rewrite import Script
from trainperf.source.statements import dotted

SNIPPET = """\
for block in model.blocks:  # not: model = torch.compile(model)
    block.compile()"""


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
