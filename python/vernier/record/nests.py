"""Tensors in the arguments and results of modules, however deep in tuples, lists and dicts."""

import torch


def gradient_tensors(value):
    """Those that gradients flow to, in order."""
    if isinstance(value, torch.Tensor):  # nearly every output, and next to every argument
        return [value] if _has_gradient(value) else []
    found = []
    for _, item in _items(value):
        found += gradient_tensors(item)
    return found


def replaced(value, replacements, undo=None):
    """The same nest with these tensors instead, taken in order.

    Tuples with a tensor are made anew. Lists and dicts stay the same objects, because the program may hold them too:
    what was in them goes to ``undo``, as (container, key, replacement, original).
    """
    if isinstance(value, torch.Tensor):
        return next(replacements) if _has_gradient(value) else value
    if not isinstance(value, (tuple, list, dict)):
        return value
    pairs = [(key, item, replaced(item, replacements, undo)) for key, item in _items(value)]
    changed = [(key, item, new) for key, item, new in pairs if new is not item]
    if not changed:
        return value
    if isinstance(value, tuple):
        items = list(value)
        for key, _, new in changed:
            items[key] = new
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    for key, item, new in changed:
        value[key] = new
        if undo is not None:
            undo.append((value, key, new, item))
    return value


def put_back(undo):
    """As it was before replaced(), but for what the program has changed itself."""
    for container, key, replacement, original in undo:
        try:
            if container[key] is replacement:
                container[key] = original
        except (KeyError, IndexError):
            pass  # taken out


def _has_gradient(tensor):
    return tensor.requires_grad and tensor.element_size() > 1


def _items(value):
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, (list, tuple)) else ()
