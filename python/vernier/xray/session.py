"""The recorder of record/ with other names and another container. Imported when recording begins."""

import json

import torch

from ..record import core, names
from ..record.capture import Capture, ModuleCall
from ..record.collectives import Collectives
from ..record.device import DeviceStage
from ..record.interpose import Interposer
from ..record.saver import Saver

# What a record's field is called in a key, by the direction of the call.
_CATEGORIES = {
    ("forward", "input_args"): "forward_input",
    ("forward", "input_kwargs"): "forward_input",
    ("forward", "output"): "forward_output",
    ("backward", "input"): "backward_input",
    ("backward", "output"): "backward_output",
}


def make(config, param_subclasses):
    """(recorder, capture, interposer, saver) for these settings."""
    recorder = core.Recorder(
        hdf5=True, tensors=True, staging_bytes=config.staging_bytes, min_free_bytes=config.min_free_space
    )
    capture = KeyCapture(config, recorder, KeyStage(recorder, config), param_subclasses)
    tables = names.Tables(torch, config.custom_op_namespaces)
    interposer = LeafInterposer(capture, config.level, tables, Collectives(capture))
    return recorder, capture, interposer, Saver(capture)


class KeyStage(DeviceStage):
    """Each tensor says where it was."""

    def __init__(self, recorder, config):
        super().__init__(recorder, config)
        self._contents.checksum = None  # equal tensors are found when they are written

    def text(self, tensor, values, describer):
        return super().text(tensor, values, describer) + json.dumps({"device": str(tensor.device)})


class LeafInterposer(Interposer):
    @staticmethod
    def names(prefix, model):
        for path, module in model.named_modules():
            if next(module.children(), None) is None:
                yield module, f"{path}.{type(module).__name__}" if path else type(module).__name__


class KeyedCall(ModuleCall):
    """``base``: path, class and number of the call; ``first``: of the module's first call in the step."""

    def __init__(self, base, first, epoch):
        self.module_name, self.epoch = first, epoch
        self.name, self.backward_name = f"{base}.forward", f"{base}.backward"


class KeyCapture(Capture):
    """Records are named by the beginnings of keys: {path}.{Class}.{n}.{category}; one for each category of a call."""

    def __init__(self, config, recorder, stage, param_subclasses):
        super().__init__(config, recorder, stage)
        self._parameter_types = torch.nn.Parameter if param_subclasses else None
        self.put = self._put_categories

    def begin_step(self):
        super().begin_step()
        self._first_calls = {}

    def new_call(self, module, module_name):
        number = next(self.counters["module", type(module).__name__])
        base = f"{module_name}.{number}"
        return KeyedCall(base, self._first_calls.setdefault(id(module), base), self.epoch)

    def _enter(self, call, module, args, kwargs):
        self.quietly(self._put_parameters, call, module)
        return super()._enter(call, module, args, kwargs)

    def _put_parameters(self, call, module):
        parameters = {name: value for name, value in module._parameters.items() if self._is_wanted(value)}
        if parameters:
            base = call.name[: -len(".forward")]
            self.describer.functions.put(f"{base}.forward_params", None, core.FINISH, "", parameters)

    def _is_wanted(self, parameter):
        if self._parameter_types is not None:
            return isinstance(parameter, self._parameter_types)
        return type(parameter) is torch.nn.Parameter

    def _put_categories(self, name, stack, flags, *fields):
        put = self.describer.functions.put
        flags = flags & core.CHANGED | core.FINISH
        base, _, direction = name.rpartition(".")
        if base.endswith(".parameters_grad"):
            record = base[: -len("parameters_grad")] + "params_grad"
            put(record, None, flags, "", {fields[0]: fields[1][0]})
            return
        categories = {}
        for field, value in zip(fields[::2], fields[1::2]):
            category = _CATEGORIES.get((direction, field))
            if category is not None:
                categories.setdefault(category, []).extend(("", value))
        for category, values in categories.items():
            put(f"{base}.{category}", None, flags, *values)
