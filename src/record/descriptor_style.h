// The fixed parts of a descriptor's text. They depend on nothing but how deep it lies, and are most of what
// is written about a small tensor.
#pragma once

#include <array>
#include <string>

namespace vernier {

struct DescriptorStyle {
  std::string open_type;                  // {\n "type":
  std::string dtype, shape;               // ,\n "dtype":
  std::string shape_item, shape_end;      // the line breaks inside and behind a shape
  std::array<std::string, 4> statistics;  // ,\n "Max":
  std::string requires_grad, data_name, md5;
  std::string end;  // the line break before the last bracket
};

// Of a descriptor on a line that is indented by `depth`. Valid until this thread's next call.
const DescriptorStyle& StyleAt(int depth);

}  // namespace vernier
