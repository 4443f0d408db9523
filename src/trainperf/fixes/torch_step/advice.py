"""Causes within a step whose repair is for the user to write."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.words import at, ms, percent
from trainperf.fixes.torch_step._step import EACH_STEP, gap_seconds, part_seconds
from trainperf.model import Equivalence, Evidence
from trainperf.model.torch import DeviceWait

ZEROS = 0.95
"""Share of zeros from which a product with a sparse matrix is faster on CPUs and GPUs alike."""

BEYOND = 0.25
"""Share of a step that a backward must take beyond what its own step has to derive."""

USED = 0.05
"""Share of its rows that a step looks up, below which the others are what an update costs."""

MOST_NAMED = 4


class TorchDenseZeros(Fix):
    """Multiply by a sparse matrix where nearly all of it is zeros.

    Why slow: A dense product multiplies and adds every element, forward and backward, and reads
    all of them from memory. Of an adjacency matrix, a one-hot code or a mask, nearly all are
    zeros.
    Changes: A sparse matrix holds the others alone: a product takes time and memory by their
    number. Sums are rounded in another order.
    When not: When the zeros do not last: the operand was seen to be the same in a few steps only.
    A gradient with respect to the matrix itself is another matter: its zeros become numbers.
    """

    equivalence = Equivalence.NUMERICS
    usual = 2.0
    without_edit = "where the matrix is made and all that reads it has to be changed together"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the dearest line with a product with such a matrix."""
        for line in evidence.lines.lines:
            looks = line.looks
            if looks is None or looks.zeros is None or looks.zeros < ZEROS:
                continue
            takes, zeros = line.of("operators", "backward"), f"{100 * looks.zeros:.1f} %"
            shape = " × ".join(f"{size:,}" for size in looks.shape)
            return Cause(
                title=f"A matrix is {zeros} zeros, and multiplied as a dense one",
                text=f"The line {at(line.where)} (`{line.text}`) takes {ms(takes)} of each step of "
                f"{ms(evidence.lines.seconds)}, forward and backward. Its operand of {shape} "
                f"elements was the same in each step, {zeros} of them zeros.",
                saves=Saving(
                    "its zeros cost nothing",
                    ratio=evidence.bound_if_step_saves(takes * looks.zeros),
                ),
                where=(line.where,),
                advice="Make it sparse once, where it is built, and multiply by that.",
                snippet="matrix = matrix.to_sparse_csr()  # once\n"
                "output = matrix @ features  # or torch.sparse.mm(…)",
            )
        return None


class TorchSameEachStep(Fix):
    """Compute once what is the same in every step.

    Why slow: Nothing that the line reads changes: the same tensors, no weight that is trained
    among them, go into the same operators, and the same numbers come out, in each step.
    Changes: Computed ahead of the loop, it is there in each step. It stays in memory.
    When not: When something changes now and then, each epoch for instance: the line was seen in a
    few steps.
    """

    usual = 1.5
    without_edit = "where it is to be computed is for you to say"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the dearest line that was seen to do so."""
        lines = evidence.lines
        line = next((line for line in lines.lines if line.looks and line.looks.same), None)
        if line is None:
            return None
        takes = line.of("operators")
        return Cause(
            title=f"The line {at(line.where)} computes the same in each step",
            text=f"`{line.text}` takes {ms(takes)} of each step of {ms(lines.seconds)} "
            f"({percent(takes / lines.seconds)}). In each step that was looked at, its "
            f"operators got the same tensors, unchanged, none of them trained.",
            saves=Saving("it is there already", ratio=evidence.bound_if_step_saves(takes)),
            where=(line.where,),
        )


class TorchGrowingGraph(Fix):
    """Cut the graph between one step and the next.

    Why slow: What one step computes and the next one reads keeps the graph it came from. With
    `retain_graph` each backward derives all steps before it again, and takes longer and longer.
    Changes: A value that is detached before it is kept enters the next step as a number: gradients
    end there, as most such scripts intend.
    When not: When earlier steps are to be derived again: back-propagation through time has its own
    length, after which it detaches.
    """

    equivalence = Equivalence.SEMANTICS
    usual = 2.0
    without_edit = "where a gradient should end is for you to say"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a backward that keeps its graph and takes more than its own step has to derive."""
        lines, calls = evidence.lines, evidence.torch.calls
        traced = any(line.operators is not None for line in lines.lines)
        passes = (line for line in lines.lines if ".backward(" in line.text)
        line = next((line for line in passes if line.of("backward")), None)
        if calls is None or not calls.retains_graph or not traced or line is None:
            return None
        beyond = line.of("backward")
        if beyond < BEYOND * lines.seconds:
            return None
        return Cause(
            title="The backward goes through the graphs of earlier steps",
            text=f"`{line.text}` ({at(line.where)}) keeps its graph. Of each step of "
            f"{ms(lines.seconds)} it takes {ms(beyond)} ({percent(beyond / lines.seconds)}) for "
            f"operators that were not called in that step.",
            saves=Saving(
                "the backward derives its own step alone",
                ratio=evidence.bound_if_step_saves(beyond),
            ),
            where=(line.where,),
            advice="Detach what is kept from one step to the next, and call `backward()` without "
            "`retain_graph`: if it then says that it goes through a graph a second time, another "
            "value is kept.",
            snippet="""\
self.average = 0.9 * self.average + 0.1 * new.detach()
loss.backward()  # without retain_graph""",
        )


