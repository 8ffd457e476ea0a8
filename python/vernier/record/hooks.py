"""Hooks on tensors and parameters, to be taken away together.

torch's own functions spend two microseconds on each, nearly all of it on an object to remove the hook by. So hooks are
written where these functions would write them, if a try shows that this works; else the functions are called.
"""

import itertools
import weakref
from collections import OrderedDict

import torch


def _new_hooks(tensor):
    hooks = tensor._backward_hooks = OrderedDict()
    node = tensor.grad_fn
    if node is not None:
        node._register_hook_dict(tensor)
    return hooks


class Hooks:
    _LAST = -1  # our keys; torch's own are positive
    _keys = itertools.count(-2, -1)

    def __init__(self):
        self._placed = []  # (weak reference to a dict of hooks, our key in it)
        self._parameters = []  # (parameter, our key in its dict of hooks)

    def on_tensor(self, tensor, hook):
        if not _DIRECT:
            self.on_node(tensor, hook)
            return
        hooks = tensor._backward_hooks
        self._place(_new_hooks(tensor) if hooks is None else hooks, hook)
        self.keep_last(tensor)

    def at_view(self, views, hook):
        """``hook`` gets what the one node behind ``views`` makes of their gradients."""
        if _DIRECT and len(views) == 1:  # its node hands on what comes out of the last hook
            _new_hooks(views[0])[self._LAST] = hook
        else:
            views[0].grad_fn.register_hook(hook)

    def keep_last(self, view):
        hooks = view._backward_hooks
        if hooks and len(hooks) > 1 and self._LAST in hooks:
            hooks[self._LAST] = hooks.pop(self._LAST)  # not move_to_end(): old torch versions know nothing of it

    def on_parameter(self, parameter, hook):
        """Called when its gradient was added up."""
        if not _DIRECT:
            self._keep(parameter.register_post_accumulate_grad_hook(hook))
            return
        hooks = parameter._post_accumulate_grad_hooks
        if hooks is None:
            hooks = parameter._post_accumulate_grad_hooks = OrderedDict()
        key = next(self._keys)
        hooks[key] = hook
        self._parameters.append((parameter, key))

    def on_node(self, node, hook):
        self._keep(node.register_hook(hook))

    def before_node(self, node, hook):
        self._keep(node.register_prehook(hook))

    def _place(self, hooks, hook):
        key = next(self._keys)
        hooks[key] = hook
        self._placed.append((weakref.ref(hooks), key))

    def _keep(self, handle):
        self._placed.append((handle.hooks_dict_ref, handle.id))

    def forget_dead(self):
        self._placed = [(reference, key) for reference, key in self._placed if reference() is not None]

    def remove(self):
        for reference, key in self._placed:
            hooks = reference()
            if hooks is not None:
                hooks.pop(key, None)
        for parameter, key in self._parameters:
            hooks = parameter._post_accumulate_grad_hooks
            if hooks is not None:
                hooks.pop(key, None)
                if not hooks:
                    parameter._post_accumulate_grad_hooks = None  # as it was
        self._placed, self._parameters = [], []


def _works_directly():
    """Whether hooks that are written where torch would write them are called, and not after their removal."""
    global _DIRECT
    _DIRECT, seen, hooks = True, [], Hooks()  # for the calls below
    try:
        with torch.inference_mode(False), torch.enable_grad():
            parameter = torch.nn.Parameter(torch.ones((), device="cpu"))
            tensor = parameter * 2
            hooks.on_tensor(tensor, lambda gradient: seen.append("tensor"))
            if HAS_PARAMETER_HOOKS:
                hooks.on_parameter(parameter, lambda _: seen.append("parameter"))
            for _ in range(2):
                tensor.backward(retain_graph=True)
                hooks.remove()
    except Exception:
        return False
    return seen == ["tensor", "parameter"][: 1 + HAS_PARAMETER_HOOKS]


IS_TORCH_2 = int(str(torch.__version__).partition(".")[0]) >= 2  # torch's own comparison needs packages
# From torch 2.1 on; before, the node that adds the gradient up is looked for, which takes longer.
HAS_PARAMETER_HOOKS = hasattr(torch.Tensor, "register_post_accumulate_grad_hook")
_DIRECT = _works_directly()
