"""The values that travel through trainperf, from a run to a report.

    Run → Recording → Evidence → Finding… → Diagnosis → text

All are frozen. All times are seconds, all memory is bytes, all shares are fractions
of 1, unless a name says otherwise (`_percent`, `_mib`).
"""

from __future__ import annotations

from trainperf.model.basics import *
from trainperf.model.diagnosis import *
from trainperf.model.evidence import *
from trainperf.model.facts import *
from trainperf.model.findings import *
from trainperf.model.lines import *
from trainperf.model.parallel import *
from trainperf.model.timing import *
from trainperf.model.torch import *
from trainperf.model.training import *
from trainperf.recording.machine.instance import *
from trainperf.recording.machine.machine import *
from trainperf.recording.machine.storage import *
from trainperf.recording.run import *
