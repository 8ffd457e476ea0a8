// Call stacks of Python, remembered by where each of their frames stands.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "front/objects.h"

namespace vernier::python {

// REQUIRES: the GIL is held.
class StackWalk {
 public:
  // `make(first frame, end frame or None, outer stack or None)` gives the object for a stack not seen before.
  bool Read(PyObject* make);

  // The stack of the caller without its first `skip` frames, up to the frame `end` (None: all of them), which
  // was called from the stack `outer`. Nothing out there can have moved since. Null: a Python exception.
  Ref Current(PyObject* end, PyObject* outer, std::int64_t skip);

  void Clear();

 private:
  struct Place {
    Ref stack;
    std::vector<Ref> codes;  // alive as long as we are, so that no other code gets their addresses
  };

  Ref make_, code_, last_instruction_, back_;
  std::mutex mutex_;
  std::map<std::vector<std::int64_t>, Place> known_;
};

}  // namespace vernier::python
