"""A PyTorch model that computes in float32 where 16 bits are faster."""

from __future__ import annotations

import ast
import re

from trainperf.errors import CannotRewrite
from trainperf.fixes.cause import UNTRIED, Cause, Saving
from trainperf.fixes.common.step import gpu_busy
from trainperf.fixes.common.words import probe_said, times
from trainperf.fixes.precision._peaks import (
    AMPERE,
    BUSY,
    SIXTEEN,
    OfPasses,
    capability,
    ratio_of,
    sixteen_bit_ratio,
    sixteen_bits,
)
from trainperf.fixes.torch_step._source import function_around, refuse_if_named
from trainperf.fixes.torch_step._step import (
    CONVOLUTIONS,
    DENSE,
    RECURRENT,
    OfPass,
    count_of,
    kernel_seconds,
)
from trainperf.model import Equivalence, Evidence, Finding, Probe, Site
from trainperf.rewrite import Script
from trainperf.source.iterations import stored
from trainperf.source.scopes import FUNCTIONS
from trainperf.source.statements import names_in

SCALED = """\
scaler = torch.amp.GradScaler("cuda")  # once, before the loop

{forward}
scaler.scale(loss).backward()
scaler.unscale_(optimizer)  # before gradients are clipped
scaler.step(optimizer)
scaler.update()"""


class TorchAutocast(OfPass):
    """Compute in 16 bits where it is safe, with `torch.autocast` around the forward.

    Why slow: Tensor cores of a GPU, and newer CPUs (AMX, AVX-512 BF16), multiply 16-bit numbers
    several times as fast as 32-bit ones, and 16-bit activations take half the memory traffic.
    Changes: Matrix products and convolutions run in bfloat16 (float16 before Ampere), losses and
    sums in float32; weights stay float32. Losses differ by rounding, a few parts in a thousand.
    float16 also needs a `GradScaler`: it scales the loss so that small gradients do not vanish,
    and skips the updates in which one overflows.
    When not:
    - Outputs are bfloat16 then: `.numpy()` wants `.float()` before it.
    - Where a loss loses digits by subtracting near equals: physics, solvers.
    """

    usual = 1.5
    probed_by = "autocast"
    equivalence = Equivalence.NUMERICS

    def decided_by(self, made: Probe, finding: Finding, evidence: Evidence) -> bool:
        """Return whether it ran the pass in this precision: it never scales the loss."""
        same = made.detail["dtype"] == finding.data["dtype"] and not finding.data["scaler"]
        return same and super().decided_by(made, finding, evidence)

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a float32 model that computes without mixed precision."""
        torch, dtype = evidence.torch, sixteen_bits(evidence.device)
        calls, model = torch.calls, torch.model
        if not dtype or calls is None or calls.autocast or calls.scaler:
            return None
        saves: Saving = OfPasses(UNTRIED, probe="autocast")
        probed = saves.probed(evidence) is not None
        cpu, quick = evidence.device.kind == "CPU", torch.flags.get("bf16_cpu")
        if set(model.dtypes) != {"float32"} or (cpu and quick is False and not probed):
            return None  # such a CPU computes bfloat16 by detours
        peak = None if cpu or probed else _peak(evidence)
        seen = ""
        if peak is not None:
            ratio, now = peak
            saves = Saving(
                f"forward and backward at peak {dtype} over peak {now} of this GPU",
                lambda: kernel_seconds(evidence) * (1 - 1 / ratio),
            )
            seen = f" Peak {dtype} of this GPU is {times(ratio)} its peak in {now}."
        where = _where(evidence, dtype)
        device = "cpu" if cpu else "cuda"
        scaler = 'amp.GradScaler("cuda")' if dtype == "float16" else ""
        forward = (
            f'with torch.autocast(device_type="{device}", dtype=torch.{dtype}):\n'
            "    loss = criterion(model(inputs), targets)"
        )
        said = probe_said(evidence, "autocast", f"In {dtype} the same forward and backward")
        return Cause(
            title="The model computes in float32",
            text=f"{model.cls} is float32 and its forward runs outside autocast.{said or seen}",
            saves=saves,
            sure=peak is not None or (probed and (not cpu or quick is True)),
            where=where or tuple(site for site in (calls.forward or model.call,) if site),
            snippet=SCALED.format(forward=forward) if scaler else f"{forward}\nloss.backward()",
            rewritable=bool(where),
            data={
                "device": device,
                "dtype": dtype,
                "scaler": scaler,
                "clip": bool(scaler) and calls.clip is not None,
            },
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put forward and loss under autocast; with float16 scale the loss as well."""
        data, (forward, *others) = finding.data, finding.where
        backward = others[0] if others else None
        for target in (script.copy(), script):  # what cannot all be done is not begun
            put_autocast(target, forward, backward, data["device"], data["dtype"])
            if data["scaler"]:
                clip = others[1] if data["clip"] else None
                put_scaler(target, others[0], others[-1], clip, data["scaler"])


