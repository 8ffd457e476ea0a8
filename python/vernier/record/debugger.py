"""PrecisionDebugger: when to record, where to, and what surrounds it."""

import atexit
import contextlib
import functools
import importlib
import itertools
import os
import shutil
import sys
import time
import traceback

from . import log
from .config import read_config
from .errors import RecordError, parameter_error


def _function_state():
    """Whether torch functions are on in this thread; None where it cannot be set again."""
    functions = getattr(sys.modules.get("torch"), "_C", None)
    return functions._get_torch_function_state() if hasattr(functions, "_set_torch_function_state") else None


def _set_function_state(state):
    """After an exception that a signal raised while we had them off."""
    if state is not None:
        sys.modules["torch"]._C._set_torch_function_state(state)


CONFIG_VARIABLE = "VERNIER_CONFIG"


class PrecisionDebugger:
    """Records what a model computes. One per process: the first construction decides, later ones return it.

    Call ``start(model)`` before the forward pass, ``stop()`` after what is to be recorded, ``step()`` at the end of
    each iteration. ``config_path`` names a config.json (docs/record.md lists its keys); arguments given here win.
    """

    _instance = None

    def __new__(cls, *args, **kwargs):
        if PrecisionDebugger._instance is None:
            return super().__new__(cls)
        if args or kwargs:
            log.warning("there is a PrecisionDebugger in this process already; the arguments of this one are ignored")
        return PrecisionDebugger._instance

    def __init__(self, config_path=None, task=None, dump_path=None, level=None, step=None):
        if PrecisionDebugger._instance is not None:
            return
        overrides = {"task": task, "dump_path": dump_path, "level": level, "step": step}
        if os.environ.get(CONFIG_VARIABLE):  # alone: a program that records is recorded in another way, unchanged
            config_path, overrides = os.environ[CONFIG_VARIABLE], dict.fromkeys(overrides)
            if not os.path.isfile(config_path):
                raise RecordError(
                    RecordError.FILE, f"{CONFIG_VARIABLE} is {config_path!r}: there is no such file below {os.getcwd()}"
                )
        self._service = Service(config_path, overrides)
        PrecisionDebugger._instance = self

    @classmethod
    def _of_process(cls):
        if cls._instance is None:
            raise RecordError(RecordError.USAGE, "there is no PrecisionDebugger yet; construct one first")
        return cls._instance._service

    @classmethod
    def start(cls, model=None, token_range=None, rank_id=None, scheduled_tokens=None):
        """Opens recording. ``model`` is a module or a list of them; levels L0 and mix need it."""
        service = cls._of_process()
        was_running, state = service._running, None
        try:
            state = _function_state()
            service.start(model, token_range, rank_id, scheduled_tokens)
        except BaseException:
            _set_function_state(state)
            if not was_running:
                service.leave_nothing()
            raise

    @classmethod
    def stop(cls):
        """Closes recording; the files are complete, and the process is as it was before ``start()``."""
        state = None
        try:
            state = _function_state()
            cls._of_process().stop()
        except BaseException:
            _set_function_state(state)
            cls._of_process().leave_nothing()
            raise

    @classmethod
    def step(cls):
        """Ends the step: numbering begins anew."""
        state = None
        try:
            state = _function_state()
            cls._of_process().step()
        except BaseException:
            _set_function_state(state)
            cls._of_process().leave_nothing()
            raise

    @classmethod
    def save(cls, variable, name, save_backward=True):
        """Level debug: saves a value, and its gradient when that is computed."""
        cls._of_process().save(variable, name, save_backward)

    @classmethod
    def set_init_step(cls, step):
        """Steps are numbered from ``step`` on."""
        if not isinstance(step, int) or isinstance(step, bool) or step < 0:
            raise parameter_error("step", step, "a whole number ≥ 0")
        service = cls._of_process()
        service.first_step, service.loop = step, 0

    @classmethod
    def register_custom_api(cls, module, api, api_prefix=None):
        """Also records ``module.api``, as ``{api_prefix}.{api}.{n}``."""
        cls._of_process().register_custom_api(module, api, api_prefix)

    @classmethod
    def restore_custom_api(cls, module, api):
        """Undoes ``register_custom_api``."""
        cls._of_process().restore_custom_api(module, api)

    @classmethod
    def _forget(cls):
        """Ends the debugger of this process, for tests."""
        if cls._instance is not None:
            cls._instance._service.close()
            cls._instance = None


