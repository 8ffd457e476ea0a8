// The extension module vernier._front: what the Python package calls while a model runs.
//
// functions(address of a VnRecorder, settings) gives a tuple of functions that work on that recorder;
// `settings` has the attributes of describer.cc and `fail(status)`, which raises, `new_stack` of StackWalk,
// `put_done(values)`, called when the core has what the Python side described, `launch(words)`, called with
// each launch of VnRecorderTakeLaunches, `state()`, called before the first put and the
// first one after each forget(), or None, and, to know calls that backward repeats, `is_grad_enabled()` and
// `graph_task()`, or None. In order:
//   put(name, stack, flags, key, value, ...)    a record, its values described; `stack.number` unless None
//   num_puts()                                  so far
//   parent(name, parent or None[, micro-step])  a member of construct.json
//   text(value, values)                         the description alone; its tensors go to `values`
//   fields(values, key, value, ...)             the same for a record
//   tensor(tensor, values, flags)               the same for one plain tensor
//   mark(tensor, changed)                       (storage, version)
//   forget()                                    the storages that were marked
//   stack(end, outer, skip)                     see StackWalk
//   close()                                     the others fail from then on; 1 when none still goes on,
//                                               else the recorder must stay
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "front/describer.h"
#include "front/objects.h"
#include "front/stack_walk.h"
#include "vernier/c_api.h"

namespace vernier::python {
namespace {

constexpr const char* kCapsuleName = "vernier.front";

struct Front {
  explicit Front(VnRecorder* opened) : recorder(opened) {}

  VnRecorder* const recorder;
  Ref fail, put_done, launch;
  Ref state, tell_state;            // the second is none once it was called
  Ref graph_task, is_grad_enabled;  // the first is none where nobody asks
  Ref number;                       // name of an attribute
  std::int64_t num_puts = 0;
  std::atomic<bool> closed = false;
  std::atomic<int> num_in_flight = 0;
  const pid_t process = getpid();  // in a forked child no other thread's call ever ends
  std::unique_ptr<Describer> describer;
  StackWalk stacks;
};

// A call that is going on: what it works with stays until it has returned.
class InFlight {
 public:
  explicit InFlight(Front& front) : front_(front) {
    ++front_.num_in_flight;
    ++g_in_flight;
  }
  ~InFlight() {
    --g_in_flight;
    --front_.num_in_flight;
  }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  static bool AnyOfThisThread() { return g_in_flight > 0; }

 private:
  static thread_local int g_in_flight;
  Front& front_;
};
thread_local int InFlight::g_in_flight = 0;

// Runs fn() for Python: nothing of C++ is thrown into the interpreter.
template <class Fn>
PyObject* WithoutThrowing(Fn&& fn) noexcept {
  try {
    return fn();
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, "not enough memory for a record");
  } catch (const std::exception& exception) {
    PyErr_SetString(PyExc_RuntimeError, exception.what());
  }
  return nullptr;
}

PyObject* WrongCall(const char* text) {
  PyErr_SetString(PyExc_TypeError, text);
  return nullptr;
}

std::optional<std::string_view> TextOf(PyObject* text) {
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) return std::nullopt;
  return std::string_view(bytes, static_cast<std::size_t>(size));
}

// Below this many bytes a call is shorter than letting other Python threads in and waiting for them to come
// out.
constexpr std::uint64_t kShortCallBytes = 1 << 18;
// close() waits so long for calls of other threads.
constexpr std::chrono::seconds kLongestCall{10};
// Beside the flags of c_api.h: every tensor of the record is to be stored.
constexpr std::uint32_t kStoreAll = 1 << 16;
// They may have been written to in a way that moves no version.
constexpr std::uint32_t kChanged = 1 << 17;

using Handler = PyObject* (*)(Front& front, PyObject* const* arguments, Py_ssize_t count);

