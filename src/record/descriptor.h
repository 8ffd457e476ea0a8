// Writes the descriptors of tensors into the text of an entry.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "record/cuda_meter.h"
#include "record/entry.h"
#include "record/json_indenter.h"
#include "record/tensor_meter.h"

namespace vernier {

using Slots = std::unordered_map<std::int64_t, std::shared_ptr<Slot>>;

// Stands for the tensors of one call, one after the other. Used once, by one thread.
class DescriptorWriter : public JsonIndenter::TensorWriter {
 public:
  DescriptorWriter(TensorMeter& meter, CudaMeter* cuda, TensorFiles* files, SummaryMode mode, Slots& slots,
                   std::span<const std::int64_t> words, RecordTotals& totals)
      : meter_(meter),
        cuda_(cuda),
        files_(files),
        mode_(mode),
        slots_(slots),
        words_(words),
        totals_(totals) {}

  // Where the next descriptors go: `field` gets holes and files. `path` leads from the field to them.
  void Enter(Entry& entry, Field& field, const std::vector<PathPart>& path) {
    entry_ = &entry;
    field_ = &field;
    path_ = &path;
  }

  Result<Done> WriteTensor(std::string_view extras, int depth, std::string& out) override;
  // A descriptor on its own, not deferred, whose file is called by `stem`.
  Result<Done> WriteAlone(std::string_view stem, std::string& out);

  bool not_finite() const { return not_finite_; }

 private:
  struct Texts;
  Result<Done> Write(const TensorWords& tensor, const Texts& texts, const std::string* stem, int depth,
                     std::string& out);
  void AddHole(Hole::Part part, int depth, const std::shared_ptr<Slot>& slot, const std::string& out);
  std::shared_ptr<Slot> MakeSlot(const TensorWords& tensor);
  Result<std::shared_ptr<Slot>> OnDevice(const TensorWords& tensor);
  std::string Stem() const;

  TensorMeter& meter_;
  CudaMeter* cuda_;
  TensorFiles* files_;
  SummaryMode mode_;
  Slots& slots_;
  std::span<const std::int64_t> words_;
  RecordTotals& totals_;
  Entry* entry_ = nullptr;
  Field* field_ = nullptr;
  const std::vector<PathPart>* path_ = nullptr;
  bool not_finite_ = false;
};

}  // namespace vernier
