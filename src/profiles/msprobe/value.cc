#include "profiles/msprobe/value.h"

#include <cmath>

#include <fmt/format.h>

#include "core/python_text.h"

namespace vernier::msprobe {

void AppendText(const Value& value, std::string& out) {
  switch (value.kind) {
    case Value::Kind::kText:
    case Value::Kind::kInt:
      out += value.text;
      break;
    case Value::Kind::kFloat:
      AppendPythonFloat(value.number, out);
      break;
    case Value::Kind::kBool:
      out += value.number != 0 ? "True" : "False";
      break;
  }
}

void AppendJsonNumber(double number, bool python, std::string& out) {
  if (std::isfinite(number)) return AppendPythonFloat(number, out);
  const std::string_view python_word = std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  out += python ? std::string(python_word) : '"' + PythonFloat(number) + '"';
}

void AppendJsonText(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void AppendJsonValue(const Value& value, bool python, std::string& out) {
  switch (value.kind) {
    case Value::Kind::kText:
      AppendJsonText(value.text, out);
      break;
    case Value::Kind::kInt:
      out += value.text;
      break;
    case Value::Kind::kFloat:
      AppendJsonNumber(value.number, python, out);
      break;
    case Value::Kind::kBool:
      out += value.number != 0 ? "true" : "false";
      break;
  }
}

}  // namespace vernier::msprobe
