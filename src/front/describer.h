// Python values -> the text and the words that a recorder takes. What is common is done here; the rest is
// asked of the Python side, which knows torch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "front/objects.h"

namespace vernier::python {

// clang-format off
// Attributes that are looked up by name: X(member, name).
#define VN_FOR_EACH_NAME(X)                                                                      \
  X(dtype_, dtype) X(is_cpu_, is_cpu) X(device_, device) X(layout_, layout) X(shape_, shape)   \
  X(requires_grad_, requires_grad) X(version_, _version) X(cdata_, _cdata)                       \
  X(words_, words) X(num_bytes_, num_bytes) X(keep_, keep) X(changed_, changed)         \
  X(waiting_, waiting)
// What the settings hold: methods, called with the tensor; what is known of torch, where tensor_types is a
// tuple and dtypes {dtype: (code, bytes of an element, whether it is complex)}; functions of the Python side.
#define VN_FOR_EACH_SETTING(X)                                                                   \
  X(is_neg) X(is_conj) X(data_ptr) X(stride) X(get_device) X(storage_of) X(storage_offset)       \
  X(weak_ref) X(free_weak_ref)                                                                   \
  X(tensor_types) X(dtypes) X(strided) X(parameter_type)                                         \
  X(values_class) X(other) X(keyed) X(unusual) X(resolved) X(without_data) X(look) X(quote)      \
  X(meters) X(meter_of)
// clang-format on

// The description of one call: its JSON text, and words on its tensors for the recorder.
struct Described {
  std::string text;                 // the byte 0x01 stands for a tensor
  std::vector<std::int64_t> words;  // of these tensors
  std::uint64_t num_bytes = 0;      // of those that the host reads
  Ref values;                       // the Values that the Python side adds to; none until it is asked
  std::vector<Ref> tensors;         // whose addresses are in `words`
  bool changed = false;             // its tensors may have been written to in a way that moves no version

  void Clear();
};

// Calls that give a bool leave a Python exception when it is false. REQUIRES: the GIL is held.
class Describer {
 public:
  // `settings` has the attributes that are read in describer.cc. Null: a Python exception says why.
  static std::unique_ptr<Describer> Create(PyObject* settings);

  bool Value(PyObject* value, Described& into);
  // A plain tensor; `flags` < 0: find out whether it requires a gradient.
  bool Tensor(PyObject* tensor, std::int64_t flags, Described& into);
  // {"key": value, ...}; a tuple is written as a list.
  bool Fields(PyObject* const* keys_and_values, Py_ssize_t count, Described& into);

  // Moves between Values.words and `words`, so that both sides can add in turn.
  bool TakeValues(Described& into);
  bool GiveValues(Described& from);

  struct Mark {
    std::int64_t storage = 0, version = 0;  // the same while the contents are; 0: it does not tell
  };
  // `changed`: what was known of the storage no longer counts.
  bool MarkOf(PyObject* tensor, bool changed, Mark& mark);
  // Lets go of the storages that were marked.
  bool Forget();

 private:
  static constexpr std::int64_t kFirstSlot = std::int64_t{1} << 40;  // the Python side has those below
  Describer() = default;
  bool Read(PyObject* settings);

  Ref Attribute(PyObject* object, const Ref& name) const;
  bool AppendSizes(const Ref& tuple, std::vector<std::int64_t>& words) const;

  bool HasValues(Described& into);  // from now on
  // Has the Python side describe it: function(first, [second,] values).
  bool Ask(const Ref& function, PyObject* first, PyObject* second, Described& into);
  bool AppendText(PyObject* text, std::string& out);
  // describe() with `container` open; null for what contains itself, or lies too deep.
  template <class Fn>
  bool Inside(PyObject* container, Described& into, Fn&& describe);
  bool SequenceItems(PyObject* items, bool is_tuple, Described& into);
  bool MappingItems(PyObject* mapping, Described& into);
  bool PlainTensor(PyObject* tensor, std::int64_t flags, Described& into, bool& was_plain);
  bool DeviceTensor(PyObject* tensor, std::int64_t code, Described& into, bool& was_taken);
  std::int64_t ParameterFlag(PyObject* tensor) const;
  // Has the Python side measure it when the record is put.
  bool MeasureLater(PyObject* tensor, std::int64_t slot, Described& into);
  // What is known of the tensor that began at `start` beyond its elements. REQUIRES: its strides come last
  bool Place(PyObject* tensor, const Mark& mark, std::size_t start, Described& into);

  // clang-format off
#define VN_NAME(member, name) Ref member;
#define VN_SETTING(name) Ref name##_;
  VN_FOR_EACH_NAME(VN_NAME)
  VN_FOR_EACH_SETTING(VN_SETTING)
#undef VN_NAME
#undef VN_SETTING
  // clang-format on
  bool with_identity_ = false;
  std::int64_t marked_elements_ = 0;
  bool measures_as_device_ = false;                   // memory of the host
  std::atomic<std::int64_t> next_slot_ = kFirstSlot;  // of tensors that the Python side measures later

  std::mutex storages_mutex_;
  struct Storage {
    std::int64_t number = 0;  // in the order in which they were marked
    std::int64_t weak_reference = 0;
    std::int64_t num_changes = 0;  // that moved no version
  };
  std::unordered_map<std::int64_t, Storage> storages_;
};

}  // namespace vernier::python
