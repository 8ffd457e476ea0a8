"""libvernier by ctypes: its structs, its calls, its errors. The only module that knows there is a C library."""

import ctypes
import json
import os
import signal
import sys
import threading
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path

API_VERSION = 2
LIBRARY_NAME = "libvernier.so"


class VernierError(Exception):
    """What went wrong: ``key`` for programs, ``where`` and ``detail`` for people, ``hint`` on what to try next."""

    def __init__(self, key, where="", detail="", hint="", message=None):
        super().__init__(message or f"{where}: {detail} [{key}]")
        self.key = key
        self.where = where
        self.detail = detail
        self.hint = hint

    def __reduce__(self):
        return type(self), (self.key, self.where, self.detail, self.hint, str(self))


class Tensor(Structure):
    _fields_ = (
        ("data", c_void_p),
        ("dtype", c_char_p),
        ("ndim", c_int32),
        ("shape", POINTER(c_int64)),
        ("strides_bytes", POINTER(c_int64)),
    )


class Options(Structure):
    _fields_ = (
        ("struct_bytes", c_size_t),
        ("num_threads", c_int32),
        ("crc32", c_int32),
        ("rtol", c_double),
        ("atol", c_double),
        ("cancel", c_void_p),
    )


_OnLog = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_char_p)
_OnProgress = ctypes.CFUNCTYPE(None, c_void_p, c_uint64, c_uint64, c_uint64, c_uint64)


class CompareHooks(Structure):
    _fields_ = (
        ("struct_bytes", c_size_t),
        ("cancel", c_void_p),
        ("context", c_void_p),
        ("on_log", _OnLog),
        ("on_progress", _OnProgress),
        ("keep_rows", c_int32),
    )


class Cell(Structure):
    _fields_ = (
        ("kind", c_int32),
        ("integer", c_int64),
        ("number", c_double),
        ("text", c_void_p),
        ("text_bytes", c_size_t),
    )


class Info(Structure):
    _fields_ = (
        ("name", c_void_p),
        ("name_bytes", c_size_t),
        ("dtype", c_char_p),
        ("ndim", c_int32),
        ("shape", POINTER(c_int64)),
        ("num_bytes", c_uint64),
        ("file", c_char_p),
        ("damage", c_char_p),
    )


class _Error(Structure):
    _fields_ = tuple((name, c_char_p) for name in ("key", "where", "detail", "hint", "message"))


# Calls that return a status; those of _PLAIN cannot fail.
_CHECKED = {
    "VnNewCancel": (POINTER(c_void_p),),
    "VnTableRow": (c_void_p, c_size_t, POINTER(Cell), c_size_t),
    "VnStats": (POINTER(Tensor), POINTER(Options), POINTER(c_void_p)),
    "VnPair": (POINTER(Tensor), POINTER(Tensor), POINTER(Options), POINTER(c_void_p)),
    "VnCompareRecordings": (c_char_p, POINTER(CompareHooks), POINTER(c_void_p)),
    "VnOpenDump": (c_char_p, POINTER(Options), POINTER(c_void_p)),
    "VnDumpInfo": (c_void_p, c_size_t, POINTER(Info)),
    "VnDumpLoad": (c_void_p, c_size_t, POINTER(c_void_p)),
    "VnLoadedTensor": (c_void_p, POINTER(Tensor)),
    "VnWriteNpy": (c_char_p, POINTER(Tensor)),
    "VnWritePt": (c_char_p, POINTER(Tensor)),
    "VnWritePtUnsynced": (c_char_p, POINTER(Tensor)),
    "VnWriteText": (c_char_p, c_char_p, c_size_t),
    "VnErrorCounts": (POINTER(Tensor), POINTER(Tensor), c_int32, POINTER(Options), POINTER(c_void_p)),
    "VnBeginDetails": (c_char_p, c_int32),
    "VnAppendDetails": (c_char_p, c_int32, c_char_p, c_char_p, c_char_p, c_char_p, c_char_p, c_void_p),
    "VnWriteSafetensors": (c_char_p, POINTER(c_char_p), POINTER(Tensor), c_size_t),
}
_PLAIN = {
    "VnApiVersion": (c_int32,),
    "VnVersion": (c_char_p,),
    "VnLastError": (POINTER(_Error),),
    "VnRequestCancel": (None, c_void_p),
    "VnCloseCancel": (None, c_void_p),
    "VnInitOptions": (None, POINTER(Options)),
    "VnTableNumRows": (c_size_t, c_void_p),
    "VnTableNumColumns": (c_size_t, c_void_p),
    "VnTableColumn": (c_char_p, c_void_p, c_size_t),
    "VnCloseTable": (None, c_void_p),
    "VnOutcomeJson": (c_void_p, c_void_p),
    "VnOutcomeRows": (c_void_p, c_void_p),
    "VnCloseOutcome": (None, c_void_p),
    "VnDumpCount": (c_size_t, c_void_p),
    "VnCloseDump": (None, c_void_p),
    "VnCloseLoaded": (None, c_void_p),
    "VnMain": (c_int, c_int, POINTER(c_char_p)),
}


