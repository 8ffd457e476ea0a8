// One recorded call, from the dump.json of an operator recording to the plain data of a Python file. What a
// recording says is somebody else's claim: names, numbers and texts reach the Python file as literals and
// nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/result.h"

namespace vernier::xray_ops {

struct CallText {
  std::int64_t id = 0;
  std::string op;                  // namespace.name.overload; letters, digits, '_' and '.' only
  std::string literal;             // {"id": 4, "op": …}: a Python expression, over several lines when long
  std::vector<std::string> files;  // that it names, relative to the folder of dump.json
};

// `record` is one element of "ops". `with_files`: tensors name the files that hold them. An error names the
// member: "args.0.dtype".
Result<CallText> ReadCall(std::string_view record, bool with_files);

}  // namespace vernier::xray_ops
