"""PrecisionDebugger of this workflow: the calls of a model's innermost modules in one HDF5 file for each rank."""

import datetime
import os

from .. import __version__
from ..record import log
from ..record.debugger import Service, _rank

HOOKS = ("dump", "summary")
COMPRESSIONS = (None, "gzip")


class PrecisionDebugger:
    """Records the module calls of ``model``: what goes in, what comes out, parameters, and gradients.

    ``start()`` opens a step, and ends the one before; ``stop()`` and ``step()`` end it too, and so does the end of the
    program. Made again with the same ``dump_path``, as inside a function that is called for each iteration, it is the
    same object. Files: ``globalrank-R_localrank-L.h5`` and ``..._summary.csv``; docs/xray.md says what is in them.
    """

    _instance = None

    def __new__(cls, dump_path, *args, **kwargs):
        known = PrecisionDebugger._instance
        if known is None:
            return super().__new__(cls)
        if os.path.abspath(dump_path) != known._service.path:
            raise ValueError(
                f"dump_path: this process records to {known._service.path} already; {dump_path!r} would be a second one"
            )
        return known

    def __init__(
        self,
        dump_path,
        hook_name="dump",
        rank=None,
        step=None,
        model=None,
        dump_torch_api=False,
        *,
        param_subclasses=False,
        compression=None,
        first_step=1,
    ):
        _check(hook_name, model, compression)
        if PrecisionDebugger._instance is self:
            self._model = model
            return
        self._model = model
        self._has_started = False
        self._service = XrayService(
            os.path.abspath(dump_path), hook_name, rank, step, dump_torch_api, param_subclasses, compression
        )
        self._service.first_step = first_step
        PrecisionDebugger._instance = self

    def start(self):
        """Opens the next step."""
        if self._has_started:
            self._service.step()
        self._has_started = True
        try:
            self._service.start(self._model, None, None, None)
        except BaseException:
            self._service.leave_nothing()
            raise

    def stop(self):
        """Ends the step: its rows are in the csv."""
        self._service.stop()

    step = stop

    @classmethod
    def _forget(cls):
        """Ends the debugger of this process, for tests."""
        if cls._instance is not None:
            cls._instance._service.close()
            cls._instance = None


def _check(hook_name, model, compression):
    import torch

    if hook_name not in HOOKS:
        raise ValueError(f"hook_name is {hook_name!r}; allowed: 'dump' (tensors and summary), 'summary' (no tensors)")
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is of type {type(model).__name__}; it must be a torch.nn.Module")
    if compression not in COMPRESSIONS:
        raise ValueError(f"compression is {compression!r}; allowed: None, 'gzip'")


class XrayService(Service):
    def __init__(self, path, hook_name, rank, step, dump_torch_api, param_subclasses, compression):
        settings = {
            "task": "tensor",
            "level": "mix" if dump_torch_api else "L0",
            "rank": list(rank or ()),
            "step": list(step or ()),
            "extra_info": False,
            "identity": False,
        }
        super().__init__(None, settings)
        self.path = self.config.dump_path = path
        self._hook_name, self._dump_torch_api = hook_name, dump_torch_api
        self._param_subclasses, self._compression = param_subclasses, compression
        self._file = None
        self._device = "cpu"

    def start(self, model, token_range, rank_id, scheduled_tokens):
        self._device = next((tensor.device.type for tensor in model.parameters()), "cpu")
        super().start(model, token_range, rank_id, scheduled_tokens)

    def _make(self):
        from . import session

        return session.make(self.config, self._param_subclasses)

    def _begin_folder(self, rank_id):
        rank, local_rank = _rank(rank_id) or 0, _local_rank(_rank(rank_id) or 0)
        log.set_rank(_rank(rank_id))
        if self._folder is not None:
            return
        os.makedirs(self.path, exist_ok=True)
        if self._file is None:
            self._file = f"globalrank-{rank}_localrank-{local_rank}.h5"
            whole = os.path.join(self.path, self._file)
            if os.path.lexists(whole):
                log.warning(f"{whole} exists; it is replaced by this recording")
                if self._hook_name == "summary":
                    os.unlink(whole)
        self._totals_before = self._recorder.totals()
        self._recorder.begin(
            folder=self.path,
            file=self._file,
            header={
                "root": self._attributes(rank, local_rank),
                "step": self.current_step,
                "rank": rank,
                "device": self._device,
                "tensors": self._hook_name == "dump",
                "pack": self._compression == "gzip",
            },
            stack=False,
            construct=False,
        )
        self._folder = self.path

    def _attributes(self, rank, local_rank):
        import torch

        return {
            "format": "xray-dump",
            "version": 1,
            "vernier_version": __version__,
            "global_rank": rank,
            "local_rank": local_rank,
            "world_size": _world_size(),
            "torch_version": str(torch.__version__),
            "device_type": self._device,
            "hook_name": self._hook_name,
            "dump_torch_api": bool(self._dump_torch_api),
            "created": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        }

    def _say_what_was_recorded(self):
        now = self._recorder.totals()
        if self._capture.num_calls == 0:
            log.warning(f"nothing was recorded in step {self.current_step}: no module of the model was called")
            return
        num_tensors, stored = (now[name] - self._totals_before[name] for name in ("num_tensors", "bytes_stored"))
        log.info(
            f"{os.path.join(self.path, self._file)}: step {self.current_step}: {num_tensors} tensors, "
            f"{stored / 2**20:.1f} MiB stored"
        )

    def _say_what_was_not_called(self):
        """start() is the only call that is needed."""


def _local_rank(rank):
    import torch

    text = os.environ.get("LOCAL_RANK", "")
    if text.isdigit():
        return int(text)
    num_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return rank % num_devices if num_devices else 0


def _world_size():
    import torch

    dist = torch.distributed
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size()
    text = os.environ.get("WORLD_SIZE", "")
    return int(text) if text.isdigit() else 1
