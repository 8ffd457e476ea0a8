#include "front/functions.h"

#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "front/front.h"
#include "front/module_calls.h"

namespace vernier::python {
namespace {

// Below this many bytes a call is shorter than letting other Python threads in and waiting for them to come
// out.
constexpr std::uint64_t kShortCallBytes = 1 << 18;
// close() waits so long for calls of other threads.
constexpr std::chrono::seconds kLongestCall{10};
// Beside the flags of c_api.h: every tensor of the record is to be stored.
constexpr std::uint32_t kStoreAll = 1 << 16;
// They may have been written to in a way that moves no version.
constexpr std::uint32_t kChanged = 1 << 17;

using Handler = Object* (*)(Front& front, Object* const* arguments, Size count);

Object* SayClosed(Front&, Object* const*, Size) { return WrongCall("the recorder is closed"); }

// Runs Fn(front, arguments, count) as a function of Python, or AfterClose.
template <Handler Fn, Handler AfterClose = SayClosed>
Object* Guarded(Object* self, Object* const* arguments, Size count) noexcept {
  return WithoutThrowing([&]() -> Object* {
    auto* const front = static_cast<Front*>(Py().PyCapsule_GetPointer(self, kCapsuleName));
    if (front == nullptr) return nullptr;
    const InFlight in_flight(*front);
    return (front->closed ? AfterClose : Fn)(*front, arguments, count);
  });
}

// Kept for their memory. One for each level of calls: the Python side may come back while a record is
// described.
class Buffer {
 public:
  Buffer() : level_(g_level++) {
    if (g_buffers.size() <= level_) g_buffers.push_back(std::make_unique<Described>());
  }
  ~Buffer() {
    g_buffers[level_]->Clear();
    --g_level;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Described& operator*() const { return *g_buffers[level_]; }

 private:
  static thread_local std::vector<std::unique_ptr<Described>> g_buffers;
  static thread_local std::size_t g_level;
  const std::size_t level_;
};
thread_local std::vector<std::unique_ptr<Described>> Buffer::g_buffers;
thread_local std::size_t Buffer::g_level = 0;

class GilRelease {
 public:
  explicit GilRelease(bool release) : state_(release ? Py().PyEval_SaveThread() : nullptr) {}
  ~GilRelease() {
    if (state_ != nullptr) Py().PyEval_RestoreThread(state_);
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  ThreadState* state_;
};

// Raises what went wrong in the core.
Object* Fail(Front& front, const Error& error) {
  const Ref status = Ref::Own(Py().PyLong_FromLongLong(front.keep_error(error)));
  if (status && Ref::Own(Py().PyObject_CallFunctionObjArgs(front.fail.get(), status.get(), nullptr))) {
    return WrongCall("fail() did not raise");
  }
  return nullptr;
}

void StoreAll(std::vector<std::int64_t>& words) {
  for (std::size_t at = 0; at < words.size();) {
    const bool on_device = (words[at + 4] & kCuda) != 0;
    words[at + 4] |= kStore;
    at += 6 + 2 * static_cast<std::size_t>(words[at + 5]) + (on_device ? 2 : 0);
  }
}

}  // namespace

thread_local int InFlight::g_in_flight = 0;

Front::Front(Recorder& records, KeepError keep) : recorder(records), keep_error(keep) {}
Front::~Front() = default;

Object* Put(Front& front, Object* const* arguments, Size count) {
  const Interpreter& py = Py();
  if (count < 3 || count % 2 == 0) return WrongCall("put(name, stack, flags, key, value, ...)");
  const std::optional<std::string_view> name = TextOf(arguments[0]);
  std::int64_t stack = -1;
  if (arguments[1] != py._Py_NoneStruct) {
    const Ref number = Ref::Own(py.PyObject_GetAttr(arguments[1], front.number.get()));
    if (!number) return nullptr;
    stack = py.PyLong_AsLongLong(number.get());
  }
  const auto flags = static_cast<std::uint32_t>(py.PyLong_AsLongLong(arguments[2]));
  if (!name || py.PyErr_Occurred() != nullptr) return nullptr;
  ++front.num_puts;
  const Buffer buffer;
  Described& described = *buffer;
  described.changed = (flags & kChanged) != 0;
  if (!front.describer->Fields(arguments + 3, count - 3, described)) return nullptr;
  if ((flags & kStoreAll) != 0) StoreAll(described.words);
  std::uint32_t seen = 0;
  Result<Done> result = [&] {
    const GilRelease release(described.num_bytes >= kShortCallBytes);
    return front.recorder.Put(*name, described.text, described.words, stack, flags & ~(kStoreAll | kChanged),
                              seen);
  }();
  if (!result) return Fail(front, result.error());
  if (described.values) {
    const Ref drain = Ref::Own(py.PyObject_GetAttr(described.values.get(), front.drain.get()));
    if (!drain) return nullptr;
    if (drain.get() == py._Py_TrueStruct &&
        !Ref::Own(py.PyObject_CallFunctionObjArgs(front.drain_now.get(), nullptr))) {
      return nullptr;
    }
  }
  return NewNone();
}

Object* Parent(Front& front, Object* const* arguments, Size count) {
  if (count != 2 && count != 3) return WrongCall("parent(name, parent[, micro_step])");
  const std::optional<std::string_view> name = TextOf(arguments[0]);
  if (!name) return nullptr;
  std::optional<std::string_view> parent;
  if (arguments[1] != Py()._Py_NoneStruct) {
    parent = TextOf(arguments[1]);
    if (!parent) return nullptr;
  }
  std::optional<std::int64_t> micro_step;
  if (count == 3) {
    micro_step = Py().PyLong_AsLongLong(arguments[2]);
    if (Py().PyErr_Occurred() != nullptr) return nullptr;
  }
  const Result<Done> result = front.recorder.Construct(*name, parent, micro_step);
  return result ? NewNone() : Fail(front, result.error());
}

namespace {

Object* NumPuts(Front& front, Object* const*, Size) { return Py().PyLong_FromLongLong(front.num_puts); }

// Calls describe(into) with what `values` holds already, and gives its text.
template <class Fn>
Object* WithValues(Front& front, Object* values, Fn&& describe) {
  const Buffer buffer;
  Described& described = *buffer;
  described.values = Ref::Share(values);
  if (!front.describer->TakeValues(described) || !describe(described) ||
      !front.describer->GiveValues(described)) {
    return nullptr;
  }
  return Py().PyUnicode_FromStringAndSize(described.text.data(), static_cast<Size>(described.text.size()));
}

Object* Text(Front& front, Object* const* arguments, Size count) {
  if (count != 2) return WrongCall("text(value, values)");
  return WithValues(front, arguments[1],
                    [&](Described& into) { return front.describer->Value(arguments[0], into); });
}

Object* Fields(Front& front, Object* const* arguments, Size count) {
  if (count < 1 || count % 2 == 0) return WrongCall("fields(values, key, value, ...)");
  return WithValues(front, arguments[0],
                    [&](Described& into) { return front.describer->Fields(arguments + 1, count - 1, into); });
}

Object* Tensor(Front& front, Object* const* arguments, Size count) {
  if (count != 3) return WrongCall("tensor(tensor, values, flags)");
  const std::int64_t flags = Py().PyLong_AsLongLong(arguments[2]);
  if (Py().PyErr_Occurred() != nullptr) return nullptr;
  return WithValues(front, arguments[1],
                    [&](Described& into) { return front.describer->Tensor(arguments[0], flags, into); });
}

Object* Mark(Front& front, Object* const* arguments, Size count) {
  const Interpreter& py = Py();
  if (count != 2) return WrongCall("mark(tensor, changed)");
  Describer::Mark mark;
  if (!front.describer->MarkOf(arguments[0], arguments[1] == py._Py_TrueStruct, mark)) return nullptr;
  Ref pair = Ref::Own(py.PyTuple_New(2));
  if (!pair || py.PyTuple_SetItem(pair.get(), 0, py.PyLong_FromLongLong(mark.storage)) != 0 ||
      py.PyTuple_SetItem(pair.get(), 1, py.PyLong_FromLongLong(mark.version)) != 0) {
    return nullptr;
  }
  return pair.Release();
}

Object* Forget(Front& front, Object* const*, Size) { return front.describer->Forget() ? NewNone() : nullptr; }

Object* Stack(Front& front, Object* const* arguments, Size count) {
  if (count != 3) return WrongCall("stack(end, outer, skip)");
  const std::int64_t skip = Py().PyLong_AsLongLong(arguments[2]);
  if (Py().PyErr_Occurred() != nullptr) return nullptr;
  return front.stacks.Current(arguments[0], arguments[1], skip).Release();
}

Object* Modules(Front& front, Object* const* arguments, Size count) {
  if (count != 2) return WrongCall("modules(capture, settings)");
  front.modules = ModuleCalls::Create(front, arguments[0], arguments[1]);
  return front.modules == nullptr ? nullptr : NewNone();
}

// These three stand between a model and its modules: when another thread has closed the recorder, the model
// goes on as if we were not there.
Object* Enter(Front& front, Object* const* arguments, Size count) {
  if (count != 4) return WrongCall("enter(module, name, args, kwargs)");
  return front.modules->Enter(arguments[0], arguments[1], arguments[2], arguments[3]).Release();
}

Object* EnterUnseen(Front&, Object* const* arguments, Size count) {
  return count == 4 ? NewTuple(None(), arguments[2]).Release() : WrongCall("enter()");
}

Object* Leave(Front& front, Object* const* arguments, Size count) {
  if (count != 3) return WrongCall("leave(call, module, result)");
  return front.modules->Leave(arguments[0], arguments[1], arguments[2]).Release();
}

Object* LeaveUnseen(Front&, Object* const* arguments, Size count) {
  return count == 3 ? Ref::Share(arguments[2]).Release() : WrongCall("leave()");
}

Object* Abandon(Front& front, Object* const* arguments, Size count) {
  if (count != 3) return WrongCall("abandon(call, module, wants_record)");
  const bool wants_record = arguments[2] == Py()._Py_TrueStruct;
  return front.modules->Abandon(arguments[0], arguments[1], wants_record) ? NewNone() : nullptr;
}

Object* AbandonUnseen(Front&, Object* const*, Size) { return NewNone(); }

Object* WatchOutput(Front& front, Object* const* arguments, Size count) {
  if (count != 3) return WrongCall("watch_output(tensor, call, position)");
  return front.modules->WatchOutput(arguments[0], arguments[1], arguments[2]) ? NewNone() : nullptr;
}

Object* OutputsArrived(Front& front, Object* const* arguments, Size count) {
  if (count != 1) return WrongCall("outputs_arrived(call)");
  return front.modules->OutputsArrived(arguments[0]) ? NewNone() : nullptr;
}

Object* InputsDone(Front& front, Object* const* arguments, Size count) {
  if (count != 2) return WrongCall("inputs_done(call, gradients)");
  return front.modules->InputsDone(arguments[0], arguments[1]) ? NewNone() : nullptr;
}

// The functions and the Python side refer to each other in a ring that the interpreter cannot see.
Object* Close(Object* self, Object* const*, Size) noexcept {
  const Interpreter& py = Py();
  auto* const front = static_cast<Front*>(py.PyCapsule_GetPointer(self, kCapsuleName));
  if (front == nullptr) return nullptr;
  front->closed = true;
  const auto deadline = std::chrono::steady_clock::now() + kLongestCall;
  while (front->num_in_flight > 0 && !InFlight::AnyOfThisThread() && getpid() == front->process &&
         std::chrono::steady_clock::now() < deadline) {
    const GilRelease release(true);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const bool is_idle = front->num_in_flight == 0;
  if (is_idle) {
    const std::unique_ptr<ModuleCalls> modules = std::move(front->modules);
    const std::unique_ptr<Describer> describer = std::move(front->describer);
    const Ref fail = std::move(front->fail), drain_now = std::move(front->drain_now);
    front->stacks.Clear();
  }
  return py.PyLong_FromLongLong(is_idle ? 1 : 0);
}

MethodDef g_functions[] = {{"put", Guarded<Put>, kFastCall, nullptr},
                           {"num_puts", Guarded<NumPuts>, kFastCall, nullptr},
                           {"parent", Guarded<Parent>, kFastCall, nullptr},
                           {"text", Guarded<Text>, kFastCall, nullptr},
                           {"fields", Guarded<Fields>, kFastCall, nullptr},
                           {"tensor", Guarded<Tensor>, kFastCall, nullptr},
                           {"mark", Guarded<Mark>, kFastCall, nullptr},
                           {"forget", Guarded<Forget>, kFastCall, nullptr},
                           {"stack", Guarded<Stack>, kFastCall, nullptr},
                           {"modules", Guarded<Modules>, kFastCall, nullptr},
                           {"enter", Guarded<Enter, EnterUnseen>, kFastCall, nullptr},
                           {"leave", Guarded<Leave, LeaveUnseen>, kFastCall, nullptr},
                           {"abandon", Guarded<Abandon, AbandonUnseen>, kFastCall, nullptr},
                           {"watch_output", Guarded<WatchOutput>, kFastCall, nullptr},
                           {"outputs_arrived", Guarded<OutputsArrived>, kFastCall, nullptr},
                           {"inputs_done", Guarded<InputsDone>, kFastCall, nullptr},
                           {"close", Close, kFastCall, nullptr}};

void Destroy(Object* capsule) {
  delete static_cast<Front*>(Py().PyCapsule_GetPointer(capsule, kCapsuleName));
}

}  // namespace

Object* MakeFunctions(Recorder& recorder, Object* settings, KeepError keep_error) {
  const Interpreter& py = Py();
  auto front = std::make_unique<Front>(recorder, keep_error);
  front->fail = Ref::Own(py.PyObject_GetAttrString(settings, "fail"));
  front->drain_now = Ref::Own(py.PyObject_GetAttrString(settings, "drain"));
  front->number = Ref::Own(py.PyUnicode_InternFromString("number"));
  front->drain = Ref::Own(py.PyUnicode_InternFromString("drain"));
  const Ref new_stack = Ref::Own(py.PyObject_GetAttrString(settings, "new_stack"));
  front->describer = Describer::Create(settings);
  if (!front->fail || !front->drain_now || !new_stack || front->describer == nullptr ||
      !front->stacks.Read(new_stack.get()))
    return nullptr;
  const Ref capsule = Ref::Own(py.PyCapsule_New(front.get(), kCapsuleName, Destroy));
  if (!capsule) return nullptr;
  front.release()->capsule = capsule.get();  // the capsule's now
  Ref functions = Ref::Own(py.PyTuple_New(std::size(g_functions)));
  for (Size i = 0; functions && i < std::ssize(g_functions); ++i) {
    Object* const function = py.PyCFunction_NewEx(&g_functions[i], capsule.get(), nullptr);
    if (function == nullptr || py.PyTuple_SetItem(functions.get(), i, function) != 0) return nullptr;
  }
  return functions.Release();
}

}  // namespace vernier::python
