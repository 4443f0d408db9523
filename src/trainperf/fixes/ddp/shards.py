"""Data that every rank reads as a whole."""

from __future__ import annotations

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Unpriced
from trainperf.fixes.rows import Callee
from trainperf.model import Equivalence, Evidence, Finding
from trainperf.rewrite import Script

WHOLE = ("RandomSampler", "SequentialSampler", "WeightedRandomSampler")
"""Samplers of PyTorch that know nothing of ranks."""

PARTS = ("Subset", "TensorDataset", "ConcatDataset", "StackDataset", "list", "tuple")
"""Datasets that hold what they were given, which may be the rank's own part already."""

SNIPPET = """\
sampler = torch.utils.data.DistributedSampler(dataset, shuffle=True)
loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
for epoch in range(epochs):
    sampler.set_epoch(epoch)  # another order in each epoch
    for batch in loader:
        ..."""

SHUFFLING = '''\
class {name}({torch}.utils.data.DistributedSampler):
    """The part of the data of each rank, in another order in each epoch."""

    begun = 0

    def __iter__(self):
        {name}.begun += 1
        self.set_epoch({name}.begun)
        return super().__iter__()
'''

LOADER = Callee("DataLoader")

_SHUFFLE = 2
"""Place of `shuffle` among the positional arguments of `DataLoader`."""


class TorchUnshardedData(Fix):
    """Let each rank read its own part of the data: `DistributedSampler`.

    Why slow: A `DataLoader` with PyTorch's usual samplers goes through the whole dataset in every
    rank: with N ranks each sample is seen N times in an epoch.
    Changes: `DistributedSampler` gives each rank every N-th sample: an epoch is one pass over the
    data again. `set_epoch` changes the order between epochs.
    When not:
    - When each rank's dataset is its own part already.
    - When epochs are meant to be N passes: shorten the schedule along with the epoch.
    - Evaluation that adds up over all samples: the last ones are repeated to make parts equal.
    """

    equivalence = Equivalence.SEMANTICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a loader of a job of several ranks whose sampler knows nothing of them."""
        job, loader = evidence.parallel, evidence.torch.loader
        lengths = {rank.epoch_steps for rank in job.processes}
        if job.expected < 2 or job.exchange is None:
            return None  # what nothing ties together may each train on all of it
        if loader.sampler not in WHOLE or len(lengths) > 1:
            return None
        same = evidence.facts.get("ranks_same_data")
        of_a_library = loader.item is None and loader.dataset not in PARTS
        if loader.iterable or same is False or not (same or of_a_library):
            return None
        count = lengths.pop() if lengths else None
        fewer = f": {-(-count // job.expected):,} steps would do, not {count:,}" if count else ""
        unless = "" if same else ", unless each rank's dataset is its own part"
        return Cause(
            title=f"Each of {job.expected} ranks goes through all of the data",
            text=f"Every rank reads the data (`{loader.dataset}`) by a `{loader.sampler}`: an "
            f"epoch is {job.expected} passes over them{fewer}{unless}.",
            saves=Unpriced(
                f"a step stays as it is, but an epoch has 1/{job.expected} of the steps"
            ),
            where=(loader.where,) if loader.where else (),
            advice="Give the loader a DistributedSampler, and call its set_epoch in each epoch.",
            snippet=SNIPPET,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give the loader a `DistributedSampler`, of another order in each epoch if it shuffles."""
        site = finding.where[0]
        LOADER.check(script, site)
        for name, place in (("sampler", 3), ("batch_sampler", 4)):
            given = script.argument(site, place, name)
            if given is not None and script.expression(given) != "None":
                raise CannotRewrite(f"the loader has a {name} of its own")
        dataset = script.argument(site, 0, "dataset")
        if dataset is None:
            raise CannotRewrite("the call does not write out its dataset")
        given = script.argument(site, _SHUFFLE, "shuffle")
        shuffle = "False" if given is None else script.expression(given)
        if shuffle not in ("True", "False"):
            raise CannotRewrite(f"shuffle is {shuffle}: it cannot be told which order is meant")
        samples = script.name_argument(dataset, "samples", "dataset")
        torch = script.module_name(site.file, "torch")
        sampler = f"{torch}.utils.data.DistributedSampler({samples}, shuffle=False)"
        if shuffle == "True":
            name = script.free_name(site.file, "EachEpoch")
            script.insert_function(site.file, SHUFFLING.format(name=name, torch=torch))
            sampler = f"{name}({samples})"
        if "shuffle" in script.call_keywords(site):
            script.remove_keyword(site, "shuffle")
        elif shuffle == "True":
            script.replace_argument(site, _SHUFFLE, "False")
        script.set_keyword(site, "sampler", sampler, position=3)
