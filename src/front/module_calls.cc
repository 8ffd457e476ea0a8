#include "front/module_calls.h"

#include <algorithm>
#include <vector>

#include "front/front.h"
#include "front/objects.h"

namespace vernier::python {

ModuleCalls::Quiet::Quiet(const ModuleCalls& calls) : calls_(calls) {
  depth_ = calls.Get(calls.local_.get(), calls.names_.depth);
  if (!depth_ || !calls.Set(calls.local_.get(), calls.names_.depth, calls.one_.get())) return;
  guard_ = Call(calls.no_torch_function_.get());
  if (guard_ && !CallMethod(guard_.get(), calls.names_.enter)) guard_.Reset();
}

ModuleCalls::Quiet::~Quiet() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  if (guard_ && !CallMethod(guard_.get(), calls_.names_.exit, Py_None, Py_None, Py_None)) PyErr_Clear();
  if (depth_ && !calls_.Set(calls_.local_.get(), calls_.names_.depth, depth_.get())) PyErr_Clear();
  PyErr_Restore(type, value, traceback);
}

// ---- settings

std::unique_ptr<ModuleCalls> ModuleCalls::Create(Front& front, PyObject* capture, PyObject* settings) {
  std::unique_ptr<ModuleCalls> calls(new ModuleCalls(front));
  return calls->Read(capture, settings) ? std::move(calls) : nullptr;
}

bool ModuleCalls::Read(PyObject* capture, PyObject* settings) {
  struct Named {
    Ref& ref;
    const char* text;
  };
  const Named of_capture[] = {{local_, "local"}, {filter_, "filter"}, {backward_, "backward"}};
  const Named of_settings[] = {{call_class_, "call_class"},
                               {no_torch_function_, "no_torch_function"},
                               {is_grad_enabled_, "is_grad_enabled"},
                               {get_item_, "get_item"},
                               {ellipsis_, "ellipsis"},
                               {is_view_, "is_view"},
                               {source_, "source"},
                               {as_tuple_, "as_tuple"},
                               {ordered_dict_, "ordered_dict"},
                               {tensor_types_, "tensor_types"},
                               {parameter_type_, "parameter_type"},
                               {dtypes_, "dtypes"},
                               {strided_, "strided"},
                               {own_put_, "own_put"},
                               {key_, "key"},
                               {input_key_, "input_key"},
                               {hooked_, "hooked"},
                               {watched_parameters_, "watched_parameters"},
                               {firings_, "firings"}};
  const struct {
    bool& flag;
    const char* text;
  } flags[] = {{with_stacks_, "with_stacks"},         {with_construct_, "with_construct"},
               {forward_input_, "forward_input"},     {forward_output_, "forward_output"},
               {takes_backward_, "takes_backward"},   {backward_input_, "backward_input"},
               {backward_output_, "backward_output"}, {parameter_gradients_, "parameter_gradients"}};
#define VN_INTERN(member, text)                               \
  names_.member = Ref::Own(PyUnicode_InternFromString(text)); \
  if (!names_.member) return false;
  VN_NAMES_OF_MODULE_CALLS(VN_INTERN)
#undef VN_INTERN
  for (const auto& [ref, text] : of_capture) {
    ref = Ref::Own(PyObject_GetAttrString(capture, text));
    if (!ref) return false;
  }
  for (const auto& [ref, text] : of_settings) {
    ref = Ref::Own(PyObject_GetAttrString(settings, text));
    if (!ref) return false;
  }
  for (const auto& [flag, text] : flags) {
    if (!ReadTruth(Ref::Own(PyObject_GetAttrString(capture, text)), flag)) return false;
  }
  capture_ = Ref::Share(capture);
  one_ = NewNumber(1);
  empty_tuple_ = Ref::Own(PyTuple_New(0));
  return one_ && empty_tuple_ &&
         ReadTruth(Ref::Own(PyObject_GetAttrString(filter_.get(), "passes_modules")), passes_all_) &&
         ReadTruth(Ref::Own(PyObject_GetAttrString(settings, "has_post_accumulate")), has_post_accumulate_);
}

