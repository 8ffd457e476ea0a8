#include "front/describer.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/json_writer.h"
#include "front/objects.h"
#include "vernier/c_api.h"

namespace vernier::python {
namespace {

constexpr std::size_t kDepthLimit = 400;
constexpr char kTensorByte = '\x01';
constexpr Py_ssize_t kMaxDeviceAxes = 8;
// Beside the flags of c_api.h: a copy made to be read, whose memory is not the tensor's.
constexpr std::int64_t kIsCopy = 1 << 16;
// Keyword arguments whose values are described by what they mean.
constexpr std::array<std::string_view, 3> kKeysWithMeaning = {"device", "dtype", "output_dtype"};

std::int64_t GradFlag(bool requires_grad) {
  return requires_grad ? std::int64_t{VN_TENSOR_REQUIRES_GRAD} : 0;
}

// The exceptions of a tensor that cannot be looked into: fake, batched, symbolic, ...
bool IsAboutTensor() {
  return PyErr_ExceptionMatches(PyExc_RuntimeError) != 0 ||
         PyErr_ExceptionMatches(PyExc_AttributeError) != 0 || PyErr_ExceptionMatches(PyExc_TypeError) != 0;
}

bool AppendUtf8(const Ref& text, std::string& out) {
  Py_ssize_t size = 0;
  const char* const bytes = text ? PyUnicode_AsUTF8AndSize(text.get(), &size) : nullptr;
  if (bytes != nullptr) out.append(bytes, static_cast<std::size_t>(size));
  return bytes != nullptr;
}

// Containers of this thread that are being described, outermost first. The Python side, too, describes what
// is in them by coming back here.
thread_local std::vector<PyObject*> g_open;

class Open {
 public:
  explicit Open(PyObject* container) { g_open.push_back(container); }
  ~Open() { g_open.pop_back(); }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  static bool IsAllowed(PyObject* container) {
    return g_open.size() < kDepthLimit && std::find(g_open.begin(), g_open.end(), container) == g_open.end();
  }
};

}  // namespace

void Described::Clear() {
  text.clear();
  words.clear();
  num_bytes = 0;
  values.Reset();
  tensors.clear();
  changed = false;
}

std::unique_ptr<Describer> Describer::Create(PyObject* settings) {
  std::unique_ptr<Describer> describer(new Describer);
  return describer->Read(settings) ? std::move(describer) : nullptr;
}

bool Describer::Read(PyObject* settings) {
#define VN_NAME(member, name) \
  if (!(member = Ref::Own(PyUnicode_InternFromString(#name)))) return false;
#define VN_SETTING(name) \
  if (!(name##_ = Ref::Own(PyObject_GetAttrString(settings, #name)))) return false;
  VN_FOR_EACH_NAME(VN_NAME)
  VN_FOR_EACH_SETTING(VN_SETTING)
#undef VN_NAME
#undef VN_SETTING
  if (look_.get() == Py_None) look_.Reset();
  return ReadNumber(Ref::Own(PyObject_GetAttrString(settings, "marked_elements")), marked_elements_) &&
         ReadTruth(Ref::Own(PyObject_GetAttrString(settings, "measures_as_device")), measures_as_device_) &&
         ReadTruth(Ref::Own(PyObject_GetAttrString(settings, "identity")), with_identity_);
}

// ---- small steps

Ref Describer::Attribute(PyObject* object, const Ref& name) const {
  return Ref::Own(PyObject_GetAttr(object, name.get()));
}

bool Describer::AppendSizes(const Ref& tuple, std::vector<std::int64_t>& words) const {
  if (!tuple) return false;
  const Py_ssize_t count = PyTuple_Size(tuple.get());
  if (count < 0) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!ReadNumber(PyTuple_GetItem(tuple.get(), i), words.emplace_back())) return false;
  }
  return true;
}

// ---- the Python side

bool Describer::TakeValues(Described& into) {
  const Ref words = Attribute(into.values.get(), words_);
  std::int64_t num_bytes = 0;
  bool changed = false;
  if (!words || !ReadNumber(Attribute(into.values.get(), num_bytes_), num_bytes) ||
      !ReadTruth(Attribute(into.values.get(), changed_), changed)) {
    return false;
  }
  into.changed = into.changed || changed;
  const Py_ssize_t count = PyList_Size(words.get());
  if (count < 0) return false;
  if (count == 0 && num_bytes == 0) return true;
  for (Py_ssize_t i = 0; i < count; ++i) {
    // Addresses above 2^63 come as they are, identities may be negative.
    int overflow = 0;
    PyObject* const word = PyList_GetItem(words.get(), i);
    std::int64_t number = PyLong_AsLongLongAndOverflow(word, &overflow);
    if (overflow > 0) number = static_cast<std::int64_t>(PyLong_AsUnsignedLongLong(word));
    if (PyErr_Occurred() != nullptr) return false;
    into.words.push_back(number);
  }
  into.num_bytes += static_cast<std::uint64_t>(num_bytes);
  const Ref none = Ref::Own(PyList_New(0)), zero = NewNumber(0);
  return none && zero && PyObject_SetAttr(into.values.get(), words_.get(), none.get()) == 0 &&
         PyObject_SetAttr(into.values.get(), num_bytes_.get(), zero.get()) == 0;
}

bool Describer::GiveValues(Described& from) {
  const Ref words = Ref::Own(PyList_New(static_cast<Py_ssize_t>(from.words.size())));
  if (!words) return false;
  for (std::size_t i = 0; i < from.words.size(); ++i) {
    PyObject* const word = PyLong_FromLongLong(from.words[i]);
    if (word == nullptr || PyList_SetItem(words.get(), static_cast<Py_ssize_t>(i), word) != 0) return false;
  }
  const Ref keep = Attribute(from.values.get(), keep_);
  if (!keep) return false;
  for (const Ref& tensor : from.tensors) {
    if (PyList_Append(keep.get(), tensor.get()) != 0) return false;
  }
  const Ref num_bytes = NewNumber(static_cast<std::int64_t>(from.num_bytes));
  return num_bytes && PyObject_SetAttr(from.values.get(), words_.get(), words.get()) == 0 &&
         PyObject_SetAttr(from.values.get(), num_bytes_.get(), num_bytes.get()) == 0;
}

bool Describer::HasValues(Described& into) {
  if (!into.values) into.values = Call(values_class_.get());
  return static_cast<bool>(into.values);
}

bool Describer::Ask(const Ref& function, PyObject* first, PyObject* second, Described& into) {
  if (!HasValues(into)) return false;
  PyObject* const values = into.values.get();
  if (into.changed && PyObject_SetAttr(values, changed_.get(), Py_True) != 0) return false;
  const Ref text =
      second == nullptr ? Call(function.get(), first, values) : Call(function.get(), first, second, values);
  return AppendUtf8(text, into.text) && TakeValues(into);
}

// ---- values

bool Describer::AppendText(PyObject* text, std::string& out) {
  Py_ssize_t size = 0;
  if (const char* const bytes = PyUnicode_AsUTF8AndSize(text, &size); bytes != nullptr) {
    AppendJsonString({bytes, static_cast<std::size_t>(size)}, out);
    return true;
  }
  PyErr_Clear();  // half a character: Python knows how to write it
  return AppendUtf8(Call(quote_.get(), text), out);
}

bool Describer::Value(PyObject* value, Described& into) {
  if (value == Py_None) {
    into.text += "null";
    return true;
  }
  const Py_ssize_t num_tensor_types = PyTuple_Size(tensor_types_.get());
  for (Py_ssize_t i = 0; i < num_tensor_types; ++i) {
    if (TypeOf(value) != PyTuple_GetItem(tensor_types_.get(), i)) continue;
    if (!look_) return Tensor(value, -1, into);
    if (!HasValues(into)) return false;
    const Ref looked_at = Call(look_.get(), value, into.values.get());
    return looked_at && Tensor(looked_at.get(), -1, into);
  }
  if (PyBool_Check(value)) {
    into.text += value == Py_True ? R"({"type":"bool","value":true})" : R"({"type":"bool","value":false})";
    return true;
  }
  if (PyLong_CheckExact(value)) {
    int overflow = 0;
    const std::int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0) return Ask(other_, value, nullptr, into);
    into.text += R"({"type":"int","value":)";
    AppendInteger(number, into.text);
    into.text += '}';
    return true;
  }
  if (PyFloat_CheckExact(value)) {
    into.text += R"({"type":"float","value":)";
    AppendJsonFloat(PyFloat_AsDouble(value), into.text);
    into.text += '}';
    return true;
  }
  if (PyUnicode_CheckExact(value)) {
    into.text += R"({"type":"str","value":)";
    if (!AppendText(value, into.text)) return false;
    into.text += '}';
    return true;
  }
  const bool is_tuple = PyTuple_CheckExact(value);
  if (is_tuple || PyList_CheckExact(value)) {
    return Inside(value, into, [&] { return SequenceItems(value, is_tuple, into); });
  }
  if (PyDict_CheckExact(value)) return Inside(value, into, [&] { return MappingItems(value, into); });
  return Inside(value, into, [&] { return Ask(other_, value, nullptr, into); });
}

// What the interpreter finds too deep becomes null too, and leaves nothing else behind.
template <class Fn>
bool Describer::Inside(PyObject* container, Described& into, Fn&& describe) {
  if (!Open::IsAllowed(container)) {
    into.text += "null";
    return true;
  }
  const std::size_t text_size = into.text.size(), num_words = into.words.size();
  const std::uint64_t num_bytes = into.num_bytes;
  const Open open(container);
  if (describe()) return true;
  if (PyErr_ExceptionMatches(PyExc_RecursionError) == 0) return false;
  PyErr_Clear();
  if (into.values && !TakeValues(into)) return false;
  into.text.resize(text_size);
  into.text += "null";
  into.words.resize(num_words);
  into.num_bytes = num_bytes;
  return true;
}

bool Describer::SequenceItems(PyObject* items, bool is_tuple, Described& into) {
  into.text += '[';
  // A list may change while the Python side is asked about its items.
  for (Py_ssize_t i = 0; i < (is_tuple ? PyTuple_Size(items) : PyList_Size(items)); ++i) {
    if (i > 0) into.text += ',';
    const Ref item = Ref::Share(is_tuple ? PyTuple_GetItem(items, i) : PyList_GetItem(items, i));
    if (!item || !Value(item.get(), into)) return false;
  }
  into.text += ']';
  return true;
}

bool Describer::MappingItems(PyObject* mapping, Described& into) {
  if (PyDict_Size(mapping) == 0) {
    into.text += "{}";
    return true;
  }
  const Ref items = Ref::Own(PyDict_Items(mapping));
  if (!items) return false;
  into.text += '{';
  for (Py_ssize_t i = 0; i < PyList_Size(items.get()); ++i) {
    PyObject* const item = PyList_GetItem(items.get(), i);
    PyObject* const key = PyTuple_GetItem(item, 0);
    PyObject* const value = PyTuple_GetItem(item, 1);
    const Ref key_text = Ref::Own(PyObject_Str(key));
    if (!key_text) return false;
    if (i > 0) into.text += ',';
    const std::size_t begin = into.text.size();
    if (!AppendText(key_text.get(), into.text)) return false;
    const std::string_view quoted(into.text.data() + begin, into.text.size() - begin);
    const std::string_view name = quoted.substr(1, quoted.size() - 2);
    bool has_meaning = false;
    for (const std::string_view known : kKeysWithMeaning) has_meaning |= name == known;
    into.text += ':';
    if (!(has_meaning ? Ask(keyed_, key, value, into) : Value(value, into))) return false;
  }
  into.text += '}';
  return true;
}

bool Describer::Fields(PyObject* const* keys_and_values, Py_ssize_t count, Described& into) {
  into.text += '{';
  for (Py_ssize_t i = 0; i + 1 < count; i += 2) {
    if (i > 0) into.text += ',';
    if (!AppendText(keys_and_values[i], into.text)) return false;
    into.text += ':';
    PyObject* const value = keys_and_values[i + 1];
    const bool done = PyDict_CheckExact(value)    ? MappingItems(value, into)
                      : PyList_CheckExact(value)  ? SequenceItems(value, false, into)
                      : PyTuple_CheckExact(value) ? SequenceItems(value, true, into)
                                                  : Value(value, into);
    if (!done) return false;
  }
  into.text += '}';
  return true;
}

// ---- tensors

bool Describer::MarkOf(PyObject* tensor, bool changed, Mark& mark) {
  mark = {};
  const Ref version = Attribute(tensor, version_);
  const Ref storage = version ? Call(storage_of_.get(), tensor) : Ref();
  if (!storage) {  // an inference tensor
    if (PyErr_ExceptionMatches(PyExc_RuntimeError) == 0) return false;
    PyErr_Clear();
    return true;
  }
  Mark found;
  std::int64_t address = 0;
  if (!ReadNumber(version, found.version) || !ReadNumber(Attribute(storage.get(), cdata_), address))
    return false;
  const auto take = [&](Storage& known) {
    if (changed) ++known.num_changes;
    found.version += known.num_changes;  // either only grows, so that the sum tells every change
    found.storage = known.number;
    mark = found;
    return true;
  };
  {
    const std::scoped_lock lock(storages_mutex_);
    if (const auto known = storages_.find(address); known != storages_.end()) return take(known->second);
  }
  // While we hold one, torch gives the storage's address to no other.
  std::int64_t reference = 0;
  if (!ReadNumber(Call(weak_ref_.get(), storage.get()), reference)) return false;
  const std::scoped_lock lock(storages_mutex_);
  const auto number = static_cast<std::int64_t>(storages_.size()) + 1;
  return take(storages_.try_emplace(address, Storage{number, reference}).first->second);
}

bool Describer::Forget() {
  std::unordered_map<std::int64_t, Storage> storages;
  {
    const std::scoped_lock lock(storages_mutex_);
    storages.swap(storages_);
  }
  for (const auto& [address, storage] : storages) {
    const Ref number = NewNumber(storage.weak_reference);
    if (!number || !Call(free_weak_ref_.get(), number.get())) return false;
  }
  return true;
}

bool Describer::Tensor(PyObject* tensor, std::int64_t flags, Described& into) {
  const std::size_t num_words = into.words.size(), text_size = into.text.size();
  bool was_plain = false;
  into.tensors.push_back(Ref::Share(tensor));
  if (PlainTensor(tensor, flags, into, was_plain) && (was_plain || Ask(unusual_, tensor, nullptr, into))) {
    return true;
  }
  if (!IsAboutTensor()) return false;
  PyErr_Clear();
  // The Python side may have added something before it failed.
  if (into.values && !TakeValues(into)) return false;
  into.words.resize(num_words);
  into.text.resize(text_size);
  return Ask(without_data_, tensor, nullptr, into);
}

bool Describer::PlainTensor(PyObject* tensor, std::int64_t flags, Described& into, bool& was_plain) {
  const Ref dtype = Attribute(tensor, dtype_);
  if (!dtype) return false;
  PyObject* const known = PyDict_GetItem(dtypes_.get(), dtype.get());
  bool is_cpu = false;
  if (known == nullptr) return true;
  const std::int64_t code = PyLong_AsLongLong(PyTuple_GetItem(known, 0));
  if (!ReadTruth(Attribute(tensor, is_cpu_), is_cpu)) return false;
  const bool is_copy = flags >= 0 && (flags & kIsCopy) != 0;
  if (!is_cpu || (measures_as_device_ && !is_copy)) return DeviceTensor(tensor, code, into, was_plain);
  const Ref layout = Attribute(tensor, layout_);
  if (!layout) return false;
  if (layout.get() != strided_.get()) return true;
  bool is_neg = false, is_conj = false;
  if (!ReadTruth(Call(is_neg_.get(), tensor), is_neg)) return false;
  if (PyTuple_GetItem(known, 2) == Py_True && !ReadTruth(Call(is_conj_.get(), tensor), is_conj)) return false;
  if (is_neg || is_conj) {
    was_plain = true;
    return Ask(resolved_, tensor, nullptr, into);
  }
  if (flags < 0) {
    bool requires_grad = false;
    if (!ReadTruth(Attribute(tensor, requires_grad_), requires_grad)) return false;
    flags = GradFlag(requires_grad) | ParameterFlag(tensor);
  }
  const std::size_t start = into.words.size();
  into.words.insert(into.words.end(), {0, 0, 0, code, flags, 0});
  if (!AppendSizes(Attribute(tensor, shape_), into.words)) return false;
  const std::size_t num_axes = into.words.size() - start - 6;
  std::int64_t num_elements = 1;
  for (std::size_t axis = 0; axis < num_axes; ++axis) num_elements *= into.words[start + 6 + axis];
  if (!AppendSizes(Call(stride_.get(), tensor), into.words)) return false;
  const Ref address = Call(data_ptr_.get(), tensor);
  if (!address) return false;
  const unsigned long long bits = PyLong_AsUnsignedLongLong(address.get());
  Mark mark;
  const bool is_marked = num_elements > marked_elements_ || (flags & VN_TENSOR_PARAMETER) != 0;
  if (PyErr_Occurred() != nullptr || (is_marked && !MarkOf(tensor, into.changed, mark))) return false;
  into.words[start] = static_cast<std::int64_t>(bits);
  into.words[start + 1] = mark.storage;
  into.words[start + 2] = mark.version;
  into.words[start + 5] = static_cast<std::int64_t>(num_axes);
  if (!Place(tensor, mark, start, into)) return false;
  into.num_bytes += static_cast<std::uint64_t>(num_elements * PyLong_AsLongLong(PyTuple_GetItem(known, 1)));
  into.text += kTensorByte;
  was_plain = true;
  return true;
}

std::int64_t Describer::ParameterFlag(PyObject* tensor) const {
  return with_identity_ && TypeOf(tensor) == parameter_type_.get() ? std::int64_t{VN_TENSOR_PARAMETER} : 0;
}

bool Describer::Place(PyObject* tensor, const Mark& mark, std::size_t start, Described& into) {
  const bool is_copy = (into.words[start + 4] & kIsCopy) != 0;
  into.words[start + 4] &= ~kIsCopy;
  if (!with_identity_ || is_copy || mark.storage == 0) return true;
  into.words[start + 4] |= VN_TENSOR_PLACED;
  return ReadNumber(Call(storage_offset_.get(), tensor), into.words.emplace_back());
}

bool Describer::MeasureLater(PyObject* tensor, std::int64_t slot, Described& into) {
  if (!HasValues(into)) return false;
  const Ref waiting = Attribute(into.values.get(), waiting_), number = NewNumber(slot);
  const Ref pair = waiting && number ? Ref::Own(PyTuple_Pack(2, number.get(), tensor)) : Ref();
  return pair && PyList_Append(waiting.get(), pair.get()) == 0;
}

// On a device: this takes a microsecond. `meters` has for each device the dtypes, a bit for each, and the
// function that gives the stream in use, where the core measures, or None, where the Python side does it
// later; nothing for a device that the Python side also describes.
bool Describer::DeviceTensor(PyObject* tensor, std::int64_t code, Described& into, bool& was_taken) {
  const Ref device_object = Attribute(tensor, device_);
  if (!device_object) return false;
  Ref meter = Ref::Share(PyDict_GetItem(meters_.get(), device_object.get()));
  if (!meter && !(meter = Call(meter_of_.get(), device_object.get()))) return false;
  if (meter.get() == Py_None) return true;
  std::int64_t dtype_bits = 0;
  bool is_neg = false;
  if (!ReadNumber(PyTuple_GetItem(meter.get(), 0), dtype_bits)) return false;
  const Ref layout = Attribute(tensor, layout_);
  if (!layout) return false;
  if ((dtype_bits >> code & 1) == 0 || layout.get() != strided_.get()) return true;
  if (!ReadTruth(Call(is_neg_.get(), tensor), is_neg)) return false;
  const Ref shape = Attribute(tensor, shape_);
  if (!shape) return false;
  const Py_ssize_t num_axes = PyTuple_Size(shape.get());
  if (is_neg || num_axes > kMaxDeviceAxes) return true;
  bool requires_grad = false;
  std::int64_t device = 0, stream = 0;
  Mark mark;
  if (!ReadTruth(Attribute(tensor, requires_grad_), requires_grad) || !MarkOf(tensor, into.changed, mark))
    return false;
  PyObject* const raw_stream = PyTuple_GetItem(meter.get(), 1);
  const bool is_deferred = raw_stream == Py_None;
  std::int64_t address_or_slot = 0, flag = VN_TENSOR_ON_DEVICE;
  if (is_deferred) {
    address_or_slot = next_slot_++;
    flag = VN_TENSOR_DEFERRED;
    if (!MeasureLater(tensor, address_or_slot, into)) return false;
  } else {
    const Ref device_number = Call(get_device_.get(), tensor), address = Call(data_ptr_.get(), tensor);
    if (!address || !ReadNumber(device_number, device) ||
        !ReadNumber(Call(raw_stream, device_number.get()), stream)) {
      return false;
    }
    address_or_slot = static_cast<std::int64_t>(PyLong_AsUnsignedLongLong(address.get()));
    if (PyErr_Occurred() != nullptr) return false;
  }
  const std::size_t start = into.words.size();
  into.words.insert(into.words.end(), {address_or_slot, mark.storage, mark.version, code,
                                       flag | GradFlag(requires_grad) | ParameterFlag(tensor), num_axes});
  if (!AppendSizes(shape, into.words) || !AppendSizes(Call(stride_.get(), tensor), into.words) ||
      !Place(tensor, mark, start, into)) {
    return false;
  }
  // Its size does not count: the host reads none of it, and a launch is too short to let other threads in.
  if (!is_deferred) into.words.insert(into.words.end(), {device, stream});
  into.text += kTensorByte;
  was_taken = true;
  return true;
}

}  // namespace vernier::python
