"""Level debug: single values saved by name, and their gradients when these arrive."""

import json

import torch

from . import core, log
from .describe import Values


class Saver:
    def __init__(self, capture):
        self._capture = capture
        self._counts = {}
        self._handles = []

    def end_step(self):
        for handle in self._handles:
            handle.remove()
        self._counts, self._handles = {}, []

    def save(self, variable, name, save_backward):
        problem = _problem(variable, name, save_backward)
        if problem is not None:
            log.warning(f"save({name!r}): {problem}; skipped")
            return
        count = self._counts.get(name, 0)
        self._counts[name] = count + 1
        self._capture.quietly(self._put, f"{name}.{count}.debug", variable)
        if save_backward:
            self._capture.quietly(self._watch, f"{name}_grad.{count}.debug", variable)

    def _put(self, entry, variable):
        values = Values()
        text = self._capture.describer.text(variable, values)
        self._capture.put_text(entry, text, values, None, core.WHOLE | core.FINISH)

    def _watch(self, entry, variable):
        nest = _Nest(variable)
        capture, epoch = self._capture, self._capture.epoch

        def hook_for(path):
            def hook(gradient):
                if capture.epoch == epoch:
                    capture.quietly(arrive, path, gradient)

            return hook

        def arrive(path, gradient):
            values = Values()
            if gradient.is_meta:
                capture.describer.text(gradient, values)
            else:  # one that is described alone waits for no device
                flags = core.IS_COPY | (core.REQUIRES_GRAD if gradient.requires_grad else 0)
                host = gradient.detach().cpu()
                values.keep.append(host)
                capture.describer.host_tensor(host, values, flags)
            nest.leaves[path] = capture.recorder.describe(".".join((entry,) + path), values.array())
            self._put_nest(entry, nest)

        for path, tensor in nest.tensors:
            if tensor.requires_grad:
                self._handles.append(tensor.register_hook(hook_for(path)))
        self._put_nest(entry, nest)

    def _put_nest(self, entry, nest):
        self._capture.put_text(entry, nest.text(), Values(), None, core.WHOLE | core.FINISH | core.KEEP)


class _Nest:
    """The shape of a value, with null for leaves that have no gradient yet."""

    def __init__(self, variable):
        self.leaves, self.tensors = {}, []
        self._shape = self._walk(variable, ())

    def _walk(self, value, path):
        if isinstance(value, torch.Tensor):
            self.tensors.append((path, value))
            return path
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            value = dict(zip(value._fields, value))
        if isinstance(value, dict):
            return {key: self._walk(item, path + (str(key),)) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._walk(item, path + (str(i),)) for i, item in enumerate(value)]
        return None

    def text(self):
        return self._text(self._shape)

    def _text(self, shape):
        if isinstance(shape, dict):
            return "{" + ",".join(f"{json.dumps(str(key))}:{self._text(item)}" for key, item in shape.items()) + "}"
        if isinstance(shape, list):
            return "[" + ",".join(map(self._text, shape)) + "]"
        return "null" if shape is None else self.leaves.get(shape, "null")


def _problem(variable, name, save_backward):
    if not isinstance(name, str) or not name:
        return "the name must be a non-empty text"
    if not isinstance(save_backward, bool):
        return f"save_backward is {save_backward!r}; allowed: True or False"
    return _type_problem(variable)


def _type_problem(value):
    if isinstance(value, (torch.Tensor, int, float, str)):
        return None
    if isinstance(value, (list, tuple)):
        return next(filter(None, map(_type_problem, value)), None)
    if isinstance(value, dict):
        return next(filter(None, map(_type_problem, value.values())), None)
    return f"{type(value).__name__} is neither a tensor, int, float, str nor a dict, list or tuple of them"