// Runs Fn(front, arguments, count) as a function of Python.
template <Handler Fn>
PyObject* Guarded(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept {
  return WithoutThrowing([&]() -> PyObject* {
    auto* const front = static_cast<Front*>(PyCapsule_GetPointer(self, kCapsuleName));
    if (front == nullptr) return nullptr;
    const InFlight in_flight(*front);
    return front->closed ? WrongCall("the recorder is closed") : Fn(*front, arguments, count);
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
  explicit GilRelease(bool release) : state_(release ? PyEval_SaveThread() : nullptr) {}
  ~GilRelease() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

// None, or raises what went wrong in the core.
PyObject* Checked(Front& front, VnStatus code) {
  if (code == VN_OK) return NewNone();
  const Ref status = NewNumber(code);
  if (status && Call(front.fail.get(), status.get())) {
    return WrongCall("fail() did not raise");
  }
  return nullptr;
}

// None counts as nothing.
Ref OrNone(Ref object) { return object.get() == Py_None ? Ref() : std::move(object); }

void StoreAll(std::vector<std::int64_t>& words) {
  for (std::size_t at = 0; at < words.size();) {
    const std::int64_t flags = words[at + 4] |= VN_TENSOR_STORE;
    at += 6 + 2 * static_cast<std::size_t>(words[at + 5]);
    at += ((flags & VN_TENSOR_ON_DEVICE) != 0 ? 2 : 0) + ((flags & VN_TENSOR_PLACED) != 0 ? 1 : 0);
  }
}

// Inside backward, gradients are computed without recording how: only a forward pass that is made again for
// its activations records.
bool IsRepeated(Front& front, bool& found) {
  std::int64_t task = -1;
  if (!ReadNumber(Call(front.graph_task.get()), task)) return false;
  if (task < 0) return true;
  return ReadTruth(Call(front.is_grad_enabled.get()), found);
}

// Has the Python side launch what measures the tensors of a call, before the program can change them.
bool Launch(Front& front) {
  const std::int64_t* words = nullptr;
  std::size_t num_words = 0;
  if (const VnStatus status = VnRecorderTakeLaunches(front.recorder, &words, &num_words); status != VN_OK) {
    return Checked(front, status) != nullptr;
  }
  // Copied: while Python runs, other calls of this thread may come.
  const std::vector<std::int64_t> launches(words, words + num_words);
  for (std::size_t at = 0; at + VN_LAUNCH_WORDS <= launches.size(); at += VN_LAUNCH_WORDS) {
    const Ref launch = Ref::Own(PyTuple_New(VN_LAUNCH_WORDS));
    if (!launch) return false;
    for (Py_ssize_t i = 0; i < VN_LAUNCH_WORDS; ++i) {
      PyObject* const word = PyLong_FromLongLong(launches[at + static_cast<std::size_t>(i)]);
      if (word == nullptr || PyTuple_SetItem(launch.get(), i, word) != 0) return false;
    }
    if (!Call(front.launch.get(), launch.get())) return false;
  }
  return true;
}

PyObject* Put(Front& front, PyObject* const* arguments, Py_ssize_t count) {
  if (count < 3 || count % 2 == 0) return WrongCall("put(name, stack, flags, key, value, ...)");
  const std::optional<std::string_view> name = TextOf(arguments[0]);
  std::int64_t stack = -1;
  if (arguments[1] != Py_None) {
    if (!ReadNumber(Ref::Own(PyObject_GetAttr(arguments[1], front.number.get())), stack)) return nullptr;
  }
  auto flags = static_cast<std::uint32_t>(PyLong_AsLongLong(arguments[2]));
  if (!name || PyErr_Occurred() != nullptr) return nullptr;
  ++front.num_puts;
  if (front.tell_state) {
    const Ref tell = std::move(front.tell_state);
    if (!Call(tell.get())) return nullptr;
  }
  if (front.graph_task) {
    bool is_repeated = false;
    if (!IsRepeated(front, is_repeated)) return nullptr;
    if (is_repeated) flags |= VN_PUT_REPEATED;
  }
  const Buffer buffer;
  Described& described = *buffer;
  described.changed = (flags & kChanged) != 0;
  if (!front.describer->Fields(arguments + 3, count - 3, described)) return nullptr;
  if ((flags & kStoreAll) != 0) StoreAll(described.words);
  std::uint32_t seen = 0;
  const VnStatus status = [&] {
    const GilRelease release(described.num_bytes >= kShortCallBytes);
    return VnRecorderPut(front.recorder, name->data(), name->size(), described.text.data(),
                         described.text.size(), described.words.data(), described.words.size(), stack,
                         flags & ~(kStoreAll | kChanged), &seen);
  }();
  if ((seen & VN_SEEN_LAUNCHES) != 0 && !Launch(front)) return nullptr;
  if (status != VN_OK) return Checked(front, status);
  if (described.values && !Call(front.put_done.get(), described.values.get())) return nullptr;
  return NewNone();
}

PyObject* Parent(Front& front, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 && count != 3) return WrongCall("parent(name, parent[, micro_step])");
  const std::optional<std::string_view> name = TextOf(arguments[0]);
  if (!name) return nullptr;
  const std::optional<std::string_view> parent =
      arguments[1] != Py_None ? TextOf(arguments[1]) : std::string_view();
  if (!parent) return nullptr;
  std::int64_t micro_step = -1;
  if (count == 3 && !ReadNumber(arguments[2], micro_step)) return nullptr;
  return Checked(front, VnRecorderConstruct(front.recorder, name->data(), name->size(), parent->data(),
                                            parent->size(), micro_step));
}

PyObject* NumPuts(Front& front, PyObject* const*, Py_ssize_t) { return PyLong_FromLongLong(front.num_puts); }

// Calls describe(into) with what `values` holds already, and gives its text.
template <class Fn>
PyObject* WithValues(Front& front, PyObject* values, Fn&& describe) {
  const Buffer buffer;
  Described& described = *buffer;
  described.values = Ref::Share(values);
  if (!front.describer->TakeValues(described) || !describe(described) ||
      !front.describer->GiveValues(described)) {
    return nullptr;
  }
  return PyUnicode_FromStringAndSize(described.text.data(), static_cast<Py_ssize_t>(described.text.size()));
}

PyObject* Text(Front& front, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2) return WrongCall("text(value, values)");
  return WithValues(front, arguments[1],
                    [&](Described& into) { return front.describer->Value(arguments[0], into); });
}

PyObject* Fields(Front& front, PyObject* const* arguments, Py_ssize_t count) {
  if (count < 1 || count % 2 == 0) return WrongCall("fields(values, key, value, ...)");
  return WithValues(front, arguments[0],
                    [&](Described& into) { return front.describer->Fields(arguments + 1, count - 1, into); });
}

PyObject* Tensor(Front& front, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 3) return WrongCall("tensor(tensor, values, flags)");
  std::int64_t flags = 0;
  if (!ReadNumber(arguments[2], flags)) return nullptr;
  return WithValues(front, arguments[1],
                    [&](Described& into) { return front.describer->Tensor(arguments[0], flags, into); });
}

PyObject* Mark(Front& front, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2) return WrongCall("mark(tensor, changed)");
  Describer::Mark mark;
  if (!front.describer->MarkOf(arguments[0], arguments[1] == Py_True, mark)) return nullptr;
  return Py_BuildValue("LL", static_cast<long long>(mark.storage), static_cast<long long>(mark.version));
}

