// Columns that are computed from the tensors themselves.
#pragma once

#include <string>
#include <string_view>

#include "profiles/msprobe/row.h"
#include "vernier/tensor.h"

namespace vernier::msprobe {

// How far the checks of one row got, in the order in which they are made.
enum class RealState : std::uint8_t {
  kNoNpuFile,  // no file is named
  kNoBenchFile,
  kUnmatched,
  kReadFailed,
  kEmpty,
  kShapesDiffer,
  kScalar,  // measured: no dimension
  kTensor,  // measured
};

// Whether two tensors that were read can be measured, and as what. Unit axes must be gone already where the
// profile drops them.
RealState StateOf(const Profile& profile, const TensorView& npu, const TensorView& bench);

// Fills metrics and appends to the message. `measures` belongs to kScalar and kTensor.
void FillRealMetrics(RealState state, const PairMeasures* measures, Dtype npu, Dtype bench, ResultRow& row,
                     std::string& message);

// Classic: "Accuracy Reached or Not".
void FillAccuracy(const Rules& rules, ResultRow& row);

// round(value, decimals) as Python does it: to the nearest decimal text.
double RoundDecimals(double value, int decimals);

}  // namespace vernier::msprobe
