"""Tensors on an accelerator, measured there by the meter that meters.py chooses. Contents are copied through pinned
memory on a stream of their own. Nothing here waits for the device before drain()."""

import math
import time

import torch

from . import core
from .contents import Contents
from .meters import Meters

_COPY_BYTES = 1 << 28  # so many bytes of contents wait in pinned memory at most
_LONGEST_WAIT = 1.0  # seconds that numbers wait while tensors come, so that a crash costs no more


class DeviceStage:
    def __init__(self, recorder, config):
        self._recorder = recorder
        self._next_slot = 1
        self._contents = Contents(recorder, config.staging_bytes + _COPY_BYTES)
        self._copying_bytes = 0  # of contents
        self._longest_wait = math.inf if config.async_dump else _LONGEST_WAIT
        self._due = None  # when the first one that waits has waited long enough
        self._meters = Meters(recorder, config, contents=config.task == "tensor" or bool(config.tensor_list))
        if config.stores_all:  # what was there before was stored
            self._contents.checksum = self._meters.checksum
        # For the core: {device: (its dtypes, a bit for each, what gives the stream)}, None: text() serves it.
        self.by_device, self.meter_of, self.launch = self._meters.by_device, self._meters.of, self._meters.launch
        self.measures_as_device = self._meters.with_host
        self._torch = self._meters.torch

    def text(self, tensor, values, describer):
        if self._meters.is_captured(tensor.device):
            return describer.without_data(tensor, values)
        slot = self._next_slot
        self._next_slot += 1
        flags = core.DEFERRED | (core.REQUIRES_GRAD if tensor.requires_grad else 0)
        if type(tensor) is torch.nn.Parameter:
            flags |= core.PARAMETER
        code = describer.code(tensor.dtype)
        shape, strides = tuple(tensor.shape), tensor.stride()
        mark, place = (0, 0), ()
        if describer.identity:
            mark = describer.functions.mark(tensor, values.changed)  # before detach(), which may begin a new counter
        tensor = tensor.detach()
        if describer.identity and mark[0]:
            flags |= core.PLACED
            place = (tensor.storage_offset(),)
        copies = self._meters.copies(tensor)
        if copies:
            flags |= core.COPY_FOLLOWS
            self._copy(slot, tensor)
        values.words += (slot, *mark, code, flags, len(shape), *shape, *strides, *place)
        if not copies:
            values.waiting.append((slot, tensor))
        # Only after this put: until then the core does not know the slot.
        values.drain |= self._is_due()
        return "\x01"

    def put_done(self, values):
        """The core knows the slots of what was described."""
        if values.waiting:
            captured = [slot for slot, tensor in values.waiting if self._meters.is_captured(tensor.device)]
            if captured:
                self._recorder.fill(captured, (0,) * 4 * len(captured), bytes(4 * len(captured)))
            else:
                self._torch.measure(values.waiting)
                values.drain |= self._is_due()
        if values.drain:
            self.drain()

    def _is_due(self):
        now = time.monotonic()
        if self._due is None:
            self._due = now + self._longest_wait
        return now >= self._due or self._torch.is_full or self._copying_bytes > _COPY_BYTES

    def drain(self):
        """Brings everything to the host and completes the records that wait for it."""
        self._due = None
        self._finish_copies()
        self._meters.drain()

    # -- contents

    def _copy(self, slot, tensor):
        self._contents.copy(slot, tensor)
        self._copying_bytes = self._contents.waiting_bytes

    def _finish_copies(self):
        self._contents.hand_over()
        self._copying_bytes = 0


class HostStage:
    """For recordings that must look at the numbers at once: tensors are brought to the host as they come."""

    measures_as_device = False

    def __init__(self):
        self.by_device = {}

    def meter_of(self, device):
        self.by_device[device] = None

    def launch(self, words):
        raise AssertionError("nothing is measured on devices here")

    def text(self, tensor, values, describer):
        host = tensor.detach().cpu()
        values.keep.append(host)
        if values.tensors:
            values.tensors[-1] = host
        flags = core.REQUIRES_GRAD if tensor.requires_grad else 0
        return describer.host_tensor(host, values, flags)

    def put_done(self, values):
        pass

    def drain(self):
        pass
