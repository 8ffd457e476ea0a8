"""Tensors on an accelerator. On a CUDA device the core measures them where they are. Elsewhere statistics stay on the
device as small tensors and come to the host together. Contents are copied through pinned memory on a stream of their
own. Nothing here waits for the device before drain()."""

import glob
import math
import os
import time
from array import array

import torch

from .. import VernierError
from . import core, log
from .contents import Contents

_MANY_SLOTS = 16384  # statistics of so many tensors wait on the device at most
_COPY_BYTES = 1 << 28  # so many bytes of contents wait in pinned memory at most
_LONGEST_WAIT = 1.0  # seconds that either waits while tensors come, so that a crash costs no more
_NONE, _BOOL, _INT, _DOUBLE = 0, 1, 2, 4  # how a number is to be written: VN_CELL_...


class DeviceStage:
    def __init__(self, recorder, config):
        self._recorder = recorder
        self._stores = config.task == "tensor" or bool(config.tensor_list)
        self._copies = config.task == "tensor" or config.summary_mode != "statistics" or bool(config.tensor_list)
        self._high = config.precision == "high"
        self._next_slot = 1
        self._waiting = []  # (slot, numbers), to be fetched
        self._contents = Contents(recorder, config.staging_bytes + _COPY_BYTES)
        self._copying_bytes = 0  # of contents
        self._longest_wait = math.inf if config.async_dump else _LONGEST_WAIT
        self._due = None  # when the first one that waits has waited long enough

    def cuda_dtypes(self):
        """The dtypes that the core measures on CUDA devices, a bit for each. Asked once, at the first such tensor."""
        return 0 if self._stores else _use_cuda(self._recorder)

    def text(self, tensor, values, describer):
        slot = self._next_slot
        self._next_slot += 1
        flags = core.DEFERRED | (core.REQUIRES_GRAD if tensor.requires_grad else 0)
        if type(tensor) is torch.nn.Parameter:
            flags |= core.PARAMETER
        code = describer.code(tensor.dtype)
        shape, strides = tuple(tensor.shape), tensor.stride()
        tensor = tensor.detach()
        mark, place = (0, 0), ()
        if describer.identity:
            mark = describer.functions.mark(tensor, values.changed)
        if describer.identity and mark[0]:
            flags |= core.PLACED
            place = (tensor.storage_offset(),)
        if self._copies:
            flags |= core.COPY_FOLLOWS
            self._copy(slot, tensor)
        else:
            self._waiting.append((slot, self._reduce(tensor)))
        values.words += (slot, *mark, code, flags, len(shape), *shape, *strides, *place)
        # Only after this put: until then the core does not know the slot.
        now = time.monotonic()
        if self._due is None:
            self._due = now + self._longest_wait
        values.drain = now >= self._due or len(self._waiting) >= _MANY_SLOTS or self._copying_bytes > _COPY_BYTES
        return "\x01"

    # -- statistics

    def _reduce(self, tensor):
        """(kinds, small tensors) by the rules for Max, Min, Mean and Norm."""
        if tensor.numel() == 0 or tensor.element_size() == 1 and tensor.dtype.is_floating_point:
            return (_NONE,) * 4, ()
        dtype = tensor.dtype
        if dtype is torch.bool:
            return (_BOOL, _BOOL, _NONE, _NONE), (tensor.any(), tensor.all())
        kind = _DOUBLE if dtype.is_floating_point else _INT
        if tensor.dim() == 0 and not dtype.is_complex:
            return (kind,) * 4, (tensor,) * 4
        if dtype.is_complex:
            size = tensor.abs()
            low, high = torch.aminmax(size)
            return (_DOUBLE, _DOUBLE, _DOUBLE, _NONE), (high, low, size.mean())
        low, high = torch.aminmax(tensor)
        if self._high or dtype.is_floating_point and dtype is not torch.float64:
            wide = tensor.double() if self._high else tensor
            return (kind, kind, _DOUBLE, _DOUBLE), (high, low, wide.mean(), torch.linalg.vector_norm(wide))
        return (kind, kind, _NONE, _NONE), (high, low)

    def drain(self):
        """Brings everything to the host and completes the records that wait for it."""
        self._due = None
        self._finish_copies()
        if not self._waiting:
            return
        fetched = _fetch([numbers for _, numbers in self._waiting])
        slots, values, kinds = array("q"), array("q"), bytearray()
        for slot, numbers in self._waiting:
            bits = fetched[id(numbers)]
            slots.append(slot)
            values.extend(bits)
            kinds.extend(numbers[0])
        self._recorder.fill(slots, values, kinds)
        self._waiting = []

    # -- contents

    def _copy(self, slot, tensor):
        self._contents.copy(slot, tensor)
        self._copying_bytes = self._contents.waiting_bytes

    def _finish_copies(self):
        self._contents.hand_over()
        self._copying_bytes = 0


class HostStage:
    """For recordings that must look at the numbers at once: tensors are brought to the host as they come."""

    def cuda_dtypes(self):
        return 0

    def text(self, tensor, values, describer):
        host = tensor.detach().cpu()
        values.keep.append(host)
        if values.tensors:
            values.tensors[-1] = host
        flags = core.REQUIRES_GRAD if tensor.requires_grad else 0
        return describer.host_tensor(host, values, flags)

    def drain(self):
        pass


def _use_cuda(recorder):
    """The dtypes that the core can measure on CUDA devices, a bit for each; 0: none, so torch does it."""
    if not hasattr(torch._C, "_cuda_getCurrentRawStream") or torch.version.cuda is None:
        return 0
    try:
        return recorder.use_cuda(_compiler_path())
    except VernierError as error:
        log.warning(f"tensors on CUDA devices are measured by torch, which takes longer: {error}")
        return 0


def _compiler_path():
    """CUDA's run-time compiler that torch came with."""
    own = os.path.dirname(torch.__file__)
    patterns = (
        (own, "lib", "libnvrtc*.so*"),
        (own, os.pardir, "nvidia", "*", "lib", "libnvrtc.so*"),
    )
    found = [path for pattern in patterns for path in sorted(glob.glob(os.path.join(*pattern)))]
    return next((path for path in found if "builtins" not in os.path.basename(path)), None)


def _fetch(many):
    """{id(numbers): four words of bits} with one transfer for each device and kind of number."""
    groups, places = {}, []
    for numbers in {id(numbers): numbers for numbers in many}.values():
        for position, small in enumerate(numbers[1]):
            whole = not small.dtype.is_floating_point
            wide = small.long() if whole else small.double()
            group = groups.setdefault((small.device, whole), [])
            places.append((id(numbers), position, (small.device, whole), len(group)))
            group.append(wide.reshape(()))
    lists = {}
    for key, group in groups.items():
        together = torch.stack(group)
        lists[key] = (together if key[1] else together.view(torch.int64)).cpu().tolist()
    fetched = {id(numbers): [0] * 4 for numbers in many}
    for identity, position, key, index in places:
        fetched[identity][position] = lists[key][index]
    return fetched
