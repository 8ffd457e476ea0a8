// What the functions of functions.h share.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string_view>

#include "front/describer.h"
#include "front/functions.h"
#include "front/objects.h"
#include "front/stack_walk.h"
#include "vernier/c_api.h"

namespace vernier::python {

class ModuleCalls;

inline constexpr const char* kCapsuleName = "vernier.front";

struct Front {
  explicit Front(VnRecorder* opened);
  ~Front();

  VnRecorder* const recorder;
  Ref fail, drain_now;
  Ref state, tell_state;            // the second is none once it was called
  Ref graph_task, is_grad_enabled;  // the first is none where nobody asks
  Ref number, drain;                // names of attributes
  std::int64_t num_puts = 0;
  std::atomic<bool> closed = false;
  std::atomic<int> num_in_flight = 0;
  const pid_t process = getpid();  // in a forked child no other thread's call ever ends
  std::unique_ptr<Describer> describer;
  StackWalk stacks;
  std::unique_ptr<ModuleCalls> modules;
  PyObject* capsule = nullptr;  // not held: it owns us
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

inline PyObject* WrongCall(const char* text) {
  PyErr_SetString(PyExc_TypeError, text);
  return nullptr;
}

inline std::optional<std::string_view> TextOf(PyObject* text) {
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) return std::nullopt;
  return std::string_view(bytes, static_cast<std::size_t>(size));
}

// As the functions of functions.h with these names.
PyObject* Put(Front& front, PyObject* const* arguments, Py_ssize_t count);
PyObject* Parent(Front& front, PyObject* const* arguments, Py_ssize_t count);

}  // namespace vernier::python
