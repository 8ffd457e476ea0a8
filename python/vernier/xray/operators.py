"""Operators as torch dispatches them, recorded so that each call can be repeated alone.

It stands on the dispatch mode of level L2 (record/operators.py), with the same handling of threads, of autograd and of
what translates Python. Written are dump.json and, for calls that are drawn, their tensors:

    xray_debug/proc_<pid>/dump.json
    xray_debug/proc_<pid>/dump/00004.arg0.pt
"""

import atexit
import contextlib
import json
import os
import random
import sys
import threading
import time

import torch

from .. import _native
from ..record import log
from ..record.capture import ThreadState, no_torch_function
from ..record.debugger import _rank
from ..record.interpose import Interposer
from .calls import Call, Namer, describe

NAMES, RANGES, LINES, STACKS, OUTPUT_RANGES, STRIDES = 0x002, 0x100, 0x001, 0x004, 0x008, 0x010
_KNOWN = NAMES | RANGES | LINES | STACKS | OUTPUT_RANGES | STRIDES
_DEFAULT = NAMES | RANGES
FOLDER = "xray_debug"
_SECONDS_BETWEEN_WRITES = 2.0
_SHARE_OF_TIME = 0.02  # that writing dump.json while the program runs may take
_WORDS = {"1": True, "true": True, "0": False, "false": False, "": False}


def begin_dump(X_DEBUG=None, X_DEDUP=None, X_DUMP_NUM=None):
    """Records every operator that this thread and autograd's threads dispatch, until ``end_dump()``.

    ``X_DEBUG``: 0x002 names, shapes and dtypes, 0x100 min and max of tensor arguments, 0x008 of outputs too, 0x010
    strides of every tensor, 0x004 call stacks, 0x001 a line per call on stderr. ``X_DEDUP``: of calls with the same
    operator, shapes, dtypes and plain arguments only some are kept. ``X_DUMP_NUM``: the tensors of so many of these are
    saved. What is not given is taken from the environment.
    """
    settings = Settings(X_DEBUG, X_DEDUP, X_DUMP_NUM)
    with _lock:
        if _state.depth > 0:
            _state.depth += 1
            if _state.recording is not None and settings != _state.recording.settings:
                log.warning("begin_dump() inside another one: its own settings are ignored")
            return
        try:
            _begin(settings)
        except Exception as error:
            if not _state.has_begun:
                raise
            _state.recording = None
            log.error(f"recording operators: {error}; nothing is recorded until the next begin_dump()")
        _state.depth, _state.has_begun = 1, True


def _begin(settings):
    recording = _state.recording
    if recording is None or recording.settings != settings:
        if recording is not None:
            recording.write()
        recording = _state.recording = Recording(settings)
    recording.on()


def end_dump(clear_context=True):
    """Ends what ``begin_dump()`` began and writes dump.json.

    ``clear_context=False``: a later ``begin_dump()`` with the same settings goes on with the numbers and the samples.
    """
    with _lock:
        if _state.depth == 0:
            log.warning("end_dump() without begin_dump(); nothing to end")
            return
        _state.depth -= 1
        if _state.depth > 0:
            return
        recording = _state.recording
        if recording is None:  # it could not begin
            return
        recording.off()
        try:
            recording.write()
        except Exception as error:
            recording.tell(error)
        if clear_context:
            _state.recording = None


@contextlib.contextmanager
def dump(X_DEBUG=None, X_DEDUP=None, X_DUMP_NUM=None, clear_context=True):
    """``begin_dump()`` and ``end_dump()`` around a block."""
    begin_dump(X_DEBUG, X_DEDUP, X_DUMP_NUM)
    try:
        yield
    finally:
        end_dump(clear_context)


class Settings:
    def __init__(self, debug, dedup, dump_num):
        self.debug = _whole("X_DEBUG", debug, _DEFAULT)
        self.dedup = _truth("X_DEDUP", dedup)
        self.dump_num = _whole("X_DUMP_NUM", dump_num, 0)
        if self.debug & ~_KNOWN:
            log.warning(f"X_DEBUG={self.debug:#x}: the bits {self.debug & ~_KNOWN:#x} mean nothing here")

    def __eq__(self, other):
        return vars(self) == vars(other)

    __hash__ = None


def _whole(name, value, default):
    """As C writes numbers: 258, 0x102, 0402."""
    given = value
    if value is None:
        value = os.environ.get(name, "").strip() or default
    if isinstance(value, str):
        octal = len(value) > 1 and value[0] == "0" and value.isdigit()
        try:
            value = int(value, 8 if octal else 0)
        except ValueError:
            pass
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        where = f"{name}={value!r}" + ("" if given is not None else " (from the environment)")
        raise ValueError(f"{where}: expected a whole number ≥ 0")
    return value


