// XML of strangers: whatever it is, reading it ends.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "format/xml_cursor.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using vernier::XmlCursor;
  XmlCursor cursor({reinterpret_cast<const char*>(data), size});
  std::size_t num_events = 0;
  for (auto event = cursor.Next(); event != XmlCursor::Event::kDone; event = cursor.Next()) {
    if (event == XmlCursor::Event::kStart) num_events += cursor.Attribute("r").size();
    if (event == XmlCursor::Event::kText) num_events += cursor.text().size();
    if (++num_events > 100 * size + 100) __builtin_trap();  // must come to an end
  }
  return 0;
}
