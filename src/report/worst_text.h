// Single elements of a pair, for a person.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "vernier/measure.h"

namespace vernier {

// "91 % of the squared error lies in column 126 of axis 2"
std::string ConcentrationText(const Concentration& concentration, const Shape& shape);

struct ShownPair {
  std::string_view name;
  std::string dtype;  // of both sides where they differ
  const Shape& shape;
};
// A heading, a line for each element and where the error lies; at most `width` columns.
std::string WorstText(const ShownPair& pair, const ElementDifferences& differences, std::size_t width);

// Two numbers in as few digits as tell them apart, at least four.
std::pair<std::string, std::string> ApartTexts(double got, double want);

}  // namespace vernier