// ---- small steps

Ref ModuleCalls::Get(PyObject* object, const Ref& name) const {
  return Ref::Own(PyObject_GetAttr(object, name.get()));
}

bool ModuleCalls::Set(PyObject* object, const Ref& name, PyObject* value) const {
  return PyObject_SetAttr(object, name.get(), value) == 0;
}

bool ModuleCalls::GetTruth(PyObject* object, const Ref& name, bool& into) const {
  return ReadTruth(Get(object, name), into);
}

bool ModuleCalls::GradientsAreOn(bool& on) const { return ReadTruth(Call(is_grad_enabled_.get()), on); }

bool ModuleCalls::Report() {
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) return false;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Ref held_type = Ref::Own(type), error = Ref::Own(value), held_traceback = Ref::Own(traceback);
  if (traceback != nullptr) (void)PyException_SetTraceback(value, traceback);
  const Ref failed = Get(capture_.get(), names_.failed);
  return failed && Call(failed.get(), value);
}

bool ModuleCalls::Record(PyObject* name, PyObject* stack, int flags,
                         std::initializer_list<PyObject*> keys_and_values) {
  const Ref put = Get(capture_.get(), names_.put), number = NewNumber(flags);
  if (!put || !number) return false;
  std::vector<PyObject*> arguments = {name, stack, number.get()};
  arguments.insert(arguments.end(), keys_and_values);
  const auto count = static_cast<Py_ssize_t>(arguments.size());
  if (put.get() == own_put_.get()) return static_cast<bool>(Ref::Own(Put(front_, arguments.data(), count)));
  const Ref tuple = Ref::Own(PyTuple_New(count));
  for (Py_ssize_t i = 0; tuple && i < count; ++i) {
    if (PyTuple_SetItem(tuple.get(), i, Ref::Share(arguments[static_cast<std::size_t>(i)]).Release()) != 0)
      return false;
  }
  return tuple && Ref::Own(PyObject_CallObject(put.get(), tuple.get()));
}

// The name without a record.
bool ModuleCalls::NoteStack(PyObject* name, PyObject* stack) {
  return static_cast<bool>(CallMethod(capture_.get(), names_.note_stack, name, stack));
}

bool ModuleCalls::NoteParent(PyObject* name, PyObject* parent) {
  const Ref micro_step = Get(capture_.get(), names_.micro_step);
  if (!micro_step) return false;
  if (micro_step.get() == Py_None) {
    PyObject* const arguments[] = {name, parent};
    return static_cast<bool>(Ref::Own(Parent(front_, arguments, 2)));
  }
  return static_cast<bool>(CallMethod(capture_.get(), names_.note_parent, name, parent));
}

bool ModuleCalls::IsPlainTensor(PyObject* value) const {
  for (Py_ssize_t i = 0; i < PyTuple_Size(tensor_types_.get()); ++i) {
    if (PyTuple_GetItem(tensor_types_.get(), i) == TypeOf(value)) return true;
  }
  return false;
}

// Tensors of one byte an element have none, whatever they say.
bool ModuleCalls::NeedsGradient(PyObject* tensor, bool& needs) const {
  if (!GetTruth(tensor, names_.requires_grad, needs)) return false;
  if (!needs) return true;
  const Ref dtype = Get(tensor, names_.dtype);
  if (!dtype) return false;
  PyObject* const known = PyDict_GetItem(dtypes_.get(), dtype.get());
  needs = known == nullptr || PyLong_AsLongLong(PyTuple_GetItem(known, 1)) > 1;
  return true;
}