def module_dump(module, name):
    """Until ``module_dump_end()`` only this module is recorded, as ``Module.{name}.{Class}.forward.{n}``."""
    PrecisionDebugger._of_process().module_dump(module, name)


def module_dump_end():
    """Ends ``module_dump()``; recording goes on as before it."""
    PrecisionDebugger._of_process().module_dump_end()


class Service:
    def __init__(self, config_path, overrides):
        self._config_path, self._overrides = config_path, overrides
        self.config = read_config(config_path, overrides)
        for note in self.config.notes:
            log.warning(note)
        self.first_step, self.loop = 0, 0
        self._process = os.getpid()
        self._recorder = self._capture = self._interposer = self._saver = None
        self._folder = None
        self._over = self._running = False
        self._has_begun = False  # from then on nothing of ours is raised
        self._num_starts = 0
        self._custom = {}
        self._imported = set()  # modules of custom_wrap_ops
        self._configured = []  # what they gave: keys of _custom
        self._errors = set()
        self._token_handle = None
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._let_go_in_child)

    @property
    def current_step(self):
        return self.first_step + self.loop

    # -- start, stop, step

    def start(self, model, token_range, rank_id, scheduled_tokens):
        if self._over or os.getpid() != self._process or self.config.level == "debug":
            return
        self._quietly(self._reread)
        models = _models(model, self.config.level in ("L0", "mix") or token_range is not None)
        token_range = _token_range(token_range)
        scheduled_tokens = _scheduled_tokens(scheduled_tokens)
        if not self._wanted(rank_id):
            return
        self._num_starts += 1
        if self._running or not self._is_scheduled(scheduled_tokens):
            return
        with self._first_time_raising():
            self._begin(models, token_range, rank_id, scheduled_tokens)

    def _begin(self, models, token_range, rank_id, scheduled_tokens):
        self._open()
        if scheduled_tokens is not None and self.config.request_id:
            self._capture.cut.set_rows(scheduled_tokens, self.config.request_id)
        self._interposer.add_models(models)
        self._begin_folder(rank_id)
        self._import_custom()
        if token_range is not None:
            hook = functools.partial(_count_call, self._capture, itertools.count(), *token_range)
            self._token_handle = models[0][1].register_forward_pre_hook(hook)
        self._capture.on = token_range is None
        self._interposer.on()
        self._running = True

    def stop(self):
        if self._recorder is None or os.getpid() != self._process:
            return
        was_running = self._running
        if was_running:
            self.leave_nothing()
            self._quietly(self._capture.backward.forget_dead)
        if self._folder is not None:
            self._capture.drain()
            self._quietly(self._recorder.flush)
            if was_running:
                self._quietly(self._say_what_was_recorded)

    def _stop_counting(self):
        if self._token_handle is not None:
            self._token_handle.remove()
            self._token_handle = None

    def leave_nothing(self):
        """Puts the process back. Can be repeated: a signal may interrupt start() and stop() between any two lines."""
        if self._interposer is not None:
            self._capture.on = False
            self._quietly(self._interposer.off)
        self._stop_counting()
        self._running = False

    def step(self):
        if os.getpid() != self._process:
            return
        self.stop()
        if self._recorder is not None and self._folder is not None:
            for end in (self._interposer.sweep, self._capture.end_step, self._saver.end_step, self._recorder.end):
                self._quietly(end)
            self._folder = None
        self.loop += 1
        self._is_past_last_step()

    def save(self, variable, name, save_backward):
        config = self.config
        if config.level != "debug" or self._over or os.getpid() != self._process:
            return
        if config.step and self.current_step not in config.step:
            return
        if self._folder is None:
            with self._first_time_raising():
                self._open()
                self._begin_folder(None)
        if self._folder is not None:
            self._saver.save(variable, name, save_backward)

    def close(self):
        """At exit: what is pending is written."""
        if os.getpid() != self._process or self._recorder is None:
            return
        self._say_what_was_not_called()
        self.stop()
        self._quietly(self._capture.end_step)
        self._quietly(self._recorder.close)
        self._recorder = None
        self._over = True

    def _say_what_was_not_called(self):
        if self._running:
            log.warning(
                "stop() was not called: recording went on to the end of the program; "
                "call stop() after what is to be recorded"
            )
        if self._num_starts > 1 and self.loop == 0:
            log.warning(
                f"step() was not called: {self._num_starts} calls of start() are recorded as one step, "
                f"step{self.current_step}; call step() at the end of each iteration"
            )

    def _let_go_in_child(self):
        """Forked children, as data loaders start them, never record: the files are their parent's."""
        if self._capture is not None:
            self._capture.on = False
            self._capture.epoch = -1

    # -- what to record

    def _wanted(self, rank_id):
        config = self.config
        if config.dump_enable is False or self._is_past_last_step():
            return False
        if config.step and self.current_step not in config.step:
            return False
        if config.rank:
            rank = _rank(rank_id)
            return (0 if rank is None else rank) in config.rank
        return True

    def _is_past_last_step(self):
        """Said once; then nothing more is recorded."""
        is_past = bool(self.config.step) and self.current_step > max(self.config.step)
        if is_past and not self._over:
            self._over = True
            log.info(f"all configured steps are recorded; see {self.config.dump_path}")
        return is_past

    def _reread(self):
        """Dynamic mode: the file is looked at again when it has changed."""
        if self.config.dump_enable is None or self._config_path is None:
            return
        try:
            stat = os.stat(self._config_path)
            stamp = (stat.st_mtime_ns, stat.st_size)
            if stamp == getattr(self, "_stamp", None):
                return
            self._stamp = stamp
            enabled = self.config.dump_enable
            fresh = read_config(self._config_path, self._overrides)
        except (OSError, RecordError) as error:
            log.warning(f"recording is off: {error}")
            self.config.dump_enable = False
            return
        if fresh.dump_enable is None:
            fresh.dump_enable = enabled
        if vars(fresh) != vars(self.config):
            if fresh.custom_wrap_ops != self.config.custom_wrap_ops:
                for key in self._configured:
                    self._custom.pop(key, None)
                self._configured, self._imported = [], set()
            self.config = fresh
            self._release()

    def _release(self):
        """Lets go of everything that depends on the configuration."""
        if self._recorder is not None:
            self._quietly(self._capture.end_step)
            if self._folder is not None:
                self._quietly(self._recorder.end)
            self._quietly(self._recorder.close)
        self._recorder = self._capture = self._interposer = self._saver = self._folder = None

    def _open(self):
        if self._recorder is not None:
            return
        recorder, capture, interposer, saver = self._make()
        capture.failed = self._on_failure
        capture.reached_limit = self._end_for_good
        for module, api, prefix in self._custom.values():
            interposer.add_custom(module, api, prefix)
        self._recorder, self._capture, self._interposer, self._saver = recorder, capture, interposer, saver

    def _make(self):
        from . import session

        return session.make(self.config)

    def _is_scheduled(self, scheduled_tokens):
        request = self.config.request_id
        if scheduled_tokens is None or not request or request in scheduled_tokens:
            return True
        log.warning(f"request {request!r} is not scheduled in step {self.current_step}; the step is skipped")
        return False

    # -- folders

    def _begin_folder(self, rank_id):
        rank = _rank(rank_id)
        log.set_rank(rank)
        config = self.config
        leaf = f"proc{os.getpid()}" if rank is None else f"rank{rank}"
        folder = os.path.join(config.dump_path, f"step{self.current_step}", leaf)
        if self._folder == folder:
            return
        if config.bench_path:
            self._recorder.compare_with(os.path.join(config.bench_path, f"step{self.current_step}", leaf))
        if self._folder is None:
            self._make_way(folder)
        self._totals_before = self._recorder.totals()
        is_debug = config.level == "debug"
        stores = config.stores_all or bool(config.tensor_list)
        data_folder = os.path.join(folder, "dump_tensor_data") if stores else None
        self._recorder.begin(
            folder=os.path.abspath(folder),
            file="debug.json" if is_debug else "dump.json",
            header={"task": config.task, "level": config.level, "framework": "pytorch"},
            dump_data_dir=data_folder,
            stack=config.extra_info and not is_debug,
            construct=config.extra_info and not is_debug,
        )
        if config.with_identity:
            from . import state

            self._recorder.state(environment=state.environment())
            self._recorder.state(rng=state.random_numbers(whole=config.stores_all))
        self._folder = folder

    def _make_way(self, folder):
        try:
            os.makedirs(os.path.dirname(folder), exist_ok=True)
            if not os.path.lexists(folder):
                return
            if not self.config.overwrite:
                text = f"{folder} exists and overwrite is false; choose another dump_path or remove it"
                raise RecordError(RecordError.FILE, text)
            log.warning(f"{folder} exists; it is replaced by this recording")
            if os.path.islink(folder) or not os.path.isdir(folder):
                os.unlink(folder)  # what a link leads to is not ours
                return
            old = f"{folder}.old{os.getpid()}"
            os.rename(folder, old)
            shutil.rmtree(old)
        except OSError as error:
            raise RecordError(RecordError.FILE, f"dump_path: {error.filename or folder}: {error.strerror}") from None

    # -- ends

    @contextlib.contextmanager
    def _first_time_raising(self):
        """At first, settings that cannot work are the caller's to know. Else the model goes on without the step."""
        try:
            yield
            self._has_begun = True
        except Exception as error:
            self._folder = None
            self._stop_counting()
            if self._capture is not None:
                self._capture.on = False
            if not self._has_begun and getattr(error, "key", "") != "IO":
                raise
            self._on_failure(error, f"; step {self.current_step} is not recorded")

    def _quietly(self, call):
        try:
            call()
        except Exception as error:
            self._on_failure(error)

    def _say_what_was_recorded(self):
        if self.config.bench_path:
            is_problem, line = self._recorder.compared()
            (log.warning if is_problem else log.info)(line)
        now = self._recorder.totals()
        totals = {name: now[name] - self._totals_before[name] for name in now}
        if self._capture.num_calls == 0 and self.config.level != "debug":
            reason = {
                "L0": "no module of the model was called between start() and stop()",
                "mix": "neither a module of the model nor a torch API was called between start() and stop()",
            }.get(self.config.level, "no torch API was called between start() and stop() that the settings let through")
            log.warning(f"nothing was recorded in step {self.current_step}: {reason}")
        elif totals["bytes_seen"]:
            seen, stored, saved = (totals[f"bytes_{word}"] / 2**20 for word in ("seen", "stored", "saved"))
            log.info(
                f"{self._folder}: {seen:.1f} MiB of tensors seen, {stored:.1f} MiB stored in {totals['num_files']} "
                f"files, {saved:.1f} MiB saved because they were stored already"
            )

    def _on_failure(self, error, consequence=""):
        """An error of ours: said once for each kind, never raised into the model."""
        key = (type(error).__name__, getattr(error, "key", ""))
        if key in self._errors:
            return
        self._errors.add(key)
        log.error(f"recording: {error}{consequence}")
        if self._folder is None:
            return
        try:
            with open(os.path.join(self._folder, "dump_error_info.log"), "a", encoding="utf-8") as file:
                lines = traceback.format_exception(type(error), error, error.__traceback__)
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {error}\n{''.join(lines)}\n")
        except OSError:
            pass  # the disk may be what failed

    def _end_for_good(self):
        """Stops seeing calls; the files are finished by the stop() that follows."""
        self._capture.on = False
        self._over = True

    # -- custom functions

    def register_custom_api(self, module, api, prefix):
        if not callable(getattr(module, api, None)):
            raise parameter_error("api", api, f"the name of a function of {getattr(module, '__name__', module)!r}")
        prefix = prefix or getattr(module, "__name__", "Custom")
        self._custom[id(module), api] = (module, api, prefix)
        if self._interposer is not None:
            self._interposer.add_custom(module, api, prefix)

    def _import_custom(self):
        if self.config.level not in ("L1", "mix"):
            return
        for path, names in self.config.custom_wrap_ops.items():
            if path in self._imported:
                continue
            try:
                module = importlib.import_module(path)
            except ImportError:
                continue  # perhaps at the next start()
            except Exception as error:
                log.warning(f"custom_wrap_ops: {path} cannot be imported: {type(error).__name__}: {error}")
                module, names = None, ()
            self._imported.add(path)
            for name in names:
                if callable(getattr(module, name, None)):
                    self.register_custom_api(module, name, path)
                    self._configured.append((id(module), name))
                else:
                    log.warning(f"custom_wrap_ops: {path} has no function {name!r}")

    def restore_custom_api(self, module, api):
        self._custom.pop((id(module), api), None)
        if self._interposer is not None:
            self._interposer.remove_custom(module, api)

    # -- one module alone

    def module_dump(self, module, name):
        import torch

        if not isinstance(module, torch.nn.Module):
            raise parameter_error("module", type(module).__name__, "a torch.nn.Module")
        if not isinstance(name, str) or not name:
            raise parameter_error("name", name, "a non-empty text")
        if self._running:
            self._interposer.only_module(module, f"Module.{name}.{type(module).__name__}")

    def module_dump_end(self):
        if self._running:
            self._interposer.everything_again()


