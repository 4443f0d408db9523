"""Where the files lie that the script reads, and how fast they can be read there."""

from __future__ import annotations

from trainperf.model import Channel, Diagnosis, Reads, Volume
from trainperf.model import words as units
from trainperf.report.document import Page

SHOWN = 4
"""Volumes that are shown, those with most files first."""

LABEL = 11
"""Columns of the labels at the left of the facts."""

KINDS = {
    "ebs": "EBS",
    "nvme": "local NVMe",
    "disk": "disk",
    "tmpfs": "memory",
    "overlay": "container's own layer",
    "nfs": "NFS",
    "efs": "EFS",
    "lustre": "Lustre",
    "s3 mount": "S3 mount",
    "network": "network",
}


def storage(diagnosis: Diagnosis, page: Page) -> None:
    """Print each volume that was read from; nothing where no file was seen."""
    if not diagnosis.reads and not diagnosis.channels:
        return
    page.heading("Files that are read")
    for one in diagnosis.reads[:SHOWN]:
        _volume(one, page)
    if len(diagnosis.reads) > SHOWN:
        page.prose(f"and from {len(diagnosis.reads) - SHOWN} more volumes", indent=2)
    for channel in diagnosis.channels:
        page.prose(_channel(channel), indent=2)


def _volume(one: Reads, page: Page) -> None:
    rows = [("Where", _where(one.volume)), ("Files", _files(one))]
    if taken := _each_step(one):
        rows.append(("Each step", taken))
    rows.append(("Cold", _cold(one)))
    if warm := _warm(one):
        rows.append(("Warm", warm))
    for name, text in rows:
        page.fact(name, text, LABEL)


def _where(volume: Volume) -> str:
    device = "" if volume.device == volume.filesystem else volume.device
    told = [KINDS.get(volume.kind, ""), volume.filesystem, device]
    text = f"{volume.mount or 'mount not known'}: {', '.join(filter(None, told)) or 'not known'}"
    if volume.limit_bytes_s is not None:
        text += f"; at most {units.size(volume.limit_bytes_s)}/s ({volume.limit_basis})"
    return text


def _files(one: Reads) -> str:
    small, middle, large = one.sizes
    many = units.count(one.files, "file")
    text = f"{'more than ' if one.at_least else ''}{many}, {units.size(one.total_bytes)}"
    if one.files > 1:
        text += f"; the middle one has {units.size(middle)}"
        if large > 1.5 * small:
            text += f", most have between {units.size(small)} and {units.size(large)}"
    return f"{text} ({one.seen_by})" if one.seen_by else text


def _each_step(one: Reads) -> str:
    told = []
    if one.opens_per_step is not None and one.opens_per_step >= 0.05:
        told.append(f"opens {units.number(one.opens_per_step, 2)} files")
    if one.bytes_per_step is not None:
        told.append(f"reads {units.size(one.bytes_per_step)} ({one.bytes_basis})")
        if one.stored_per_step is not None:
            share = min(1.0, one.stored_per_step / one.bytes_per_step)
            told.append("all from memory" if share < 0.01 else f"{units.share(share)} from storage")
    elif one.stored_per_step is not None:
        much = units.size(one.stored_per_step) if one.stored_per_step >= 1024 else "nothing"
        told.append(f"takes {much} from storage; what it takes from memory cannot be counted")
    if one.needed_bytes_s is not None:
        told.append(f"{units.size(one.needed_bytes_s)}/s if it never waited")
    return "; ".join(told)


def _cold(one: Reads) -> str:
    if one.cold_bytes_s is None:
        return f"not measured: {one.reason or 'no file was read'}"
    text = f"{units.size(one.cold_bytes_s)}/s by one reader"
    if one.cold_parallel_bytes_s is not None:
        text += f", {units.size(one.cold_parallel_bytes_s)}/s by four"
    if one.cold_file_s is not None:
        text += f"; {_piece(one)} {units.seconds(one.cold_file_s)}"
    if one.open_s is not None:
        text += f", {units.seconds(one.open_s)} of it to open"
    return f"{text} ({units.size(one.probed_bytes)} of {units.count(one.probed_files, 'file')})"


def _warm(one: Reads) -> str:
    if one.warm_bytes_s is None:
        return ""
    text = f"{units.size(one.warm_bytes_s)}/s"
    if one.warm_file_s is not None:
        text += f"; {_piece(one)} {units.seconds(one.warm_file_s)}"
    if one.cached_share is not None:
        text += f"; {units.share(one.cached_share)} of the sample was in memory after the run"
    return text


def _piece(one: Reads) -> str:
    return "a file takes" if one.whole_files else "a piece of 4 MiB takes"


def _channel(channel: Channel) -> str:
    source = f" from {channel.source}" if channel.source else ""
    mode = f"{channel.mode} mode" if channel.mode else "the job's own mode"
    return f"Channel {channel.name}: {mode}{source}, at {channel.path}"
