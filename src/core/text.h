// Text as people and other programs get to see it.
#pragma once

#include <string>
#include <string_view>

namespace vernier {

// One line, valid UTF-8: control characters and broken sequences become \n, \x1b, \xff.
std::string Printable(std::string_view text);
// The shortest decimal text that reads back as the same double; "nan", "inf", "-inf".
std::string ShortestText(double value);
// The candidate closest to `word` by edit distance, or empty when none is close.
std::string_view DidYouMean(std::string_view word, const std::string_view* candidates, std::size_t num_candidates);

}  // namespace vernier
