"""One recorded call: rebuilt, executed on the device and on the bench, and handed to the judge."""

import contextlib
import ctypes
import importlib
import os

import torch

from .. import _native
from .._tensor import borrow
from ._core import BACKWARD, FORWARD
from .apis import find_api
from .arguments import FLOAT8, RULES, SEED, ArgumentError, ArgumentMaker
from .executor import compute, precision_of, raised_alone, tensors_in
from .judging import judge_outputs

__all__ = ["SEED", "CallCheck", "change_rules", "find_device"]

_THREADED_BYTES = 1 << 17
_ACCELERATORS = ("npu", "cuda", "xpu", "mps")


def find_device(word, jit=False):
    """A torch device by its name, or by its number among those of the accelerator at hand; "" is the first, or the CPU.

    ``jit``: whether an NPU may compile operators and use formats of its own.
    """
    _import_vendor()
    if word == "" or word.isdigit():
        kind = next((kind for kind in _ACCELERATORS if _is_available(kind)), None)
        if kind is None and word not in ("", "0"):
            raise ValueError(f"-d {word}: torch has no accelerator here; use -d cpu")
        device = torch.device("cpu") if kind is None else torch.device(kind, int(word or 0))
    else:
        try:
            device = torch.device(word)
        except RuntimeError as error:
            raise ValueError(f"-d {word}: {str(error).splitlines()[0]}") from None
    if device.type == "cpu":
        return torch.device("cpu")
    module = getattr(torch, device.type, None)
    if module is None or not _is_available(device.type):
        raise ValueError(f"-d {word}: this torch ({torch.__version__}) has no {device.type} device")
    count = module.device_count() if hasattr(module, "device_count") else 1
    if (device.index or 0) >= count:
        raise ValueError(f"-d {word}: there are {count} devices of {device.type}")
    if hasattr(module, "set_device"):
        module.set_device(device.index or 0)
    if device.type == "npu":
        module.set_compile_mode(jit_compile=jit)
        module.config.allow_internal_format = jit
    return torch.device(device.type, device.index or 0)


def _import_vendor():
    """torch_npu registers its device when it is imported."""
    with contextlib.suppress(ImportError):
        importlib.import_module("torch_npu")


def _is_available(kind):
    module = torch.backends.mps if kind == "mps" else getattr(torch, kind, None)
    return module is not None and module.is_available()


def change_rules(changes):
    """Replaces rules of how calls are made; what else there is in ``changes`` is for the judge, who checks it all."""
    for key in RULES.keys() & changes.keys():
        is_table = isinstance(RULES[key], dict)
        RULES[key] = {**RULES[key], **changes[key]} if is_table else changes[key]


