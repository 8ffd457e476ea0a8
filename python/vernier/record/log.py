"""Lines on standard output: time, process, rank, level, text."""

import functools
import os
import sys
import time

_LEVELS = {"DEBUG": 0, "INFO": 1, "WARNING": 2, "ERROR": 3}
_rank = None


def set_rank(rank):
    global _rank
    _rank = rank


def _threshold():
    text = os.environ.get("VERNIER_LOG_LEVEL", os.environ.get("MSPROBE_LOG_LEVEL", "1"))
    return int(text) if text.isdigit() else 1


def write(level, text):
    if _LEVELS[level] >= _threshold():
        rank = "" if _rank is None else f" [rank {_rank}]"
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} ({os.getpid()}){rank} [{level}] {text}"
        try:
            print(line, file=sys.stdout, flush=True)
        except (OSError, ValueError):
            pass  # the disk is full, the reader is gone, or the stream is closed: no reason to end the model


def info(text):
    if _rank in (None, 0):
        write("INFO", text)


warning = functools.partial(write, "WARNING")
error = functools.partial(write, "ERROR")
