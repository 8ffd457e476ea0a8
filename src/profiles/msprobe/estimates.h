// What the sketches of two tensors that nobody stored tell of their difference.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "measure/sketch.h"
#include "profiles/msprobe/dump.h"
#include "vernier/result.h"

namespace vernier::msprobe {

// What a row's `sketch` or `values` says; nothing where it has neither. Fails when the text is not what
// docs/formats/msprobe_dump.md says it must be.
Result<std::optional<Sketch>> ReadSketch(const Leaf& leaf);

// Of two rows that stand against each other.
struct Estimate {
  std::optional<SketchEstimate> difference;  // nothing: not both have a sketch, or of other tensors
  std::string problem;                       // why a sketch could not be used; or empty
};
Estimate EstimateFrom(const Leaf& npu, const Leaf& bench);

// For people: no more digits than mean something.
double ShownError(double relative_error);
double ShownCosine(double cosine);

}  // namespace vernier::msprobe
