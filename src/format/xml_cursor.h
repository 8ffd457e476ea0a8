// A pull parser for the XML of spreadsheets. Knows tags, attributes, texts and the predefined entities; a
// document type definition is skipped, never acted upon.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace vernier {

class XmlCursor {
 public:
  enum class Event { kStart, kEnd, kText, kDone };

  explicit XmlCursor(std::string_view text) : text_(text) {}

  // The next thing; kDone at the end, and where the text is malformed. An empty element gives kStart and
  // kEnd.
  Event Next();
  std::string_view name() const { return name_; }        // of kStart and kEnd, without its prefix
  std::string text() const;                              // of kText, entities replaced
  std::string Attribute(std::string_view wanted) const;  // of kStart; without prefix; empty when missing

 private:
  Event ReadTag();

  std::string_view text_;
  std::size_t at_ = 0;
  std::string_view name_, attributes_, raw_text_;
  bool end_pending_ = false, is_plain_text_ = false;
};

}  // namespace vernier
