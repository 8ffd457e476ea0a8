// Tensors as the program hands them over -> ports of a record: measured now, or with a slot for their
// numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "record/device_meter.h"
#include "record/entry.h"
#include "record/json_indenter.h"
#include "record/sink.h"
#include "record/tensor_meter.h"

namespace vernier {

using Slots = std::unordered_map<std::int64_t, std::shared_ptr<Slot>>;

// What a PortReader takes from the step folder being written.
struct PortContext {
  TensorMeter& meter;
  DeviceMeter* device;  // null: not used
  Sink* store;          // null: no elements are kept
  Slots& slots;
  RecordTotals& totals;
};

// Stands for the tensors of one call, one after the other. Used once, by one thread.
class PortReader : public JsonIndenter::TensorWriter {
 public:
  PortReader(const PortContext& context, std::span<const std::int64_t> words)
      : context_(context), words_(words) {}

  // Where the next ports go. `path` leads from the field to them.
  void Enter(Entry& entry, Field& field, const std::vector<PathPart>& path) {
    entry_ = &entry;
    field_ = &field;
    path_ = &path;
  }
  Result<Done> WriteTensor(std::string_view extras, int depth, std::string& out) override;
  // A tensor on its own, measured at once. Its elements are called by `stem`.
  Result<Done> ReadAlone(std::string_view stem, Field& field);

  bool not_finite() const { return not_finite_; }

 private:
  Result<Done> Read(const TensorWords& tensor, Port& port);
  Result<Done> ReadOnDevice(const TensorWords& tensor, Port& port);
  std::shared_ptr<Slot> MakeSlot(const TensorWords& tensor, const Port& port);

  PortContext context_;
  std::span<const std::int64_t> words_;
  Entry* entry_ = nullptr;  // null: the tensor is on its own
  Field* field_ = nullptr;
  const std::vector<PathPart>* path_ = nullptr;
  bool not_finite_ = false;
};

}  // namespace vernier