// `module.inplace`, without the detour that modules make for what they do not have.
bool ModuleCalls::ChangesInputs(PyObject* module, bool& changes) const {
  changes = false;
  const Ref attributes = Get(module, names_.dict);
  if (!attributes) return false;
  if (PyObject* const own = PyDict_GetItem(attributes.get(), names_.inplace.get()); own != nullptr) {
    changes = own == Py_True;
    return true;
  }
  if (PyObject_HasAttr(TypeOf(module), names_.inplace.get()) == 0) return true;
  const Ref inplace = Get(module, names_.inplace);
  changes = inplace.get() == Py_True;
  return static_cast<bool>(inplace);
}

// ---- forward

Ref ModuleCalls::Enter(PyObject* module, PyObject* module_name, PyObject* args, PyObject* kwargs) {
  const Quiet quiet(*this);
  if (!quiet) return {};
  const Ref call = Call(call_class_.get());
  const Ref counters = Get(capture_.get(), names_.counters), epoch = Get(capture_.get(), names_.epoch);
  if (!call || !counters || !epoch) return {};
  const Ref counter = Ref::Own(PyObject_GetItem(counters.get(), module_name));
  const Ref number = counter ? Ref::Own(PyIter_Next(counter.get())) : Ref();
  const Ref name =
      number ? Ref::Own(PyUnicode_FromFormat("%U.forward.%S", module_name, number.get())) : Ref();
  if (!name || !Set(call.get(), names_.name, name.get()) ||
      !Set(call.get(), names_.module_name, module_name) || !Set(call.get(), names_.number, number.get()) ||
      !Set(call.get(), names_.epoch, epoch.get())) {
    return {};
  }
  if (!Before(call.get(), name.get(), args, kwargs) && !Report()) return {};
  Ref handed_on = Ref::Share(args);
  bool watches = false;
  if (takes_backward_ && !GradientsAreOn(watches)) return {};
  if (watches && !WatchInputs(call.get(), module, args, handed_on) && !Report()) return {};
  const Ref running = Get(local_.get(), names_.modules), stack = Get(call.get(), names_.stack);
  if (!running || !stack || !Append(running.get(), name.get())) return {};
  if (stack.get() != Py_None) {
    const Ref boundary = NewTuple(Frame(), stack.get());
    const Ref boundaries = Get(local_.get(), names_.boundaries);
    if (!boundary || !boundaries || !Append(boundaries.get(), boundary.get())) return {};
  }
  return NewTuple(call.get(), handed_on.get());
}

bool ModuleCalls::Before(PyObject* call, PyObject* name, PyObject* args, PyObject* kwargs) {
  bool is_kept = true;
  if (!passes_all_ && !ReadTruth(CallMethod(filter_.get(), names_.begin_module, name), is_kept)) {
    return false;
  }
  const Ref modules = Get(local_.get(), names_.modules);
  if (!modules) return false;
  Ref parent = Ref::Share(Last(modules.get()));
  if (!parent) parent = CallMethod(capture_.get(), names_.running_module);
  if (!parent || !Set(call, names_.parent, parent.get())) return false;
  if (!is_kept) return true;
  if (!Set(call, names_.kept, Py_True)) return false;
  Ref stack = Ref::Share(Py_None);
  if (with_stacks_) {
    const Ref boundaries = Get(local_.get(), names_.boundaries);
    if (!boundaries) return false;
    const Ref boundary = Ref::Share(Last(boundaries.get()));
    // Without the frame that has called us.
    stack = front_.stacks.Current(PyTuple_GetItem(boundary.get(), 0), PyTuple_GetItem(boundary.get(), 1), 1);
    if (!stack || !Set(call, names_.stack, stack.get())) return false;
    if (!forward_input_ && !forward_output_) return NoteStack(name, stack.get());
  }
  return !forward_input_ ||
         Record(name, stack.get(), 0, {names_.input_args.get(), args, names_.input_kwargs.get(), kwargs});
}

