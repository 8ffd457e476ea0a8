"""Python values as the json text of their descriptors; tensors as words for the recorder, who measures them."""

import dataclasses
import json
import sys
import types
import zlib
from array import array

import torch

from . import core, state

_quote = json.dumps
_TENSOR_MARK = "\x01"
_PLAIN_TENSORS = {torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.Tensor)}
_ALL_DTYPES = {dtype: core.dtype_code(str(dtype)) for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
_DTYPE_CODES = {dtype: code for dtype, code in _ALL_DTYPES.items() if code >= 0}
_DTYPES = {
    dtype: (code, torch.empty((), dtype=dtype).element_size(), dtype.is_complex) for dtype, code in _DTYPE_CODES.items()
}
# Measuring fewer elements again costs less than finding out that they are the same as before.
_MARKED_ELEMENTS = 1024
_METHODS = ("is_neg", "is_conj", "data_ptr", "stride", "get_device", "storage_offset")
_graph_task = getattr(torch._C, "_current_graph_task_id", None)
_storage_of = getattr(torch.Tensor, "untyped_storage", None) or torch.Tensor._storage


class Values:
    """The tensors of one put that were described here, and what must stay alive until it is done."""

    __slots__ = ("words", "num_bytes", "changed", "keep", "drain", "tensors", "waiting")

    def __init__(self):
        self.words, self.num_bytes, self.changed = [], 0, False
        self.keep, self.drain, self.tensors = [], False, []
        self.waiting = []  # (slot, tensor) for DeviceStage.put_done

    def array(self):
        return array("q", self.words)


class Describer:
    """``text(value, values)`` gives the descriptor; tensors in it are added to ``values``.

    Numbers, texts, containers and plain tensors are described by the core. It asks here about everything else.
    """

    def __init__(
        self, recorder, *, device_stage, new_stack, cut=None, keep_tensors=False, every_tensor=False, identity=False
    ):
        """``every_tensor``: small ones too are told apart by their storages."""
        self._device_stage = device_stage
        self.identity = identity
        self._cut = cut
        self._keep_tensors = keep_tensors  # of each put, in values.tensors
        self._by_type = {
            torch.Size: lambda value: _typed("torch.Size", [int(n) for n in value]),
            slice: lambda value: _typed("slice", [_index(part) for part in (value.start, value.stop, value.step)]),
            type(...): lambda value: _typed("ellipsis", "..."),
            torch.dtype: lambda value: _typed("torch.dtype", str(value)),
            torch.device: lambda value: _typed("torch.device", str(value)),
            torch.layout: lambda value: "null",
            torch.memory_format: lambda value: (
                f'{{"type":"torch.memory_format","format":{_quote(str(value).rpartition(".")[2])}}}'
            ),
        }
        self.functions = recorder.functions(
            types.SimpleNamespace(
                new_stack=new_stack,
                put_done=device_stage.put_done,
                launch=device_stage.launch,
                meters=device_stage.by_device,
                meter_of=device_stage.meter_of,
                measures_as_device=device_stage.measures_as_device,
                values_class=Values,
                other=self._other,
                keyed=self._keyed,
                unusual=self._unusual_tensor,
                resolved=self._resolved,
                without_data=self.without_data,
                look=self._look if keep_tensors or cut is not None else None,
                quote=_quote,
                marked_elements=0 if every_tensor else _MARKED_ELEMENTS,
                identity=identity,
                state=(lambda: recorder.state(autocast=state.autocast())) if identity else None,
                graph_task=_graph_task if identity else None,
                is_grad_enabled=torch.is_grad_enabled,
                parameter_type=torch.nn.Parameter,
                tensor_types=tuple(_PLAIN_TENSORS),
                dtypes=_DTYPES,
                strided=torch.strided,
                **{name: getattr(torch.Tensor, name) for name in _METHODS},
                storage_of=_storage_of,
                weak_ref=type(_storage_of(torch.empty(0)))._weak_ref,
                free_weak_ref=torch.UntypedStorage._free_weak_ref,
            )
        )
        self.text = self.functions.text

    @staticmethod
    def code(dtype):
        return _DTYPE_CODES[dtype]

    def _keyed(self, key, value, values):
        """An argument whose name tells what it means."""
        key = str(key)
        if key == "device" and isinstance(value, (int, str)) and not isinstance(value, bool):
            return _typed("torch.device", value)
        if key != "device" and not isinstance(value, torch.Tensor) and value is not None:
            return _typed("torch.dtype", str(value))
        return self.text(value, values)

    def _other(self, value, values):
        describe = self._by_type.get(type(value))
        if describe is not None:
            return describe(value)
        if isinstance(value, torch.Tensor):
            return self._tensor_of_other_type(value, values)
        for kind, name in ((bool, "bool"), (int, None), (float, None), (str, None)):
            if isinstance(value, kind):
                return _typed(name or type(value).__name__, kind(value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self.text(dict(zip(value._fields, value)), values)
        if isinstance(value, (list, tuple)):
            return self.text(list(value), values)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
            return self.text(fields, values)
        if isinstance(value, dict):
            return self.text(dict(value.items()), values)
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.generic):
            return _numpy_scalar(value)
        if numpy is not None and isinstance(value, numpy.ndarray):
            return self._numpy_array(numpy, value, values)
        return self._distributed(value, values) or "null"

    def _distributed(self, value, values):
        dist = sys.modules.get("torch.distributed")
        if dist is None or not dist.is_available():
            return None
        if isinstance(value, getattr(dist, "ProcessGroup", ())):
            return group_text(value)
        if isinstance(value, dist.ReduceOp) or type(value).__name__ == "RedOpType":
            return _typed("torch.distributed.ReduceOp", reduce_name(dist, value))
        if isinstance(value, getattr(dist, "P2POp", ())):
            fields = (
                ("class_type", _quote("torch.distributed.P2POp")),
                ("tensor", self.text(value.tensor, values)),
                ("op", _quote(getattr(value.op, "__name__", str(value.op)))),
                ("peer", _quote(value.peer)),
                ("tag", _quote(value.tag)),
                ("group_id", _quote(group_identity(group_ranks(value.group)))),
            )
            return "{" + ",".join(f'"{name}":{text}' for name, text in fields) + "}"
        return None

    # -- tensors

    def _look(self, tensor, values):
        if self._cut is not None:
            tensor = self._cut(tensor)
            values.keep.append(tensor)
        if self._keep_tensors:
            values.tensors.append(tensor)
        return tensor

    def _resolved(self, tensor, values):
        """One that is to be read conjugated or negated."""
        plain = tensor.detach().resolve_conj().resolve_neg()
        values.keep.append(plain)
        return self.host_tensor(plain, values, _flags(tensor) | core.IS_COPY)

    def host_tensor(self, tensor, values, flags=-1):
        """A plain tensor; ``flags`` is -1 or whether it requires a gradient."""
        return self.functions.tensor(tensor, values, flags)

    def _tensor_of_other_type(self, tensor, values):
        tensor = self._look(tensor, values)
        try:
            return self._unusual_tensor(tensor, values)
        except (RuntimeError, NotImplementedError, AttributeError, TypeError):
            return self.without_data(tensor, values)

    def _unusual_tensor(self, tensor, values):
        name = type_name(tensor)
        if name.endswith(".DTensor"):
            after = {
                "device_mesh": tensor.device_mesh.mesh.tolist(),
                "placements": [_placement(p) for p in tensor.placements],
            }
            return self._by_part(name, tensor, tensor.to_local(), values, after)
        if name.endswith(".NestedTensor"):  # of the jagged layout; the others are plain tensors
            return self._by_part(name, tensor, tensor._values, values)
        if type(tensor) not in _PLAIN_TENSORS and "FakeTensor" not in name and not _is_wrapper(tensor):
            plain = tensor.detach().as_subclass(torch.Tensor)
            if not plain.is_meta and plain.layout is torch.strided and plain.dtype in _DTYPE_CODES:
                values.keep.append(plain)
                text = self.host_tensor(plain, values, _flags(tensor))
                return text + _extras(name, tensor) if text == _TENSOR_MARK else text
        on_device = tensor.layout is torch.strided and not tensor.is_meta and tensor.dtype in _DTYPE_CODES
        if self._device_stage is not None and on_device and type(tensor) in _PLAIN_TENSORS and self._is_device(tensor):
            return self._device_stage.text(tensor, values, self)
        return self.without_data(tensor, values)

    def _is_device(self, tensor):
        return not tensor.is_cpu or self._device_stage.measures_as_device

    def _by_part(self, name, tensor, part, values, after=None):
        """A tensor that is described by another one, which holds its data here."""
        part = part.detach()
        values.keep.append(part)
        if values.tensors:
            values.tensors[-1] = part
        mark = self.host_tensor(part, values, _flags(tensor))
        if mark != _TENSOR_MARK:
            return mark
        return _TENSOR_MARK + _quote({"type": name} if after is None else {"type": name, "after": after})

    @staticmethod
    def without_data(tensor, values):
        try:
            shape = [int(size) for size in tensor.shape]
        except (RuntimeError, TypeError, AttributeError):  # nested or symbolic: the sizes are not numbers
            shape = []
        dtype = _DTYPE_CODES.get(tensor.dtype, -1)
        flags = core.NO_DATA | _flags(tensor)
        values.words += (0, 0, 0, dtype, flags, len(shape), *shape, *([0] * len(shape)))
        return _TENSOR_MARK + _extras(type_name(tensor), tensor)

    def _numpy_array(self, numpy, value, values):
        code, plain = core.dtype_code(value.dtype.name), value
        usual_strides = all(stride >= 0 and stride % value.itemsize == 0 for stride in value.strides)
        if code >= 0 and not (value.dtype.isnative and usual_strides):
            plain = value.astype(value.dtype.newbyteorder("="), order="C")
        extras = _quote({"type": "numpy.ndarray", "dtype": str(value.dtype)})
        if self._keep_tensors:
            try:
                values.tensors.append(torch.from_numpy(plain))
            except TypeError:  # this torch does not know the dtype
                values.tensors.append(torch.empty(0))
                plain = None
        if code < 0 or plain is None:
            values.words += (0, 0, 0, -1, core.ARRAY | core.NO_DATA, value.ndim, *value.shape, *([0] * value.ndim))
            return _TENSOR_MARK + extras
        values.keep.append(plain)
        address = plain.__array_interface__["data"][0]
        strides = [stride // plain.itemsize for stride in plain.strides]
        values.words += (address, 0, 0, code, core.ARRAY, plain.ndim, *plain.shape, *strides)
        values.num_bytes += plain.nbytes
        return _TENSOR_MARK + extras


def _typed(kind, value):
    return f'{{"type":{_quote(kind)},"value":{_quote(value)}}}'


def _flags(tensor):
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return (core.REQUIRES_GRAD if tensor.requires_grad else 0) | (core.PARAMETER if is_parameter else 0)


def _extras(name, tensor):
    return _quote({"type": name, "dtype": str(tensor.dtype)})


def _is_wrapper(tensor):
    """Batched and gradient-tracking tensors of torch.func have no memory of their own."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def type_name(tensor):
    kind = type(tensor)
    if kind in _PLAIN_TENSORS:
        if torch._C._functorch.is_batchedtensor(tensor):
            return "BatchedTensor"
        return "GradTrackingTensor" if torch._C._functorch.is_gradtrackingtensor(tensor) else "torch.Tensor"
    # Only torch's own kinds have a name in a dump.
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__module__.startswith("torch.") else "torch.Tensor"


def _placement(placement):
    name = type(placement).__name__
    if "Shard" in name:
        return {"Shard": {"dim": placement.dim}}
    if "Partial" in name:
        return {"Partial": {"reduce_op": str(getattr(placement, "reduce_op", ""))}}
    return {"Replicate": {}}


def _index(part):
    return None if part is None else int(part)


def _numpy_scalar(value):
    plain = value.item()
    return _typed(type(value).__name__, plain if isinstance(plain, (bool, int, float, str)) else str(value))


# -- process groups


def group_ranks(group):
    dist = torch.distributed
    try:
        return list(dist.get_process_group_ranks(group if group is not None else dist.group.WORLD))
    except (AttributeError, RuntimeError, KeyError, ValueError):
        mapping = getattr(dist.distributed_c10d, "_pg_group_ranks", {})
        if group in mapping:
            return sorted(mapping[group])
        return list(range(dist.get_world_size()))


def group_identity(ranks):
    return f"{zlib.crc32(str(ranks).encode()):08x}"


def group_text(group):
    ranks = group_ranks(group)
    fields = {"type": "torch.ProcessGroup", "group_ranks": ranks, "group_id": group_identity(ranks)}
    return _quote(fields)


def reduce_name(dist, operation):
    shown = str(operation)
    if shown.startswith("RedOpType."):
        return shown
    for name in ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG", "PREMUL_SUM"):
        if hasattr(dist.ReduceOp, name) and operation == getattr(dist.ReduceOp, name):
            return f"RedOpType.{name}"
    return shown if shown.startswith("<") is False else "RedOpType.UNUSED"
