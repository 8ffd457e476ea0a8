// Text as people and other programs get to see it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace vernier {

// One line, valid UTF-8: control characters and broken sequences become \n, \x1b, \xff.
std::string Printable(std::string_view text);
// Valid UTF-8 and nothing else changed: only broken sequences become \xff.
std::string ValidUtf8(std::string_view text);
// Length in bytes of the well-formed UTF-8 character that `text` begins with; 0 when it begins with none.
std::size_t Utf8Length(std::string_view text);
// The shortest decimal text that reads back as the same double; "nan", "inf", "-inf".
std::string ShortestText(double value);
// What Python's repr() gives: ShortestText with ".0" behind whole numbers ("1.0", "1e-12", "inf", "nan").
std::string PythonRepr(double value);
void AppendPythonRepr(std::string& out, double value);
// The candidate closest to `word` by edit distance (a swap of neighbours counts once), or empty when none is
// close.
std::string_view DidYouMean(std::string_view word, const std::string_view* candidates,
                            std::size_t num_candidates);

}  // namespace vernier