def decode(data):
    """Text from the library: UTF-8, and bytes that are not survive as surrogates, as in file names."""
    return data.decode("utf-8", "surrogateescape")


def encode(text):
    return text.encode("utf-8", "surrogateescape")


def _candidates():
    here = Path(__file__).resolve().parent
    yield here / LIBRARY_NAME  # an installed wheel
    if os.environ.get("VERNIER_LIBRARY"):
        yield Path(os.environ["VERNIER_LIBRARY"]).absolute()
    yield here.parent.parent / "build" / LIBRARY_NAME  # a checkout after `make build`


def _load():
    candidates = list(_candidates())
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        looked = ", ".join(map(str, candidates))
        raise ImportError(f"{LIBRARY_NAME} not found (looked for {looked}); in a checkout, run `make build`")
    loaded = bind(ctypes.CDLL(str(path)), _CHECKED, _PLAIN)
    if loaded.VnApiVersion() != API_VERSION:
        raise ImportError(f"{path} has API version {loaded.VnApiVersion()}, this package needs {API_VERSION}")
    return loaded


def bind(library, checked, plain):
    for name, arguments in checked.items():
        function = getattr(library, name)
        function.restype, function.argtypes, function.errcheck = c_int32, arguments, raise_failure
    for name, (result, *arguments) in plain.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def raise_failure(status, function=None, arguments=None):
    if status:
        error = lib.VnLastError().contents
        raise VernierError(*(decode(getattr(error, name) or b"") for name, _ in _Error._fields_))
    return status


lib = _load()
__version__ = decode(lib.VnVersion())


class Handle:
    """Something the library made and must release; released when the last Python reference goes."""

    def __init__(self, close):
        self.pointer = c_void_p()
        self._close = close

    def out(self):
        return byref(self.pointer)

    def __del__(self):
        if self.pointer:
            self._close(self.pointer)
            self.pointer = c_void_p()


def options(*, rtol=None, atol=None, threads=0, crc32=False):
    """A filled-in VnOptions; what is None keeps the library's default."""
    filled = Options()
    lib.VnInitOptions(byref(filled))
    filled.num_threads = threads
    filled.crc32 = crc32
    if rtol is not None:
        filled.rtol = rtol
    if atol is not None:
        filled.atol = atol
    return filled


def option_text(value):
    """An option of a family of dumps, as a request has it."""
    return str(value).lower() if isinstance(value, bool) else os.fspath(value)


def compare(request, *, keep_rows=False, on_log=None, on_progress=None):
    """The outcome of VnCompareRecordings, a Handle. What is called on the way must not raise."""
    hooks = CompareHooks(ctypes.sizeof(CompareHooks), keep_rows=keep_rows)
    if on_log is not None:
        hooks.on_log = _OnLog(lambda _, level, line: on_log(level, decode(line)))
    if on_progress is not None:
        hooks.on_progress = _OnProgress(lambda _, *numbers: on_progress(*numbers))
    found = Handle(lib.VnCloseOutcome)
    call(
        lib.VnCompareRecordings,
        encode(json.dumps(request, ensure_ascii=False)),
        byref(hooks),
        found.out(),
        options=hooks,
    )
    return found


