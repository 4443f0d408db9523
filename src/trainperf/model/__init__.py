"""The values that travel through trainperf, from a run to a report.

    Run → Recording → Evidence → Finding… → Diagnosis → text

All are frozen. All times are seconds, all memory is bytes, all shares are fractions
of 1, unless a name says otherwise (`_percent`, `_mib`).
"""

from __future__ import annotations

from trainperf.model.basics import Missing, Site, is_taken, known, taken
from trainperf.model.check import Answer, Check, CheckedTimes, Compared, Reason
from trainperf.model.diagnosis import (
    Bottleneck,
    Diagnosis,
    ExperimentChange,
    Grade,
    Ignored,
    Overhead,
    TraceFile,
    TraceRead,
    Verdict,
)
from trainperf.model.evidence import INPUT_BOUND_BELOW, LEAST_SAMPLES, Evidence
from trainperf.model.facts import (
    CallbackCost,
    ChangingNumber,
    Device,
    DrawnFrom,
    Framework,
    Function,
    FunctionCost,
    LayerFacts,
    Loop,
    ModelFacts,
    PaddedPlace,
    Padding,
    PhaseUse,
    Retracing,
    StackSamples,
    Stage,
    StepFunction,
)
from trainperf.model.findings import (
    Category,
    Equivalence,
    Finding,
    NotTaken,
    OwnCode,
    Patch,
    PatchedFile,
    Slices,
    StorageWait,
    TurnGain,
    Variant,
)
from trainperf.model.lines import FunctionLines, Line, LineKind, LinePart, Looks, StepLines
from trainperf.model.outside import InPlace, Outside, Spent
from trainperf.model.parallel import (
    AllReduce,
    Ddp,
    Exchange,
    Parallel,
    Rank,
    ScalingPoint,
    Straggler,
    Strategy,
)
from trainperf.model.timing import (
    BetweenEpochs,
    Collections,
    Measure,
    Probe,
    StartUp,
    Times,
)
from trainperf.model.torch.loader import ItemLength, Loader
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
from trainperf.model.training import Item, Length, Trainer, Training
from trainperf.model.trials import (
    Control,
    Outcome,
    Proof,
    Ratio,
    Stack,
    Trial,
    Trials,
    by_fix,
)
from trainperf.recording.machine.instance import Cost, Instance, InstanceType, Price
from trainperf.recording.machine.machine import ContainerUse, CudaDevice, Gpu, Machine
from trainperf.recording.machine.storage import Objects, Reads, Volume
from trainperf.recording.run import (
    FORMAT_VERSION,
    Ending,
    Epoch,
    Event,
    GpuSample,
    HostSample,
    Leg,
    Recording,
    Run,
    Sample,
)
