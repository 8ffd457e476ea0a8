"""What is recorded of each call: names, numbers, parents, and what goes to the core before and after it."""

import collections
import itertools
import sys
import threading

import torch

from . import core
from .backward import Backward, remove
from .describe import Describer
from .filters import Filter
from .hooks import IS_TORCH_2
from .names import DROPOUTS
from .stacks import Stacks

_NO_STACK = -1
# Receive buffers hold nothing yet when the call begins, and a sent buffer may be reused: positions and keys left out.
MASKED_INPUTS = {
    "recv": (0,),
    "irecv": (0, "tensor"),
    "all_gather": (0,),
    "scatter": (0,),
    "reduce_scatter": (0,),
    "_reduce_scatter_base": (0,),
    "reduce_scatter_tensor": (0,),
    "_all_gather_base": (0,),
    "all_gather_into_tensor": (0,),
    "all_to_all": (0,),
    "all_to_all_single": (0,),
    "gather": (1,),
}
MASKED_OUTPUTS = {"isend": (0,)}
_CHANGE_ARGUMENTS = ("Distributed", "Triton")


class _WithoutModes:
    """Before torch 2 disabling torch functions leaves modes on, and each look at a tensor would pass ours."""

    def __enter__(self):
        self._modes = [torch.overrides._pop_mode() for _ in range(torch._C._len_torch_function_stack())]
        self._guard = torch._C.DisableTorchFunction()
        self._guard.__enter__()

    def __exit__(self, *error):
        self._guard.__exit__(*error)
        for mode in reversed(self._modes):
            if not getattr(mode, "is_off", False):  # recording may have stopped in here
                torch.overrides._push_mode(mode)


no_torch_function = torch._C.DisableTorchFunction if IS_TORCH_2 else _WithoutModes

_graph_task = getattr(torch._C, "_current_graph_task_id", None)


class ThreadState(threading.local):
    depth = 0  # inside so many recorded calls; only the outermost one is recorded
    observed = False  # calls of this thread are recorded
    last_name = None  # of the call that was recorded last

    def __init__(self):
        self.modules = []  # names of the module calls that are running
        self.boundaries = [(None, None)]  # frames of running module calls, and their stacks
        self.inside = []  # Python functions that are looked through
        self.backward = []  # names of the module backwards that are running
        self.regions, self.leaves, self.waiting = {}, set(), {}  # of edges.py


class ModuleCall:
    """One call of one module, from its inputs to the gradients of its inputs."""

    parent = stack = None
    is_kept = False
    is_over = False  # its backward is not to be recorded
    has_begun = is_recorded = False  # its backward: is going on, was recorded before
    has_inputs = False  # gradients flow to some
    rerouted = False  # and are looked for where they flow on to, not at our node
    sources = passed = ()  # of the inputs: (node, which of its outputs), and (what was handed on, its version)
    arrived = ()  # gradients of the outputs
    opened = ()  # where its backward is listed as running, by the thread that came to the outputs
    following = None  # how its inputs are used, see edges.py
    end = 0  # when it returned, in moments of edges.py

    def __init__(self, module_name, number, epoch):
        self.module_name, self.epoch = module_name, epoch
        self.name = f"{module_name}.forward.{number}"
        self.backward_name = f"{module_name}.backward.{number}"

    def let_go(self):
        """Drops what keeps autograd's graph alive."""
        self.sources = self.passed = ()
        if self.following is not None:
            self.following.targets = None


