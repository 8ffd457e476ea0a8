"""The elements of tensors on an accelerator on their way to the core's writers: copied into pinned memory on a stream
of their own, and lent to the core, which writes files from there. The model waits only when that memory is used up."""

import functools
import threading

import torch

from . import core

SLAB_BYTES = 1 << 27
_ALIGN = 512  # what devices copy fastest


class Contents:
    """``limit_bytes``: of pinned memory. More than that is taken only where nothing could come back otherwise."""

    # checksum(tensor) -> (CRC-32, xor of words of 8 bytes) of its bytes in C order, computed where the tensor is; None:
    # not known. With it, a tensor that this step has stored already is not copied. Only for recordings that store
    # every tensor.
    checksum = None

    def __init__(self, recorder, limit_bytes):
        self._recorder = recorder
        self._ring = _Ring(recorder, limit_bytes)
        self._streams = {}  # by device; None: it has none
        self._lock = threading.RLock()  # backward runs on threads of its own
        self._waiting = []  # (slot, slot of the same tensor or 0, host copy, event)
        self.waiting_bytes = 0  # copied, or being copied, and not handed over

    def copy(self, slot, tensor):
        """Starts a copy of what the tensor holds now. The core must know the slot before hand_over()."""
        with self._lock:
            self._copy(slot, tensor)

    def _copy(self, slot, tensor):
        same = self._same(slot, tensor)
        if same:
            self._waiting.append((slot, same, None, None))
            return
        stream = self._stream(tensor.device)
        if tensor.numel() == 0 or tensor.is_conj() or tensor.is_neg() or _code(tensor.dtype) < 0:
            host, event = tensor.cpu().resolve_conj().resolve_neg(), None
            self._ring.keep(slot, host)
        elif stream is None:
            host, event = self._ring.take(slot, tensor), None
            host.copy_(tensor)
        else:
            host, event = self._copy_on(stream, slot, tensor)
        self._waiting.append((slot, 0, host, event))
        self.waiting_bytes += host.numel() * host.element_size()

    def hand_over(self):
        """Waits for the device, not for the disk. What fails costs one tensor; the first such error is raised."""
        with self._lock:
            waiting, self._waiting, self.waiting_bytes = self._waiting, [], 0
            errors = []
            for one in waiting:
                try:
                    self._hand_over(*one)
                except Exception as error:
                    errors.append(error)
        if errors:
            raise errors[0]

    def _hand_over(self, slot, same, host, event):
        if same:
            self._recorder.fill_same(slot, same)
            return
        if event is not None:
            event.synchronize()
        self._ring.num_lent += 1
        self._recorder.lend_tensor(slot, _words(host), host)

    def _same(self, slot, tensor):
        if self.checksum is None or tensor.numel() == 0:
            return 0
        found = self.checksum(tensor)
        return 0 if found is None else self._recorder.find_same(slot, _words(tensor), *found)

    def _stream(self, device):
        if device not in self._streams:
            self._streams[device] = _Stream(device) if _module(device) is not None else None
        return self._streams[device]

    def _copy_on(self, stream, slot, tensor):
        with stream:
            # Files are in C order, and the device turns a tensor round faster than the host.
            source = tensor if tensor.is_contiguous() else _contiguous(tensor)
            if source is None:  # the device has no room: as it is, and the core reads it in order
                host = tensor.cpu()
                self._ring.keep(slot, host)
            else:
                host = self._ring.take(slot, source)
                host.copy_(source, non_blocking=True)
        return host, stream.finish(tensor)


class _Stream:
    """For copies beside the model's work, on one device of any kind that has streams."""

    def __init__(self, device):
        self._device, self._module = device, _module(device)
        self._stream = self._module.Stream(device)
        self._context = None

    def __enter__(self):
        self._stream.wait_stream(self._module.current_stream(self._device))
        self._context = self._module.stream(self._stream)
        self._context.__enter__()

    def __exit__(self, *error):
        return self._context.__exit__(*error)

    def finish(self, tensor):
        """An event behind the copies that were started until now, the last of them of ``tensor``."""
        event = self._module.Event()
        event.record(self._stream)
        # What the model does next on its stream may change the tensor in place.
        self._module.current_stream(self._device).wait_event(event)
        tensor.record_stream(self._stream)
        return event


