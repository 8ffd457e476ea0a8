// The pieces that JSON is written from, each appended to a text. Shapes of documents belong to whoever writes
// one: see record/document.h and the writers of report/.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

namespace vernier {

enum class JsonText {
  kAscii,  // as Python's json.dumps: é is \u00e9, and a byte that is no UTF-8 what Python reads back as it
  kUtf8,   // characters beyond ASCII stay as they are; make broken ones valid first (core/text.h)
};
enum class JsonFloat {
  kBareWords,    // NaN, Infinity, -Infinity, as Python writes and reads them
  kQuotedWords,  // "nan", "inf", "-inf": strict JSON has no number for these
};

// A text in quotes.
void AppendJsonString(std::string_view text, std::string& out, JsonText form = JsonText::kAscii);
// The shortest digits that read back the same: "1.0", "1e-05".
void AppendJsonFloat(double value, std::string& out, JsonFloat form = JsonFloat::kBareWords);

template <std::integral T>
void AppendInteger(T value, std::string& out) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

inline void AppendJsonBool(bool value, std::string& out) { out += value ? "true" : "false"; }

// A new line, indented by `depth` blanks: json.dumps with indent=1.
inline void AppendLine(int depth, std::string& out) {
  out += '\n';
  out.append(static_cast<std::size_t>(depth), ' ');
}

}  // namespace vernier