def _peak(evidence: Evidence) -> tuple[float, str] | None:
    """Peak 16-bit rate of the GPU over that of what it runs now, and its name.

    PyTorch multiplies float32 matrices without TF32 unless told to; its convolutions
    have TF32 by default, where the GPU has it. None if the rates are not known, or do not tell:
    few products, a compiled model, a GPU that waits for its kernels.
    """
    gpu, torch, busy = evidence.device.first, evidence.torch, gpu_busy(evidence)
    convolutions = count_of(torch.model, CONVOLUTIONS)
    dense = count_of(torch.model, (*DENSE, *RECURRENT))
    if not convolutions + dense or torch.model.compiled or (busy is not None and busy < BUSY):
        return None
    narrow = torch.flags.get("matmul_precision") != "highest"
    if dense > convolutions and not narrow and (ratio := ratio_of(gpu, SIXTEEN, ("fp32",))):
        return ratio, "float32"
    ratio = sixteen_bit_ratio(gpu)
    tf32 = (capability(gpu) or 0.0) >= AMPERE
    return None if ratio is None else (ratio, "TF32" if tf32 else "float32")


def _where(evidence: Evidence, dtype: str) -> tuple[Site, ...]:
    """The sites to be edited: forward, backward, for float16 clip and step; () if unsafe.

    A backward that a library calls is left out: the source shows where the loss is made.
    """
    calls = evidence.torch.calls
    assert calls is not None
    if dtype != "float16":
        found = [site for site in (calls.forward, calls.backward) if site is not None]
        exact = calls.forward is not None and all(site.exact for site in found)
        return tuple(found) if exact else ()
    if calls.retains_graph or calls.closure or len(evidence.torch.optimizers) != 1:
        return ()
    sites = [calls.forward, calls.backward, *([calls.clip] if calls.clip else [])]
    sites.append(calls.step or evidence.torch.optimizer.step_where)
    known = [site for site in sites if site is not None and site.exact]
    return tuple(known) if len(known) == len(sites) else ()


# ------------------------------------------------------------------- a loop under autocast

_AUTOCAST = re.compile(r"autocast|torch\.autocast|([\w.]+\.)?amp\.autocast(_mode\.autocast)?")

AS_OTHER_TYPE = {"float", "to", "type", "double", "argmax", "argsort", "long", "int", "bool"}
"""Methods whose result NumPy has a type for, whatever the type of the tensor."""


def put_autocast(
    script: Script, forward: Site, backward: Site | None, device: str, dtype: str
) -> None:
    """Put all from the forward to the statement that makes the loss under autocast.

    A region of the file's own around the forward, which was off in the run, is replaced.
    Where the backward stands in another function than the forward, or a library calls it (None),
    all from there to the end of the function that returns the loss goes in. Raises
    `CannotRewrite`, for float16 where the file speaks of mixed precision itself.
    """
    for name in ("autocast", "GradScaler") if dtype == "float16" else ():
        refuse_if_named(script, forward.file, name)
    if dtype == "bfloat16":
        _refuse_numpy(script, forward)
    torch = script.module_name(forward.file, "torch", forward)
    region = f'{torch}.autocast(device_type="{device}", dtype={torch}.{dtype})'
    own = _region(script, forward)
    if own is not None:
        script.replace_call(script.site_of(forward, own), region)
        return
    function = function_around(script, forward)
    if backward is not None and function is function_around(script, backward):
        _wrap_to_loss(script, forward, backward, f"with {region}:")
    else:
        script.wrap_statements(forward, _returned(script, forward), f"with {region}:")


def _region(script: Script, forward: Site) -> ast.Call | None:
    """Return the call of autocast that the file itself has around the forward."""
    for node in reversed(script.around(forward)):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return None
        for item in node.items if isinstance(node, ast.With | ast.AsyncWith) else ():
            call = item.context_expr
            if isinstance(call, ast.Call) and _AUTOCAST.fullmatch(ast.unparse(call.func)):
                return call
    return None


def _wrap_to_loss(script: Script, forward: Site, backward: Site, header: str) -> None:
    """Put all from the forward to the last statement that makes what goes backward under it."""
    around, call = script.around(forward), script.call(backward)
    behind = [node for node in script.around(backward) if node not in around]
    if not behind:
        _name_loss(script, backward, header)
        return
    chains = ast.Name | ast.Attribute
    taken = {ast.unparse(node) for node in ast.walk(call) if isinstance(node, chains)}
    made = [
        node
        for node in ast.walk(script.module(forward.file))
        if isinstance(node, chains) and isinstance(node.ctx, ast.Store)
        if around[-1].lineno <= node.lineno < behind[0].lineno and ast.unparse(node) in taken
    ]
    if made:
        last = max(made, key=lambda node: node.lineno)
        site = Site(forward.file, last.lineno, forward.function, last.col_offset)
        script.wrap_statements(forward, site, header)
    else:
        script.wrap_statements(forward, forward, header, until=backward)


