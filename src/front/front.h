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
#include "front/interpreter.h"
#include "front/objects.h"
#include "front/stack_walk.h"
#include "vernier/record.h"

namespace vernier::python {

class ModuleCalls;

inline constexpr const char* kCapsuleName = "vernier.front";

struct Front {
  Front(Recorder& records, KeepError keep);
  ~Front();

  Recorder& recorder;
  KeepError keep_error;
  Ref fail, drain_now;
  Ref number, drain;  // names of attributes
  std::int64_t num_puts = 0;
  std::atomic<bool> closed = false;
  std::atomic<int> num_in_flight = 0;
  const pid_t process = getpid();  // in a forked child no other thread's call ever ends
  std::unique_ptr<Describer> describer;
  StackWalk stacks;
  std::unique_ptr<ModuleCalls> modules;
  Object* capsule = nullptr;  // not held: it owns us
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
Object* WithoutThrowing(Fn&& fn) noexcept {
  try {
    return fn();
  } catch (const std::bad_alloc&) {
    Py().PyErr_SetString(Py().PyExc_MemoryError, "not enough memory for a record");
  } catch (const std::exception& exception) {
    Py().PyErr_SetString(Py().PyExc_RuntimeError, exception.what());
  }
  return nullptr;
}

inline Object* WrongCall(const char* text) {
  Py().PyErr_SetString(Py().PyExc_TypeError, text);
  return nullptr;
}

inline std::optional<std::string_view> TextOf(Object* text) {
  Size size = 0;
  const char* const bytes = Py().PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) return std::nullopt;
  return std::string_view(bytes, static_cast<std::size_t>(size));
}

// As the functions of functions.h with these names.
Object* Put(Front& front, Object* const* arguments, Size count);
Object* Parent(Front& front, Object* const* arguments, Size count);

}  // namespace vernier::python