def _count_call(capture, numbers, first, last, module, args):
    """A hook: recording is on from the first to the last of these calls of the model."""
    capture.on = first <= next(numbers) <= last


def _rank(rank_id):
    if rank_id is not None:
        if not isinstance(rank_id, int) or isinstance(rank_id, bool) or rank_id < 0:
            raise parameter_error("rank_id", rank_id, "a whole number ≥ 0")
        return rank_id
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    text = os.environ.get("RANK", "")
    return int(text) if text.isdigit() else None


def _models(model, needed):
    """[(prefix, module)]; with several models their position is part of the names."""
    import torch

    if model is None:
        if needed:
            raise RecordError(
                RecordError.PARAMETER, "model is missing: levels L0 and mix, and token_range, need start(model=...)"
            )
        return []
    listed = isinstance(model, (list, tuple))
    models = list(model) if listed else [model]
    for item in models:
        if not isinstance(item, torch.nn.Module) or isinstance(item, torch.jit.ScriptModule):
            raise parameter_error(
                "model", type(item).__name__, "a torch.nn.Module that is not scripted, or a list of them"
            )
    return [(f"{i}." if listed else "", item) for i, item in enumerate(models)]


def _scheduled_tokens(counts):
    whole = isinstance(counts, dict) and all(
        isinstance(count, int) and not isinstance(count, bool) and count > 0 for count in counts.values()
    )
    if counts is not None and not whole:
        raise parameter_error("scheduled_tokens", counts, "a dict of request to a positive number of tokens")
    return counts


def _token_range(bounds):
    if bounds is None:
        return None
    whole = (
        isinstance(bounds, (list, tuple))
        and len(bounds) == 2
        and all(isinstance(bound, int) and not isinstance(bound, bool) for bound in bounds)
    )
    if not whole or not 0 <= bounds[0] <= bounds[1]:
        raise parameter_error("token_range", bounds, "[a, b] with 0 <= a <= b")
    return tuple(bounds)