bool ModuleCalls::WatchInputs(PyObject* call, PyObject* module, PyObject* args, Ref& handed_on) {
  bool changes_inputs = false;
  if (!ChangesInputs(module, changes_inputs)) return false;
  if (changes_inputs && !Set(call, names_.changes_inputs, Py_True)) return false;
  const auto leave_it = [&] {
    Ref other = CallMethod(backward_.get(), names_.watch_module_inputs, call, args);
    if (other) handed_on = std::move(other);
    return static_cast<bool>(handed_on) && PyErr_Occurred() == nullptr;
  };
  const Py_ssize_t count = PyTuple_Size(args);
  PyObject* tensor = nullptr;
  Py_ssize_t place = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const item = PyTuple_GetItem(args, i);
    if (item == Py_None) continue;
    if (!IsPlainTensor(item)) {
      if (PyBool_Check(item) || PyLong_CheckExact(item) || PyFloat_CheckExact(item) ||
          PyUnicode_CheckExact(item)) {
        continue;
      }
      return leave_it();
    }
    bool needs = false;
    if (!NeedsGradient(item, needs)) return false;
    if (!needs) continue;
    if (tensor != nullptr) return leave_it();
    tensor = item;
    place = i;
  }
  if (tensor == nullptr) return true;
  const Ref layout = Get(tensor, names_.layout);
  if (!layout) return false;
  if (changes_inputs || layout.get() != strided_.get()) return leave_it();
  bool is_view = false;
  if (!ReadTruth(Call(is_view_.get(), tensor), is_view)) return false;
  if (is_view) {  // later it can no longer be found out
    const Ref source = Call(source_.get(), tensor);
    const Ref sources = source ? NewTuple(source.get()) : Ref();
    if (!sources || !Set(call, names_.sources, sources.get())) return false;
  }
  // An ordinary view: operators that work in place may change it, unlike what an autograd.Function returns.
  const Ref view = Call(get_item_.get(), tensor, ellipsis_.get());
  if (!view) {
    if (PyErr_ExceptionMatches(PyExc_RuntimeError) == 0 && PyErr_ExceptionMatches(PyExc_TypeError) == 0) {
      return false;
    }
    PyErr_Clear();
    return true;
  }
  const Ref node = Get(view.get(), names_.grad_fn);
  if (!node) return false;
  if (node.get() == Py_None) return true;
  const Ref hooks = NewHooks(view.get(), node.get()), hook = NewHook(Hook::kInput, {call});
  if (!hooks || !hook || PyObject_SetItem(hooks.get(), input_key_.get(), hook.get()) != 0) return false;
  const Ref version = Get(view.get(), names_.version);
  const Ref pair = version ? NewTuple(view.get(), version.get()) : Ref();
  const Ref passed = pair ? NewTuple(pair.get()) : Ref();
  if (!passed || !Set(call, names_.passed, passed.get()) || !Set(call, names_.node, node.get()) ||
      !Set(call, names_.inputs, Py_True)) {
    return false;
  }
  Ref changed = Ref::Own(PyTuple_New(count));
  for (Py_ssize_t i = 0; changed && i < count; ++i) {
    PyObject* const item = i == place ? view.get() : PyTuple_GetItem(args, i);
    if (PyTuple_SetItem(changed.get(), i, Ref::Share(item).Release()) != 0) return false;
  }
  if (!changed) return false;
  handed_on = std::move(changed);
  return true;
}

bool ModuleCalls::TakeOff(PyObject* call) {
  const Ref name = Get(call, names_.name), stack = Get(call, names_.stack);
  const Ref modules = Get(local_.get(), names_.modules), boundaries = Get(local_.get(), names_.boundaries);
  if (!name || !stack || !modules || !boundaries || !Remove(modules.get(), name.get())) return false;
  const Py_ssize_t last = PyList_Size(boundaries.get()) - 1;
  if (stack.get() == Py_None || last < 1) return true;
  PyObject* const boundary = PyList_GetItem(boundaries.get(), last);
  if (PyTuple_GetItem(boundary, 1) != stack.get()) return true;
  return PyList_SetSlice(boundaries.get(), last, last + 1, nullptr) == 0;
}

