// What the Python package calls while a model runs: functions without ctypes' cost for each argument.
#pragma once

#include "front/objects.h"
#include "vernier/c_api.h"

namespace vernier::python {

// A tuple of functions that work on `recorder`; `settings` has the attributes of describer.cc and
// `fail(status)`, which raises, `new_stack` of StackWalk, `drain()`, called when a device's numbers should be
// fetched, `state()`, called before the first put and the first one after each forget(), or None, and, to
// know calls that backward repeats, `is_grad_enabled()` and `graph_task()`, or None. In order:
//   put(name, stack, flags, key, value, ...)    a record, its values described; `stack.number` unless None
//   num_puts()                                  so far
//   parent(name, parent or None[, micro-step])  a member of construct.json
//   text(value, values)                         the description alone; its tensors go to `values`
//   fields(values, key, value, ...)             the same for a record
//   tensor(tensor, values, flags)               the same for one plain tensor
//   mark(tensor, changed)                       (storage, version)
//   forget()                                    the storages that were marked
//   stack(end, outer, skip)                     see StackWalk
//   modules(capture, settings)                  before the next six, which are those of ModuleCalls:
//   enter, leave, abandon, watch_output, outputs_arrived, inputs_done
//   close()                                     the others fail from then on; 1 when none still goes on,
//                                               else the recorder must stay
// Null: a Python exception says why. REQUIRES: the GIL is held.
PyObject* MakeFunctions(VnRecorder* recorder, PyObject* settings);

}  // namespace vernier::python
