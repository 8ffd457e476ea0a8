// How like each other two recorded tensors are, by what was recorded of them.
#pragma once

#include <cstddef>
#include <vector>

#include "judge/facts.h"

namespace vernier::msprobe {

inline constexpr double kSurely = 1e-3;  // so little unlike is the same tensor, rounded otherwise
inline constexpr double kMaybe = 0.2;    // so little, in coarse noise

bool HasStatistics(const Value& a, const Value& b);  // on both sides
// By their statistics; infinite: not the same tensor, whatever went wrong.
double Unlikeness(const Value& a, const Value& b);
// How many of a call's inputs are among another's, by no more than that.
std::size_t NumAlike(const std::vector<Value>& ours, const std::vector<Value>& theirs, double most);

}  // namespace vernier::msprobe
