"""Gradients: hooks on autograd's nodes for APIs and parameters, a node at the inputs of each module."""

import functools
import itertools
import weakref
from collections import OrderedDict

import torch

from . import core
from .nests import gradient_tensors, replaced
from .versions import IS_TORCH_2

_STRIDED = torch.strided
# From torch 2.1 on; before, the node that adds the gradient up is looked for, which takes longer.
_AFTER_GRADIENT = hasattr(torch.Tensor, "register_post_accumulate_grad_hook")
_TensorBase = getattr(torch._C, "TensorBase", None) or torch._C._TensorBase
_creation_meta = getattr(torch._C._autograd, "CreationMeta", None)


class Boundary(torch.autograd.Function):
    """Several inputs of a module pass through one node, so that their gradients are seen together."""

    @staticmethod
    def forward(ctx, *tensors):
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class Gathered(Boundary):
    """Several outputs of a module, so that what uses them outside is told from what uses them inside."""

    @staticmethod
    def forward(ctx, *tensors):
        # What got no gradient hands none on, as after the framework's own module hooks.
        ctx.set_materialize_grads(not IS_TORCH_2)
        if _creation_meta is not None:
            return Boundary.forward(ctx, *tensors)
        return tuple(tensor.detach() for tensor in tensors)  # no view of theirs may be changed in place


