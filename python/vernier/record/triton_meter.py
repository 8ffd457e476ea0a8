"""Tensors measured where they are by a kernel of ours that Triton compiles for the device.

The core says what to launch, here it is launched, and the numbers arrive in memory of the host, where the core looks
for them. Which devices Triton serves is Triton's to know: what compiles and measures one tensor correctly is used.
"""

import contextlib
import itertools
import struct

import torch

from . import core, log

_NUM_WARPS = 8
_AN_ADDRESS = (1 << 40) + 1  # stands for any number of 64 bits when the kernel is compiled
CAPTURED = "a stream is captured into a graph, where nothing runs yet: calls in it have no numbers"


class TritonMeter:
    def __init__(self, recorder, device):
        """Raises what goes wrong, of whatever type, when this device cannot be served."""
        from . import triton_kernel

        self._kernel = triton_kernel.measure
        self._part_words = triton_kernel.PART_WORDS + (triton_kernel.SKETCH_PART_WORDS if recorder.sketch else 0)
        assert core.RING_WORDS == 8 * triton_kernel.RING_PLACES
        self._recorder, self._type = recorder, device.type
        self._compiled, self._prepared, self._parts, self._tables = {}, {}, {}, {}
        self._module = getattr(torch, device.type, None)
        self._is_capturing = getattr(self._module, "is_current_stream_capturing", lambda: False)
        self._interprets = not hasattr(self._kernel, "warmup") or type(self._kernel).__name__ == "InterpretedFunction"
        if self._interprets:
            self._current_device, self.raw_stream = (lambda: -1), (lambda index: 0)
        else:
            from triton.runtime import driver

            if driver.active.get_active_torch_device().type != device.type:
                raise RuntimeError(f"Triton compiles for {driver.active.get_active_torch_device().type} here")
            self._current_device, self.raw_stream = (
                driver.active.get_current_device,
                driver.active.get_current_stream,
            )
        # Memory of the host that the device reads and writes under the same address.
        self._memory = torch.zeros(recorder.ring_words(), dtype=torch.int64, pin_memory=device.type != "cpu")
        self._ring = self._memory.data_ptr()
        try:
            # Without what Triton does around a launch of anybody's, which takes as long as the launch itself.
            self._directly = True
            self._try(device)
        except Exception:
            self._directly, self._prepared = False, {}
            self._try(device)
        recorder.use_kernels(self._memory)
        self.dtypes = core.device_dtypes()

    def _try(self, device):
        """Measures three numbers, so that a compiler or a memory that does not work is found out now."""
        three = torch.tensor([1.5, -2.0, 4.0], device=device)
        index = -1 if device.type == "cpu" else three.get_device()
        one_run = (3, 256, 0, 0, 256, 1 << 40, 0, 0, 256, 1 << 40, 0, 0, 256, 1 << 40, *[1] * 8, *[0] * 8)
        float32 = 1 | 4 << 8 | 3 << 16 | 1 << 32
        self._start((index, self.raw_stream(index), 1, 1, float32, 1, three.data_ptr(), *one_run))
        self.wait()
        found = self._memory[8:16].tolist()
        numbers = struct.unpack("4d", struct.pack("4q", *found[:4]))
        if numbers != (3.5, 22.25, -2.0, 4.0) or found[6] != 1:
            raise RuntimeError(f"a kernel compiled by Triton measured {numbers} where 3.5, 22.25, -2.0, 4.0 was right")

    def launch(self, words):
        """One launch, as the core has put it together."""
        try:
            if self._is_capturing():
                self._recorder.lose(words[5], words[3], CAPTURED)
            else:
                self._start(words)
        except Exception as error:  # of whatever compiler and driver there is
            self._recorder.lose(words[5], words[3], f"{type(error).__name__}: {error}")

    def _start(self, words):
        index, stream, num_blocks, _, variant = words[:5]
        prepared = self._prepared.get((index, stream, variant))
        if prepared is None:
            with self._device(index):
                prepared = self._prepared[index, stream, variant] = self._prepare(index, stream, variant)
        if self._current_device() == index:
            prepared(num_blocks, words[5:])
        else:
            with self._device(index):
                prepared(num_blocks, words[5:])

    def _prepare(self, index, stream, variant):
        """What launches this variant of the kernel on this stream."""
        key = (index, stream)
        if key not in self._parts:
            self._parts[key] = self._on_device(torch.zeros(self._part_words, dtype=torch.int64), index)
        if index not in self._tables:
            self._tables[index] = self._on_device(core.kernel_tables(), index)
        memory = (self._ring, self._parts[key].data_ptr(), self._tables[index].data_ptr())
        constants = _constants(variant)
        if self._interprets:
            return lambda num_blocks, numbers: self._kernel[(num_blocks,)](*memory, *numbers, **constants)
        compiled = self._compiled.get((index, variant))
        if compiled is None:
            any_numbers = itertools.repeat(_AN_ADDRESS, len(self._kernel.arg_names) - len(constants))
            compiled = self._kernel.warmup(*any_numbers, grid=(1,), num_warps=_NUM_WARPS, **constants)
            self._compiled[index, variant] = compiled
        behind = tuple(constants.values())
        if not self._directly:
            return lambda num_blocks, numbers: compiled[num_blocks, 1, 1](*memory, *numbers, *behind)
        compiled[1, 1, 1]  # loads it
        run, before = compiled.run, (stream, compiled.function, compiled.packed_metadata, None, None, None, *memory)
        return lambda num_blocks, numbers: run(num_blocks, 1, 1, *before, *numbers, *behind)

    def wait(self):
        """For all that was launched; what will never come is given up."""
        try:
            if self._module is not None and hasattr(self._module, "synchronize"):
                self._module.synchronize()
        except RuntimeError as error:
            self._recorder.lose(1, 1 << 62, f"{self._type}: {error}")

    def _on_device(self, tensor, index):
        return tensor if index < 0 else tensor.to(torch.device(self._type, index))

    def _device(self, index):
        return contextlib.nullcontext() if index < 0 else self._module.device(index)


def _constants(variant):
    kind, item_bytes, wanted, layout, axes, wide = (variant >> 8 * i & 255 for i in range(6))
    return {
        "KIND": kind,
        "BYTES": item_bytes,
        "STATISTICS": bool(wanted & 1),
        "CRC32": bool(wanted & 2),
        "XOR64": bool(wanted & 4),
        "SKETCH": bool(wanted & 8),
        "LAYOUT": layout,
        "AXES": axes,
        "WIDE": bool(wide),
    }


def meter_for(recorder, device):
    """(meter, None), or (None, why there is none)."""
    try:
        import triton  # noqa: F401
    except Exception as error:  # one that is installed and broken can raise anything
        return None, f"Triton: {type(error).__name__}: {error}"
    try:
        return TritonMeter(recorder, device), None
    except Exception as error:
        log.write("DEBUG", f"Triton on {device}: {error}")
        return None, f"Triton: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
