"""The cases of `keras_pydataset_workers`."""

from __future__ import annotations

from fixes.cases.common.cases import OTHER_SITE, SITE, evidence, machine
from rewriting import Example
from trainperf.model import Framework, FunctionCost, Loop


def _loop(workers: int | None = None, random: bool | None = None, **arguments: object) -> Loop:
    return Loop(
        "fit",
        where=SITE,
        batch_size=32,
        input_kind="PyDataset",
        pydataset=OTHER_SITE,
        pydataset_arguments={"workers": workers, **arguments},
        pydataset_random=random,
    )


silent = [
    evidence(loop=_loop()),  # the input is not what the step waits for
    evidence(real=0.1, resident=0.02, input=0.1, loop=_loop(workers=8)),
    evidence(real=0.1, resident=0.02, input=0.1, loop=_loop(), machine=machine(cores=1)),
    evidence(real=0.1, resident=0.02, input=0.1),  # tf.data
    evidence(real=0.1, resident=0.02, input=None, loop=_loop()),
    # how many workers there are was not seen
    evidence(real=0.1, resident=0.02, input=0.1, loop=Loop("fit", SITE, input_kind="PyDataset")),
]

fires = [
    evidence(real=0.1, resident=0.02, input=0.1, loop=_loop()),
    evidence(real=0.1, resident=0.02, input=0.1, loop=_loop(workers=1)),
    evidence(real=0.1, resident=0.02, input=0.1, loop=_loop(random=True)),
    evidence(real=0.1, resident=0.02, input=0.1, loop=_loop(), machine=machine(cores=32)),
    evidence(
        real=0.1,
        resident=0.02,
        input=0.1,
        loop=_loop(workers=1),
        framework=Framework("tensorflow", "2.16.1", keras="2.16.0", legacy_keras=True),
        functions=(FunctionCost("__getitem__", "d.py", 9, 0.9, "worker", 90, "error_handler"),),
    ),
]

tries_not = [
    evidence(resident=0.1, loop=_loop()),
    evidence(real=0.1, resident=None, input=None, loop=_loop(workers=8)),
    evidence(real=0.1, resident=None, loop=_loop(), machine=machine(cores=1)),
    evidence(real=0.1, resident=None, input=None),
]

tries = [
    evidence(real=0.1, resident=0.02, input=None, loop=_loop()),
    evidence(real=0.1, resident=None, input=None, loop=_loop(workers=1)),
    evidence(real=None, resident=None, input=None, loop=_loop()),
]

examples = [
    Example(
        before="train = Images(files)\n▸model.fit(train, epochs=3)◂\n",
        after=(
            "train = Images(files)\n"
            "train.workers = 4\n"
            "train.use_multiprocessing = True\n"
            "model.fit(train, epochs=3)\n"
        ),
        data={"workers": 4, "use_multiprocessing": True},
    ),
    Example(
        before=("def main():\n    train = Images()\n    history = ▸model.fit(x=train)◂\n"),
        after=(
            "def main():\n    train = Images()\n"
            "    train.workers = 16\n    train.use_multiprocessing = True\n"
            "    train.max_queue_size = 32\n    history = model.fit(x=train)\n"
        ),
        data={"workers": 16, "use_multiprocessing": True, "max_queue_size": 32},
    ),
    Example(  # Keras 2 takes them in fit
        before="▸model.fit(train, epochs=3)◂\n",
        after="model.fit(train, epochs=3, workers=4)\n",
        data={"workers": 4, "legacy": True},
    ),
    Example(
        before="▸model.fit(Images(files), epochs=3)◂\n",
        after="train_data = Images(files)\ntrain_data.workers = 4\n"
        "train_data.use_multiprocessing = True\nmodel.fit(train_data, epochs=3)\n",
        data={"workers": 4, "use_multiprocessing": True},
    ),
    Example.untouched("ran = ready and ▸model.fit(Images(files))◂\n", {"workers": 4}),
]