class Backward:
    """What src/front/module_calls.cc leaves to Python, and the gradients of APIs."""

    _keys = itertools.count(-1, -1)  # torch's own are positive

    def __init__(self, capture):
        self._capture = capture
        functions = capture.describer.functions
        self._inputs_done, self._outputs_arrived = functions.inputs_done, functions.outputs_arrived
        self._watch_output = functions.watch_output
        self._key = next(self._keys)  # of hooks on the outputs of modules
        self._handles = []
        # Filled by the core.
        self._hooked = []  # (weak reference to a tensor's dict of hooks, our key in it)
        self._parameters = []  # (parameter, our key in its dict of hooks)
        self._firings = {}  # module -> how far its parameters' gradients are
        self._accumulators = {}  # (id of a parameter, module) -> the node that adds its gradient up

    def settings(self):
        return {
            "get_item": _TensorBase.__getitem__,
            "ellipsis": ...,
            "is_view": torch.Tensor._is_view,
            "source": _source,
            "ordered_dict": OrderedDict,
            "parameter_type": torch.nn.Parameter,
            "has_post_accumulate": _AFTER_GRADIENT,
            "key": self._key,
            "input_key": next(self._keys),
            "hooked": self._hooked,
            "watched_parameters": self._parameters,
            "firings": self._firings,
        }

    def forget_dead(self):
        """Of tensors that are gone: a program may start and stop often in one step."""
        self._hooked[:] = [hooked for hooked in self._hooked if hooked[0]() is not None]

    def end_step(self):
        for handle in self._handles:
            handle.remove()
        for reference, key in self._hooked:
            hooks = reference()
            if hooks is not None:
                hooks.pop(key, None)
        for parameter, key in self._parameters:
            hooks = parameter._post_accumulate_grad_hooks
            if hooks is not None:
                hooks.pop(key, None)
                if not hooks:
                    parameter._post_accumulate_grad_hooks = None  # as it was
        for kept in (self._handles, self._hooked, self._parameters, self._firings, self._accumulators):
            kept.clear()

    # -- APIs

    def watch_api(self, name, family, api, result):
        tensor = _first_tensor(result)
        if tensor is None or not tensor.requires_grad or not torch.is_grad_enabled():
            return
        node = tensor.grad_fn
        if node is None:
            return
        capture = self._capture
        epoch, flags = capture.epoch, core.FINISH

        def hook(grad_inputs, grad_outputs):
            nonlocal flags
            if epoch == capture.epoch:
                capture.quietly(self._api_backward, name, family, api, grad_inputs, grad_outputs, flags)
                flags |= core.REPLACE  # by a second backward through the same graph

        if self._is_watched(tensor):
            # Given back as it came: what flows through the API is not what flows through the module that made it.
            self._hook_tensor(tensor, lambda gradient: hook((gradient,), (gradient,)))
        else:
            node.register_hook(hook)

    def _is_watched(self, tensor):
        """Whether it is the output of a module, and as that was."""
        known = tensor._backward_hooks and tensor._backward_hooks.get(self._key)
        return bool(known) and known.__self__[2] == tensor._version

    def _hook_tensor(self, tensor, hook):
        key = next(self._keys)
        tensor._backward_hooks[key] = hook
        self._hooked.append((weakref.ref(tensor._backward_hooks), key))

    def _api_backward(self, name, family, api, grad_inputs, grad_outputs, flags):
        capture = self._capture
        if capture.filter.keeps_api(name, family, api):
            fields = ()
            if capture.backward_input:
                fields += ("input", grad_outputs)
            if capture.backward_output:
                fields += ("output", grad_inputs)
            if fields:
                capture.put(name, None, flags, *fields)
        if capture.with_construct:
            opened = capture.local.backward
            capture.note_parent(name, opened[-1] if opened else None)

    # -- modules

    def watch_module_inputs(self, call, args):
        """The positional arguments to hand on. Gradients that flow back to them are seen by a node of our own."""
        tensors = gradient_tensors(args)
        if not tensors:
            return args
        call.inputs = True
        call.sources = [_source(tensor) for tensor in tensors]
        if call.changes_inputs or any(tensor.layout is not _STRIDED for tensor in tensors):
            self._watch_sources(call)
            return args
        try:
            passed = (tensors[0].view_as(tensors[0]),) if len(tensors) == 1 else _through(Boundary, tensors)
        except (RuntimeError, TypeError):
            return args
        node = passed[0].grad_fn
        if node is None:
            return args
        call.passed = tuple([(tensor, tensor._version) for tensor in passed])

        def hook(grad_inputs, grad_outputs):
            if not call.rerouted:
                self._tell(call, self._inputs_done, grad_inputs)

        node.register_hook(hook)
        return replaced(args, iter(passed))

    def _watch_sources(self, call):
        """For a module that overwrites its inputs: look where their gradients flow on to, not at a node of ours."""
        call.rerouted = True
        arrived, num_sources = {}, len(call.sources)

        def arrive(position, gradient):
            arrived[position] = gradient
            if len(arrived) == num_sources:
                gradients = [arrived.pop(i) for i in range(num_sources)]
                self._tell(call, self._inputs_done, gradients)

        if not all(hasattr(node, "register_prehook") for node, _ in call.sources):
            call.inputs = False  # before torch 2 there is no place to look: the record has the gradients of the outputs
            return
        for position, (node, number) in enumerate(call.sources):
            hook = functools.partial(_arrive_at, arrive, position, number)
            self._handles.append(node.register_prehook(hook))

    def watch_module_output(self, call, result):
        """The result to hand on: views of the outputs where there are several."""
        if any(tensor._version != version for tensor, version in call.passed):
            # Something inside changed an input in place, around our node.
            call.sources = call.sources or [_before(call.node)]
            self._watch_sources(call)
        call.passed, call.node = (), None
        tensors = gradient_tensors(result)
        call.num_outputs = len(tensors)
        if len(tensors) < 2:
            for tensor in tensors:
                self._watch_output(tensor, call, 0)
            return result
        passed = _through(Gathered, tensors)

        def hook(grad_inputs, grad_outputs):
            call.arrived = dict(enumerate(grad_outputs))
            self._tell(call, self._outputs_arrived)

        passed[0].grad_fn.register_hook(hook)
        return replaced(result, iter(passed))

    def _tell(self, call, function, *arguments):
        if call.epoch == self._capture.epoch:  # later the recorder may be gone
            self._capture.quietly(function, call, *arguments)

    def watch_parameter(self, module_name, parameter, hook):
        """Hooks the node that adds the gradient up. Whether that is new."""
        key = (id(parameter), module_name)
        node = None if key in self._accumulators else parameter.expand_as(parameter).grad_fn
        if node is None:
            return False
        self._accumulators[key] = accumulator = node.next_functions[0][0]
        self._handles.append(accumulator.register_hook(hook))
        return True


def _source(tensor):
    """(node, which of its outputs) that made the value. What changes a view in place does so through its base."""
    if tensor._is_view() and tensor._base.shape == tensor.shape:
        tensor = tensor._base
    return tensor.grad_fn, tensor.output_nr


def _before(node):
    """What _source() said of the tensor that went into the node."""
    source, number = node.next_functions[0]
    return (None if source.name().endswith("AccumulateGrad") else source), number


def _arrive_at(arrive, position, number, gradients):
    arrive(position, gradients[number])


def _first_tensor(value):
    while not isinstance(value, torch.Tensor):
        if isinstance(value, (list, tuple)) and value:
            value = value[0]
        elif isinstance(value, dict):
            value = next((item for item in value.values() if isinstance(item, torch.Tensor)), None)
        else:
            return None
    return value


def _through(function, tensors):
    passed = function.apply(*tensors)
    if _creation_meta is not None:
        for tensor in passed:
            # Allows changing them in place, which torch forbids for what a Function returns.
            torch._C._autograd._set_creation_meta(tensor, _creation_meta.DEFAULT)
    return passed