class CallCheck:
    """Checks calls; what is the same for all of them."""

    def __init__(self, precheck, device, data_dir, error_dir):
        self._precheck, self._device, self._data_dir, self._error_dir = precheck, device, data_dir, error_dir
        self.num_bytes = 0  # of the last call's arguments
        self._num_threads = torch.get_num_threads()

    def run(self, call):
        """The judge's answer to a call, as bytes; raises where it cannot be executed."""
        name, api = call["name"], call["api"]
        on_device, on_bench = find_api(call["prefix"], api, self._device.type)
        forward, backward = call["forward"], call["backward"]
        if not isinstance(forward, dict) or not isinstance(forward.get("input_args", []), list):
            raise ArgumentError("the record has no list of arguments")
        descriptors = forward.get("input_kwargs") or {}
        has_out = "out" in descriptors
        keeps_graph = api in RULES["keeps_graph"]
        float8 = self._device.type != "cuda"
        maker = ArgumentMaker(api, self._data_dir, not has_out, float8, leaves=not keeps_graph)
        kwargs = maker.keywords(descriptors)  # first: this fixes the order in which numbers are drawn
        args = maker.positional(forward.get("input_args") or [])
        _leave_out_dropout(api, args, kwargs)
        for_device, for_bench = self._placed(kwargs, descriptors)
        tensors = tensors_in([args, list(kwargs.values())])
        self.num_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        # Threads that wait for each other cost small calls more than they save.
        torch.set_num_threads(self._num_threads if self.num_bytes > _THREADED_BYTES else 1)
        has_float8 = any(tensor.dtype in FLOAT8 for tensor in tensors)

        plan = _BackwardPlan(api, backward, has_out, maker)
        precision = precision_of(args, kwargs, _output_dtype(forward))
        common = {"grad": plan.gradient, "gradient_index": plan.index, "keep_graph": keeps_graph}
        bench = compute(
            on_bench,
            args,
            for_bench,
            raise_to=None if api in RULES["not_raised"] else precision.raise_to or torch.float32,
            keep_float32=api in RULES["hf32"],
            **common,
        )
        device = compute(on_device, args, for_device, device=self._device, autocast=precision.autocast, **common)

        self._precheck.begin(name, api)
        self._show_inputs(args, kwargs)
        outputs = self._outputs(api, bench.outputs, device.outputs, for_device, has_float8)
        gradients = bench.gradients, _on_cpu(device.gradients)
        self._judge(name, outputs, gradients, plan, has_float8)
        if self._error_dir:
            self._save_failed(name, args, kwargs, outputs, plan.bench_gradient(), gradients)
        return self._precheck.finish()

    def _placed(self, kwargs, descriptors):
        """Keyword arguments of both sides: a device that was recorded is the one under test, the bench has none."""
        if descriptors.get("device") is None:
            return kwargs, kwargs
        others = {name: value for name, value in kwargs.items() if name != "device"}
        return dict(others, device=self._device), others

    def _outputs(self, api, bench, device, kwargs, has_float8):
        """(bench, device) as they are compared, on the CPU."""
        if api in RULES["first_output_only"]:
            bench, device = bench[0], device[0]
        device = _on_cpu(device)
        if has_float8 and isinstance(device, torch.Tensor) and device.dtype is torch.float32:
            device = device.to(torch.float16)
        counts = kwargs.get(RULES["rows_by_keyword"].get(api))
        if counts is not None:  # rows behind those that were asked for hold anything
            device = _without_tail(device, int(sum(torch.as_tensor(counts).tolist())))
        return _on_cpu(bench), device

    def _judge(self, name, outputs, gradients, plan, has_float8):
        if "dropout" in name:
            self._precheck.dropout(FORWARD, *(_first_tensor(side) for side in outputs))
            firsts = [next((t for t in side or [] if t is not None), None) for side in gradients]
            if None not in firsts:
                self._precheck.dropout(BACKWARD, *firsts)
            return
        judge_outputs(self._precheck, FORWARD, *outputs, has_float8)
        if plan.reason:
            self._precheck.skip(BACKWARD, plan.reason)
        elif gradients[0] and gradients[1]:
            judge_outputs(self._precheck, BACKWARD, *gradients, has_float8)

    def _show_inputs(self, args, kwargs):
        for name, tensor in _named_tensors(args, kwargs):
            self._precheck.input(name, tensor)

    def _save_failed(self, name, args, kwargs, outputs, gradient, gradients):
        if not {self._precheck.verdict(FORWARD), self._precheck.verdict(BACKWARD)} & {"warning", "error"}:
            return
        parts = [(f"forward.{key}", tensor) for key, tensor in _named_tensors(args, kwargs)]
        sides = ("bench", "device")
        parts += [
            (f"forward.output.{side}.{i}", item)
            for side, output in zip(sides, outputs)
            for i, item in enumerate(output if isinstance(output, (list, tuple)) else [output])
        ]
        if gradients[0] and gradients[1]:
            parts.append(("backward.input.0", gradient))
            parts += [
                (f"backward.output.{side}.{i}", item)
                for side, given in zip(sides, gradients)
                for i, item in enumerate(given)
            ]
        os.makedirs(self._error_dir, exist_ok=True)
        for part, tensor in parts:
            if isinstance(tensor, torch.Tensor):
                borrowed, _keep = borrow(tensor.detach())
                path = os.path.join(self._error_dir, f"{name}.{part}.pt")
                _native.lib.VnWritePt(os.fsencode(path), ctypes.byref(borrowed))