class TorchUnusedRows(Fix):
    """Update only the rows of an embedding that a step has used.

    Why slow: The gradient of an embedding is a whole table, zeros but for the rows that the batch
    looked up. It is filled with zeros, and an optimizer such as Adam reads and writes the table,
    the gradient and two more of the same size, in each step.
    Changes: `sparse=True` makes a gradient of the used rows alone, and `SparseAdam` updates these.
    Moments of the other rows do not decay in between, so that training differs a little from
    Adam's.
    When not: With weight decay on the table, or gradients that are clipped by the norm of all of
    them: sparse gradients take no part in either. With `DistributedDataParallel` on NCCL.
    """

    equivalence = Equivalence.SEMANTICS
    usual = 3.0
    without_edit = "the table needs an optimizer of its own"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the table whose update, most of it of rows that were not used, costs the most."""
        optimizer = part_seconds(evidence, "optimizer")
        models = [model.parameters for model in evidence.torch.models if model.trained]
        weights = sum(number for number in models if number)
        tables = []
        for line in evidence.lines.lines:
            looks = line.looks
            if looks is None or not looks.rows or looks.rows_used is None or looks.sparse:
                continue
            used = looks.rows_used / looks.rows
            if used > USED or not weights:
                continue
            part = min(1.0, looks.rows * looks.width / weights)
            saves = (1 - used) * (optimizer * part + line.of("backward"))
            tables.append((saves, part, looks.rows, looks.rows_used, line))
        if not tables:
            return None
        saves, part, rows, rows_used, line = max(tables, key=lambda table: table[0])
        return Cause(
            title=f"Each step updates {rows:,} rows of an embedding and uses {rows_used:,}",
            text=f"The line {at(line.where)} (`{line.text}`) looks up {rows_used:,} of {rows:,} "
            f"rows in a step. The optimizer updates all of them, with zeros for "
            f"{rows - rows_used:,}: it takes {ms(optimizer)} of each step of "
            f"{ms(evidence.lines.seconds)}; the table has {percent(part)} of the weights.",
            saves=Saving(
                "rows that were not used cost no update", ratio=evidence.bound_if_step_saves(saves)
            ),
            where=(line.where,),
            snippet="""\
self.items = nn.Embedding(rows, width, sparse=True)

tables = list(model.items.parameters())
rest = [weight for weight in model.parameters() if all(weight is not table for table in tables)]
optimizers = [torch.optim.SparseAdam(tables, lr=lr), torch.optim.Adam(rest, lr=lr)]""",
        )


class TorchHiddenWaits(Fix):
    """Keep the operations of a step from waiting for the GPU.

    Why slow: Python runs ahead of the GPU and queues its kernels. Some operations cannot be
    queued: `x[mask]`, `nonzero`, `unique`, `torch.tensor(…, device="cuda")`, a copy from memory
    that is not pinned. Python waits for all that is queued, and then the GPU waits for Python.
    Changes: The places named do the same without a number that the host has to know: `torch.where`
    in place of a mask (sums are added up in another order), constants made once, pinned memory.
    When not: Where the GPU is busy all the time, or waits once every hundred steps, nothing is
    lost.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    without_edit = "what gives the same without a number of the GPU's takes a decision"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find operations that wait in each step, on a GPU that is idle for part of it."""
        waits = [wait for wait in evidence.torch.waits if wait.calls >= EACH_STEP]
        gaps = gap_seconds(evidence)
        if not waits or gaps <= 0:
            return None
        count = round(sum(wait.calls for wait in waits))
        named, more = [_named(wait) for wait in waits[:MOST_NAMED]], len(waits) - MOST_NAMED
        places = ", ".join(named) + (f" and {more} more" if more > 0 else "")
        return Cause(
            title=f"Each step waits for the GPU {f'{count:,} times' if count > 1 else 'once'}",
            text=f"CUDA names these operations as ones that wait: {places}. The GPU runs nothing "
            f"for {ms(gaps)} of a step of {ms(evidence.times.real)}: after each wait it has to be "
            "given its next kernel.",
            saves=Saving("no time left in which the GPU runs no kernel", gaps),
            where=tuple(wait.where for wait in waits if wait.where is not None),
            advice="Do the same without a number that the host must know.",
            snippet="""\
loss = torch.where(mask, per_item, 0.0).sum() / mask.sum()  # not per_item[mask].mean()
scale = self.scale        # a buffer: self.register_buffer("scale", torch.tensor(...))
x = batch.to(device, non_blocking=True)  # of a loader with pin_memory=True""",
        )


def _named(wait: DeviceWait) -> str:
    """A place with how often it waits: "net.py:44 (12 times)"."""
    place = at(wait.where) or "a place in a library"
    return place if round(wait.calls) <= 1 else f"{place} ({wait.calls:.0f} times)"
