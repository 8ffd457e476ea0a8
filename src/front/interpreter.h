// The Python interpreter that has loaded us, by the functions of its stable ABI, found by name at run time:
// one library serves every Python from 3.8 on, and programs without one. All of it REQUIRES the GIL unless
// said otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vernier::python {

struct Object;       // PyObject
struct ThreadState;  // PyThreadState
using Size = std::ptrdiff_t;

using Function = Object* (*)(Object* self, Object* const* arguments, Size count);
struct MethodDef {  // PyMethodDef
  const char* name;
  Function function;
  int flags;
  const char* doc;
};
inline constexpr int kFastCall = 0x80;  // METH_FASTCALL

// clang-format off
#define VN_PYTHON_FUNCTIONS(F)                                                     \
  F(void, Py_IncRef, (Object*))                                                    \
  F(void, Py_DecRef, (Object*))                                                    \
  F(Object*, PyObject_Type, (Object*))                                             \
  F(Object*, PyObject_Str, (Object*))                                              \
  F(Object*, PyObject_GetAttr, (Object*, Object* name))                            \
  F(Object*, PyObject_GetAttrString, (Object*, const char* name))                  \
  F(int, PyObject_SetAttr, (Object*, Object* name, Object* value))                 \
  F(int, PyObject_IsTrue, (Object*))                                               \
  F(Object*, PyObject_CallFunctionObjArgs, (Object* callable, ...))                \
  F(Object*, PyObject_CallObject, (Object* callable, Object* arguments))           \
  F(int, PyObject_HasAttr, (Object*, Object* name))                                \
  F(Object*, PyObject_CallMethodObjArgs, (Object*, Object* name, ...))             \
  F(Object*, PyObject_GetItem, (Object*, Object* key))                             \
  F(int, PyObject_SetItem, (Object*, Object* key, Object* value))                  \
  F(int, PyObject_DelItem, (Object*, Object* key))                                 \
  F(Object*, PyIter_Next, (Object*))                                               \
  F(Size, PyTuple_Size, (Object*))                                                 \
  F(Object*, PyTuple_New, (Size))                                                  \
  F(Object*, PyTuple_GetItem, (Object*, Size))                                     \
  F(int, PyTuple_SetItem, (Object*, Size, Object* stolen))                         \
  F(Object*, PyTuple_Pack, (Size, ...))                                            \
  F(Object*, PyList_New, (Size))                                                   \
  F(Size, PyList_Size, (Object*))                                                  \
  F(int, PyList_Append, (Object*, Object*))                                        \
  F(Object*, PyList_GetItem, (Object*, Size))                                      \
  F(int, PyList_SetItem, (Object*, Size, Object* stolen))                          \
  F(int, PyList_SetSlice, (Object*, Size low, Size high, Object* items))           \
  F(Object*, PyDict_New, ())                                                       \
  F(int, PyDict_SetItem, (Object*, Object* key, Object* value))                    \
  F(Size, PyDict_Size, (Object*))                                                  \
  F(Object*, PyDict_Items, (Object*))                                              \
  F(Object*, PyDict_GetItem, (Object*, Object* key))                               \
  F(long long, PyLong_AsLongLong, (Object*))                                       \
  F(long long, PyLong_AsLongLongAndOverflow, (Object*, int* overflow))             \
  F(unsigned long long, PyLong_AsUnsignedLongLong, (Object*))                      \
  F(Object*, PyLong_FromLongLong, (long long))                                     \
  F(double, PyFloat_AsDouble, (Object*))                                           \
  F(const char*, PyUnicode_AsUTF8AndSize, (Object*, Size*))                        \
  F(Object*, PyUnicode_FromStringAndSize, (const char*, Size))                     \
  F(Object*, PyUnicode_InternFromString, (const char*))                            \
  F(Object*, PyUnicode_FromFormat, (const char*, ...))                             \
  F(Object*, PyWeakref_NewRef, (Object*, Object* callback))                        \
  F(Object*, PyErr_Occurred, ())                                                   \
  F(int, PyErr_ExceptionMatches, (Object*))                                        \
  F(void, PyErr_Clear, ())                                                         \
  F(void, PyErr_Fetch, (Object** type, Object** value, Object** traceback))        \
  F(void, PyErr_Restore, (Object* type, Object* value, Object* traceback))         \
  F(void, PyErr_NormalizeException, (Object**, Object**, Object**))                \
  F(int, PyException_SetTraceback, (Object*, Object* traceback))                   \
  F(void, PyErr_SetString, (Object* type, const char*))                            \
  F(ThreadState*, PyEval_SaveThread, ())                                           \
  F(void, PyEval_RestoreThread, (ThreadState*))                                    \
  F(Object*, PyEval_GetFrame, ())                                                  \
  F(Object*, PyCFunction_NewEx, (MethodDef*, Object* self, Object* module))        \
  F(Object*, PyCapsule_New, (void*, const char* name, void (*destroy)(Object*)))   \
  F(void*, PyCapsule_GetPointer, (Object*, const char* name))
// Objects themselves.
#define VN_PYTHON_OBJECTS(F) \
  F(_Py_NoneStruct) F(_Py_TrueStruct) F(_Py_FalseStruct) F(PyBool_Type) F(PyLong_Type) F(PyFloat_Type) F(PyUnicode_Type) \
  F(PyList_Type) F(PyTuple_Type) F(PyDict_Type)
// Variables that point to one.
#define VN_PYTHON_EXCEPTIONS(F) \
  F(PyExc_Exception) F(PyExc_RuntimeError) F(PyExc_AttributeError) F(PyExc_TypeError) F(PyExc_RecursionError) F(PyExc_MemoryError)
// clang-format on

struct Interpreter {
#define VN_MEMBER(result, name, arguments) result(*name) arguments = nullptr;
  VN_PYTHON_FUNCTIONS(VN_MEMBER)
#undef VN_MEMBER
#define VN_MEMBER(name) Object* name = nullptr;
  VN_PYTHON_OBJECTS(VN_MEMBER)
  VN_PYTHON_EXCEPTIONS(VN_MEMBER)
#undef VN_MEMBER

  // Null when the process has none. Needs no GIL.
  static const Interpreter* Loaded();
};

// REQUIRES: Interpreter::Loaded() has found it.
const Interpreter& Py();

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

  static Ref Own(Object* object) { return Ref(object); }  // one that was made for us
  static Ref Share(Object* object) {
    if (object != nullptr) Py().Py_IncRef(object);
    return Ref(object);
  }

  explicit operator bool() const { return object_ != nullptr; }
  Object* get() const { return object_; }
  Object* Release() { return std::exchange(object_, nullptr); }
  void Reset() {
    if (object_ != nullptr) Py().Py_DecRef(std::exchange(object_, nullptr));
  }

 private:
  explicit Ref(Object* object) : object_(object) {}
  Object* object_ = nullptr;
};

}  // namespace vernier::python
