"""Tensors in the arguments and results of modules, however deep in tuples, lists and dicts."""

import operator

import torch

_LEAVES = {type(None), bool, int, float, str}


def gradient_tensors(value, in_container=False):
    """Those that gradients flow to, in order. Not leaves in lists and dicts: parameters must stay what they are."""
    if isinstance(value, torch.Tensor):
        return [value] if is_replaced(value, in_container) else []
    found = []
    if isinstance(value, (tuple, list, dict)):
        in_container = in_container or not isinstance(value, tuple)
        for item in value.values() if isinstance(value, dict) else value:
            if type(item) not in _LEAVES:
                found += gradient_tensors(item, in_container)
    return found


def replaced(value, replacements, in_container=False):
    """The same nest with these tensors instead, taken in order.

    Tuples with a tensor are made anew. Lists and dicts stay the same objects, because the program may hold them too,
    and keep the new tensors: so does the reference.
    """
    if isinstance(value, torch.Tensor):
        return next(replacements) if is_replaced(value, in_container) else value
    if isinstance(value, tuple):
        items = [replaced(item, replacements, in_container) for item in value]
        if all(map(operator.is_, items, value)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, (list, dict)):
        for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
            new = replaced(item, replacements, True)
            if new is not item:
                value[key] = new
    return value


def is_replaced(tensor, in_container=False):
    return tensor.requires_grad and tensor.element_size() > 1 and not (in_container and tensor.is_leaf)
