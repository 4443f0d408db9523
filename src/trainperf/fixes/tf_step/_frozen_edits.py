"""The features of a frozen base, computed once: what is written ahead of `fit`, and into it."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Any

from trainperf.errors import CannotRewrite
from trainperf.fixes.common.keras_source import fit_call, keras_name
from trainperf.source.arguments import keyword, starred
from trainperf.source.statements import Function, assigned, names_in

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

NOT_GIVEN = frozenset({"steps_per_epoch", "validation_steps", "sample_weight", "class_weight"})
"""Arguments of `fit` that say something of the data which may not hold of the features."""

LOOPS = (ast.For, ast.AsyncFor, ast.While)

FEATURES = """
def {made}(dataset):
    batches = [({frozen}.predict_on_batch(x), y) for x, y in dataset]
    return tuple({numpy}.concatenate(part) for part in zip(*batches))

"""

PARTS = """\
# trainperf: the first {layers} layers do not train: what they make of the data is computed once
{frozen} = {keras}.Model({model}.inputs, {model}.layers[{layers}].input)
{features}{head} = {keras}.Model({model}.layers[{layers}].input, {model}.outputs)
{head}.compile({compiled})
"""

SAVES = (
    "{head}.save, {head}.save_weights = {model}.save, {model}.save_weights  # of the whole model\n"
)


def compute_once(script: Script, fit: Site, compiled: Site, data: dict[str, Any]) -> None:
    """Have the `fit` at `fit` train the last layers on features of the first ones.

    `data` says how many `layers` are frozen, whether `fit` is given `arrays`, the
    `batch_size` of a dataset and whether it is `shuffled`, and whether the model is `saved` by a
    callback. Raises `CannotRewrite` where the model
    that is trained is used by others, or what it is given cannot be told.
    """
    call = fit_call(script, fit)
    _check(script, fit, call)
    how = _how_compiled(script, fit, compiled)
    model = ast.unparse(call.func.value)  # type: ignore[attr-defined]
    keras = keras_name(script, fit.file, "keras")
    features = ""
    frozen = script.free_name(fit.file, "frozen", "frozen_part")
    head = script.free_name(fit.file, "head", "trained_part")
    made = script.free_name(fit.file, "frozen_features")
    _validation(script, fit, call, frozen, made)
    if data["arrays"]:
        script.wrap_argument(fit, 0, f"{frozen}.predict({{}})")
    else:
        numpy = script.module_name(fit.file, "numpy", fit)
        features = FEATURES.format(numpy=numpy, frozen=frozen, made=made)
        script.wrap_argument(fit, 0, f"*{made}({{}})")
        script.set_keyword(fit, "batch_size", str(data["batch_size"]))
        if not data["shuffled"]:
            script.set_keyword(fit, "shuffle", "False")
    layers = data["layers"]
    text = PARTS + (SAVES if data.get("saved") else "")
    parts = text.format(
        keras=keras,
        model=model,
        layers=layers,
        frozen=frozen,
        head=head,
        features=features,
        compiled=how,
    )
    script.insert_before(fit, parts)
    script.replace_call(script.receiver(fit), head)


def _check(script: Script, fit: Site, call: ast.Call) -> None:
    tree = script.module(fit.file)
    model = ast.unparse(call.func.value)  # type: ignore[attr-defined]
    if len(call.args) not in (1, 2):
        raise CannotRewrite("the data is not the first argument of `fit`")
    for each in call.keywords:
        if each.arg in NOT_GIVEN:
            raise CannotRewrite(f"`fit` is given {each.arg}")
    if any(isinstance(each, LOOPS) for each in script.around(fit)):
        raise CannotRewrite("`fit` stands in a loop")
    for node in ast.walk(tree):
        used = isinstance(node, ast.Attribute) and node.attr in ("history", "optimizer")
        if used and ast.unparse(node.value) == model:  # type: ignore[attr-defined]
            raise CannotRewrite(f"the file uses {ast.unparse(node)} of the model trained")


def _how_compiled(script: Script, fit: Site, compiled: Site) -> str:
    """The arguments of `compile`, which must mean the same where `fit` is called."""
    call = script.call(compiled)
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "compile" or starred(call):
        raise CannotRewrite("not all that the model is compiled with can be seen")
    if fit.file != compiled.file:
        raise CannotRewrite("the model is compiled in another file")
    given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    if _function(script, fit) is not _function(script, compiled):
        known = _of_module(script.module(fit.file)) | set(dir(builtins))
        local = {name for each in given for name in names_in(each)} - known
        if local:
            raise CannotRewrite(f"the model is compiled with {min(local)}, of another function")
    placed = (script.argument(compiled, index) for index in range(len(call.args)))
    texts = [script.expression(one) for one in placed if one is not None]
    return ", ".join(
        [*texts, *(f"{name}={text}" for name, text in script.call_keywords(compiled).items())]
    )


def _function(script: Script, site: Site) -> ast.stmt | None:
    around = [each for each in script.around(site) if isinstance(each, Function)]
    return around[-1] if around else None


def _of_module(tree: ast.Module) -> set[str]:
    """The names that the top of a file binds."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(one.asname or one.name).partition(".")[0] for one in node.names}
        elif isinstance(node, Function | ast.ClassDef):
            found.add(node.name)
        found |= {one.id for one in assigned(node) if isinstance(one, ast.Name)}
    return found


def _validation(script: Script, fit: Site, call: ast.Call, frozen: str, made: str) -> None:
    """Take the features of the validation data, arrays or a dataset, as well."""
    given = keyword(call, "validation_data")
    if given is None or (isinstance(given.value, ast.Constant) and given.value.value is None):
        return
    if not isinstance(given.value, ast.Tuple):
        if len(call.args) == 2:
            raise CannotRewrite("it is not to be seen what the validation data is")
        script.wrap_argument(fit, "validation_data", f"{made}({{}})")
        return
    if len(given.value.elts) != 2:
        raise CannotRewrite("the validation data has weights")
    x, y = (ast.unparse(each) for each in given.value.elts)
    script.set_keyword(fit, "validation_data", f"({frozen}.predict({x}), {y})")