// Of the graph.
bool ModuleCalls::LetGo(PyObject* call) {
  return Set(call, names_.passed, empty_tuple_.get()) && Set(call, names_.node, Py_None) &&
         Set(call, names_.sources, empty_tuple_.get());
}

bool ModuleCalls::Abandon(PyObject* call, PyObject* module, bool wants_record) {
  const Quiet quiet(*this);
  bool is_over = false;
  if (!quiet || !TakeOff(call) || !LetGo(call) || !IsOver(call, is_over)) return false;
  if (is_over) return true;
  if (wants_record) return After(call, module, Py_None) || Report();
  const Ref name = Get(call, names_.name);
  return name && (passes_all_ || CallMethod(filter_.get(), names_.end_module, name.get()) || Report());
}

Ref ModuleCalls::Leave(PyObject* call, PyObject* module, PyObject* result) {
  const Quiet quiet(*this);
  bool is_over = false, watches = false;
  if (!quiet || !TakeOff(call) || !IsOver(call, is_over)) return {};
  Ref handed_on = Ref::Share(result);
  if (!is_over && !After(call, module, result) && !Report()) return {};
  if (!is_over && !GradientsAreOn(watches)) return {};
  if (!watches) return LetGo(call) ? std::move(handed_on) : Ref();
  if (takes_backward_ && !WatchOutputs(call, result, handed_on) && !Report()) return {};
  if (parameter_gradients_ && !WatchParameters(call, module) && !Report()) return {};
  return handed_on;
}

// One that goes by two names counts once.
Ref ModuleCalls::OwnParameters(PyObject* module) const {
  const Ref all = Get(module, names_.module_parameters);
  const Ref items = all ? Ref::Own(PyDict_Items(all.get())) : Ref();
  Ref own = items ? Ref::Own(PyDict_New()) : Ref();
  if (!own) return {};
  std::vector<PyObject*> seen = {Py_None};
  for (Py_ssize_t i = 0; i < PyList_Size(items.get()); ++i) {
    PyObject* const item = PyList_GetItem(items.get(), i);
    PyObject* const parameter = PyTuple_GetItem(item, 1);
    if (std::find(seen.begin(), seen.end(), parameter) != seen.end()) continue;
    seen.push_back(parameter);
    if (PyDict_SetItem(own.get(), PyTuple_GetItem(item, 0), parameter) != 0) return {};
  }
  return own;
}

bool ModuleCalls::After(PyObject* call, PyObject* module, PyObject* result) {
  const Ref name = Get(call, names_.name), parent = Get(call, names_.parent);
  bool is_kept = false;
  if (!name || !parent || !GetTruth(call, names_.kept, is_kept)) return false;
  if (is_kept && forward_output_) {
    const Ref own = OwnParameters(module);
    const Ref output =
        Ref::Own(IsPlainTensor(result) ? PyTuple_Pack(1, result)
                                       : PyObject_CallFunctionObjArgs(as_tuple_.get(), result, nullptr));
    const Ref stack = Get(call, names_.stack);
    if (!own || !output || !stack ||
        !Record(name.get(), forward_input_ ? Py_None : stack.get(), VN_PUT_FINISH | VN_PUT_MOVE_TO_END,
                {names_.output.get(), output.get(), names_.parameters.get(), own.get()})) {
      return false;
    }
  } else if (is_kept && forward_input_ && !Record(name.get(), Py_None, VN_PUT_FINISH, {})) {
    return false;
  }
  if (!passes_all_ && !CallMethod(filter_.get(), names_.end_module, name.get())) {
    return false;
  }
  return !with_construct_ || NoteParent(name.get(), parent.get());
}

}  // namespace vernier::python