PyObject* Forget(Front& front, PyObject* const*, Py_ssize_t) {
  front.tell_state = Ref::Share(front.state.get());
  return front.describer->Forget() ? NewNone() : nullptr;
}

PyObject* Stack(Front& front, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 3) return WrongCall("stack(end, outer, skip)");
  std::int64_t skip = 0;
  if (!ReadNumber(arguments[2], skip)) return nullptr;
  return front.stacks.Current(arguments[0], arguments[1], skip).Release();
}

// The functions and the Python side refer to each other in a ring that the interpreter cannot see.
PyObject* Close(PyObject* self, PyObject* const*, Py_ssize_t) noexcept {
  auto* const front = static_cast<Front*>(PyCapsule_GetPointer(self, kCapsuleName));
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
    const std::unique_ptr<Describer> describer = std::move(front->describer);
    const Ref fail = std::move(front->fail), put_done = std::move(front->put_done);
    const Ref launch = std::move(front->launch);
    const Ref state = std::move(front->state), tell_state = std::move(front->tell_state);
    front->stacks.Clear();
  }
  return PyLong_FromLongLong(is_idle ? 1 : 0);
}

PyMethodDef g_functions[] = {Method("put", Guarded<Put>),       Method("num_puts", Guarded<NumPuts>),
                             Method("parent", Guarded<Parent>), Method("text", Guarded<Text>),
                             Method("fields", Guarded<Fields>), Method("tensor", Guarded<Tensor>),
                             Method("mark", Guarded<Mark>),     Method("forget", Guarded<Forget>),
                             Method("stack", Guarded<Stack>),   Method("close", Close)};

