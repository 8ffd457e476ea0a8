"""Gradients: hooks on autograd's nodes for APIs and parameters, a node at the inputs of each module."""

import copy
import functools
import itertools
import weakref
from collections import OrderedDict

import torch

from . import core

_STRIDED = torch.strided
# From torch 2.1 on; before, the node that adds the gradient up is looked for, which takes longer.
_AFTER_GRADIENT = hasattr(torch.Tensor, "register_post_accumulate_grad_hook")
_creation_meta = getattr(torch._C._autograd, "CreationMeta", None)


class Boundary(torch.autograd.Function):
    """Several inputs of a module pass through one node, so that their gradients are seen together."""

    @staticmethod
    def forward(ctx, *tensors):
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class Backward:
    def __init__(self, capture):
        self._capture = capture
        self._handles = []
        self._hooked = []  # (weak reference to a tensor's dict of hooks, our key in it)
        self._keys = itertools.count(-1, -1)  # torch's own are positive
        self._parameters = {}  # (parameter, module) -> what is hooked for it
        self._num_watched = {}  # module -> how many of its parameters are hooked
        self._outputs = {}  # id of a module's output -> (weak reference, version, calls that returned it)
        self._firings = {}  # module -> [first parameter that fired, how often, names still to come]

    def end_step(self):
        for handle in self._handles:
            handle.remove()
        for reference, key in self._hooked:
            hooks = reference()
            if hooks is not None:
                hooks.pop(key, None)
        if _AFTER_GRADIENT:
            for hooked in self._parameters.values():
                if isinstance(hooked, torch.Tensor) and not hooked._post_accumulate_grad_hooks:
                    hooked._post_accumulate_grad_hooks = None  # as it was
        self._hooked = []
        self._handles, self._parameters, self._firings, self._outputs, self._num_watched = [], {}, {}, {}, {}

    # -- APIs

    def watch_api(self, name, family, api, result):
        tensor = _first_tensor(result)
        if tensor is None or not tensor.requires_grad or not torch.is_grad_enabled():
            return
        node = tensor.grad_fn
        if node is None:
            return
        capture = self._capture
        epochs = [capture.epoch]

        def hook(grad_inputs, grad_outputs):
            # A second backward through the same graph records nothing new, nor does one in a later step.
            if epochs and epochs.pop() == capture.epoch:
                capture.quietly(self._api_backward, name, family, api, grad_inputs, grad_outputs)

        node.register_hook(hook)

    def _api_backward(self, name, family, api, grad_inputs, grad_outputs):
        capture = self._capture
        if capture.filter.keeps_api(name, family, api):
            self._put_gradients(name, grad_outputs, grad_inputs)
        if capture.with_construct:
            opened = capture.local.backward
            capture.note_parent(name, opened[-1] if opened else None)

    def _put_gradients(self, name, gradients_in, gradients_out):
        capture = self._capture
        fields = ()
        if capture.backward_input:
            fields += ("input", gradients_in)
        if capture.backward_output:
            fields += ("output", gradients_out)
        if fields:
            capture.put(name, None, core.FINISH, *fields)

    # -- modules

    def watch_module_inputs(self, call, args):
        """The positional arguments to hand on. Gradients that flow back to them are seen by a node of our own."""
        tensors = _gradient_tensors(args)
        if not tensors:
            return args
        call.inputs = True
        call.sources = [_source(tensor) for tensor in tensors]
        if call.changes_inputs or any(tensor.layout is not _STRIDED for tensor in tensors):
            self._watch_sources(call)
            return args
        try:
            if len(tensors) == 1:
                # An ordinary view: operators that work in place may change it, unlike what a Function returns.
                passed = (tensors[0].view_as(tensors[0]),)
            else:
                passed = _through_boundary(tensors)
        except (RuntimeError, TypeError):
            return args
        node = passed[0].grad_fn
        if node is None:
            return args
        call.passed = [(tensor, tensor._version) for tensor in passed]

        def hook(grad_inputs, grad_outputs):
            if not call.rerouted:
                self._capture.quietly(self._module_inputs_done, call, grad_outputs)

        node.register_hook(hook)
        return passed if len(args) == 1 and args[0] is tensors[0] else _replace(args, iter(passed))

    def _watch_sources(self, call):
        """For a module that overwrites its inputs: look where their gradients flow on to, not at a node of ours."""
        call.rerouted = True
        arrived = {}

        def arrive(position, gradient):
            arrived[position] = gradient
            if len(arrived) == len(call.sources):
                gradients = [arrived[i] for i in range(len(arrived))]
                self._capture.quietly(self._module_inputs_done, call, gradients)

        if not all(hasattr(node, "register_prehook") for node, _ in call.sources):
            call.inputs = False  # before torch 2 there is no place to look: the record has the gradients of the outputs
            return
        for position, (node, number) in enumerate(call.sources):
            hook = functools.partial(_arrive_at, arrive, position, number)
            self._handles.append(node.register_prehook(hook))

    def watch_module_output(self, call, result):
        """The result to hand on: the same object but in one rare case."""
        for tensor, version in call.passed:
            if tensor._version != version:
                self._watch_sources(call)  # something inside changed an input in place, around our node
                break
        call.passed = ()
        tensors = _gradient_tensors(result)
        call.num_outputs = len(tensors)
        if len(tensors) > 1 and not call.inputs:
            # Nothing later tells when all of their gradients are there, so let one node wait for them.
            return self._gather_outputs(call, result, tensors)
        for position, tensor in enumerate(tensors):
            self._watch_output(tensor, call, position)
        return result

    def _watch_output(self, tensor, call, position):
        """One hook for each tensor: when several modules return the same one, the outermost is told first."""
        reference, version, watchers = self._outputs.get(id(tensor), (None, None, None))
        if reference is not None and reference() is tensor and version == tensor._version:
            watchers.append((call, position))
            return
        watchers = [(call, position)]
        gone = functools.partial(_forget_output, self._outputs, id(tensor))  # the graph goes with its output
        self._outputs[id(tensor)] = (weakref.ref(tensor, gone), tensor._version, watchers)

        def hook(gradient):
            for watcher, place in reversed(watchers):
                watcher.arrived[place] = gradient
                if len(watcher.arrived) == 1:
                    self._capture.quietly(self._module_outputs_arrived, watcher)

        self._hook_tensor(tensor, hook)

    def _hook_tensor(self, tensor, hook):
        """As register_hook() of the tensor does, without an object to remove it by."""
        hooks = tensor._backward_hooks
        if hooks is None:
            hooks = tensor._backward_hooks = OrderedDict()
            if tensor.grad_fn is not None:
                tensor.grad_fn._register_hook_dict(tensor)
        self._add_hook(hooks, hook)

    def _add_hook(self, hooks, hook):
        key = next(self._keys)
        hooks[key] = hook
        self._hooked.append((weakref.ref(hooks), key))

    def _gather_outputs(self, call, result, tensors):
        passed = _through_boundary(tensors)

        def hook(grad_inputs, grad_outputs):
            call.arrived = dict(enumerate(grad_outputs))
            self._capture.quietly(self._module_outputs_arrived, call)

        passed[0].grad_fn.register_hook(hook)
        return _replace(result, iter(passed))

    def _module_outputs_arrived(self, call):
        capture = self._capture
        if call.backward_done or call.epoch != capture.epoch:
            return
        call.kept_backward = capture.filter.begin_module(call.backward_name)
        opened = capture.local.backward
        if capture.with_construct:
            capture.note_parent(call.backward_name, opened[-1] if opened else None)
        if call.inputs:
            opened.append(call.backward_name)
        else:
            self._finish_module(call, ())

    def _module_inputs_done(self, call, gradients):
        capture = self._capture
        if call.backward_done or call.epoch != capture.epoch:
            return
        opened = capture.local.backward
        if call.backward_name in opened:
            opened.remove(call.backward_name)
        self._finish_module(call, gradients)

    def _finish_module(self, call, gradients):
        capture = self._capture
        call.backward_done = True
        if call.kept_backward:
            self._put_gradients(
                call.backward_name, [call.arrived.get(position) for position in range(call.num_outputs)], gradients
            )
        capture.filter.end_module(call.backward_name)
        call.arrived, call.inputs, call.sources = {}, False, ()

    # -- parameters

    def watch_parameters(self, call, module):
        module_name = call.module_name
        for name, parameter in module._parameters.items():
            key = (id(parameter), module_name)
            if parameter is None or key in self._parameters or not parameter.requires_grad:
                continue
            hook = self._parameter_hook(module_name, name, parameter)
            # Megatron adds to main_grad in a hook of the node, which runs after those of the parameter.
            if _AFTER_GRADIENT and parameter.is_leaf and "main_grad" not in parameter.__dict__:
                self._parameters[key] = parameter
                if parameter._post_accumulate_grad_hooks is None:
                    parameter._post_accumulate_grad_hooks = OrderedDict()
                self._add_hook(parameter._post_accumulate_grad_hooks, hook)
            else:
                node = parameter.expand_as(parameter).grad_fn
                if node is None:
                    continue
                self._parameters[key] = accumulator = node.next_functions[0][0]
                self._handles.append(accumulator.register_hook(hook))
            self._num_watched[module_name] = self._num_watched.get(module_name, 0) + 1

    def _parameter_hook(self, module_name, parameter_name, parameter):
        def hook(*_):
            self._capture.quietly(self._put_parameter_gradient, module_name, parameter_name, parameter)

        return hook

    def _put_parameter_gradient(self, module_name, parameter_name, parameter):
        capture = self._capture
        gradient = getattr(parameter, "main_grad", None)
        gradient = parameter.grad if gradient is None else gradient
        if gradient is None:
            return
        first, count, waiting = self._firings.get(module_name, (parameter_name, -1, 0))
        if parameter_name == first:
            count += 1
            waiting = self._num_watched[module_name]
        waiting -= 1
        self._firings[module_name] = (first, count, waiting)
        name = f"{module_name}.parameters_grad.{count}"
        if not capture.filter.keeps_quietly(name):
            return
        capture.put(name, None, core.FINISH if waiting <= 0 else 0, parameter_name, (gradient,))


