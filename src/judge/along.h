// How the error runs along the model: its largest in each part, in the order in which the parts run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "judge/culprit.h"

namespace vernier {

// At most `most` parts. By modules where their places are known, else the program in equal pieces, without
// names.
std::vector<std::pair<std::string, double>> ErrorsAlong(const Recordings& recordings, std::size_t most);

}  // namespace vernier
