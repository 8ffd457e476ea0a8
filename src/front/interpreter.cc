#include "front/interpreter.h"

#include <dlfcn.h>

namespace vernier::python {
namespace {

template <class T>
bool Find(const char* name, T& into) {
  into = reinterpret_cast<T>(dlsym(RTLD_DEFAULT, name));
  return into != nullptr;
}

bool FindVariable(const char* name, Object*& into) {
  Object** variable = nullptr;
  if (!Find(name, variable)) return false;
  into = *variable;
  return into != nullptr;
}

bool FindAll(Interpreter& py) {
  bool all = true;
#define VN_FIND(result, name, arguments) all = Find(#name, py.name) && all;
  VN_PYTHON_FUNCTIONS(VN_FIND)
#undef VN_FIND
#define VN_FIND(name) all = Find(#name, py.name) && all;
  VN_PYTHON_OBJECTS(VN_FIND)
#undef VN_FIND
#define VN_FIND(name) all = FindVariable(#name, py.name) && all;
  VN_PYTHON_EXCEPTIONS(VN_FIND)
#undef VN_FIND
  return all;
}

Interpreter g_interpreter;

}  // namespace

const Interpreter* Interpreter::Loaded() {
  static const bool has_all = FindAll(g_interpreter);
  return has_all ? &g_interpreter : nullptr;
}

const Interpreter& Py() { return g_interpreter; }

}  // namespace vernier::python
