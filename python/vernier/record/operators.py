"""Level L2: every operator that torch dispatches, forward and backward, on any device."""

from torch.utils._python_dispatch import TorchDispatchMode


class OperatorMode(TorchDispatchMode):
    def __init__(self, capture):
        super().__init__()
        self._capture = capture
        self._names = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        capture = self._capture
        if capture.local.depth or not capture.on:
            return func(*args, **kwargs)
        named = self._names.get(func)
        if named is None:
            namespace, _, api = func._schema.name.partition("::")
            family = "Aten" if namespace == "aten" else namespace
            named = self._names[func] = (family, api, f"{family}.{api}")
        return capture.call_api(*named, func, args, kwargs)
