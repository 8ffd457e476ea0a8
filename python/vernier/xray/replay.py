"""One recorded call, repeated on the CPU and on a device: what the tests that ``vernier jprof`` writes run.

Arguments are the saved tensors, or numbers drawn from the recorded range. Both runs get copies of their own with the
strides and the shared memory of the recording; the core compares what comes out.
"""

import os
import random
import sys

import pytest
import torch

from .. import VernierError, open_dump
from . import draw
from .counts import Compared

_HALVES = (torch.float16, torch.bfloat16)
_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
# How torch says that there is no kernel for a dtype or a device.
_NO_KERNEL = (
    "not implemented for",
    "not supported",
    "Could not run",
    "is not available",
    "doesn't support",
    "does not support",
)


class CannotReplay(Exception):
    """The call cannot be repeated here: the test is skipped, for this reason."""


def run(xray, call, factory="load", cpu_init=False):
    """Fails the test unless the device computes what the CPU does. ``xray`` is the fixture of the plug-in."""
    test = _Test(xray, call)
    try:
        pairs = test.run(factory, cpu_init)
    except CannotReplay as reason:
        test.report(0, is_pass="skip", message=str(reason))
        pytest.skip(str(reason))
    except Exception as error:
        message = f"{type(error).__name__}: {_first_line(error)}"
        test.report(0, is_pass="error", message=message)
        raise
    problems = [problem for i, pair in enumerate(pairs) for problem in test.judge(i, *pair)]
    if not pairs:
        test.report(0, is_pass="pass", message="no tensor among the results")
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


class _Test:
    def __init__(self, xray, call):
        self._xray, self._call = xray, call
        self._name = f"{call['id']:05d}-{call['op'].partition('.')[0]}"

    def report(self, index, compared=None, is_pass=None, message=None):
        name = self._name if index == 0 else f"{self._name}:{index}"
        self._xray.report(name, self._call["op"], compared, is_pass, message)

    def run(self, factory, cpu_init):
        """[(CPU's result, device's result)]: outputs, then arguments that were written to."""
        call, xray = self._call, self._xray
        operator = _operator(call["op"])
        seed = xray.seed + call["id"]
        _seed_all(seed)
        place = torch.device("cpu") if cpu_init else xray.device
        values = Arguments(call, xray.folder, place, load=factory == "load")
        device_results = self._results(operator, values, xray.device, seed)
        try:
            cpu_results = self._results(operator, values, torch.device("cpu"), seed)
        except CannotReplay:
            if not values.widen_halves():
                raise
            cpu_results = self._results(operator, values, torch.device("cpu"), seed)
            cpu_results = [_rounded(cpu, other) for cpu, other in zip(cpu_results, device_results)]
        if len(cpu_results) != len(device_results):
            raise AssertionError(f"{len(device_results)} results on the device, {len(cpu_results)} on the CPU")
        return list(zip(cpu_results, device_results))

    def _results(self, operator, values, device, seed):
        args, kwargs = values.on(device)
        _seed_all(seed)
        try:
            with torch.no_grad():
                result = operator(*args, **kwargs)
        except (RuntimeError, NotImplementedError, TypeError) as error:
            if isinstance(error, NotImplementedError) or any(words in str(error) for words in _NO_KERNEL):
                raise CannotReplay(f"{self._call['op']} on {device}: {_first_line(error)}") from None
            raise
        found = list(_tensors(result, with_numbers=True))
        known = {id(tensor) for tensor in found}
        for place in self._call["mutates"]:
            for tensor in _tensors(kwargs.get(place) if isinstance(place, str) else args[place]):
                if id(tensor) not in known:
                    known.add(id(tensor))
                    found.append(tensor)
        return [_readable(tensor) for tensor in found]

    def judge(self, index, cpu, device):
        """Sentences on what is wrong with one result."""
        try:
            compared = Compared(cpu, device, self._xray.orders)
        except (VernierError, TypeError) as error:  # a dtype that the core does not know
            self.report(index, is_pass="error", message=str(error))
            return [f"{self._name} {self._call['op']}: {error}"]
        self.report(index, compared)
        if compared.row["is_pass"] == "pass":
            return []
        output = f", output {index}" if index else ""
        return [f"{self._name} {self._call['op']}{output} on {self._xray.device}: {compared.row['message']}"]


def _operator(name):
    found = torch.ops
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise CannotReplay(f"torch {torch.__version__} has no operator {name}")
    return found


def _seed_all(seed):
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _tensors(value, with_numbers=False):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item, with_numbers)
    elif with_numbers and type(value) in _NUMBERS:
        yield torch.tensor(value, dtype=_NUMBERS[type(value)])


def _readable(tensor):
    """On the CPU, as the core reads it."""
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    return (tensor if tensor.layout is torch.strided else tensor.to_dense()).cpu()


def _rounded(cpu, device):
    """A result of float32 kernels in the place of 16-bit ones."""
    return cpu.to(device.dtype) if device.dtype in _HALVES and cpu.dtype is torch.float32 else cpu


def _first_line(error):
    return str(error).strip().partition("\n")[0]


