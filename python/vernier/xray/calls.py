"""One dispatched call as a record of dump.json, and the files of its tensors."""

import json
import os

import torch

from .._measure import stats
from .._write import write_pt
from ..record.state import autocast

_PLAIN_TENSORS = {torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.Tensor)}
_storage_of = getattr(torch.Tensor, "untyped_storage", None) or torch.Tensor._storage
_is_wrapped = getattr(torch._C._functorch, "is_functorch_wrapped_tensor", lambda tensor: False)
_SEEDED = getattr(getattr(torch, "Tag", None), "nondeterministic_seeded", None)
_SCALARS = ((bool, "bool"), (int, "int"), (float, "float"), (str, "str"))
_TORCH = ((torch.dtype, "dtype"), (torch.layout, "layout"), (torch.memory_format, "memory_format"))


_MANY_ELEMENTS = 1 << 20  # fewer are measured before another thread has started


class Operator:
    """What is known of an overload before it is called."""

    def __init__(self, function):
        schema = function._schema
        self.name = str(function)  # aten.add.Tensor
        self.namespace = self.name.partition(".")[0]
        self.schema = str(schema)
        arguments = list(schema.arguments)
        self.positional = [argument.name for argument in arguments if not argument.kwarg_only]
        written = [
            argument for argument in arguments if argument.alias_info is not None and argument.alias_info.is_write
        ]
        self.mutates = [
            argument.name if argument.kwarg_only else self.positional.index(argument.name) for argument in written
        ]
        self.is_random = _SEEDED is not None and _SEEDED in getattr(function, "tags", ())


class Namer:
    def __init__(self):
        self._known = {}

    def of(self, function):
        operator = self._known.get(function)
        if operator is None:
            operator = self._known[function] = Operator(function)
        return operator


class Call:
    """``entry`` is its record while it may change; then only its text is left."""

    number = 0
    is_kept = is_dropped = has_files = False
    phase, stack = "forward", None
    device_type = None  # of its first tensor

    def __init__(self, operator, args, kwargs):
        self.operator, self._args, self._kwargs = operator, args, kwargs
        self._key = self._text = self._entry = None
        self._files = []

    def key(self):
        """Equal for calls of the same operator with the same shapes, dtypes and plain arguments."""
        if self._key is None:
            named = sorted(self._kwargs.items())
            self._key = (self.operator.name, _key(self._args), tuple((name, _key(value)) for name, value in named))
        return self._key

    def describe_inputs(self, describer):
        stem, operator = f"{self.number:05d}", self.operator
        args = [describer.value(value, f"args.{i}", f"{stem}.arg{i}") for i, value in enumerate(self._args)]
        kwargs = {
            name: describer.value(value, f"kwargs.{name}", f"{stem}.kw_{name}") for name, value in self._kwargs.items()
        }
        describer.mark_shared_storage()
        given = {*range(len(args)), *kwargs}
        self._entry = {
            "id": self.number,
            "name": f"{stem}-{operator.namespace}",
            "op": operator.name,
            "schema": operator.schema,
            "phase": self.phase,
            "repeat": 0,
            "args": args,
            "kwargs": kwargs,
            "outputs": [],
            "mutates": [place for place in operator.mutates if place in given],
            "grad_mode": torch.is_grad_enabled(),
            "autocast": ", ".join(f"{device}: {dtype}" for device, dtype in autocast().items()) or None,
            "seed": [torch.initial_seed(), 0] if operator.is_random else None,
        }
        self._take(describer)

    def describe_outputs(self, result, describer):
        results = list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]
        if len(results) == 1 or not isinstance(result, list):
            stems = [f"{self.number:05d}.out{i}" for i in range(len(results))]
        else:
            stems = [f"{self.number:05d}.out0.{i}" for i in range(len(results))]
        inputs = {id(value): f"args.{i}" for i, value in enumerate(self._args)}
        inputs.update((id(value), f"kwargs.{name}") for name, value in self._kwargs.items())
        for i, (value, stem) in enumerate(zip(results, stems)):
            described = describer.value(value, f"outputs.{i}", stem)
            if isinstance(value, torch.Tensor) and id(value) in inputs:
                described["same_as"] = inputs[id(value)]
            self._entry["outputs"].append(described)
        if self.stack is not None:
            self._entry["stack"] = self.stack
        self._take(describer)
        self._args = self._kwargs = None  # nothing of the model is kept alive
        self._text = _rendered(self._entry)
        if not self._files:
            self._entry = None

    def _take(self, describer):
        self._files += describer.files
        self.device_type = self.device_type or describer.device_type

    def give_up_files(self):
        """What its files are called, which its record does not name any more."""
        names = [described["file"] for described in self._files]
        for described in self._files:
            described["file"] = None
        self._files, self.has_files = [], False
        if self._entry is not None:
            self._text, self._entry = _rendered(self._entry), None
        return names

    def text(self, repeat):
        return self._text.replace('"repeat": 0', f'"repeat": {repeat}', 1)

    def line(self, result):
        named = [f"{name}={_short(value)}" for name, value in self._kwargs.items()]
        arguments = ", ".join([*map(_short, self._args), *named])
        return f"[xray] {self.number:05d} {self.operator.name}({arguments}) -> {_short(result)}"


def describe(folder, ranges, strides, tell):
    """A describer for one side of a call. ``folder``: save tensors there; None: save none."""
    return _Describer(folder, bool(ranges), bool(strides), tell)