def _forget_output(outputs, key, reference):
    if key in outputs and outputs[key][0] is reference:
        del outputs[key]


def _source(tensor):
    """(node, which of its outputs) that made the value. What changes a view in place does so through its base."""
    if tensor._is_view() and tensor._base.shape == tensor.shape:
        tensor = tensor._base
    return tensor.grad_fn, tensor.output_nr


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


def _through_boundary(tensors):
    passed = Boundary.apply(*tensors)
    if _creation_meta is not None:
        for tensor in passed:
            # Allows changing them in place, which torch forbids for what a Function returns.
            torch._C._autograd._set_creation_meta(tensor, _creation_meta.DEFAULT)
    return passed


def _gradient_tensors(value):
    """The tensors of a nest that gradients flow to, in order."""
    if isinstance(value, torch.Tensor):  # nearly every output, and next to every argument
        return [value] if value.requires_grad and value.element_size() > 1 else []
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    found = []
    for item in value:
        found += _gradient_tensors(item)
    return found


def _replace(value, replacements):
    """The same nest with its gradient-requiring tensors replaced in order."""
    if isinstance(value, torch.Tensor):
        return next(replacements) if value.requires_grad and value.element_size() > 1 else value
    if isinstance(value, tuple):
        items = [_replace(item, replacements) for item in value]
        if hasattr(value, "_fields"):
            return type(value)(*items)
        return type(value)(items)
    if isinstance(value, list):
        return type(value)(_replace(item, replacements) for item in value)
    if isinstance(value, dict):
        changed = copy.copy(value)
        for key, item in value.items():
            changed[key] = _replace(item, replacements)
        return changed
    return value