class Arguments:
    """The values of a call. Each run takes fresh copies with ``on(device)``."""

    def __init__(self, call, folder, place, load):
        self._call, self._folder, self._place, self._load = call, folder, place, load
        self._masters = {}  # path of a tensor -> its elements
        self._described = {}  # path -> how it was recorded
        for path, value in self._paths():
            if isinstance(value, dict) and "shape" in value:
                self._described[path] = value
                self._masters[path] = self._elements(path, value)

    def _paths(self):
        def walk(value, path):
            yield path, value
            if isinstance(value, list):
                for i, item in enumerate(value):
                    yield from walk(item, f"{path}.{i}")

        for i, value in enumerate(self._call["args"]):
            yield from walk(value, f"args.{i}")
        for name, value in self._call["kwargs"].items():
            yield from walk(value, f"kwargs.{name}")

    def _elements(self, path, value):
        dtype = getattr(torch, value["dtype"][6:], None)
        if dtype is None:
            raise CannotReplay(f"torch {torch.__version__} has no dtype {value['dtype']}")
        if "layout" in value:
            raise CannotReplay(f"{path} is {value['layout']}, which is not rebuilt")
        if self._load and "file" in value:
            return _load(self._folder, value["file"], dtype, value["shape"])
        try:
            return draw.tensor(value, dtype, self._place)
        except draw.NoRange:
            raise CannotReplay(
                f"{path} has neither a file nor a range: record with X_DEBUG=0x102, or with X_DUMP_NUM"
            ) from None

    def widen_halves(self):
        """16-bit floats become float32, for a CPU that has no kernel for them. Whether there were any."""
        halves = [path for path, master in self._masters.items() if master.dtype in _HALVES]
        for path in halves:
            self._masters[path] = self._masters[path].float()
        names = {str(dtype) for dtype in _HALVES}
        self._widened = any(isinstance(value, str) and value in names for _, value in self._paths())
        return bool(halves) or self._widened

    _widened = False

    def on(self, device):
        """(args, kwargs) with memory of their own."""
        tensors = self._copies(device)

        def build(value, path):
            if isinstance(value, list):
                return [build(item, f"{path}.{i}") for i, item in enumerate(value)]
            if isinstance(value, dict):
                return tensors[path] if "shape" in value else self._special(value, tensors, device)
            if isinstance(value, str) and value.startswith("torch."):
                named = getattr(torch, value[6:], None)
                if named is None:
                    raise CannotReplay(f"torch {torch.__version__} has no {value}")
                return torch.float32 if self._widened and named in _HALVES else named
            return value

        args = [build(value, f"args.{i}") for i, value in enumerate(self._call["args"])]
        kwargs = {name: build(value, f"kwargs.{name}") for name, value in self._call["kwargs"].items()}
        if device.type == "cpu" and kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False  # it means nothing without another device
        return args, kwargs

    @staticmethod
    def _special(value, tensors, device):
        ((kind, content),) = value.items()
        if kind == "same_as":
            return tensors[content]
        if kind == "device":
            return device
        if kind == "generator":
            return torch.Generator(device=device).manual_seed(content)
        if kind == "complex":
            return complex(*map(float, content))
        if kind == "float":
            return float(content)
        if kind == "str":
            return content
        raise CannotReplay(f"an argument is a {content}, which is not rebuilt")

    def _copies(self, device):
        """Tensors by path. What shared memory when it was recorded shares it again."""
        try:
            groups = {}
            for path, value in self._described.items():
                groups.setdefault((value.get("storage", path), value["dtype"]), []).append(path)
            found = {}
            for paths in groups.values():
                found.update(self._group(paths, device))
            return found
        except (RuntimeError, NotImplementedError, TypeError, AssertionError) as error:
            if isinstance(error, torch.cuda.OutOfMemoryError if hasattr(torch.cuda, "OutOfMemoryError") else ()):
                raise
            raise CannotReplay(f"arguments on {device}: {_first_line(error)}") from None

    def _group(self, paths, device):
        described = [self._described[path] for path in paths]
        if len(paths) == 1 and "stride" not in described[0]:
            return {paths[0]: self._masters[paths[0]].to(device, copy=True).contiguous()}
        strides = [value.get("stride") or _c_order(value["shape"]) for value in described]
        offsets = [value.get("offset", 0) if len(paths) > 1 else 0 for value in described]
        first = min(offsets)
        ends = [offset + _extent(value["shape"], stride) for value, stride, offset in zip(described, strides, offsets)]
        dtype = self._masters[paths[0]].dtype
        memory = torch.zeros(max(ends) - first, dtype=dtype, device=device)
        found = {}
        for path, value, stride, offset in zip(paths, described, strides, offsets):
            view = memory.as_strided(value["shape"], stride, offset - first)
            _fill(view, self._masters[path].to(device))
            found[path] = view
        return found


def _c_order(shape):
    strides, stride = [], 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= size
    return strides[::-1]


def _extent(shape, strides):
    """How many elements of memory a tensor reaches over."""
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides)) if all(shape) else 0


def _fill(view, elements):
    """Element by element of memory: along an axis of stride 0 there is only one."""
    for axis, (size, stride) in enumerate(zip(view.shape, view.stride())):
        if stride == 0 and size > 1:
            view, elements = view.narrow(axis, 0, 1), elements.narrow(axis, 0, 1)
    view.copy_(elements)


def _load(folder, file, dtype, shape):
    """Read by the core, which executes nothing that is in a file."""
    tried = [os.path.join(base, file) for base in (os.path.dirname(folder), os.getcwd())]
    path = next((path for path in tried if os.path.exists(path)), None)
    if path is None:
        raise CannotReplay(f"{tried[0]} does not exist; copy the folder dump/ beside the tests")
    try:
        dump = open_dump(path)
        name = next(iter(dump))
        info, raw = dump.info(name), dump.raw(name)
    except (VernierError, StopIteration) as error:
        raise CannotReplay(f"{path} cannot be read: {_first_line(error)}") from None
    if f"torch.{info.dtype}" != str(dtype) or list(info.shape) != list(shape):
        raise CannotReplay(f"{path} holds {info.dtype} {list(info.shape)}, the recording says {dtype} {list(shape)}")
    if not info.num_bytes:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(dtype).reshape(shape)
