// Which calls of one recording make NaN or infinities of what they were given, and where such values come in.
#pragma once

#include <string>

#include "judge/rules.h"
#include "profiles/msprobe/trace.h"
#include "vernier/compare.h"

namespace vernier::msprobe {

// What a call makes of its inputs, by their largest and smallest values.
struct Special {
  enum Kind : std::uint8_t { kNothing, kInfinity, kNan } made = kNothing;
  bool from_infinity = false;  // something that went in was infinite
};
// An operator that is asked for an infinity, as masked_fill is, makes none.
Special SpecialOf(const Dump& dump, const Call& call, std::uint32_t record);
std::string SpecialText(const Special& special);  // "makes NaN from finite inputs"

// inspect --nan: those calls, in the order in which they ran; among them the first that is given NaN which no
// call made, or a parameter that is infinite. What a backward call makes of such values of its forward call
// is inherited.
Result<Listing> HuntNan(const std::string& path);

}  // namespace vernier::msprobe
