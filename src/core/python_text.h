// Text as Python writes it: what tables and recordings of other tools are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vernier {

// repr(float): the shortest digits that read back the same, "1.0", "1e-12", "inf", "nan".
void AppendPythonFloat(double value, std::string& out);
std::string PythonFloat(double value);
// repr(str): single quotes, unless the text has one and no double quote.
void AppendPythonQuoted(std::string_view text, std::string& out);
// float(text), with Python's blanks, underscores, "inf" and "nan"; nothing when Python would refuse it.
std::optional<double> ParsePythonFloat(std::string_view text);
// Bytes that are no UTF-8 become \xNN, so that every writer gets valid text. Empty result: the text is fine
// as it is.
std::string RepairUtf8(std::string_view text);

}  // namespace vernier
