// References to objects of Python, and small steps with them. Those that give a bool leave a Python exception
// when it is false; a null or empty argument means that there is one already. All of it REQUIRES the GIL.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <utility>

#if Py_LIMITED_API < 0x030a0000
// Both are in every CPython since 3.7, and in its limited API since 3.10.
extern "C" PyAPI_FUNC(const char*) PyUnicode_AsUTF8AndSize(PyObject* text, Py_ssize_t* size);
#define METH_FASTCALL 0x0080
#endif

namespace vernier::python {

// Holds a reference to an object, or none.
class Ref {
 public:
  Ref() = default;
  ~Ref() { Reset(); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;

  static Ref Own(PyObject* object) { return Ref(object); }  // one that was made for us
  static Ref Share(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }

  explicit operator bool() const { return object_ != nullptr; }
  PyObject* get() const { return object_; }
  PyObject* Release() { return std::exchange(object_, nullptr); }
  void Reset() { Py_XDECREF(std::exchange(object_, nullptr)); }

 private:
  explicit Ref(PyObject* object) : object_(object) {}
  PyObject* object_ = nullptr;
};

inline PyObject* TypeOf(PyObject* object) { return reinterpret_cast<PyObject*>(Py_TYPE(object)); }
inline PyObject* Frame() { return reinterpret_cast<PyObject*>(PyEval_GetFrame()); }  // null: none
inline PyObject* NewNone() { return Ref::Share(Py_None).Release(); }
inline Ref NewNumber(std::int64_t value) { return Ref::Own(PyLong_FromLongLong(value)); }

inline bool ReadNumber(PyObject* number, std::int64_t& into) {
  if (number == nullptr) return false;
  into = PyLong_AsLongLong(number);
  return into != -1 || PyErr_Occurred() == nullptr;
}

inline bool ReadTruth(PyObject* value, bool& into) {
  if (value == nullptr) return false;
  if (value == Py_True) return into = true;
  const int result = PyObject_IsTrue(value);
  into = result > 0;
  return result >= 0;
}

inline bool ReadNumber(const Ref& number, std::int64_t& into) { return ReadNumber(number.get(), into); }
inline bool ReadTruth(const Ref& value, bool& into) { return ReadTruth(value.get(), into); }

// The interpreter asks for a PyCFunction and calls it as the flags say.
inline PyMethodDef Method(const char* name, PyObject* (*function)(PyObject* self, PyObject* const* arguments,
                                                                  Py_ssize_t count)) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), METH_FASTCALL,
          nullptr};
}

// Calls with objects as arguments; empty when that raised.
template <class... Arguments>
Ref Call(PyObject* callable, Arguments... arguments) {
  return Ref::Own(PyObject_CallFunctionObjArgs(callable, arguments..., nullptr));
}

}  // namespace vernier::python
