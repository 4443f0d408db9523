"""Diagnoses for the HTML page: one with every section, one whose every text is an attack."""

from __future__ import annotations

import math
from dataclasses import replace

from reporters.samples import HOSTILE, NASTY
from reporters.samples_observed import CWD, GPU_BOX, TWO_GPUS
from reporters.samples_parallel import PARALLEL
from reporters.samples_torch import TORCH
from reporters.samples_tried import ALL_OUTCOMES
from trainperf.model import (
    Channel,
    ContainerUse,
    Cost,
    Instance,
    InstanceType,
    Moment,
    NotTaken,
    Objects,
    Patch,
    Price,
    Reads,
    Site,
    Span,
    SyncPoint,
    Timeline,
    Volume,
)
from trainperf.model.diagnosis import ReportedOperator, ReportedPart

GIB = 1024**3
MIB = 1024**2

PRICE = Price(1.212, "AWS price list, on demand, eu-west-1")

G5 = InstanceType(
    "g5.2xlarge",
    vcpus=8,
    memory=32 * GIB,
    gpus=1,
    gpu="NVIDIA A10G",
    gpu_memory=24 * GIB,
    network_bytes_s=0.625e9,
    network_burst_bytes_s=1.25e9,
    ebs_bytes_s=87.5e6,
    ebs_burst_bytes_s=437.5e6,
    ebs_iops=3000,
    nvme_bytes=450 * GIB,
    source="package data",
)

RUN = Timeline(
    seconds=24.0,
    cores=8.0,
    phases=(
        Span("start-up", 0.0, 6.3),
        Span("warmup", 6.3, 7.4),
        Span("real", 7.4, 10.6),
        Span("resident", 10.6, 12.1),
        Span("input", 12.1, 13.9),
        Span("real", 13.9, 17.0),
        Span("resident", 17.0, 18.6),
        Span("input", 18.6, 20.4),
        Span("done", 20.4, 20.41),
        Span("stages", 20.41, 22.9),
        Span("between", 22.9, 24.0),
    ),
    moments=tuple(
        Moment(
            t=0.1 * at,
            cpu_cores=None if 100 < at < 106 else 1.2 + math.sin(at / 9) ** 2,
            machine_cpu_cores=1.6 + 1.4 * math.sin(at / 9) ** 2,
            rss=int(1.2 * GIB),
            gpu_percent=(45 + 45 * math.sin(at / 14), None if at % 40 < 8 else 30.0),
            read_bytes_s=11.2 * MIB,
        )
        for at in range(240)
    ),
)

ROOT = Reads(
    Volume(
        "/", "ebs", "ext4", "/dev/nvme0n1p1", "Amazon Elastic Block Store", 131e6, "gp3, 125 MiB/s"
    ),
    files=3670,
    opens=11010,
    seconds=21.2,
    sizes=(31_000, 58_200, 121_000),
    total_bytes=228 * MIB,
    examples=(
        f"{CWD}/data/daisy/100080576_f52e8ee070_n.jpg",
        f"{CWD}/data/roses/12240303_80d87f77a3_n.jpg",
    ),
    seen_by="calls to open() in Python and TensorFlow's own reader",
    cold_bytes_s=64.1e6,
    warm_bytes_s=3.9e9,
    open_s=0.00041,
    probed_files=96,
    probed_bytes=6 * MIB,
    needed_bytes_s=43e6,
    at_least=True,
    opens_per_step=32.0,
    bytes_per_step=1.9e6,
    bytes_basis="from /proc/self/io",
    stored_per_step=1.2e6,
    cold_file_s=0.0011,
    warm_file_s=0.00007,
    whole_files=True,
    cold_parallel_bytes_s=118e6,
    cached_share=0.12,
)

BUCKET = Objects(
    "flowers-eu",
    region="us-east-1",
    prefix="train/",
    requests=2210,
    request_s=0.083,
    bytes=131 * MIB,
    mean_object_bytes=62_000.0,
    latency_s=0.071,
    throughput=((1, 0.8e6), (8, 6.1e6), (32, 19.5e6)),
    errors=(("SlowDown", 3),),
    probed_requests=41,
    probed_bytes=3 * MIB,
    probed_usd=0.00002,
    body_s=0.011,
    seconds=21.2,
    concurrency=7.4,
    requests_per_step=32.0,
    keys=(("train/0001.jpg", 62_000), ("train/0002.jpg", None)),
    endpoint="https://s3.us-east-1.amazonaws.com",
    probe_errors=(("Timeout", 1),),
)

