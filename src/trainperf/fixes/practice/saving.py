"""Checkpoints for which the training stands still."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.words import at, ms, percent
from trainperf.model import Equivalence, Evidence, Finding
from trainperf.rewrite import Script
from trainperf.source.statements import last_name

LEAST_SHARE = 0.05
"""Share of the time that saving must take to be told of; our choice."""

MOVES = ("os.replace", "os.rename", ".rename(", "shutil.", "symlink", ".replace(")
"""What reads or moves a file that must be whole by then."""

SNIPPET = """\
import copy
from concurrent.futures import ThreadPoolExecutor

writer = ThreadPoolExecutor(1)


def save_beside(state, path, pending=[]):
    if pending:
        pending.pop().result()  # one at a time; raises what went wrong with the last one
    pending.append(writer.submit(torch.save, copy.deepcopy(state), path))"""


class TorchSaveBeside(Fix):
    """Write checkpoints in a thread beside the training, or less often.

    ## Why it is slow
    `torch.save` packs and writes all weights and moments while the training waits.

    ## What changes
    The state is copied in memory, which takes little, and a thread writes the copy. The training
    is the same; a file is whole a moment later, and a crash may lose the last one.

    ## When not to
    - Where memory has no room for another copy of the state.
    - Where the file is moved or read right after.
    - Saving every tenth time costs a tenth: often that is all that is needed. Of sharded models
      `torch.distributed.checkpoint.async_save` does the same.
    """

    category = "host"
    equivalence = Equivalence.SEMANTICS
    framework = "torch"
    concerns = "outside"
    usual = 1.5

    def look(self, evidence: Evidence) -> Cause | None:
        """Find checkpoints that take a part of what the script repeats."""
        turn = evidence.outside
        saves = [spent for spent in turn.spent if spent.what == "saving"]
        seconds = sum(spent.seconds for spent in saves)
        if not saves:
            return None
        where = tuple(spent.where for spent in saves if spent.where is not None)
        place = f" ({at(where[0])})" if where else ""
        often = "step" if turn.steps == 1 else f"{turn.steps:,} steps"
        return Cause(
            title=f"Saving takes {percent(seconds / turn.seconds)} of the time",
            text=f"A checkpoint is written every {often}{place}: {ms(seconds)}, beside the "
            f"{ms(turn.training_s)} that the training takes meanwhile.",
            saves=Saving(
                "all of the saving", ratio=turn.seconds / (turn.seconds - seconds), of="all"
            ),
            where=where,
            sure=seconds >= LEAST_SHARE * turn.seconds,
            advice="Save less often, or write a copy in a thread beside the training.",
            snippet=SNIPPET,
            data={"seconds": seconds, "turn_s": turn.seconds, "outside": turn.turn == "epoch"},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Have a thread write a copy of what each call saves."""
        for site in finding.where:
            call, around = script.call(site), script.around(site)
            alone = isinstance(around[-1], ast.Expr) and around[-1].value is call
            if last_name(call.func) != "save" or len(call.args) != 2 or call.keywords or not alone:
                raise CannotRewrite("it is not saved by `torch.save(state, path)` alone")
            text = script.source(site.file).text
            if moved := next((word for word in MOVES if word in text), ""):
                raise CannotRewrite(f"{moved.strip('.(')} may need the file as soon as it is saved")
            save, state, path = (
                script.expression(script.site_of(site, node)) for node in (call.func, *call.args)
            )
            beside = script.free_name(site.file, "save_beside", "save_in_thread")
            writer = script.free_name(site.file, "writer", "checkpoint_writer")
            copy = script.module_name(site.file, "copy", site)
            futures = script.module_name(site.file, "concurrent.futures", site)
            script.replace_call(site, f"{beside}({state}, {path})")
            script.insert_function(
                site.file,
                f"def {beside}(state, path, pending=[]):\n"
                "    if pending:\n"
                "        pending.pop().result()  # one at a time\n"
                f"    pending.append({writer}.submit({save}, {copy}.deepcopy(state), path))\n",
            )
            script.insert_after_imports(site.file, f"{writer} = {futures}.ThreadPoolExecutor(1)")
