// What holds of any of a call's values.
#pragma once

#include <span>

#include "judge/facts.h"

namespace vernier {

struct Look {
  bool half = false, eighth = false, mixed = false, differs = false;
  bool blind = true;                                 // nothing of it is known on both sides
  bool lacks_input = false;                          // something that it was given is not
  bool masked_input = false, masked_output = false;  // with values that hide what else is there
  bool hidden_input = false;                         // and only statistics tell of it
  bool by_statistics = false;                        // and more of what it gives
  bool takes_mask = false;                           // one of them, or of booleans or integers
  bool gives_floats = false;
  bool other_mask = false;         // it was given another mask, by its checksum
  bool other_index = false;        // it was given other integers or booleans, which no rounding explains
  bool only_masks_differ = false;  // of what it gives
  bool local = false;              // only some elements of its output differ
  bool keeps_mean = false;         // its output has the same mean
};
Look LookAt(std::span<const Facts> all);

}  // namespace vernier
