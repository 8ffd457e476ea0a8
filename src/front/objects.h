// Small steps with objects of Python. Those that give a bool leave a Python exception when it is false; a
// null or empty argument means that there is one already.
#pragma once

#include <cstdint>

#include "front/interpreter.h"

namespace vernier::python {

inline Object* None() { return Py()._Py_NoneStruct; }
inline Object* NewNone() { return Ref::Share(None()).Release(); }
inline Object* Truth(bool value) { return value ? Py()._Py_TrueStruct : Py()._Py_FalseStruct; }
inline Ref NewNumber(std::int64_t value) { return Ref::Own(Py().PyLong_FromLongLong(value)); }

inline bool ReadNumber(Object* number, std::int64_t& into) {
  if (number == nullptr) return false;
  into = Py().PyLong_AsLongLong(number);
  return into != -1 || Py().PyErr_Occurred() == nullptr;
}

inline bool ReadTruth(Object* value, bool& into) {
  if (value == nullptr) return false;
  if (value == Py()._Py_TrueStruct) return into = true;
  const int result = Py().PyObject_IsTrue(value);
  into = result > 0;
  return result >= 0;
}

inline bool ReadNumber(const Ref& number, std::int64_t& into) { return ReadNumber(number.get(), into); }
inline bool ReadTruth(const Ref& value, bool& into) { return ReadTruth(value.get(), into); }

inline bool Append(Object* list, Object* item) { return Py().PyList_Append(list, item) == 0; }

// The last one, or null.
inline Object* Last(Object* list) {
  const Size size = Py().PyList_Size(list);
  return size > 0 ? Py().PyList_GetItem(list, size - 1) : nullptr;
}

// Takes this very object off the list, if it is there.
inline bool Remove(Object* list, Object* item) {
  for (Size i = Py().PyList_Size(list) - 1; i >= 0; --i) {
    if (Py().PyList_GetItem(list, i) == item) return Py().PyList_SetSlice(list, i, i + 1, nullptr) == 0;
  }
  return true;
}

// Calls with objects as arguments; empty when that raised.
template <class... Arguments>
Ref Call(Object* callable, Arguments... arguments) {
  return Ref::Own(Py().PyObject_CallFunctionObjArgs(callable, arguments..., nullptr));
}
template <class... Arguments>
Ref CallMethod(Object* object, const Ref& name, Arguments... arguments) {
  return Ref::Own(Py().PyObject_CallMethodObjArgs(object, name.get(), arguments..., nullptr));
}
// REQUIRES: none of them is null
template <class... Items>
Ref NewTuple(Items... items) {
  return Ref::Own(Py().PyTuple_Pack(sizeof...(items), items...));
}

}  // namespace vernier::python
