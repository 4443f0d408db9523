"""A `MirroredStrategy` over devices that one host's cores, or one device, stand behind."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.step import at_most, step_can_matter
from trainperf.fixes.common.words import at
from trainperf.model import Equivalence, Evidence, Finding, Site, Strategy
from trainperf.rewrite import Script


class WithoutStrategy(Fix):
    """Train without a distribution strategy where there is but one device.

    ## Why it is slow
    `MirroredStrategy` gives each replica a thread, its part of the batch and a copy of the
    weights, and adds up the gradients. Several virtual devices of one CPU share its cores: each
    part takes its turn, and the exchange comes on top. With one replica there is nothing to
    share out, and the bookkeeping stays.

    ## What changes
    `tf.distribute.get_strategy()` stands in place of the strategy: its `scope`, `run` and
    `num_replicas_in_sync` work, with one replica. The global batch stays as it is. Batch
    normalisation sees the whole batch, not a replica's part.

    ## When not to
    - When the same script runs on several GPUs elsewhere.
    - While you test that it would.
    """

    category = "host"
    usual = 1.8
    equivalence = Equivalence.NUMERICS
    counted = True  # replicas are, and noise of the times is often theirs

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find several replicas on the CPU of one host."""
        found = _mirrored(evidence)
        if found is None or found.replicas < 2 or not step_can_matter(evidence):
            return None
        return self._finding(evidence, found)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it with a single replica as well."""
        found = _mirrored(evidence)
        if found is None or not step_can_matter(evidence):
            return None
        return self._finding(evidence, found)

    def _finding(self, evidence: Evidence, found: Strategy) -> Finding:
        place = f" ({at(found.where)})" if found.where else ""
        several = found.replicas > 1
        return self.finding(
            title=f"{found.cls}{place} shares one device out"
            if several
            else f"{found.cls}{place} has one replica",
            text=f"Its {found.replicas} replicas are devices of one CPU, which has "
            f"{evidence.machine.cores:g} cores for all of them."
            if several
            else "There is nothing to share out, and the strategy's bookkeeping runs in each step.",
            bound=at_most(evidence),
            bound_basis="a step that costs nothing: one replica was not measured",
            where=(found.where,) if found.where else (),
            advice="Train without the strategy on this machine.",
            snippet="strategy = tf.distribute.get_strategy()",
            data={"replicas": found.replicas},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put the default strategy in its place; the global batch keeps its size."""
        site = finding.where[0]
        name = ast.unparse(script.call(site).func).rpartition(".")[2]
        if name != "MirroredStrategy":
            raise CannotRewrite(f"the strategy is built by {name}, not by MirroredStrategy")
        tf = script.module_name(site.file, "tensorflow", site)
        script.replace_call(site, f"{tf}.distribute.get_strategy()")
        replicas = int(finding.data["replicas"])
        if replicas > 1:
            for factor in _factors(script.module(site.file), site):
                script.replace_call(factor, str(replicas))


def _factors(module: ast.Module, near: Site) -> list[Site]:
    """Where something is multiplied by the number of replicas: the size of the global batch."""
    found = []
    for node in ast.walk(module):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        for side in (node.left, node.right):
            if isinstance(side, ast.Attribute) and side.attr == "num_replicas_in_sync":
                end_line, end_col = side.end_lineno or 0, side.end_col_offset or 0
                place = (side.lineno, near.function, side.col_offset, end_line, end_col)
                found.append(Site(near.file, *place))
    return found


def _mirrored(evidence: Evidence) -> Strategy | None:
    """The strategy that has one replica, or only devices of this host's CPU."""
    found = evidence.strategy
    if found is None or found.cls != "MirroredStrategy" or found.workers > 1:
        return None
    on_cpu = bool(found.devices) and all("CPU" in device.upper() for device in found.devices)
    return found if found.replicas == 1 or on_cpu else None