def _truth(name, value):
    given = value
    if value is None:
        value = os.environ.get(name, "").strip()
    if isinstance(value, str):
        value = _WORDS.get(value.lower(), value)
    if value not in (True, False):
        where = f"{name}={value!r}" + ("" if given is not None else " (from the environment)")
        raise ValueError(f"{where}: expected True or False")
    return bool(value)


class Sampler:
    """Draws up to ``size`` of the calls of each key, each with the same chance, the same ones in every run."""

    def __init__(self, size):
        self._size = size
        self._keys = {}  # key -> [number of calls, source of random numbers, kept]

    def offer(self, key, item):
        """(whether the item is kept, what it takes the place of)."""
        known = self._keys.setdefault(key, [0, None, []])
        known[0] += 1
        kept = known[2]
        if len(kept) < self._size:
            kept.append(item)
            return True, None
        if not self._size:
            return False, None
        if known[1] is None:
            known[1] = random.Random(0)
        place = known[1].randrange(known[0])
        if place >= self._size:
            return False, None
        replaced, kept[place] = kept[place], item
        return True, replaced

    def count(self, key):
        return self._keys[key][0]


class Recording:
    """What was seen between begin_dump() and the end_dump() that clears it. Calls may come from several threads."""

    def __init__(self, settings):
        self.settings = settings
        self.local = ThreadState()
        self.is_on = False
        self.num_calls = 0
        self._lock = threading.Lock()
        self._calls = {}  # number -> Call, in order
        self._sampler = Sampler(max(1, settings.dump_num) if settings.dedup else settings.dump_num)
        self._namer = Namer()
        self._stale = []  # files that a dump.json on the disk may still name
        self._failed = set()
        self._process = os.getpid()
        self._written_at, self._write_seconds = time.monotonic(), 0.0
        self._is_complete = False  # dump.json has all there is
        self.folder = os.path.join(os.path.abspath(FOLDER), f"proc_{self._process}")
        self._begin_folder()
        self._interposer = Interposer(_Capture(self), "L2", None)

    def _begin_folder(self):
        """An empty recording, so that tensors of an earlier one are never taken for its own."""
        before = os.path.join(self.folder, "dump.json")
        if os.path.exists(before) and before not in _told:
            _told.add(before)
            log.warning(f"{self.folder} exists; each recording of this process replaces the one before")
        tensors = os.path.join(self.folder, "dump")
        os.makedirs(tensors, exist_ok=True)
        self.write()
        for name in os.listdir(tensors):
            if name.endswith(".pt"):
                os.unlink(os.path.join(tensors, name))

    # -- on and off

    def on(self):
        self.is_on = True
        self._interposer.on()

    def off(self):
        self.is_on = False
        self._interposer.off()
        self._interposer.sweep()

    def let_go_in_child(self):
        """Forked children never record: the files are their parent's."""
        self.is_on = False

    # -- one call

    def see(self, function, args, kwargs):
        """Calls ``function`` and records it. Whatever goes wrong on our side is told, not raised."""
        local = self.local
        local.depth = 1
        try:
            call = self._quietly(self._before, function, args, kwargs)
            try:
                result = function(*args, **kwargs)
            except BaseException:
                if call is not None:
                    self._quietly(self._abandon, call)
                raise
            if call is not None:
                self._quietly(self._after, call, result)
            return result
        finally:
            local.depth = 0

    def _before(self, function, args, kwargs):
        settings, operator = self.settings, self._namer.of(function)
        call = Call(operator, args, kwargs)
        with self._lock:
            call.number = self.num_calls
            self.num_calls += 1
            self._is_complete = False
            if not settings.debug & (NAMES | LINES):
                return None
            drawn, replaced = self._sampler.offer(call.key(), call) if settings.debug & NAMES else (False, None)
            if replaced is not None:
                self._drop(replaced)
        call.is_kept = bool(settings.debug & NAMES) and (drawn or not settings.dedup)
        call.has_files = drawn and settings.dump_num > 0
        if call.is_kept:
            folder = self.folder if call.has_files else None
            ranges, strides = settings.debug & RANGES, settings.debug & STRIDES
            call.phase = "backward" if _in_backward() else "forward"
            call.describe_inputs(describe(folder, ranges, strides, self.tell))
            if settings.debug & STACKS:
                call.stack = _stack(sys._getframe(2))
        return call

    def _after(self, call, result):
        debug = self.settings.debug
        if debug & LINES:
            print(call.line(result), file=sys.stderr, flush=True)
        if not call.is_kept:
            return
        folder = self.folder if call.has_files else None
        call.describe_outputs(result, describe(folder, debug & OUTPUT_RANGES, debug & STRIDES, self.tell))
        with self._lock:
            if call.is_dropped:  # another thread drew one in its place meanwhile
                self._forget(call)
                return
            self._calls[call.number] = call
            self._is_complete = False
            waited = time.monotonic() - self._written_at
            if waited > max(_SECONDS_BETWEEN_WRITES, self._write_seconds / _SHARE_OF_TIME):
                self._write()

    def _drop(self, call):
        """It was drawn, and another call takes its place."""
        call.is_dropped = True
        if call.number in self._calls:
            self._forget(call)

    def _forget(self, call):
        if self.settings.dedup:
            self._calls.pop(call.number, None)
        else:
            self._calls[call.number] = call
        self._stale += call.give_up_files()
        self._is_complete = False

    def _abandon(self, call):
        """It raised, and has no record."""
        with self._lock:
            self._stale += call.give_up_files()

    # -- dump.json

    def write(self):
        if os.getpid() != self._process:
            return
        with self._lock:
            if not self._is_complete:
                self._write()

    def _write(self):
        start = time.monotonic()
        settings, numbers = self.settings, sorted(self._calls)  # threads finish calls in any order
        head = {
            "format": "xray-ops",
            "version": 1,
            "vernier_version": _native.__version__,
            "pid": self._process,
            "rank": _rank(None) or 0,
            "torch_version": str(torch.__version__),
            "device_type": _device_type(self._calls.values()),
            "x_debug": settings.debug,
            "x_dedup": settings.dedup,
            "x_dump_num": settings.dump_num,
            "total_calls": self.num_calls,
        }
        calls = (self._calls[number] for number in numbers)
        text = _document(head, [call.text(self._sampler.count(call.key()) if settings.dedup else 1) for call in calls])
        data = text.encode("utf-8", "surrogatepass")
        path = os.fsencode(os.path.join(self.folder, "dump.json"))
        _native.lib.VnWriteText(path, data, len(data))
        stale, self._stale = self._stale, []
        for name in stale:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.folder, name))
        self._is_complete = True
        self._written_at = time.monotonic()
        self._write_seconds = self._written_at - start

    # -- errors of ours

    def _quietly(self, function, *arguments):
        try:
            with no_torch_function(), _no_dispatch():
                return function(*arguments)
        except Exception as error:
            self.tell(error)
            return None

    def tell(self, error, what="recording operators"):
        """Said once for each kind, never raised into the model."""
        key = (type(error).__name__, getattr(error, "key", ""))
        if key not in self._failed:
            self._failed.add(key)
            log.error(f"{what}: {error}")