class _Describer:
    def __init__(self, folder, ranges, strides, tell):
        self._folder, self._ranges, self._strides, self._tell = folder, ranges, strides, tell
        self._seen = []  # (tensor, its description, its path), each tensor once
        self.files = []  # descriptions of tensors that have a file
        self.device_type = None

    def value(self, value, path, stem):
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path, stem)
        if value is None:
            return {"kind": "none"}
        for kind, name in _SCALARS:
            if isinstance(value, kind):
                return {"kind": name, "value": _number(value) if name == "float" else kind(value)}
        if isinstance(value, (list, tuple)):
            items = [self.value(item, f"{path}.{i}", f"{stem}.{i}") for i, item in enumerate(value)]
            tensors = any(isinstance(item, torch.Tensor) for item in value)
            return {"kind": "tensor_list" if tensors else "list", "items": items}
        for kind, name in _TORCH:
            if isinstance(value, kind):
                return {"kind": name, "value": str(value)}
        if isinstance(value, torch.device):
            return {"kind": "device", "value": str(value)}
        if isinstance(value, torch.Generator):
            return {"kind": "generator", "seed": value.initial_seed(), "offset": 0}
        if isinstance(value, complex):
            return {"kind": "scalar", "type": "complex", "value": [_number(value.real), _number(value.imag)]}
        if isinstance(value, (torch.SymInt, torch.SymFloat) if hasattr(torch, "SymInt") else ()):
            plain = int(value) if isinstance(value, torch.SymInt) else float(value)
            return self.value(plain, path, stem)
        return {"kind": "object", "type": type(value).__name__}

    def _tensor(self, tensor, path, stem):
        described = {
            "kind": "tensor",
            "dtype": str(tensor.dtype),
            "shape": [int(size) for size in tensor.shape],
            "device": str(tensor.device),
            "layout": str(tensor.layout),
            "requires_grad": tensor.requires_grad,
        }
        self.device_type = self.device_type or tensor.device.type
        for other, _, other_path in self._seen:
            if other is tensor:
                described["same_as"] = other_path
                return described
        if not _has_data(tensor):
            described.update(min=None, max=None, file=None)
            return described
        self._seen.append((tensor, described, path))
        described["contiguous"] = tensor.is_contiguous()
        if self._strides or not described["contiguous"]:
            self._place(tensor, described)
        described.update(min=None, max=None)
        host = None
        if (self._ranges and tensor.numel()) or self._folder is not None:
            host = tensor.detach().cpu()
        try:
            if self._ranges and tensor.numel():
                described.update(_range(host, tensor.dtype))
            described["file"] = None
            if self._folder is not None:
                file = f"dump/{stem}.pt"
                write_pt(os.path.join(self._folder, file), host, sync=False)
                described["file"] = file
                self.files.append(described)
        except Exception as error:  # of one tensor: the record stands
            described["file"] = None
            self._tell(error, f"{stem} ({described['dtype']})")
        return described

    @staticmethod
    def _place(tensor, described):
        described["stride"] = list(tensor.stride())
        described["offset"] = tensor.storage_offset()

    def mark_shared_storage(self):
        """Tensors that look at one memory are to do so again when the call is repeated."""
        groups = {}
        for tensor, described, path in self._seen:
            if tensor.numel():
                groups.setdefault(_storage_of(tensor).data_ptr(), []).append((tensor, described, path))
        for members in groups.values():
            if len(members) > 1:
                for tensor, described, _ in members:
                    self._place(tensor, described)
                    described["storage"] = members[0][2]


def _has_data(tensor):
    is_plain = type(tensor) in _PLAIN_TENSORS and not _is_wrapped(tensor)
    if not is_plain or tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized:
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())  # a copy would break the capture


def _range(host, dtype):
    """min and max as torch reduces, NaN included; where NaN or infinities are, those of the others too."""
    row = stats(host, threads=1 if host.numel() < _MANY_ELEMENTS else 0)
    whole = not dtype.is_floating_point and not dtype.is_complex
    number = int if whole else _number
    found = {"min": number(row["min"]), "max": number(row["max"]), "nan": row["num_nan"]}
    found["inf"] = row["num_pos_inf"] + row["num_neg_inf"]
    if (found["nan"] or found["inf"]) and row["finite_min"] is not None:
        found.update(finite_min=row["finite_min"], finite_max=row["finite_max"])
    return found


def _number(value):
    """As strict JSON has it."""
    if value != value:
        return "nan"
    return {float("inf"): "inf", float("-inf"): "-inf"}.get(value, float(value))


def _key(value):
    if isinstance(value, torch.Tensor):
        return (value.dtype, tuple(value.shape))
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    return (type(value).__name__, repr(value)) if not isinstance(value, torch.Generator) else "generator"


def _short(value):
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[6:]}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_short, value)) + "]"
    return repr(value)


def _rendered(entry):
    """A member to a line; each argument has its own."""
    lines = []
    for key, value in entry.items():
        if key in ("args", "outputs") and value:
            text = "[" + ",".join(f"\n        {_dumps(item)}" for item in value) + "\n      ]"
        elif key == "kwargs" and value:
            items = (f"\n        {_dumps(name)}: {_dumps(item)}" for name, item in value.items())
            text = "{" + ",".join(items) + "\n      }"
        else:
            text = _dumps(value)
        lines.append(f'      "{key}": {text}')
    return "{\n" + ",\n".join(lines) + "\n    }"


def _dumps(value):
    return json.dumps(value, allow_nan=False)
