"""Tensors of a device measured by torch's own operators, those of a record together.

Nothing waits for the next record: code that is not recorded may change a tensor at any time, and versions do not tell
every change. What was measured stays on the device until drain() brings it all at once.
"""

import torch

from . import core, log

_MANY_MEASURED = 16384  # numbers of so many wait on the device at most
_WITHOUT_RANGE = tuple(getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name))
_DESCRIBED_BY_CORE = "bool int8 int16 int32 int64 uint8 float16 bfloat16 float32 float64".split()


class TorchMeter:
    def __init__(self, recorder, high_precision):
        self._recorder, self._high = recorder, high_precision
        self._measured = {}  # {(device, dtype, whether sums are needed): lists of lows, highs, sums, norms, slots}
        self._num_measured = 0
        self._has_told = set()
        # For the core: it describes these dtypes, and they come to measure().
        self.dtypes = sum(1 << core.dtype_code(f"torch.{name}") for name in _DESCRIBED_BY_CORE)
        self.raw_stream = None

    @property
    def is_full(self):
        return self._num_measured >= _MANY_MEASURED

    def measure(self, pairs):
        """Each (slot, tensor), now."""
        norms, seen = {}, {}
        with torch.no_grad():
            for slot, tensor in pairs:
                slots = seen.get(id(tensor))
                if slots is not None:
                    slots.append(slot)
                    continue
                slots = seen[id(tensor)] = [slot]
                try:
                    self._reduce(tensor.detach(), slots, norms)
                except (RuntimeError, NotImplementedError, TypeError) as error:
                    self._measure_on_host(tensor, slots, error)
            for key, tensors in norms.items():
                self._measured[key][3].extend(_norms(tensors))
        self._num_measured += len(pairs)

    def _reduce(self, tensor, slots, norms):
        dtype = tensor.dtype
        if tensor.numel() == 0 or dtype.is_floating_point and dtype.itemsize == 1:
            self._recorder.fill(slots, (0,) * 4, bytes(4))
            return
        if dtype in _WITHOUT_RANGE:
            raise NotImplementedError(f"no range of {dtype}")
        if dtype is torch.bool:
            tensor = tensor.view(torch.uint8)
        elif dtype.is_complex:
            tensor = tensor.abs()
        is_float = tensor.is_floating_point()
        needs_sums = is_float and dtype is not torch.float64 or self._high or dtype.is_complex
        low, high = (tensor, tensor) if tensor.dim() == 0 else torch.aminmax(tensor)
        total = None
        if needs_sums:
            # In double torch reads at a tenth of the memory's speed. What is written of a 16-bit tensor has 11 bits at
            # most, and a sum in float is right to twice as many.
            is_short = is_float and dtype.itemsize == 2 and not self._high
            total = torch.sum(tensor, dtype=torch.float32 if is_short else torch.float64)
            wide = tensor if is_float else tensor.double()
        # Nothing failed: from here on the lists stay as long as each other.
        key = (tensor.device, tensor.dtype, needs_sums)
        lists = self._measured.setdefault(key, ([], [], [], [], []))
        if needs_sums:
            lists[2].append(total)
            norms.setdefault(key, []).append(wide)
        lists[0].append(low)
        lists[1].append(high)
        lists[4].append(slots)

    def _measure_on_host(self, tensor, slots, error):
        text = (
            f"a tensor of {tensor.device} is brought to the host to be measured, "
            f"because torch cannot do it there: {str(error).splitlines()[0]}"
        )
        if text not in self._has_told:
            self._has_told.add(text)
            log.warning(text)
        host = tensor.detach().cpu()
        for slot in slots:
            self._recorder.fill_tensor(slot, core.words(core.tensor_words(host)))

    def drain(self):
        """Brings all numbers to the host, with a few transfers."""
        measured, self._measured, self._num_measured = self._measured, {}, 0
        for (_, dtype, needs_sums), (lows, highs, sums, norms, slots) in measured.items():
            if not slots:
                continue
            wide = torch.float64 if dtype.is_floating_point else torch.int64
            ends = torch.stack([torch.stack(lows), torch.stack(highs)]).to(wide).cpu()
            found = torch.zeros((len(slots), 8), dtype=torch.int64)
            found[:, 2:4] = ends.view(torch.int64).t()
            if dtype.is_floating_point:
                found[:, 5] = torch.signbit(ends[1])
            if needs_sums:
                both = torch.stack([torch.stack(sums).double(), torch.stack(norms).square()]).cpu()
                found[:, 0:2] = both.view(torch.int64).t()
            places = [i for i, several in enumerate(slots) for _ in several]
            if len(places) != len(slots):
                found = found[places]
            self._recorder.fill_found([slot for several in slots for slot in several], found.contiguous())


def _norms(tensors):
    """In double, with one launch where this torch can."""
    try:
        return torch._foreach_norm(tensors, 2, dtype=torch.float64)
    except (AttributeError, TypeError, RuntimeError):
        return [torch.linalg.vector_norm(tensor, dtype=torch.float64) for tensor in tensors]