class _Capture:
    """What the dispatch mode and the interposer of level L2 ask of a recording."""

    def __init__(self, recording):
        self._recording = recording

    @property
    def on(self):
        return self._recording.is_on

    @property
    def local(self):
        return self._recording.local

    @local.setter
    def local(self, state):
        self._recording.local = state

    def call_api(self, family, api, prefix, function, args, kwargs):
        return self._recording.see(function, args, kwargs)


class _State:
    recording = None  # the one that is on, or that a later begin_dump() goes on with
    depth = 0  # of begin_dump() in begin_dump()
    has_begun = False  # from then on nothing of ours is raised


_state, _lock, _told = _State(), threading.RLock(), set()


@contextlib.contextmanager
def _no_dispatch():
    """What we do with tensors is for no mode and no tensor class of the program."""
    guard = torch._C._DisableTorchDispatch()
    if not hasattr(guard, "__enter__"):  # before torch 2 it holds from its making to its end
        yield
        del guard
        return
    with guard:
        yield


_graph_task = getattr(torch._C, "_current_graph_task_id", None)


def _in_backward():
    if _graph_task is not None:
        return _graph_task() != -1
    # Before torch 2: on the CPU the call of backward() is among our callers, an autograd thread has none.
    frame, outermost = sys._getframe(1), None
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch.autograd":
            return True
        frame, outermost = frame.f_back, frame
    return outermost.f_globals.get("__name__", "").startswith("vernier.")


# Modules between the program and us.
_BETWEEN = ("vernier.", "torch.utils._python_dispatch", "torch._ops", "torch._dynamo", "torch._compile")


def _stack(frame):
    """Where the call was made, innermost first, without our own frames and torch's dispatch modes."""
    lines = []
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(_BETWEEN):
            lines.append(f"File {frame.f_code.co_filename}, line {frame.f_lineno}, in {frame.f_code.co_name}")
        frame = frame.f_back
    return lines


def _device_type(calls):
    """Of the first call that has a tensor elsewhere than on the CPU."""
    return next((call.device_type for call in calls if call.device_type not in (None, "cpu")), "cpu")


def _document(head, calls):
    text = json.dumps(head, indent=2)[:-2] + ',\n  "ops": ['
    if calls:
        text += "\n    " + ",\n    ".join(calls) + "\n  "
    return text + "]\n}\n"


def _at_exit():
    recording = _state.recording
    if recording is None or os.getpid() != recording._process:
        return
    if _state.depth > 0:
        log.warning("end_dump() was not called: operators were recorded to the end of the program")
        recording.off()
    try:
        recording.write()
    except Exception as error:
        recording.tell(error)


def _in_child():
    if _state.recording is not None:
        _state.recording.let_go_in_child()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
