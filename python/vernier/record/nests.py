"""Tensors in the arguments and results of modules, however deep in tuples, lists and dicts."""

import torch


def gradient_tensors(value, in_container=False):
    """Those that gradients flow to, in order. Not leaves in lists and dicts: parameters must stay what they are."""
    if isinstance(value, torch.Tensor):  # nearly every output, and next to every argument
        return [value] if _is_replaced(value, in_container) else []
    found = []
    for _, item in _items(value):
        found += gradient_tensors(item, in_container or isinstance(value, (list, dict)))
    return found


def replaced(value, replacements, in_container=False):
    """The same nest with these tensors instead, taken in order.

    Tuples with a tensor are made anew. Lists and dicts stay the same objects, because the program may hold them too,
    and keep the new tensors: so does the reference.
    """
    if isinstance(value, torch.Tensor):
        return next(replacements) if _is_replaced(value, in_container) else value
    in_container = in_container or isinstance(value, (list, dict))
    pairs = [(key, item, replaced(item, replacements, in_container)) for key, item in _items(value)]
    changed = [(key, new) for key, item, new in pairs if new is not item]
    if not changed:
        return value
    items = list(value) if isinstance(value, tuple) else value
    for key, new in changed:
        items[key] = new
    if items is value:
        return value
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def _is_replaced(tensor, in_container):
    return tensor.requires_grad and tensor.element_size() > 1 and not (in_container and tensor.is_leaf)


def _items(value):
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, (list, tuple)) else ()