class _BackwardPlan:
    """Whether a call goes backward, from which output, with which gradient; or why not."""

    def __init__(self, api, record, has_out, maker):
        self._record, self._maker, self._made = record, maker, None
        self._api = api
        self.index = RULES["gradient_index"].get(api)
        reasons = (
            (has_out, "out= given, no automatic differentiation"),
            (api in RULES["no_backward_input"], "no backward input"),
            (api in RULES["backward_not_tested"], "backward not tested"),
        )
        self.reason = "; ".join(reason for holds, reason in reasons if holds)
        self.gradient = self._gradient if record is not None and not self.reason else None

    def _gradient(self, outputs):
        """The recorded gradient, once for both sides; None where there are several outputs and no rule for them."""
        if outputs is None:
            return None
        if self.index is None and isinstance(outputs, (list, tuple)):
            self.reason = "several outputs, no gradient index"
            return None
        if self._made is None:
            given = self._record.get("input") if isinstance(self._record, dict) else None
            if not given:
                raise ArgumentError("the backward record has no gradient")
            self._made = self._maker.make(given[0])
            if not isinstance(self._made, torch.Tensor):
                raise ArgumentError("the first input of the backward record is no tensor")
            self._made = self._made.detach()
        return self._made

    def bench_gradient(self):
        """The gradient as the bench had it."""
        is_raised = self._made is not None and self._api not in RULES["not_raised"]
        return raised_alone(self._made, self._api in RULES["hf32"]) if is_raised else self._made


def _leave_out_dropout(api, args, kwargs):
    """Both sides would draw other numbers; without them the rest of the call can be compared."""
    place = RULES["dropout_argument"].get(api)
    if place is not None and len(args) > place:
        args[place] = 0.0
    if place is not None and "dropout_p" in kwargs:
        kwargs["dropout_p"] = 0.0


def _output_dtype(forward):
    """The floating dtype of the recorded first output."""
    output = forward.get("output")
    first = output[0] if isinstance(output, list) and output else None
    name = first.get("dtype") if isinstance(first, dict) else None
    dtype = getattr(torch, name.rpartition(".")[2], None) if isinstance(name, str) else None
    return dtype if isinstance(dtype, torch.dtype) and dtype.is_floating_point else None


def _on_cpu(value):
    if isinstance(value, torch.Tensor):
        value = value.detach()
        value = value if value.layout is torch.strided else value.to_dense()
        return value.dequantize() if value.is_quantized else value.cpu()
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return [_on_cpu(item) for item in value]
    if isinstance(value, dict):
        return {key: _on_cpu(item) for key, item in value.items()}
    return value


def _first_tensor(value):
    return next(iter(tensors_in(value)))


def _without_tail(value, num_rows):
    if isinstance(value, torch.Tensor):
        value = value.clone()
        value[num_rows:] = 0
        return value
    return [_without_tail(item, num_rows) for item in value] if isinstance(value, list) else value


def _named_tensors(args, kwargs):
    """(name, tensor) of every tensor given: by place among all items of the arguments, or by keyword."""
    place = 0
    waiting = list(reversed(args))
    while waiting:
        item = waiting.pop()
        if isinstance(item, (list, tuple)) and not isinstance(item, torch.Size):
            waiting.extend(reversed(item))
            continue
        if isinstance(item, torch.Tensor):
            yield f"input.{place}", item.detach()
        place += 1
    for key, value in kwargs.items():
        tensors = tensors_in(value)
        for i, tensor in enumerate(tensors):
            yield f"input.{key}" if len(tensors) == 1 else f"input.{key}.{i}", tensor.detach()