def _module(device):
    """torch.cuda, torch.xpu, torch.npu, ...; None where the device has no streams."""
    module = None if device.type == "cpu" else getattr(torch, device.type, None)
    return module if all(hasattr(module, name) for name in ("Stream", "Event", "current_stream", "stream")) else None


def _contiguous(tensor):
    """None where the device has no memory for it."""
    try:
        return tensor.contiguous()
    except RuntimeError:  # torch.OutOfMemoryError is one; older versions have others
        return None


class _Slab:
    def __init__(self, memory):
        self.memory, self.used_bytes, self.num_out = memory, 0, 0

    def take(self, num_bytes):
        if self.num_out == 0:
            self.used_bytes = 0
        begin = self.used_bytes
        if begin + num_bytes > self.memory.numel():
            return None
        self.used_bytes += -(-num_bytes // _ALIGN) * _ALIGN
        self.num_out += 1
        return self.memory[begin : begin + num_bytes]


class _Ring:
    """Pinned memory in slabs, each used from its beginning to its end, and again when all pieces are back. Tensors
    larger than a slab have memory of their own."""

    def __init__(self, recorder, limit_bytes):
        self._recorder, self._limit_bytes = recorder, limit_bytes
        self._slabs = []  # the one in use first
        self._bytes = 0  # of slabs, and of tensors with memory of their own
        self._out = {}  # slot -> slab, or the size of memory of its own
        self.num_lent = 0

    def take(self, slot, tensor):
        """Memory for a copy of the tensor in C order."""
        num_bytes = tensor.numel() * tensor.element_size()
        piece = self._own(slot, num_bytes) if num_bytes > SLAB_BYTES else self._piece(slot, num_bytes)
        return piece.view(tensor.dtype).view(tensor.shape)

    def keep(self, slot, host):
        """A copy that is there already."""
        num_bytes = host.numel() * host.element_size()
        self._bytes += num_bytes
        self._out[slot] = num_bytes

    def _piece(self, slot, num_bytes):
        while True:
            for at, slab in enumerate(self._slabs):
                piece = slab.take(num_bytes) if at == 0 or slab.num_out == 0 else None
                if piece is not None:
                    self._slabs.insert(0, self._slabs.pop(at))
                    self._out[slot] = slab
                    return piece
            if self._take_back(wait=False):
                continue
            if self._bytes + SLAB_BYTES <= self._limit_bytes or not self._take_back(wait=True):
                self._slabs.insert(0, _Slab(_pinned(SLAB_BYTES)))
                self._bytes += SLAB_BYTES

    def _own(self, slot, num_bytes):
        while self._bytes + num_bytes > self._limit_bytes and self._take_back(wait=True):
            pass
        self._bytes += num_bytes
        self._out[slot] = num_bytes
        return _pinned(num_bytes)

    def _take_back(self, wait):
        """Whether the core has given something back. ``wait``: until it does, unless it has nothing."""
        if self.num_lent == 0:
            return False
        returned = self._recorder.returned(wait)
        for slot in returned:
            self.num_lent -= 1
            place = self._out.pop(slot)
            if isinstance(place, _Slab):
                place.num_out -= 1
            else:
                self._bytes -= place
        return bool(returned)


def _pinned(num_bytes):
    try:
        return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True)
    except RuntimeError:  # no accelerator, or one that cannot: then copies take longer
        return torch.empty(num_bytes, dtype=torch.uint8)


@functools.lru_cache(maxsize=None)
def _code(dtype):
    return core.dtype_code(str(dtype))


def _words(tensor):
    shape, strides = tensor.shape, tensor.stride()
    return core.words((tensor.data_ptr(), 0, 0, _code(tensor.dtype), 0, len(shape), *shape, *strides))