class Capture:
    """One step being recorded. Calls may come from several threads."""

    def __init__(self, config, recorder, device_stage, cut=None, keep_tensors=False):
        self.config = config
        self.recorder = recorder
        self.cut = cut
        self.device_stage = device_stage
        self.describer = Describer(
            recorder,
            device_stage=device_stage,
            new_stack=Stacks(recorder.stack).new,
            cut=cut,
            keep_tensors=keep_tensors,
            every_tensor=config.stores_all or config.identity is True,
            identity=config.with_identity,
        )
        functions = self.describer.functions
        self._stack, self._parent, self._num_puts = functions.stack, functions.parent, functions.num_puts
        self.filter = Filter(config)
        self.local = ThreadState()
        self.on = False
        self.failed = None  # called with an exception of ours, so that it never reaches the model
        self.writes_data = config.task != "structure"
        self.with_stacks = config.extra_info
        self.with_construct = config.extra_info and config.level in ("L0", "mix")
        self.forward_input = config.takes("forward") and config.takes("input")
        self.forward_output = config.takes("forward") and config.takes("output")
        self._takes_both = self.forward_input and self.forward_output
        self.takes_forward = self.forward_input or self.forward_output
        self.backward_input = config.takes("backward") and config.takes("input")
        self.backward_output = config.takes("backward") and config.takes("output")
        self.takes_backward = self.backward_input or self.backward_output or self.with_construct
        self.parameter_gradients = not ("forward" in config.data_mode and "backward" not in config.data_mode)
        self.tensor_list = tuple(config.tensor_list)
        self.backward = Backward(self)
        if config.task == "structure":
            self.put = self._note
        elif not self.tensor_list:
            self.put = functions.put
        self.begin_step()

    def begin_step(self):
        self.epoch = getattr(self, "epoch", -1) + 1
        self.counters = collections.defaultdict(itertools.count)
        self._kept = {}  # by prefix, where that decides
        self._num_noted, self._num_puts_before = 0, self._num_puts()
        self.known_parents = set()
        self.micro_step, self.micro_steps = None, {}  # of Megatron: the present one, and the last of each kind
        self.filter.begin_step()
        self.local.modules, self.local.backward, self.local.waiting = [], [], {}

    def end_step(self):
        self.backward.end_step()
        self.describer.functions.forget()
        self.begin_step()

    # -- one API call

    def call_api(self, family, api, prefix, function, args, kwargs, pure=False):
        """Calls ``function`` and records it. Whatever goes wrong on our side is reported, not raised.

        ``pure``: it leaves its arguments alone, so they may be handed over together with the result.
        """
        local = self.local
        local.depth = 1
        try:
            number = next(self.counters[prefix])  # taken once, so threads cannot mix their numbers
            local.last_name = name = f"{prefix}.{number}.forward"
            kept = self._kept.get(prefix)
            if kept is None:
                kept = self._decide(name, family, api, prefix)
            stack = None
            together = pure and kept and self._takes_both and "out" not in kwargs
            try:
                if self.with_stacks and (kept or self.with_construct):
                    stack = self._stack(*local.boundaries[-1], 2)  # without this, and the handler that called it
                if kept and stack is not None and not self.takes_forward:
                    self.note_stack(name, stack)
                if kept and self.forward_input and not together:
                    masked = MASKED_INPUTS.get(api, ()) if family == "Distributed" else ()
                    self._put_inputs(name, masked, args, kwargs, stack)
            except Exception as error:
                self.failed(error)
            try:
                result = function(*args, **kwargs)
            except BaseException:
                if together:
                    self.quietly(self._put_inputs, name, (), args, kwargs, stack)
                raise
            try:
                if together:
                    fields = ("input_args", args, "input_kwargs", kwargs, "output", _as_tuple(result))
                    self.put(name, stack, core.FINISH, *fields)
                elif kept:
                    self._after_api(name, api, family, stack, args, kwargs, result)
                if self.with_construct:
                    self.note_parent(name, self._parent_of_forward(stack))
                if self.takes_backward and not (api in DROPOUTS and _dropout_is_off(args, kwargs)):
                    self.backward.watch_api(f"{prefix}.{number}.backward", family, api, result)
            except Exception as error:
                self.failed(error)
            return result
        finally:
            local.depth = 0

    def _decide(self, name, family, api, prefix):
        always = self.filter.always(family, api)
        if always is None:
            return self.filter.keeps_api(name, family, api)
        self._kept[prefix] = always
        return always

    def _after_api(self, name, api, family, stack, args, kwargs, result):
        if not self.forward_output:
            if self.forward_input:
                self.put(name, None, core.FINISH)
        elif family in _CHANGE_ARGUMENTS:
            self.put_changed_arguments(name, api, args, kwargs, stack)
        else:
            # It gives nothing back: what it did is to the tensor.
            result = args[0] if api == "__setitem__" else result
            self.put_output(name, result, core.FINISH, None if self.forward_input else stack)

    def _parent_of_forward(self, stack):
        running = self.running_module()
        if running is not None:
            return running
        role = stack.role if stack is not None and self.config.level == "mix" else None
        if role is not None and role not in self.known_parents:
            self.known_parents.add(role)
            self.note_parent(role, None)
        return role

    def running_module(self):
        """The innermost module call of this thread; while a checkpoint repeats a part, the backward that needs it."""
        local = self.local
        if local.modules or not local.backward:
            return local.modules[-1] if local.modules else None
        if _graph_task is not None and _graph_task() == -1:
            local.backward.clear()  # of a backward that ended before it came to their inputs
            return None
        return local.backward[-1]

    def put_changed_arguments(self, name, api, args, kwargs, stack=None, flags=core.FINISH):
        """What changes its arguments has them for its output."""
        masked = MASKED_OUTPUTS.get(api, ())
        output = [None if i in masked else value for i, value in enumerate(args)]
        stack = None if self.forward_input else stack
        flags |= core.REPLACE | core.KEEP | core.CHANGED
        self.put(name, stack, flags, "output", output + list(kwargs.values()))

    # -- one module call

    def new_call(self, module, module_name):
        return ModuleCall(module_name, next(self.counters[module_name]), self.epoch)

    def call_module(self, module, module_name, original, args, kwargs):
        """Calls the module and records it, as call_api() does."""
        call = self.new_call(module, module_name)
        args = self.quietly(self._enter, call, module, args, kwargs)
        local = self.local
        local.modules.append(call.name)
        if call.stack is not None:
            local.boundaries.append((sys._getframe(), call.stack))
        try:
            result = original(module, *args, **kwargs)
        except BaseException as error:
            self._take_off(call)
            # Checkpointing may have what it wants: then the record has no output.
            self.quietly(self._abandon, call, module, type(error).__name__ == "_StopRecomputationError")
            self._forget_graph()
            raise
        self._take_off(call)
        result = self.quietly(self._leave, call, module, result)
        self._forget_graph()
        return result

    def _forget_graph(self):
        local = self.local
        if not local.modules and (local.regions or local.leaves):
            local.regions.clear()
            local.leaves.clear()

    def _take_off(self, call):
        local = self.local
        remove(local.modules, call.name)
        if call.stack is not None and local.boundaries[-1][1] is call.stack:
            local.boundaries.pop()

    def is_over(self, call):
        return call.is_over or call.epoch != self.epoch

    def _enter(self, call, module, args, kwargs):
        """The arguments to hand on."""
        try:
            self._put_module_inputs(call, args, kwargs)
        except Exception as error:
            self.failed(error)
        if self.takes_backward and torch.is_grad_enabled():
            try:
                return self.backward.watch_inputs(call, module, args)
            except Exception as error:
                self.failed(error)
        return args

    def _put_module_inputs(self, call, args, kwargs):
        local, name = self.local, call.name
        call.is_kept = self.filter.passes_modules or self.filter.begin_module(name)
        call.parent = self.running_module()
        if not call.is_kept:
            return
        if self.with_stacks:
            call.stack = self._stack(*local.boundaries[-1], 4)  # without our own frames
            if not self.takes_forward:
                self.note_stack(name, call.stack)
        if self.forward_input:
            self.put(name, call.stack, 0, "input_args", args, "input_kwargs", kwargs)

    def _leave(self, call, module, result):
        """The result to hand on."""
        is_over = self.is_over(call)
        if not is_over:
            try:
                self._put_module_output(call, module, result)
            except Exception as error:
                self.failed(error)
        if is_over or not torch.is_grad_enabled():
            call.let_go()
            return result
        try:
            if self.takes_backward:
                result = self.backward.watch_outputs(call, module, result)
            if self.parameter_gradients and module._parameters:
                self.backward.watch_parameters(call.module_name, module)
        except Exception as error:
            self.failed(error)
        return result

    def _abandon(self, call, module, wants_record):
        call.let_go()
        if self.is_over(call):
            return
        if wants_record:
            self._put_module_output(call, module, None)
        else:
            self.filter.end_module(call.name)

    def _put_module_output(self, call, module, result):
        name = call.name
        if call.is_kept and self.forward_output:
            stack = None if self.forward_input else call.stack
            flags = core.FINISH | core.MOVE_TO_END
            self.put(name, stack, flags, "output", _as_tuple(result), "parameters", _own_parameters(module))
        elif call.is_kept and self.forward_input:
            self.put(name, None, core.FINISH)
        self.filter.end_module(name)
        if self.with_construct:
            self.note_parent(name, call.parent)

    # -- puts

    def _put_inputs(self, name, masked, args, kwargs, stack, flags=0):
        if masked:
            args = tuple([None if i in masked else value for i, value in enumerate(args)])
            kwargs = {key: None if key in masked else value for key, value in kwargs.items()}
        self.put(name, stack, flags, "input_args", args, "input_kwargs", kwargs)

    def put_output(self, name, result, flags, stack=None):
        self.put(name, stack, flags, "output", _as_tuple(result))

    def put(self, name, stack, flags, *fields):
        """``fields``: key, value, key, value, ...; a value is a tuple, a list or a dict."""
        if any(part in name for part in self.tensor_list):
            flags |= core.STORE_ALL
        self.describer.functions.put(name, stack, flags, *fields)

    def _note(self, name, stack, flags, *fields):
        """Like put(), where only the structure is recorded."""
        self._num_noted += 1
        if stack is not None:
            self.note_stack(name, stack)

    def put_text(self, name, text, values, stack, flags):
        """Like put(), for a call that is described already."""
        self._num_noted += 1
        if self.writes_data:
            number = _NO_STACK if stack is None else stack.number
            self.recorder.put(name, text, values.array(), number, flags, self.device_stage.launch)
            self.device_stage.put_done(values)

    def complete(self, name):
        """Nothing more will be put for a collective: its result is there."""

    @property
    def num_calls(self):
        """How many calls this step has seen."""
        return self._num_noted + self._num_puts() - self._num_puts_before

    def note_stack(self, name, stack):
        """Gives a call a place in stack.json though it has no record."""
        self.recorder.note_stack(name, stack.number)

    def note_parent(self, name, parent):
        if self.micro_step is None:
            self._parent(name, parent)
        else:
            self._parent(name, parent, self.micro_step)

    def drain(self):
        """Completes what still waits on a device."""
        self.quietly(self.device_stage.drain)

    def quietly(self, function, *arguments):
        """Runs a hook of ours: nothing it does to tensors is recorded, and its errors do not reach the model."""
        local = self.local
        depth, local.depth = local.depth, 1
        try:
            with no_torch_function():
                return function(*arguments)
        except Exception as error:
            self.failed(error)
            return None
        finally:
            local.depth = depth


def _own_parameters(module):
    """One that goes by two names counts once."""
    found, seen = {}, {id(None)}
    for name, parameter in module._parameters.items():
        if id(parameter) not in seen:
            seen.add(id(parameter))
            found[name] = parameter
    return found


def _as_tuple(result):
    """The outputs of a call: a tuple, or what is described as it is."""
    if not isinstance(result, tuple):
        return (result,)
    if hasattr(result, "_fields"):
        return dict(zip(result._fields, result))
    return result if type(result) in (tuple, torch.Size) else tuple(result)


def _dropout_is_off(args, kwargs):
    probability = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
    return isinstance(probability, (int, float)) and probability == 0