void Destroy(PyObject* capsule) { delete static_cast<Front*>(PyCapsule_GetPointer(capsule, kCapsuleName)); }

PyObject* MakeFunctions(VnRecorder* recorder, PyObject* settings) {
  auto front = std::make_unique<Front>(recorder);
  front->fail = Ref::Own(PyObject_GetAttrString(settings, "fail"));
  front->put_done = Ref::Own(PyObject_GetAttrString(settings, "put_done"));
  front->launch = Ref::Own(PyObject_GetAttrString(settings, "launch"));
  front->state = OrNone(Ref::Own(PyObject_GetAttrString(settings, "state")));
  front->tell_state = Ref::Share(front->state.get());
  front->graph_task = OrNone(Ref::Own(PyObject_GetAttrString(settings, "graph_task")));
  front->is_grad_enabled = Ref::Own(PyObject_GetAttrString(settings, "is_grad_enabled"));
  front->number = Ref::Own(PyUnicode_InternFromString("number"));
  const Ref new_stack = Ref::Own(PyObject_GetAttrString(settings, "new_stack"));
  front->describer = Describer::Create(settings);
  if (PyErr_Occurred() != nullptr || !front->fail || !front->put_done || !front->launch || !new_stack ||
      front->describer == nullptr || !front->stacks.Read(new_stack.get()))
    return nullptr;
  const Ref capsule = Ref::Own(PyCapsule_New(front.get(), kCapsuleName, Destroy));
  if (!capsule) return nullptr;
  (void)front.release();  // the capsule's now
  Ref functions = Ref::Own(PyTuple_New(std::size(g_functions)));
  for (Py_ssize_t i = 0; functions && i < std::ssize(g_functions); ++i) {
    PyObject* const function = PyCFunction_NewEx(&g_functions[i], capsule.get(), nullptr);
    if (function == nullptr || PyTuple_SetItem(functions.get(), i, function) != 0) return nullptr;
  }
  return functions.Release();
}

PyObject* Functions(PyObject*, PyObject* arguments) noexcept {
  return WithoutThrowing([&]() -> PyObject* {
    unsigned long long recorder = 0;
    PyObject* settings = nullptr;
    if (PyArg_ParseTuple(arguments, "KO", &recorder, &settings) == 0) return nullptr;
    return MakeFunctions(reinterpret_cast<VnRecorder*>(recorder), settings);
  });
}

PyMethodDef g_module_functions[] = {
    {"functions", Functions, METH_VARARGS, "functions(address of a VnRecorder, settings)"}, {}};
PyModuleDef g_module = {
    PyModuleDef_HEAD_INIT, "vernier._front", nullptr, -1, g_module_functions, {}, {}, {}, {}};

}  // namespace
}  // namespace vernier::python

PyMODINIT_FUNC PyInit__front() { return PyModule_Create(&vernier::python::g_module); }
