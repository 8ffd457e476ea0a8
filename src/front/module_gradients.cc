#include <cstdint>

#include "front/front.h"
#include "front/module_calls.h"
#include "front/objects.h"

namespace vernier::python {
namespace {

// What hooks have for their `__self__`: the capsule, then
constexpr Py_ssize_t kWatchers = 1, kWatchedVersion = 2;  // [(call, position), ...], the tensor's version
constexpr Py_ssize_t kCall = 1;
constexpr Py_ssize_t kModuleName = 1, kParameterName = 2, kParameter = 3, kFiring = 4;
// Of a module's parameters in this step: the one that fires first, how often it did, how many are to come
// until all have, how many are watched, and the step.
constexpr Py_ssize_t kFirst = 0, kCount = 1, kWaiting = 2, kNumWatched = 3, kEpoch = 4;

}  // namespace

// ---- hooks

Ref ModuleCalls::NewHook(Hook kind, std::initializer_list<PyObject*> rest) const {
  static PyMethodDef methods[] = {Method("output_gradient", OutputHook), Method("input_gradient", InputHook),
                                  Method("parameter_gradient", ParameterHook)};
  const Ref self = Ref::Own(PyTuple_New(1 + static_cast<Py_ssize_t>(rest.size())));
  if (!self || PyTuple_SetItem(self.get(), 0, Ref::Share(front_.capsule).Release()) != 0) return {};
  Py_ssize_t at = 1;
  for (PyObject* const item : rest) {
    if (PyTuple_SetItem(self.get(), at++, Ref::Share(item).Release()) != 0) return {};
  }
  return Ref::Own(PyCFunction_NewEx(&methods[static_cast<int>(kind)], self.get(), nullptr));
}

// What register_hook() of a tensor hangs on it, without an object to remove it by.
Ref ModuleCalls::NewHooks(PyObject* tensor, PyObject* node) const {
  Ref hooks = Call(ordered_dict_.get());
  if (!hooks || !Set(tensor, names_.tensor_hooks, hooks.get())) return {};
  if (node != Py_None && !CallMethod(node, names_.register_hook_dict, tensor)) return {};
  return hooks;
}

bool ModuleCalls::AddHook(PyObject* hooks, PyObject* key, PyObject* hook) {
  if (PyObject_SetItem(hooks, key, hook) != 0) return false;
  const Ref reference = Ref::Own(PyWeakref_NewRef(hooks, nullptr));
  const Ref pair = reference ? NewTuple(reference.get(), key) : Ref();
  return pair && Append(hooked_.get(), pair.get());
}

// Others may change the gradient: what a module hands on is what comes out of the last of them.
bool ModuleCalls::MoveInputHookToEnd(PyObject* hooks) const {
  const Ref hook = Ref::Share(PyDict_GetItem(hooks, input_key_.get()));
  if (!hook) return true;
  // Not move_to_end(): old torch versions go by the order of the dict below.
  return PyObject_DelItem(hooks, input_key_.get()) == 0 &&
         PyObject_SetItem(hooks, input_key_.get(), hook.get()) == 0;
}

// A hook outlives the recorder when the graph does; it is then deaf. The last of its arguments is the
// gradient of a tensor, those of a node's outputs, or a parameter.
template <bool (ModuleCalls::*Fire)(PyObject* self, PyObject* last)>
PyObject* ModuleCalls::RunHook(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept {
  return WithoutThrowing([&]() -> PyObject* {
    PyObject* const capsule = PyTuple_GetItem(self, 0);
    auto* const front = static_cast<Front*>(PyCapsule_GetPointer(capsule, kCapsuleName));
    if (front == nullptr) return nullptr;
    const InFlight in_flight(*front);
    if (front->closed || front->modules == nullptr || count < 1) return NewNone();
    ModuleCalls& calls = *front->modules;
    const Ref held = Ref::Share(self);  // another thread may take the hook away meanwhile
    const Quiet quiet(calls);
    const bool done = quiet && (calls.*Fire)(self, arguments[count - 1]);
    return done || calls.Report() ? NewNone() : nullptr;
  });
}

PyObject* ModuleCalls::OutputHook(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept {
  return RunHook<&ModuleCalls::GradientArrived>(self, arguments, count);
}
PyObject* ModuleCalls::InputHook(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept {
  return RunHook<&ModuleCalls::InputGradientArrived>(self, arguments, count);
}
PyObject* ModuleCalls::ParameterHook(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept {
  return RunHook<&ModuleCalls::ParameterGradientArrived>(self, arguments, count);
}

// ---- gradients

bool ModuleCalls::WatchOutputs(PyObject* call, PyObject* result, Ref& handed_on) {
  const Ref passed = Get(call, names_.passed);
  if (!passed) return false;
  for (Py_ssize_t i = 0; i < PyTuple_Size(passed.get()); ++i) {
    PyObject* const tensor = PyTuple_GetItem(PyTuple_GetItem(passed.get(), i), 0);
    const Ref hooks = Get(tensor, names_.tensor_hooks);
    if (!hooks) return false;
    if (hooks.get() != Py_None && PyDict_Size(hooks.get()) > 1 && !MoveInputHookToEnd(hooks.get()))
      return false;
  }
  bool is_usual = IsPlainTensor(result);
  for (Py_ssize_t i = 0; is_usual && i < PyTuple_Size(passed.get()); ++i) {
    PyObject* const pair = PyTuple_GetItem(passed.get(), i);
    const Ref version = Get(PyTuple_GetItem(pair, 0), names_.version);
    std::int64_t then = 0, now = 0;
    if (!ReadNumber(version, now) || !ReadNumber(PyTuple_GetItem(pair, 1), then)) return false;
    is_usual = then == now;
  }
  if (!is_usual) {
    Ref other = CallMethod(backward_.get(), names_.watch_module_output, call, result);
    if (!other) return false;
    handed_on = std::move(other);
    return true;
  }
  bool needs = false;
  if (!LetGo(call) || !NeedsGradient(result, needs)) return false;
  if (!needs) return true;
  const Ref zero = NewNumber(0);
  return zero && Set(call, names_.num_outputs, one_.get()) && WatchOutput(result, call, zero.get());
}

// One hook for each tensor: when several modules return the same one, the outermost is told first.
bool ModuleCalls::WatchOutput(PyObject* tensor, PyObject* call, PyObject* position) {
  const Ref watcher = NewTuple(call, position);
  const Ref version = Get(tensor, names_.version);
  Ref hooks = Get(tensor, names_.tensor_hooks);
  std::int64_t now = 0;
  if (!watcher || !version || !hooks || !ReadNumber(version.get(), now)) return false;
  if (hooks.get() == Py_None) {
    const Ref node = Get(tensor, names_.grad_fn);
    if (node) hooks = NewHooks(tensor, node.get());
    if (!node || !hooks) return false;
  } else if (PyObject* const known = PyDict_GetItem(hooks.get(), key_.get()); known != nullptr) {
    const Ref self = Get(known, names_.self);
    PyObject* const watched = self ? PyTuple_GetItem(self.get(), kWatchedVersion) : nullptr;
    std::int64_t then = 0;
    if (watched == nullptr || !ReadNumber(watched, then)) return false;
    if (then == now) return Append(PyTuple_GetItem(self.get(), kWatchers), watcher.get());
    // Of the value before it was changed in place: stays under another key.
    const Ref old_key = NewTuple(key_.get(), watched);
    if (!old_key || !AddHook(hooks.get(), old_key.get(), known)) return false;
  }
  const Ref watchers = Ref::Own(PyList_New(0));
  if (!watchers || !Append(watchers.get(), watcher.get())) return false;
  const Ref hook = NewHook(Hook::kOutput, {watchers.get(), version.get()});
  return hook && AddHook(hooks.get(), key_.get(), hook.get()) && MoveInputHookToEnd(hooks.get());
}

bool ModuleCalls::GradientArrived(PyObject* self, PyObject* gradient) {
  PyObject* const watchers = PyTuple_GetItem(self, kWatchers);
  for (Py_ssize_t i = PyList_Size(watchers) - 1; i >= 0; --i) {
    const Ref watcher = Ref::Share(PyList_GetItem(watchers, i));
    PyObject* const call = PyTuple_GetItem(watcher.get(), 0);
    Ref arrived = Get(call, names_.arrived);
    if (!arrived) return false;
    if (arrived.get() == Py_None) {
      arrived = Ref::Own(PyDict_New());
      if (!arrived || !Set(call, names_.arrived, arrived.get())) return false;
    }
    if (PyDict_SetItem(arrived.get(), PyTuple_GetItem(watcher.get(), 1), gradient) != 0) return false;
    if (PyDict_Size(arrived.get()) == 1 && !OutputsArrived(call)) return false;
  }
  return true;
}

bool ModuleCalls::IsOver(PyObject* call, bool& is_over) const {
  if (!GetTruth(call, names_.over, is_over)) return false;
  if (is_over) return true;
  const Ref then = Get(call, names_.epoch), now = Get(capture_.get(), names_.epoch);
  std::int64_t then_number = 0, now_number = 0;
  if (!then || !now || !ReadNumber(then.get(), then_number) || !ReadNumber(now.get(), now_number))
    return false;
  is_over = then_number != now_number;
  return true;
}

Ref ModuleCalls::BackwardName(PyObject* call) {
  Ref known = Get(call, names_.backward_name);
  if (!known || known.get() != Py_None) return known;
  const Ref module_name = Get(call, names_.module_name), number = Get(call, names_.number);
  if (!module_name || !number) return {};
  known = Ref::Own(PyUnicode_FromFormat("%U.backward.%S", module_name.get(), number.get()));
  if (known && !Set(call, names_.backward_name, known.get())) return {};
  return known;
}

bool ModuleCalls::OutputsArrived(PyObject* call) {
  bool is_over = false, has_inputs = false;
  if (!IsOver(call, is_over)) return false;
  if (is_over) return true;
  const Ref name = BackwardName(call), module_name = Get(call, names_.module_name);
  const Ref opened = Get(local_.get(), names_.backward);
  if (!name || !module_name || !opened || !GetTruth(call, names_.inputs, has_inputs)) return false;
  if (!passes_all_ && !CallMethod(filter_.get(), names_.begin_backward, module_name.get(), name.get()))
    return false;
  if (!Set(call, names_.began, Py_True)) return false;
  if (with_construct_) {
    PyObject* const parent = Last(opened.get());
    if (!NoteParent(name.get(), parent == nullptr ? Py_None : parent)) return false;
  }
  if (!has_inputs) return Finish(call, empty_tuple_.get());
  // It may be there since a backward that was not asked for the gradients of the inputs.
  return Remove(opened.get(), name.get()) && Append(opened.get(), name.get());
}

bool ModuleCalls::InputGradientArrived(PyObject* self, PyObject* gradient) {
  PyObject* const call = PyTuple_GetItem(self, kCall);
  bool is_rerouted = false;
  if (!GetTruth(call, names_.rerouted, is_rerouted)) return false;
  if (is_rerouted) return true;
  const Ref gradients = NewTuple(gradient);
  return gradients && InputsDone(call, gradients.get());
}

bool ModuleCalls::InputsDone(PyObject* call, PyObject* gradients) {
  bool is_over = false;
  if (!IsOver(call, is_over)) return false;
  if (is_over) return true;
  const Ref name = BackwardName(call), opened = Get(local_.get(), names_.backward);
  return name && opened && Remove(opened.get(), name.get()) && Finish(call, gradients);
}

// A second backward through the same graph takes the place of the first.
bool ModuleCalls::Finish(PyObject* call, PyObject* gradients) {
  bool has_begun = false, is_kept = true, is_recorded = false;
  const Ref name = BackwardName(call);
  if (!name || !GetTruth(call, names_.began, has_begun) || !GetTruth(call, names_.recorded, is_recorded)) {
    return false;
  }
  if (!has_begun) return Set(call, names_.over, Py_True);
  if (!passes_all_ && !ReadTruth(CallMethod(filter_.get(), names_.keeps_later, name.get()), is_kept)) {
    return false;
  }
  if (is_kept && (backward_input_ || backward_output_)) {
    const Ref of_outputs = ArrivedGradients(call);
    if (!of_outputs) return false;
    PyObject *const input = names_.input.get(), *const output = names_.output.get();
    const int flags = VN_PUT_FINISH | (is_recorded ? VN_PUT_REPLACE | VN_PUT_MOVE_TO_END : 0);
    const bool done = !backward_output_ ? Record(name.get(), Py_None, flags, {input, of_outputs.get()})
                      : !backward_input_
                          ? Record(name.get(), Py_None, flags, {output, gradients})
                          : Record(name.get(), Py_None, flags, {input, of_outputs.get(), output, gradients});
    if (!done) return false;
  }
  if (!passes_all_ && !CallMethod(filter_.get(), names_.end_module, name.get())) return false;
  const Ref nothing = Ref::Own(PyDict_New());
  return nothing && Set(call, names_.arrived, nothing.get()) && Set(call, names_.began, Py_False) &&
         Set(call, names_.recorded, Py_True);
}

// A list, with None for an output that got none.
Ref ModuleCalls::ArrivedGradients(PyObject* call) const {
  const Ref count = Get(call, names_.num_outputs), arrived = Get(call, names_.arrived);
  Ref gradients = Ref::Own(PyList_New(0));
  std::int64_t num_outputs = 0;
  if (!arrived || !gradients || !ReadNumber(count, num_outputs)) return {};
  for (std::int64_t i = 0; i < num_outputs; ++i) {
    const Ref position = NewNumber(i);
    if (!position) return {};
    PyObject* const gradient =
        arrived.get() == Py_None ? nullptr : PyDict_GetItem(arrived.get(), position.get());
    if (!Append(gradients.get(), gradient == nullptr ? Py_None : gradient)) return {};
  }
  return gradients;
}

// ---- parameters

bool ModuleCalls::WatchParameters(PyObject* call, PyObject* module) {
  const Ref all = Get(module, names_.module_parameters), module_name = Get(call, names_.module_name);
  if (!all || !module_name) return false;
  if (PyDict_Size(all.get()) == 0) return true;
  const Ref items = Ref::Own(PyDict_Items(all.get()));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PyList_Size(items.get()); ++i) {
    PyObject* const item = PyList_GetItem(items.get(), i);
    PyObject* const parameter = PyTuple_GetItem(item, 1);
    bool needs = false;
    if (parameter == Py_None) continue;
    if (!GetTruth(parameter, names_.requires_grad, needs)) return false;
    if (needs && !WatchParameter(module_name.get(), PyTuple_GetItem(item, 0), parameter)) return false;
  }
  return true;
}

// Once in a step for each module that has it. What cannot be hooked itself has a node that adds its gradient
// up.
bool ModuleCalls::WatchParameter(PyObject* module_name, PyObject* name, PyObject* parameter) {
  bool is_hooked = has_post_accumulate_ && TypeOf(parameter) == parameter_type_.get();
  if (is_hooked && !GetTruth(parameter, names_.is_leaf, is_hooked)) return false;
  Ref hooks;
  if (is_hooked) {
    hooks = Get(parameter, names_.parameter_hooks);
    if (!hooks) return false;
    if (hooks.get() != Py_None && PyDict_GetItem(hooks.get(), module_name) != nullptr) return true;
    // Megatron adds to main_grad in a hook of the node, which runs after those of the parameter.
    const Ref attributes = Get(parameter, names_.dict);
    if (!attributes) return false;
    is_hooked = PyDict_GetItem(attributes.get(), names_.main_grad.get()) == nullptr;
  }
  Ref firing = Ref::Share(PyDict_GetItem(firings_.get(), module_name));
  if (!firing) {
    firing = Ref::Own(PyList_New(0));
    const Ref before_first = NewNumber(-1), zero = NewNumber(0), epoch = Get(capture_.get(), names_.epoch);
    if (!firing || !before_first || !zero || !epoch) return false;
    for (PyObject* const item : {Py_None, before_first.get(), zero.get(), zero.get(), epoch.get()}) {
      if (!Append(firing.get(), item)) return false;
    }
    if (PyDict_SetItem(firings_.get(), module_name, firing.get()) != 0) return false;
  }
  const Ref hook = NewHook(Hook::kParameter, {module_name, name, parameter, firing.get()});
  if (!hook) return false;
  bool is_watched = true;
  if (!is_hooked) {
    const Ref watched =
        CallMethod(backward_.get(), names_.watch_parameter, module_name, parameter, hook.get());
    if (!ReadTruth(watched, is_watched)) return false;
  } else {
    if (hooks.get() == Py_None) {
      hooks = Call(ordered_dict_.get());
      if (!hooks || !Set(parameter, names_.parameter_hooks, hooks.get())) return false;
    }
    const Ref pair = NewTuple(parameter, module_name);
    if (!pair || PyObject_SetItem(hooks.get(), module_name, hook.get()) != 0 ||
        !Append(watched_parameters_.get(), pair.get())) {
      return false;
    }
  }
  if (!is_watched) return true;
  std::int64_t num_watched = 0;
  if (!ReadNumber(PyList_GetItem(firing.get(), kNumWatched), num_watched)) return false;
  return PyList_SetItem(firing.get(), kNumWatched, NewNumber(num_watched + 1).Release()) == 0;
}

// On the nodes of old torch versions it is not called with the parameter.
bool ModuleCalls::ParameterGradientArrived(PyObject* self, PyObject*) {
  PyObject *const module_name = PyTuple_GetItem(self, kModuleName),
                  *const name = PyTuple_GetItem(self, kParameterName),
                  *const parameter = PyTuple_GetItem(self, kParameter),
                  *const firing = PyTuple_GetItem(self, kFiring);
  const Ref epoch = Get(capture_.get(), names_.epoch);
  std::int64_t then = 0, now = 0;
  if (!ReadNumber(PyList_GetItem(firing, kEpoch), then) || !ReadNumber(epoch, now)) return false;
  if (then != now) return true;  // in a forked child
  const Ref attributes = Get(parameter, names_.dict);
  if (!attributes) return false;
  Ref gradient = Ref::Share(PyDict_GetItem(attributes.get(), names_.main_grad.get()));
  if (!gradient || gradient.get() == Py_None) gradient = Get(parameter, names_.grad);
  if (!gradient) return false;
  if (gradient.get() == Py_None) return true;
  std::int64_t count = 0, waiting = 0, num_watched = 0;
  if (!ReadNumber(PyList_GetItem(firing, kCount), count) ||
      !ReadNumber(PyList_GetItem(firing, kWaiting), waiting) ||
      !ReadNumber(PyList_GetItem(firing, kNumWatched), num_watched)) {
    return false;
  }
  if (PyList_GetItem(firing, kFirst) == Py_None &&
      PyList_SetItem(firing, kFirst, Ref::Share(name).Release()) != 0) {
    return false;
  }
  if (PyList_GetItem(firing, kFirst) == name) {
    ++count;
    waiting = num_watched;
  }
  --waiting;
  if (PyList_SetItem(firing, kCount, NewNumber(count).Release()) != 0 ||
      PyList_SetItem(firing, kWaiting, NewNumber(waiting).Release()) != 0) {
    return false;
  }
  const Ref number = NewNumber(count);
  const Ref record =
      number ? Ref::Own(PyUnicode_FromFormat("%U.parameters_grad.%S", module_name, number.get())) : Ref();
  if (!record) return false;
  bool is_kept = true;
  if (!passes_all_ &&
      !ReadTruth(CallMethod(filter_.get(), names_.keeps_gradients, module_name, record.get()), is_kept)) {
    return false;
  }
  if (!is_kept) return true;
  const Ref value = NewTuple(gradient.get());
  return value &&
         Record(record.get(), Py_None, (waiting <= 0 ? int{VN_PUT_FINISH} : 0) | int{VN_PUT_MOVE_TO_END},
                {name, value.get()});
}

}  // namespace vernier::python
