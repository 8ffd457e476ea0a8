#include "record/ports.h"

#include <utility>

#include "core/json_cursor.h"
#include "core/json_writer.h"

namespace vernier {
namespace {

void AppendPath(const std::vector<PathPart>& path, std::string& out) {
  for (const PathPart& part : path) {
    if (!out.empty()) out += '.';
    if (part.index >= 0) {
      AppendInteger(part.index, out);
    } else {
      out += DecodeJsonString(part.key);
    }
  }
}

Port& AddPort(const TensorWords& tensor, Field& field) {
  Port& port = field.ports.emplace_back();
  port.dtype = tensor.dtype;
  port.flags = tensor.flags;
  port.first_size = field.sizes.size();
  port.num_axes = tensor.shape.size();
  field.sizes.insert(field.sizes.end(), tensor.shape.begin(), tensor.shape.end());
  field.sizes.insert(field.sizes.end(), tensor.strides.begin(), tensor.strides.end());
  return port;
}

}  // namespace

Result<Done> PortReader::WriteTensor(std::string_view extras, int depth, std::string& out) {
  VN_ASSIGN_OR_RETURN(const TensorWords tensor, TakeTensor(words_));
  Port& port = AddPort(tensor, *field_);
  port.at = out.size();
  port.depth = depth;
  port.extras = extras;
  AppendPath(*path_, port.path);
  return Read(tensor, port);
}

Result<Done> PortReader::ReadAlone(std::string_view stem, Field& field) {
  VN_ASSIGN_OR_RETURN(const TensorWords tensor, TakeTensor(words_));
  if (tensor.Has(kDeferred)) {
    return Error{ErrorCode::kBadArgument, std::string(stem), "a deferred tensor has nothing to describe yet"};
  }
  field_ = &field;
  Port& port = AddPort(tensor, field);
  port.path = stem;
  return Read(tensor, port);
}

std::shared_ptr<Slot> PortReader::MakeSlot(const TensorWords& tensor, const Port& port) {
  auto slot = std::make_shared<Slot>();
  slot->entry = entry_;
  slot->dtype = tensor.dtype;
  slot->num_elements = tensor.num_elements;
  slot->is_scalar = tensor.shape.empty();
  slot->copy_follows = tensor.Has(kCopyFollows);
  slot->wants_file = context_.store != nullptr && context_.meter.WantsFile(tensor);
  if (slot->copy_follows) {
    slot->field = field_->key;
    slot->path = port.path;
  }
  context_.slots[tensor.address] = slot;
  ++context_.totals.num_tensors;
  return slot;
}

Result<Done> PortReader::ReadOnDevice(const TensorWords& tensor, Port& port) {
  if (context_.device == nullptr) {
    return Error{ErrorCode::kBadArgument, "words",
                 "memory of a device, and neither VnRecorderUseCuda nor VnRecorderUseKernels was called"};
  }
  if (entry_ == nullptr && !context_.device->launches()) {
    return Error{ErrorCode::kBadArgument, "words",
                 "a tensor alone, where the program launches what measures it"};
  }
  VN_ASSIGN_OR_RETURN(port.slot, context_.device->Measure(tensor, context_.totals));
  if (entry_ == nullptr) {
    VN_RETURN_IF_ERROR(context_.device->Launch());
    context_.device->WaitFor(port.slot->sequence);
  }
  if (entry_ == nullptr || port.slot->sequence == 0) {
    const std::shared_ptr<Slot> slot = std::exchange(port.slot, nullptr);
    port.measured = slot->measured;
    port.sketch = slot->sketch;
  }
  return Done{};
}

Result<Done> PortReader::Read(const TensorWords& tensor, Port& port) {
  if (tensor.Has(kPlaced)) port.identity = {tensor.storage, tensor.version, tensor.offset};
  if (tensor.Has(kOnDevice) && tensor.readable()) return ReadOnDevice(tensor, port);
  if (tensor.Has(kDeferred) && !tensor.Has(kNoData)) {
    port.slot = MakeSlot(tensor, port);
    return Done{};
  }
  const Place place = entry_ == nullptr ? Place{{}, {}, port.path}
                                        : Place{entry_->name, field_->key, port.path, entry_->whole};
  VN_ASSIGN_OR_RETURN(const TensorMeter::Taken taken,
                      context_.meter.Measure(tensor, context_.store, place, context_.totals));
  const StoredCache::Known& known = taken.known;
  port.sketch = taken.sketch;
  not_finite_ |= known.measured.not_finite;
  port.measured = known.measured;
  port.stored = known.stored;
  if (known.stored != nullptr) field_->stored.push_back(known.stored);
  return Done{};
}

}  // namespace vernier
