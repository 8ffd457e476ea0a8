"""One call in a chosen precision on a chosen device: outputs and gradients.

``compute(function, args, kwargs, ...)`` leaves its arguments as they are: every call gets copies of its own.
"""

import contextlib
import warnings
from typing import Any, List, NamedTuple, Optional

import torch

from .arguments import FLOAT8, retaining

RAISED = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64}
_MAX_DEPTH = 400
_LEAF_CHANGED = "leaf Variable that requires grad"  # of torch's message


class Computed(NamedTuple):
    outputs: Any
    gradients: Optional[List[Optional[torch.Tensor]]]  # of the tensors among the positional arguments; None: not asked


class Precision(NamedTuple):
    """In which dtypes the bench computes, and whether the device runs under autocast."""

    raise_to: Optional[torch.dtype]
    autocast: Optional[torch.dtype]


def precision_of(args, kwargs, output_dtype=None):
    """What the dtypes of a call ask for; ``output_dtype`` is that of its recorded first output."""
    found = {t.dtype for t in tensors_in([args, list(kwargs.values())]) if t.dtype in RAISED}
    if len(found) > 1:
        narrow = sorted(found - {torch.float32}, key=str)
        return Precision(torch.float32, narrow[0])
    only = next(iter(found), None)
    differs = output_dtype is not None and output_dtype.is_floating_point and output_dtype is not only
    return Precision(RAISED.get(only), output_dtype if differs else None)


def compute(
    function,
    args,
    kwargs,
    *,
    device="cpu",
    raise_to=None,
    keep_float32=False,
    autocast=None,
    grad=None,
    gradient_index=None,
    keep_graph=False,
):
    """Calls ``function`` on ``device`` and, with ``grad``, goes backward from its output.

    ``raise_to``: the dtype that 16- and 32-bit floats are computed in, None: their own; ``keep_float32`` leaves float32
    alone. 8-bit floats become float32 where anything is raised. ``autocast``: a dtype to run under. ``grad`` is the
    gradient of the output, or of output ``gradient_index``; a function makes it from the outputs once they are known.
    ``keep_graph``: the copies stay tied to the arguments' graph.
    """
    with_grad = grad is not None
    prepare = _Preparation(device, raise_to, keep_float32, with_grad, keep_graph)
    try:
        prepared, outputs = _call(function, args, kwargs, prepare, autocast)
    except RuntimeError as error:
        if _LEAF_CHANGED not in str(error):
            raise
        prepare.leaves = False
        prepared, outputs = _call(function, args, kwargs, prepare, autocast)
    if not with_grad:
        return Computed(outputs, None)
    grad = grad(outputs) if callable(grad) else grad
    if grad is None:
        return Computed(outputs, None)
    if raise_to is not None:
        grad = raised_alone(grad, keep_float32)
    (outputs if gradient_index is None else outputs[gradient_index]).backward(grad.to(device))
    return Computed(outputs, [tensor.grad for tensor in tensors_in(prepared)])


def _call(function, args, kwargs, prepare, autocast):
    """The positional arguments that were handed over, and what came back."""
    args = [prepare(arg) for arg in args]
    kwargs = {name: prepare(value, keep_graph=name == "out") for name, value in kwargs.items()}
    with _autocast(prepare.device, autocast), contextlib.nullcontext() if prepare.with_grad else torch.no_grad():
        return args, function(*args, **kwargs)


class _Preparation:
    """Copies of arguments for one side, one for each tensor."""

    def __init__(self, device, raise_to, keep_float32, with_grad, keep_graph):
        self.device, self.with_grad = torch.device(device), with_grad
        self.leaves = True  # until the call turns out to change one in place, which autograd forbids
        self._raise_to, self._keep_float32, self._keep_graph = raise_to, keep_float32, keep_graph

    def __call__(self, value, keep_graph=False, depth=0):
        if depth > _MAX_DEPTH:
            raise RecursionError(f"an argument is nested deeper than {_MAX_DEPTH}")
        if isinstance(value, torch.Tensor):
            return self._tensor(value, keep_graph or self._keep_graph)
        if isinstance(value, torch.Size):
            return value
        if isinstance(value, (list, tuple)):
            return type(value)([self(item, keep_graph, depth + 1) for item in value])
        if isinstance(value, dict):
            return {key: self(item, keep_graph, depth + 1) for key, item in value.items()}
        return value

    def _tensor(self, tensor, keep_graph):
        source = tensor if keep_graph else tensor.detach()
        copy = source if self._raise_to is None else _raised(source, self._raise_to, self._keep_float32)
        copy = copy.to(self.device)
        copy = copy.clone() if copy is source else copy
        if not (self.with_grad and tensor.requires_grad and copy.dtype.is_floating_point):
            return copy
        if keep_graph:
            copy = copy * 1
            copy.retain_grad()
            return copy
        return copy.requires_grad_() if self.leaves and copy.dtype not in FLOAT8 else retaining(copy)


def _raised(tensor, raise_to, keep_float32):
    if tensor.dtype in FLOAT8:
        return tensor.to(torch.float32)
    is_kept = tensor.dtype is torch.float32 and keep_float32
    return tensor if raise_to is None or tensor.dtype not in RAISED or is_kept else tensor.to(raise_to)


def raised_alone(tensor, keep_float32=False):
    """A tensor in the precision that its own dtype asks for."""
    return _raised(tensor, RAISED.get(tensor.dtype), keep_float32)


@contextlib.contextmanager
def _autocast(device, dtype):
    if dtype is None:
        yield
        return
    with warnings.catch_warnings():  # a dtype without autocast says so and changes nothing
        warnings.simplefilter("ignore")
        with torch.autocast(device.type, dtype=dtype):
            yield


def tensors_in(value):
    """The tensors of a nest of lists and tuples, depth first."""
    found, waiting = [], [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif isinstance(item, (list, tuple)):
            waiting.extend(reversed(item))
        elif isinstance(item, dict):
            waiting.extend(reversed(list(item.values())))
    return found
