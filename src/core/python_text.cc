#include "core/python_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/text.h"

namespace vernier {
namespace {

// Python's repr shows an exponent below the first and from the second on.
constexpr double kSmallestFixed = 1e-4, kSmallestScientific = 1e16;

bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void AppendPythonFloat(double value, std::string& out) {
  if (std::isnan(value)) {
    out += "nan";
    return;
  }
  if (std::signbit(value)) out += '-';
  if (std::isinf(value)) {
    out += "inf";
    return;
  }
  const double magnitude = std::fabs(value);
  const bool fixed = (magnitude >= kSmallestFixed && magnitude < kSmallestScientific) || magnitude == 0;
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, magnitude,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  out += text;
  if (fixed && text.find('.') == std::string_view::npos) out += ".0";
}

std::string PythonFloat(double value) {
  std::string text;
  AppendPythonFloat(value, text);
  return text;
}

void AppendPythonQuoted(std::string_view text, std::string& out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out += quote;
  const auto is_plain = [&](char c) {
    return c != quote && c != '\\' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7F;
  };
  if (std::all_of(text.begin(), text.end(), is_plain)) {  // nearly always
    out.append(text) += quote;
    return;
  }
  for (const char c : text) {
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      AppendEscapedBytes({&c, 1}, out);
    } else {
      out += c;
    }
  }
  out += quote;
}

std::optional<double> ParsePythonFloat(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  bool negative = false;
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  const double sign = negative ? -1.0 : 1.0;
  if (EqualsIgnoringCase(text, "inf") || EqualsIgnoringCase(text, "infinity")) return sign * HUGE_VAL;
  if (EqualsIgnoringCase(text, "nan")) return std::nan("");
  if (text.empty() || !(IsDigit(text.front()) || text.front() == '.')) return std::nullopt;
  std::string without_underscores;
  if (text.find('_') != std::string_view::npos) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '_') {
        without_underscores += text[i];
      } else if (i == 0 || i + 1 == text.size() || !IsDigit(text[i - 1]) || !IsDigit(text[i + 1])) {
        return std::nullopt;
      }
    }
    text = without_underscores;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    // from_chars leaves the value alone; Python gives 0 or infinity, told apart by the sign of the exponent.
    const std::size_t exponent = text.find_first_of("eE");
    const bool tiny = exponent != std::string_view::npos
                          ? text.substr(exponent).find('-') != std::string_view::npos
                          : text.front() == '0' || text.front() == '.';
    value = tiny ? 0.0 : HUGE_VAL;
  } else if (error != std::errc()) {
    return std::nullopt;
  }
  return sign * value;
}

std::string RepairUtf8(std::string_view text) {
  std::size_t bad = 0;
  for (std::uint64_t word; bad + sizeof word <= text.size(); bad += sizeof word) {
    std::memcpy(&word, text.data() + bad, sizeof word);
    if ((word & 0x8080808080808080) != 0) break;
  }
  while (bad < text.size()) {
    const std::size_t length = Utf8Length(text.substr(bad));
    if (length == 0) break;
    bad += length;
  }
  return bad == text.size() ? std::string() : ValidUtf8(text);
}

}  // namespace vernier
