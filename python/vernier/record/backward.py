"""Gradients: hooks on autograd's nodes for APIs, parameters and modules."""

import collections
import weakref
from functools import partial

import torch

from . import core, edges
from .hooks import HAS_PARAMETER_HOOKS, IS_TORCH_2, Hooks
from .nests import gradient_tensors, is_replaced, replaced

_STRIDED = {torch.strided}
_item = (getattr(torch._C, "TensorBase", None) or torch._C._TensorBase).__getitem__
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


class Firing:
    """How far the gradients of a module's parameters are in this step."""

    def __init__(self, epoch):
        self.epoch = epoch
        self.first = None  # of its parameters: the one that fires first
        self.count = -1  # how often that did
        self.num_watched = self.num_waiting = 0


class Backward:
    """What hangs on tensors and nodes, until the step ends."""

    def __init__(self, capture):
        self._capture, self._quietly = capture, capture.quietly
        self._hooks = Hooks()
        self._outputs = {}  # id of a module's output -> (weak reference, its version, calls that gave it)
        self._parameters = {}  # (id of a parameter, module) -> what holds our hook
        self._owners = collections.defaultdict(list)  # id of a parameter -> modules
        self._firings = {}
        self._edges = edges.Edges(capture, self._inputs_arrived) if edges.CAN_FOLLOW else None

    def forget_dead(self):
        """Drops what belongs to tensors that are gone: a program may start and stop often in one step."""
        self._hooks.forget_dead()
        self._outputs = {key: known for key, known in self._outputs.items() if known[0]() is not None}

    def end_step(self):
        self._hooks.remove()
        for kept in (self._outputs, self._parameters, self._owners, self._firings):
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
        epoch, flags, number = capture.epoch, core.FINISH, self._number(node)

        def hook(grad_inputs, grad_outputs):
            nonlocal flags
            if epoch == capture.epoch:
                capture.quietly(self._api_backward, name, family, api, number, grad_inputs, grad_outputs, flags)
                flags |= core.REPLACE  # by a second backward through the same graph

        if self._calls_that_gave(tensor) is not None:
            # Given back as it came: what flows through the API is not what flows through the module that made it.
            self._hooks.on_tensor(tensor, lambda gradient: hook((gradient,), (gradient,)))
        else:
            node.register_hook(hook)

    def _number(self, node):
        """Autograd runs nodes with great numbers first."""
        return None if self._edges is None or node is None else node._sequence_nr()

    def _runs(self, number):
        if number is not None:
            self._edges.pass_to(number)

    def _api_backward(self, name, family, api, number, grad_inputs, grad_outputs, flags):
        self._runs(number)
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

    def watch_inputs(self, call, module, args):
        """The positional arguments to hand on: as they are, or views where torch does not let us follow its graph."""
        is_one = len(args) == 1 and type(args[0]) is torch.Tensor  # as in nearly every call
        tensors = args if is_one and is_replaced(args[0]) else () if is_one else gradient_tensors(args)
        if not tensors:
            return args
        if self._edges is not None:
            call.has_inputs = True
            self._edges.enter(call, tensors)
            return args
        sources = [_source(tensor) for tensor in tensors]
        if _works_in_place(module) or {tensor.layout for tensor in tensors} != _STRIDED:
            self._watch_sources(call, sources)
            return args
        try:
            # An ordinary view where it can be one: operators that work in place may change it.
            passed = (_item(tensors[0], ...),) if len(tensors) == 1 else _through(Boundary, tensors)
        except (RuntimeError, TypeError):
            return args
        node = passed[0].grad_fn
        if node is None:
            return args
        call.has_inputs = True
        call.sources, call.passed = sources, [(tensor, tensor._version) for tensor in passed]
        self._hooks.at_view(passed, partial(self._quietly, self._passed_on, call))
        return passed if is_one else replaced(args, iter(passed))

    def _passed_on(self, call, gradients, _=None):
        if not call.rerouted:
            self._inputs_arrived(call, gradients if isinstance(gradients, tuple) else (gradients,))

    def _watch_sources(self, call, sources):
        """For a module that overwrites its inputs: look where their gradients flow on to, not at a node of ours."""
        call.rerouted = True
        # Before torch 2 there is no place to look: the record has the gradients of the outputs.
        call.has_inputs = all(hasattr(node, "register_prehook") for node, _ in sources)
        if not call.has_inputs:
            return
        arrived = {}
        for position, (node, number) in enumerate(sources):
            hook = partial(self._quietly, self._source_arrived, call, arrived, len(sources), position, number)
            self._hooks.before_node(node, hook)

    def _source_arrived(self, call, arrived, num_sources, position, number, gradients):
        arrived[position] = gradients[number]
        if len(arrived) == num_sources:
            self._inputs_arrived(call, [arrived.pop(i) for i in range(num_sources)])

    def watch_outputs(self, call, module, result):
        """The result to hand on: views of the outputs where there are several."""
        tensors = gradient_tensors(result)
        if call.following is not None:
            self._edges.leave(call, module, tensors)
        for tensor, version in call.passed:
            if tensor._version != version:  # something inside changed an input in place, around our node
                self._watch_sources(call, call.sources)
                break
            self._hooks.keep_last(tensor)
        call.let_go()
        if len(tensors) < 2:
            for tensor in tensors:
                self._watch_output(tensor, call)
            return result
        passed = _through(Gathered, tensors)
        number = self._number(passed[0].grad_fn)
        passed[0].grad_fn.register_hook(partial(self._quietly, self._gathered_arrived, call, number))
        return replaced(result, iter(passed))

    def _calls_that_gave(self, tensor):
        """The calls of modules that gave it as it is, or None."""
        reference, version, calls = self._outputs.get(id(tensor), (_nothing, 0, None))
        return calls if reference() is tensor and version == tensor._version else None

    def _watch_output(self, tensor, call):
        """One hook for each tensor: when several modules return the same one, the outermost is told first."""
        call.end = next(edges.moments)
        calls = self._calls_that_gave(tensor)
        if calls is not None:
            calls.append(call)
            return
        calls = [call]
        self._outputs[id(tensor)] = (weakref.ref(tensor), tensor._version, calls)
        number = self._number(tensor.grad_fn)
        self._hooks.on_tensor(tensor, partial(self._quietly, self._output_arrived, calls, number))

    def _output_arrived(self, calls, number, gradient):
        self._runs(number)
        for call in reversed(calls):
            if self._edges is not None:
                self._edges.pass_to_call(call)
            self._outputs_arrived(call, (gradient,))
            if call.following is not None:
                self._edges.pass_through(call, gradient)

    def _gathered_arrived(self, call, number, grad_inputs, grad_outputs):
        self._runs(number)
        self._outputs_arrived(call, grad_outputs)

    def _outputs_arrived(self, call, gradients):
        capture = self._capture
        if capture.is_over(call):
            return
        call.arrived, call.has_begun = gradients, True
        name, opened = call.backward_name, capture.local.backward
        if not capture.filter.passes_modules:
            capture.filter.begin_backward(call.module_name, name)
        if capture.with_construct:
            capture.note_parent(name, opened[-1] if opened else None)
        if not call.has_inputs:
            self._finish(call, ())
            return
        remove(opened, name)  # of a backward that was not asked for the gradients of the inputs
        opened.append(name)
        call.opened = opened

    def _inputs_arrived(self, call, gradients):
        if not self._capture.is_over(call):
            remove(call.opened, call.backward_name)
            self._finish(call, gradients)

    def _finish(self, call, gradients):
        """A second backward through the same graph takes the place of the first."""
        capture, name = self._capture, call.backward_name
        if not call.has_begun:
            call.is_over = True
            return
        if capture.filter.passes_modules or capture.filter.keeps_later(name):
            fields = ()
            if capture.backward_input:
                fields += ("input", call.arrived)
            if capture.backward_output:
                fields += ("output", gradients)
            if fields:
                again = core.REPLACE | core.MOVE_TO_END if call.is_recorded else 0
                capture.put(name, None, core.FINISH | again, *fields)
        if not capture.filter.passes_modules:
            capture.filter.end_module(name)
        call.arrived, call.has_begun, call.is_recorded = (), False, True

    # -- parameters

    def watch_parameters(self, module_name, module):
        """Once in a step for each module that has them."""
        for name, parameter in module._parameters.items():
            key = (id(parameter), module_name)
            if parameter is None or not parameter.requires_grad or key in self._parameters:
                continue
            firing = self._firings.get(module_name)
            if firing is None:
                firing = self._firings[module_name] = Firing(self._capture.epoch)
            hook = partial(self._quietly, self._parameter_arrived, firing, module_name, name, parameter)
            # Megatron adds to main_grad in a hook of the node, which runs after those of the parameter.
            if HAS_PARAMETER_HOOKS and _is_plain_leaf(parameter) and "main_grad" not in parameter.__dict__:
                self._parameters[key] = parameter
                self._hooks.on_parameter(parameter, hook)
            else:
                node = parameter.expand_as(parameter).grad_fn
                if node is None:
                    continue
                self._parameters[key] = accumulator = node.next_functions[0][0]
                self._hooks.on_node(accumulator, hook)
            firing.num_watched += 1
            self._owners[id(parameter)].append(module_name)

    def _parameter_arrived(self, firing, module_name, name, parameter, *_):
        capture = self._capture
        gradient = parameter.__dict__.get("main_grad")
        if gradient is None:
            gradient = parameter.grad
        if gradient is None or firing.epoch != capture.epoch:  # it is another one in a forked child
            return
        if self._edges is not None:
            self._edges.pass_to_parameter(self._owners[id(parameter)])
        firing.first = firing.first or name
        if firing.first == name:
            firing.count += 1
            firing.num_waiting = firing.num_watched
        firing.num_waiting -= 1
        record = f"{module_name}.parameters_grad.{firing.count}"
        if capture.filter.passes_modules or capture.filter.keeps_gradients(module_name, record):
            flags = core.MOVE_TO_END | (core.FINISH if firing.num_waiting <= 0 else 0)
            capture.put(record, None, flags, name, (gradient,))


def _nothing():
    return None


def _is_plain_leaf(parameter):
    return type(parameter) is torch.nn.Parameter and parameter.is_leaf


def _works_in_place(module):
    return module.__dict__.get("inplace", getattr(type(module), "inplace", False)) is True


def remove(items, item):
    """Takes this very object off the list, if it is there."""
    for i in range(len(items) - 1, -1, -1):
        if items[i] is item:
            del items[i]
            return


def _source(tensor):
    """(node, which of its outputs) that made the value. What changes a view in place does so through its base."""
    if tensor._is_view() and tensor._base.shape == tensor.shape:
        tensor = tensor._base
    return tensor.grad_fn, tensor.output_nr


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
