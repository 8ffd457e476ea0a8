#include "core/json_writer.h"

#include <cmath>

#include "core/python_text.h"
#include "core/text.h"

namespace vernier {
namespace {

void AppendUnit(unsigned unit, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kHex[unit >> shift & 0xF];
}

unsigned Decode(std::string_view sequence) {
  const auto byte = [&](std::size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(sequence[i]));
  };
  unsigned code = byte(0) & (0xFFu >> (sequence.size() + 1));
  for (std::size_t i = 1; i < sequence.size(); ++i) code = code << 6 | (byte(i) & 0x3F);
  return code;
}

// The character that `text` begins with, which is not plain ASCII; gives its length.
std::size_t AppendEscaped(std::string_view text, std::string& out) {
  static constexpr std::string_view kLetters = "\"\\bfnrt", kMeanings = "\"\\\b\f\n\r\t";
  const auto byte = static_cast<unsigned char>(text[0]);
  if (const std::size_t at = kMeanings.find(text[0]); at != std::string_view::npos) {
    out += '\\';
    out += kLetters[at];
    return 1;
  }
  if (byte < 0x80) {
    AppendUnit(byte, out);
    return 1;
  }
  const std::size_t length = Utf8Length(text);
  if (length == 0) {
    AppendUnit(0xDC00u + byte, out);
    return 1;
  }
  const unsigned code = Decode(text.substr(0, length));
  if (code < 0x10000) {
    AppendUnit(code, out);
  } else {
    AppendUnit(0xD800u + ((code - 0x10000) >> 10), out);
    AppendUnit(0xDC00u + ((code - 0x10000) & 0x3FF), out);
  }
  return length;
}

bool IsPlain(char c, JsonText form) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && c != '"' && c != '\\' && (byte < 0x7F || form == JsonText::kUtf8);
}

}  // namespace

void AppendJsonString(std::string_view text, std::string& out, JsonText form) {
  out += '"';
  while (!text.empty()) {
    std::size_t plain = 0;
    while (plain < text.size() && IsPlain(text[plain], form)) ++plain;
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (!text.empty()) text.remove_prefix(AppendEscaped(text, out));
  }
  out += '"';
}

void AppendJsonFloat(double value, std::string& out, JsonFloat form) {
  if (std::isfinite(value)) return AppendPythonFloat(value, out);
  if (form == JsonFloat::kQuotedWords) {
    out += '"';
    AppendPythonFloat(value, out);
    out += '"';
  } else {
    out += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
  }
}

}  // namespace vernier
