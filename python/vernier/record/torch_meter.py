"""Tensors of a device measured by torch's own operators, those of a record together.

Nothing waits for the next record: code that is not recorded may change a tensor at any time, and versions do not tell
every change. What was measured stays on the device until drain() brings it all at once.
"""

import torch

from . import core, log

_MANY_MEASURED = 16384  # numbers of so many wait on the device at most
_WITHOUT_RANGE = tuple(getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name))
_SUMS, _LARGEST = 64, 1e30  # of sketches: see src/measure/sketch.h
_PIECE_ROWS = 1 << 16  # of 64 elements that are sketched at once
_DESCRIBED_BY_CORE = "bool int8 int16 int32 int64 uint8 float16 bfloat16 float32 float64".split()


class TorchMeter:
    def __init__(self, recorder, high_precision, sketch=0):
        self._recorder, self._high, self._sketches = recorder, high_precision, bool(sketch)
        # {(device, dtype, whether sums are needed): lists of lows, highs, sums, norms, slots, sketches}
        self._measured = {}
        self._hashes = {}  # {device: signs and turns of the first rows of 64 elements}
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
            if self._sketches:
                raise NotImplementedError(f"no sketch of {dtype}")
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
        sketch = self._sketch(tensor) if self._sketches else None
        # Nothing failed: from here on the lists stay as long as each other.
        key = (tensor.device, tensor.dtype, needs_sums)
        lists = self._measured.setdefault(key, ([], [], [], [], [], []))
        if needs_sums:
            lists[2].append(total)
            norms.setdefault(key, []).append(wide)
        lists[0].append(low)
        lists[1].append(high)
        lists[4].append(slots)
        if sketch is not None:
            lists[5].append(sketch)

    def _sketch(self, tensor):
        """64 sums and how many elements counted as 0, as doubles; few elements are kept as they are."""
        flat = tensor.reshape(-1)
        found = torch.zeros(_SUMS + 1, dtype=torch.float64, device=tensor.device)
        if flat.numel() < _SUMS:
            found[: flat.numel()] = flat
            return found
        num_rows = -(-flat.numel() // _SUMS)
        signs, turns, places = self._rows(tensor.device, num_rows)
        for first in range(0, num_rows, _PIECE_ROWS):
            rows = flat[first * _SUMS : (first + _PIECE_ROWS) * _SUMS].double()
            rows = torch.nn.functional.pad(rows, (0, -rows.numel() % _SUMS)).view(-1, _SUMS)
            if tensor.is_floating_point():
                counts = rows.abs() <= _LARGEST
                found[_SUMS] += (~counts).sum()
                rows = torch.where(counts, rows, torch.zeros_like(rows))
            last = first + rows.shape[0]
            negative = (signs[first:last, None] >> places) & 1
            rows = rows * (1 - 2 * negative).double()
            # Sum b takes the element at b ^ turn.
            found[:_SUMS] += rows.gather(1, places ^ turns[first:last, None]).sum(0)
        return found

    def _rows(self, device, num_rows):
        known = self._hashes.get(device)
        if known is None or known[0].numel() < num_rows:
            count = max(1024, 1 << (num_rows - 1).bit_length())
            counters = torch.arange(2 * count)
            hashes = _mix(counters).view(-1, 2)
            signs, turns = hashes[:, 0].contiguous(), (hashes[:, 1] & (_SUMS - 1)).contiguous()
            known = self._hashes[device] = tuple(x.to(device) for x in (signs, turns, torch.arange(_SUMS)))
        return known

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
        for (_, dtype, needs_sums), (lows, highs, sums, norms, slots, sketches) in measured.items():
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
            all_slots = [slot for several in slots for slot in several]
            if sketches:
                numbers = torch.stack(sketches).cpu()
                words = torch.zeros((len(slots), core.SKETCH_WORDS), dtype=torch.int64)
                words[:, :_SUMS] = numbers[:, :_SUMS].contiguous().view(torch.int64)
                words[:, _SUMS] = numbers[:, _SUMS].long()
                self._recorder.fill_sketches(all_slots, words[places].contiguous())
            if len(places) != len(slots):
                found = found[places]
            self._recorder.fill_found(all_slots, found.contiguous())


def _mix(counters):
    """Of int64 numbers, which wrap around and keep their sign in a shift."""

    def shifted(z, bits):
        return (z >> bits) & ((1 << (64 - bits)) - 1)

    def signed(number):
        return number - (1 << 64) if number >> 63 else number

    z = (counters + 1) * signed(0x9E3779B97F4A7C15)
    z = (z ^ shifted(z, 30)) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ shifted(z, 27)) * signed(0x94D049BB133111EB)
    return z ^ shifted(z, 31)


def _norms(tensors):
    """In double, with one launch where this torch can."""
    try:
        return torch._foreach_norm(tensors, 2, dtype=torch.float64)
    except (AttributeError, TypeError, RuntimeError):
        return [torch.linalg.vector_norm(tensor, dtype=torch.float64) for tensor in tensors]
