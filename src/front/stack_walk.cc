#include "front/stack_walk.h"

namespace vernier::python {

bool StackWalk::Read(PyObject* make) {
  make_ = Ref::Share(make);
  code_ = Ref::Own(PyUnicode_InternFromString("f_code"));
  last_instruction_ = Ref::Own(PyUnicode_InternFromString("f_lasti"));
  back_ = Ref::Own(PyUnicode_InternFromString("f_back"));
  return code_ && last_instruction_ && back_;
}

void StackWalk::Clear() {
  std::map<std::vector<std::int64_t>, Place> known;
  {
    const std::scoped_lock lock(mutex_);
    known.swap(known_);
  }
  make_.Reset();
}

Ref StackWalk::Current(PyObject* end, PyObject* outer, std::int64_t skip) {
  Ref frame = Ref::Share(Frame());
  if (!frame) frame = Ref::Share(Py_None);
  for (; skip > 0 && frame.get() != Py_None; --skip) {
    frame = Ref::Own(PyObject_GetAttr(frame.get(), back_.get()));
    if (!frame) return {};
  }
  const Ref first = Ref::Share(frame.get());
  thread_local std::vector<std::int64_t> place;
  place.assign(1, reinterpret_cast<std::int64_t>(outer));
  std::vector<Ref> codes;
  while (frame.get() != end && frame.get() != Py_None) {
    Ref code = Ref::Own(PyObject_GetAttr(frame.get(), code_.get()));
    const Ref instruction = Ref::Own(PyObject_GetAttr(frame.get(), last_instruction_.get()));
    if (!code || !instruction) return {};
    place.push_back(reinterpret_cast<std::int64_t>(code.get()));
    place.push_back(PyLong_AsLongLong(instruction.get()));
    codes.push_back(std::move(code));
    frame = Ref::Own(PyObject_GetAttr(frame.get(), back_.get()));
    if (!frame) return {};
  }
  if (frame.get() != end) {  // not below that frame after all, as in a thread of its own
    outer = end = Py_None;
    place[0] = reinterpret_cast<std::int64_t>(outer);
  }
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = known_.find(place); found != known_.end())
      return Ref::Share(found->second.stack.get());
  }
  const std::vector<std::int64_t> key = place;  // Python code may come here again
  Ref stack = Call(make_.get(), first.get(), end, outer);
  if (!stack) return {};
  Ref result = Ref::Share(stack.get());
  const std::scoped_lock lock(mutex_);
  known_.try_emplace(key, Place{std::move(stack), std::move(codes)});
  return result;
}

}  // namespace vernier::python
