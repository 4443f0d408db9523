"""The values that travel through trainperf, from a run to a report.

    Run → Recording → Evidence → Finding… → Diagnosis → text

All are frozen. All times are seconds, all memory is bytes, all shares are fractions
of 1, unless a name says otherwise (`_percent`, `_mib`).
"""

from __future__ import annotations

from trainperf.model.basics import Missing, Site, is_taken, taken
from trainperf.model.check import Answer, Check, CheckedTimes, Compared, Limits, Reason
from trainperf.model.diagnosis import (
    FORMAT_VERSION,
    Bottleneck,
    Diagnosis,
    Ignored,
    Overhead,
    ReportedStage,
    ReportedTimes,
    Verdict,
)
from trainperf.model.evidence import INPUT_BOUND_BELOW, LEAST_SAMPLES, Evidence
from trainperf.model.experiments import ExperimentChange, ExperimentWay
from trainperf.model.facts import (
    CallbackCost,
    ChangingNumber,
    Device,
    Framework,
    FrozenBase,
    FunctionCost,
    LayerFacts,
    Loop,
    ModelFacts,
    OwnWork,
    Packing,
    PaddedPlace,
    Padding,
    PhaseUse,
    Retracing,
    StackSamples,
    StepFunction,
)
from trainperf.model.findings import Category, Equivalence, Finding, NotTaken, Patch, PatchedFile
from trainperf.model.machine.container import ContainerUse
from trainperf.model.machine.instance import Cost, Instance, InstanceType, Price
from trainperf.model.machine.machine import CudaDevice, Gpu, Machine, MigSlice
from trainperf.model.machine.storage import Channel, Objects, Reads, Volume
from trainperf.model.outside import InPlace, Outside, Spent
from trainperf.model.over_time import Grown, MemoryGrowth, OverTime
from trainperf.model.parallel import (
    AllReduce,
    Ddp,
    Exchange,
    Link,
    Overlap,
    Parallel,
    Rank,
    ScalingPoint,
    Straggler,
    Strategy,
)
from trainperf.model.pipeline import DrawnFrom, Function, Stage
from trainperf.model.run import Ending, Event, GpuSample, HostSample, Leg, Recording, Run, Sample
from trainperf.model.timeline import Moment, Span, Timeline
from trainperf.model.timing import BetweenEpochs, Measure, Probe, StartUp, Times
from trainperf.model.torch.loader import Access, ItemLength, Loader, PipelineStep
from trainperf.model.torch.step import (
    Evaluation,
    LogCall,
    Operator,
    StepCalls,
    StepPart,
    SyncPoint,
    Torch,
    TorchModel,
    TorchOptimizer,
    Trace,
)
from trainperf.model.trace import TraceFile
from trainperf.model.trainer import Trainer
from trainperf.model.training import Item, Length, Training
from trainperf.model.trials import Control, Outcome, Ratio, Stack, Trial, Trials, by_fix

__all__ = [
    "FORMAT_VERSION",
    "INPUT_BOUND_BELOW",
    "LEAST_SAMPLES",
    "Access",
    "AllReduce",
    "Answer",
    "BetweenEpochs",
    "Bottleneck",
    "CallbackCost",
    "Category",
    "ChangingNumber",
    "Channel",
    "Check",
    "CheckedTimes",
    "Compared",
    "ContainerUse",
    "Control",
    "Cost",
    "CudaDevice",
    "Ddp",
    "Device",
    "Diagnosis",
    "DrawnFrom",
    "Ending",
    "Equivalence",
    "Evaluation",
    "Event",
    "Evidence",
    "Exchange",
    "ExperimentChange",
    "ExperimentWay",
    "Finding",
    "Framework",
    "FrozenBase",
    "Function",
    "FunctionCost",
    "Gpu",
    "GpuSample",
    "Grown",
    "HostSample",
    "Ignored",
    "InPlace",
    "Instance",
    "InstanceType",
    "Item",
    "ItemLength",
    "LayerFacts",
    "Leg",
    "Length",
    "Limits",
    "Link",
    "Loader",
    "LogCall",
    "Loop",
    "Machine",
    "Measure",
    "MemoryGrowth",
    "MigSlice",
    "Missing",
    "ModelFacts",
    "Moment",
    "NotTaken",
    "Objects",
    "Operator",
    "Outcome",
    "Outside",
    "OverTime",
    "Overhead",
    "Overlap",
    "OwnWork",
    "Packing",
    "PaddedPlace",
    "Padding",
    "Parallel",
    "Patch",
    "PatchedFile",
    "PhaseUse",
    "PipelineStep",
    "Price",
    "Probe",
    "Rank",
    "Ratio",
    "Reads",
    "Reason",
    "Recording",
    "ReportedStage",
    "ReportedTimes",
    "Retracing",
    "Run",
    "Sample",
    "ScalingPoint",
    "Site",
    "Span",
    "Spent",
    "Stack",
    "StackSamples",
    "Stage",
    "StartUp",
    "StepCalls",
    "StepFunction",
    "StepPart",
    "Straggler",
    "Strategy",
    "SyncPoint",
    "Timeline",
    "Times",
    "Torch",
    "TorchModel",
    "TorchOptimizer",
    "Trace",
    "TraceFile",
    "Trainer",
    "Training",
    "Trial",
    "Trials",
    "Verdict",
    "Volume",
    "by_fix",
    "is_taken",
    "taken",
]
