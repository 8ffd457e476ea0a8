// From the text of a dump to its index of rows. Shared inside the stage.
#pragma once

#include "profiles/msprobe/dump.h"

namespace vernier::msprobe {

// Fills a Dump that knows its text. Gives what is wrong with the file as a whole, or null.
const char* ReadDump(Dump& dump, const DumpOptions& options);

}  // namespace vernier::msprobe
