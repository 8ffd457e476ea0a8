"""Which meter serves which device. One table, tried from its top: the first that works is used."""

import glob
import os

import torch

from .. import VernierError
from . import core, log
from .config import Config
from .torch_meter import TorchMeter
from .triton_meter import CAPTURED, TritonMeter, meter_for

NAMES = ("cuda", "triton", "torch", "host")
AUTO = "auto"
VARIABLE = "VERNIER_METER"
_MAX_DIMS = 8  # that kernels take


class _CudaMeter:
    def __init__(self, recorder):
        recorder.use_cuda(_compiler_path())
        self.dtypes, self.raw_stream = core.device_dtypes(), torch._C._cuda_getCurrentRawStream


class Meters:
    """``contents``: tensors are copied anyhow, and measured on the host."""

    def __init__(self, recorder, config, contents=False):
        self._recorder, self._contents = recorder, contents
        self._with_checksums = config.summary_mode != "statistics"
        self._forced = forced(config.meter)
        self.torch = TorchMeter(recorder, config.precision == "high", config.sketch)
        self.by_device = {}
        self._by_type = {}  # the meter of a type of device; a text: its tensors are copied
        self._for_checksums = {}  # by type of device; None: nobody
        self._asks_capturing, self._has_told_capturing = {}, False
        self._kernels = None  # of Triton
        # With what serves devices forced, tensors of the host are measured by it too: that is how it is tested.
        self.with_host = self._forced == "torch" or self._forced == "triton" and interprets()

    def of(self, device):
        """Asked once for each device, at its first tensor; see DeviceStage."""
        meter = self._by_type.get(device.type)
        if meter is None:
            meter = self._by_type[device.type] = self._choose(device)
        entry = None if isinstance(meter, str) else (meter.dtypes, meter.raw_stream)
        self.by_device[device] = entry
        return entry

    def copies(self, tensor):
        """Whether one that only Python can describe is brought to the host to be measured."""
        return self._with_checksums or isinstance(self._by_type.get(tensor.device.type), str)

    def is_captured(self, device):
        """Whether what is done on this device now becomes part of a graph, and runs later, if at all."""
        asks = self._asks_capturing.get(device.type)
        if asks is None:
            module = getattr(torch, device.type, None)
            asks = getattr(module, "is_current_stream_capturing", None) or (lambda: False)
            self._asks_capturing[device.type] = asks
        if not asks():
            return False
        if not self._has_told_capturing:
            self._has_told_capturing = True
            log.warning(f"{device}: {CAPTURED}")
        return True

    def checksum(self, tensor):
        """(CRC-32, xor) of a tensor, computed on its device; None: there is nobody for that."""
        meter = self._for_checksums.get(tensor.device.type)
        code = core.dtype_code(str(tensor.dtype))
        if meter is None or not meter.dtypes >> code & 1 or tensor.dim() > _MAX_DIMS or tensor.is_neg():
            return None
        index = tensor.get_device()
        numbers = (tensor.data_ptr(), 0, 0, code, core.ON_DEVICE, tensor.dim(), *tensor.shape, *tensor.stride())
        return self._recorder.checksums(core.words((*numbers, index, meter.raw_stream(index))), self.launch)

    def _checksum_meter(self, device):
        for name in ("cuda", "triton"):
            if self._forced in (AUTO, name):
                meter, _ = self._make(name, device)
                if meter is not None:
                    return meter
        return None

    def launch(self, words):
        self._kernels.launch(words)

    def drain(self):
        self.torch.drain()
        if self._kernels is not None:
            self._kernels.wait()

    def name_of(self, device):
        """Of the meter that serves it."""
        self.of(device)
        meter = self._by_type[device.type]
        return meter if isinstance(meter, str) else next(name for name, kind in _KINDS.items() if kind is type(meter))

    def _choose(self, device):
        if device.type == "meta":
            return "host"  # nothing of it is ever read
        if self._contents:
            self._for_checksums[device.type] = self._checksum_meter(device)
            log.info(f"{device}: tensors are copied to the host, and measured there")
            return "contents"
        reasons = []
        first = 0 if self._forced == AUTO else NAMES.index(self._forced)
        for name in NAMES[first:]:
            meter, reason = self._make(name, device)
            if meter is not None:
                self._tell(device, name, reasons)
                return meter
            if reason is not None:
                reasons.append(reason)
        raise AssertionError("the host serves every device")

    def _make(self, name, device):
        """(a meter or the name of one, None), or (None, why not; None: it is for other devices)."""
        if name == "cuda":
            if device.type != "cuda" or torch.version.cuda is None:
                return None, None
            try:
                return _CudaMeter(self._recorder), None
            except (VernierError, AttributeError) as error:
                return None, f"CUDA: {error}"
        if name == "triton":
            meter, reason = meter_for(self._recorder, device)
            self._kernels = meter or self._kernels
            return meter, reason
        if name == "torch" and self._with_checksums:
            return None, "torch has no operator for checksums"
        return (self.torch if name == "torch" else name), None

    def _tell(self, device, name, reasons):
        text = f"{device}: tensors are measured {DESCRIPTIONS[name]}"
        if self._forced not in (AUTO, name):
            log.warning(f"{text}, not by {self._forced} as asked: {'; '.join(reasons) or 'that is for other devices'}")
        elif reasons and device.type == "cuda":
            log.warning(f"{text}, which takes longer: {'; '.join(reasons)}")
        else:
            log.info(text + (f" ({'; '.join(reasons)})" if reasons else ""))


_KINDS = {"cuda": _CudaMeter, "triton": TritonMeter, "torch": TorchMeter}
DESCRIPTIONS = {
    "cuda": "there by a CUDA kernel",
    "triton": "there by a kernel that Triton compiled",
    "torch": "there by torch's operators",
    "host": "on the host, to which they are copied",
}


def forced(setting):
    """The environment wins over the setting."""
    name = os.environ.get(VARIABLE, "") or setting
    if name not in (AUTO, *NAMES):
        log.warning(f"{VARIABLE}={name} is none of {', '.join((AUTO, *NAMES))}, and is ignored")
        return setting
    return name


def interprets():
    """Whether Triton runs kernels on the host, for tests."""
    return os.environ.get("TRITON_INTERPRET", "") in ("1", "true")


def _compiler_path():
    """CUDA's run-time compiler that torch came with."""
    own = os.path.dirname(torch.__file__)
    patterns = (
        (own, "lib", "libnvrtc*.so*"),
        (own, os.pardir, "nvidia", "*", "lib", "libnvrtc.so*"),
    )
    found = [path for pattern in patterns for path in sorted(glob.glob(os.path.join(*pattern)))]
    return next((path for path in found if "builtins" not in os.path.basename(path)), None)


def accelerators():
    """Every device of the accelerator at hand."""
    generic = getattr(torch, "accelerator", None)
    kind = generic.current_accelerator() if generic is not None and generic.is_available() else None
    if kind is None and torch.cuda.is_available():
        kind = torch.device("cuda")
    count = 0 if kind is None else getattr(torch, kind.type).device_count()
    return [torch.device(kind.type, index) for index in range(count)]


def report():
    """Lines of `vernier env`: name, tab, text."""
    print(f"torch\t{torch.__version__}")
    os.environ["VERNIER_LOG_LEVEL"] = "3"
    devices = accelerators()
    if not devices:
        print("accelerator\tnone that torch knows")
    meters = Meters(core.Recorder(), Config({"dump_path": "."}))
    for device in devices:
        print(f"{device}\ttensors are measured {DESCRIPTIONS[meters.name_of(device)]}")


if __name__ == "__main__":
    report()