EVERYTHING = replace(
    ALL_OUTCOMES,
    machine=replace(
        GPU_BOX,
        instance=Instance(
            "sagemaker", "ml.g5.2xlarge", G5, "eu-west-1", hosts=2, source="SageMaker"
        ),
        price=PRICE,
        container="sagemaker",
        swap_total=0,
        shm_total=64 * MIB,
        shm_free=63 * MIB,
        omp_num_threads="1",
    ),
    device=TWO_GPUS.device,
    utilization=TWO_GPUS.utilization,
    parallel=PARALLEL["ddp_sync_bound"].parallel,
    step_parts=(
        ReportedPart("input", 0.0951, 0.69, 1.0),
        ReportedPart("forward", 0.012, 0.087, 1.0),
        ReportedPart("backward", 0.026, 0.19, 1.0),
        ReportedPart("optimizer", 0.005, 0.036, 1.0),
    ),
    sync_points=(SyncPoint("loss.item()", Site(f"{CWD}/train.py", 71), 1.0, 0.0021, True),),
    operators=(
        ReportedOperator("aten::convolution_backward", 12, 0.0101, 0.52),
        ReportedOperator("aten::conv2d", 12, 0.0061, 0.31),
    ),
    container=ContainerUse(
        21.2,
        quota_cores=4.0,
        throttled_share=0.62,
        throttled_s=11.3,
        cpu_pressure=0.41,
        memory_limit=16 * GIB,
        memory_peak=int(15.1 * GIB),
        memory_events=(("high", 0), ("max", 12)),
        io_pressure=0.04,
        swapped_in=0,
    ),
    reads=(
        ROOT,
        replace(
            ROOT,
            volume=Volume("/dev/shm", "tmpfs", "tmpfs"),
            reason="it is in memory",
            probed_files=0,
            cold_bytes_s=None,
            warm_bytes_s=None,
        ),
    ),
    objects=(BUCKET,),
    channels=(Channel("train", "File", "/opt/ml/input/data/train", "S3", "image/jpeg"),),
    cost=Cost(PRICE, 2, 2.9, 0.85, 1.66, 0.487),
    timeline=RUN,
)

ATTACKS = (
    '</script><script>window.hacked = 1</script><img src="https://evil.invalid/x.png">',
    "\"'><svg onload=alert(1)><style>@import url(//evil.invalid/a.css)</style>",
    "--></title></style></textarea></pre></code><!-- {{ 7 * 7 }} {% raw %} ${7*7}",
    f"{NASTY} \u200f\u202eevil\u2066 \x00 \x85 javascript:alert(1) &lt;b&gt; &#x3c;",
)
"""Each breaks out of another place of a page, or turns its text around."""

BAD = " ".join(ATTACKS)

LONG = "x" * 10_000

ATTACKED = replace(
    HOSTILE,
    script=BAD,
    command=(BAD, LONG),
    cwd=f"/tmp/{BAD}",
    created=BAD,
    trainperf_version=BAD,
    verdict=replace(HOSTILE.verdict, text=f"{BAD} `{BAD}`"),
    machine=replace(
        EVERYTHING.machine,
        cpu_model=BAD,
        os=BAD,
        instance=Instance("ec2", BAD, replace(G5, gpu=BAD), BAD, BAD, 2, BAD),
        price=Price(1e9, BAD),
        gpu_reason=BAD,
        omp_num_threads=BAD,
        container=LONG,
    ),
    stages=(*HOSTILE.stages, replace(HOSTILE.stages[0], name=BAD, detail=LONG)),
    findings=(
        replace(
            HOSTILE.findings[0],
            id=BAD,
            title=BAD,
            text=f"{BAD}\n\n{LONG}",
            bound_basis=BAD,
            where=(Site(f"/{LONG}/{BAD}", 3, BAD),),
            advice=BAD,
            snippet=f"print('{BAD}')\n# {LONG}",
        ),
        replace(HOSTILE.findings[0], title=LONG),
    ),
    trials=tuple(replace(one, reason=BAD, parity=BAD, variant=BAD) for one in HOSTILE.trials),
    patch=Patch(
        f"--- a/{BAD}.py\n+++ b/{BAD}.py\n@@ -1,1 +1,1 @@\n-{BAD}\r\n+print({BAD!r})\n+{LONG}\n",
        (BAD,),
        skipped=(NotTaken(BAD, LONG),),
        environment={"NAME": BAD},
    ),
    stack=HOSTILE.stack and replace(HOSTILE.stack, fixes=(BAD, LONG)),
    not_measured=(NotTaken(BAD, BAD),),
    notes=(BAD, LONG),
    output_tail=f"\x1b[31m{BAD}\x1b[0m\n{LONG}\n\x1b]8;;https://evil.invalid\x07link\x1b]8;;\x07\n",
    timeline=replace(RUN, phases=(Span(BAD, 0.0, 12.0), Span(LONG, 12.0, 24.0))),
    step_parts=EVERYTHING.step_parts,
    operators=(ReportedOperator(BAD, 0.1, 1e9, 1.0),),
    sync_points=(SyncPoint(BAD, Site(BAD, 1), 1.0, 1.0),),
    container=replace(EVERYTHING.container or ContainerUse(1.0), memory_events=((BAD, 1),)),
    reads=(
        replace(ROOT, volume=Volume(BAD, "ebs", BAD, BAD, BAD, 1.0, BAD), examples=(BAD, LONG)),
    ),
    objects=(replace(BUCKET, bucket=BAD, prefix=LONG, errors=((BAD, 1),)),),
    channels=(Channel(BAD, BAD, LONG, BAD, BAD),),
    cost=Cost(Price(1e9, BAD), 2, 1e9, 1e-9, 1e12, 1e-12),
)

PAGES = {
    "everything": EVERYTHING,
    "attacked": ATTACKED,
    "torch_gpu": next(one for one in TORCH.values() if one.device.kind == "GPU" and one.step_parts),
}