def _name_loss(script: Script, backward: Site, header: str) -> None:
    """Give the loss of `loss_of(model(x)).backward()` a name: only the forward goes under it."""
    call, statement = script.call(backward), script.around(backward)[-1]
    alone = isinstance(statement, ast.Expr) and statement.value is call
    if not alone or not isinstance(call.func, ast.Attribute):
        raise CannotRewrite(
            "forward and backward stand in one statement: give the loss a name, so that only "
            "the forward goes under autocast"
        )
    loss = script.free_name(backward.file, "loss", "total_loss")
    value = ast.unparse(call.func.value)
    goes = ast.Call(ast.Attribute(ast.Name(loss), call.func.attr), call.args, call.keywords)
    script.replace_statement(backward, f"{header}\n    {loss} = {value}\n{ast.unparse(goes)}")


def _returned(script: Script, forward: Site) -> Site:
    """Return the last statement of the function around the forward, which returns the loss."""
    function, around = function_around(script, forward), script.around(forward)
    if function is None:
        raise CannotRewrite("the backward is made by a library, or in another function")
    last = function.body[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        raise CannotRewrite(f"{function.name} calls the model and does not end in a return")
    inner = function.body.index(around[around.index(function) + 1])
    nodes = (node for statement in function.body[inner:] for node in ast.walk(statement))
    if any(isinstance(node, ast.Attribute) and node.attr in ("backward", "step") for node in nodes):
        raise CannotRewrite(f"{function.name} does more than to compute the loss")
    return Site(forward.file, last.lineno, forward.function, last.col_offset)


def _refuse_numpy(script: Script, forward: Site) -> None:
    """Refuse outputs that are handed to NumPy, which has no bfloat16, where no trial comes to.

    That is behind the loop over batches, and in a branch of it: else the trial would fail.
    """
    around = script.around(forward)
    loop = next((node for node in reversed(around) if isinstance(node, ast.For | ast.While)), None)
    turn = set(ast.walk(loop)) if loop is not None else set()
    branches = [node for node in turn if isinstance(node, ast.If) and node not in around]
    tried = turn.difference(*map(ast.walk, branches))
    scope = function_around(script, forward) or script.module(forward.file)
    behind = [node for node in ast.walk(scope) if node not in tried]
    assigns = [node for node in behind if isinstance(node, ast.Assign)]
    for node in behind:
        if not isinstance(node, ast.Attribute) or node.attr != "numpy":
            continue
        outputs = stored([around[-1]])
        for assign in assigns:
            if forward.line < assign.lineno < node.lineno:
                outputs -= stored([assign]) - names_in(assign.value)
        methods = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
        if names_in(node) & outputs and not methods & AS_OTHER_TYPE:
            raise CannotRewrite(
                f"line {node.lineno} hands what the model returned to NumPy, which has no "
                "bfloat16: put .float() before it"
            )


def put_scaler(script: Script, backward: Site, step: Site, clip: Site | None, scaler: str) -> None:
    """Scale the loss, and let the scaler make the update: what float16 needs.

    `scaler` builds one, such as `amp.GradScaler("cuda")`, as an attribute of `torch`.
    Raises `CannotRewrite` where gradients might be read while they are scaled.
    """
    file = backward.file
    if step.file != file or (clip is not None and clip.file != file):
        raise CannotRewrite("backward and update stand in different files")
    found = re.fullmatch(r"([A-Za-z_][\w.]*)\.step\(\s*\)", script.expression(step))
    statement = script.around(step)[-1]
    if found is None or not isinstance(statement, ast.Expr):
        raise CannotRewrite("the update is no plain statement optimizer.step()")
    optimizer = found[1]
    _refuse_other_gradients(script.module(file), optimizer, clip)
    if not re.search(r"\.backward\(\s*\)$", script.expression(backward)):
        raise CannotRewrite("the backward is no plain loss.backward()")
    name = script.free_name(file, "scaler", "grad_scaler")
    if clip is not None:
        script.insert_before(clip, f"{name}.unscale_({optimizer})")
    script.wrap_call(script.receiver(backward), f"{name}.scale({{}})")
    script.replace_call(step, f"{name}.step({optimizer})")
    script.insert_after(step, f"{name}.update()")
    script.insert_after_imports(file, f"{name} = {script.module_name(file, 'torch')}.{scaler}")


def _refuse_other_gradients(tree: ast.Module, optimizer: str, clip: Site | None) -> None:
    """Refuse files that have more to do with gradients than is rewritten."""
    calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [call.rpartition(".")[2] for call in calls]
    if names.count("backward") != 1 or calls.count(f"{optimizer}.step") != 1:
        raise CannotRewrite("the file has more than one backward or update")
    if sum(name.startswith("clip_grad") for name in names) != (0 if clip is None else 1):
        raise CannotRewrite("the file clips gradients at places that were not seen")
    if any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in ast.walk(tree)):
        raise CannotRewrite("the file reads gradients, which would be scaled")
