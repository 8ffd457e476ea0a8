"""Puts a recording together. Imported when recording begins, so that `import vernier` does not import torch."""

import torch

from . import core, names
from .capture import Capture
from .collectives import Collectives
from .cut import Cut
from .device import DeviceStage, HostStage
from .examine import ExaminingCapture
from .frameworks import Frameworks
from .interpose import Interposer
from .saver import Saver


def make(config):
    """(recorder, capture, interposer, saver) for these settings."""
    recorder = core.Recorder(
        summary=config.summary_mode,
        precision=config.precision,
        sketch=config.sketch,
        tensors=config.stores_all,
        dedup=config.dedup,
        identity=config.with_identity,
        staging_bytes=config.staging_bytes,
        min_free_bytes=config.min_free_space,
        diff_nums=config.diff_nums,
    )
    cut = Cut(config.slice) if config.slice or config.request_id else None
    examines = config.task in ("nan_check", "overflow_check") or bool(config.bench_path)
    stage = HostStage() if examines else DeviceStage(recorder, config)
    capture = (ExaminingCapture if examines else Capture)(config, recorder, stage, cut)
    tables = names.Tables(torch, config.custom_op_namespaces)
    frameworks = Frameworks(capture, with_apis=config.level in ("L1", "mix"))
    interposer = Interposer(capture, config.level, tables, Collectives(capture), frameworks)
    return recorder, capture, interposer, Saver(capture)