def call(function, *arguments, options, keep=(), brief=False):
    """Calls ``function(*arguments)``, which was handed ``options``, so that Ctrl-C ends it.

    Python runs signal handlers in the main thread, and only between its own instructions. So the main thread waits
    here while another one is in the library; an exception from a handler asks the library to stop, and is then raised.
    What takes less time than starting a thread, ``brief``, is called directly. ``keep`` is whatever must outlive the
    call, even one that an impatient second Ctrl-C no longer waits for.
    """
    if brief or threading.current_thread() is not threading.main_thread():
        function(*arguments)
        return
    cancel = Handle(lib.VnCloseCancel)
    lib.VnNewCancel(cancel.out())
    options.cancel = cancel.pointer
    failure = []

    def work(*_keep):
        try:
            function(*arguments)
        except BaseException as error:
            failure.append(error)

    worker = threading.Thread(target=work, args=(cancel, options, keep), name="vernier", daemon=True)
    worker.start()
    try:
        worker.join()
    except BaseException:
        lib.VnRequestCancel(cancel.pointer)
        worker.join()
        raise
    if failure:
        raise failure[0]


_CELL = {
    0: lambda cell: None,
    1: lambda cell: bool(cell.integer),
    2: lambda cell: cell.integer,
    3: lambda cell: cell.integer & 0xFFFFFFFFFFFFFFFF,
    4: lambda cell: cell.number,
    5: lambda cell: decode(ctypes.string_at(cell.text, cell.text_bytes)),
}


class Table:
    """Rows of the library as dicts, made when they are asked for."""

    def __init__(self):
        self._handle = Handle(lib.VnCloseTable)
        self._columns = None

    @classmethod
    def of(cls, pointer, owner):
        """A table that lives as long as ``owner`` does."""
        table = cls()
        table._handle.pointer, table._handle._close, table._owner = c_void_p(pointer), lambda _: None, owner
        return table

    def out(self):
        return self._handle.out()

    @property
    def columns(self):
        if self._columns is None:
            pointer = self._handle.pointer
            count = lib.VnTableNumColumns(pointer)
            self._columns = [decode(lib.VnTableColumn(pointer, column)) for column in range(count)]
        return self._columns

    def __len__(self):
        return lib.VnTableNumRows(self._handle.pointer)

    def row(self, index):
        cells = (Cell * len(self.columns))()
        lib.VnTableRow(self._handle.pointer, index, cells, len(cells))
        return {name: _CELL[cell.kind](cell) for name, cell in zip(self.columns, cells)}


def main(argv=None, *, program="vernier"):
    """The command line: ``main(["compare", "a.npy", "b.npy"])``. Gives the exit code of the executable.

    ``program`` is the name it is called by; as "msprobe" it has that tool's exit codes.
    """
    arguments = [os.fsencode(text) for text in [program, *(sys.argv[1:] if argv is None else argv)]]
    sys.stdout.flush()
    sys.stderr.flush()
    with _default_signals(), _own_interpreter():
        return lib.VnMain(len(arguments), (c_char_p * (len(arguments) + 1))(*arguments, None))


class _own_interpreter:
    """Commands that need Python start this one, unless the user has named another."""

    def __enter__(self):
        self._named = "VERNIER_PYTHON" in os.environ
        if not self._named and sys.executable:
            os.environ["VERNIER_PYTHON"] = sys.executable

    def __exit__(self, *_):
        if not self._named:
            os.environ.pop("VERNIER_PYTHON", None)


class _default_signals:
    """While the command runs it handles Ctrl-C and a closed pipe itself, as the executable would."""

    _NUMBERS = (signal.SIGINT, signal.SIGPIPE)

    def __enter__(self):
        self._before = []
        if threading.current_thread() is threading.main_thread():
            self._before = [(number, signal.signal(number, signal.SIG_DFL)) for number in self._NUMBERS]

    def __exit__(self, *_):
        for number, handler in self._before:
            signal.signal(number, handler)
