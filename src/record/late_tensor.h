// Tensors that are completed on the writer's threads: in memory that the program has lent, or equal to one of
// these.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "record/entry.h"
#include "record/sink.h"
#include "record/tensor_meter.h"
#include "record/writer.h"

namespace vernier {

// Measured and stored from where it lies.
struct LateTensor {
  std::vector<std::int64_t> words;  // that `tensor` refers to
  TensorWords tensor;
  StagingPool::Buffer memory;
  std::shared_ptr<Slot> slot;
  Sink* store = nullptr;  // null: only measured
  Place place;

  // Whether it can be written from where it lies.
  static bool IsInOrder(const TensorWords& tensor);
  // Fills the slot. `meter` and what `tensor` refers to outlive the jobs.
  static Writer::Undecided Jobs(std::shared_ptr<LateTensor> tensor, const TensorMeter& meter);
};

// One whose elements are those of an earlier one, which was handed over already.
struct SameTensor {
  std::shared_ptr<Slot> slot, first;
  Sink* store = nullptr;  // null: only the numbers
  Place place;

  static Writer::Undecided Jobs(SameTensor same);
};

}  // namespace vernier
