// Text as people and other programs get to see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/result.h"

namespace vernier {

// One line, valid UTF-8: control characters and broken sequences become \n, \x1b, \xff.
std::string Printable(std::string_view text);
// Valid UTF-8 and nothing else changed: only broken sequences become \xff.
std::string ValidUtf8(std::string_view text);
// Length in bytes of the well-formed UTF-8 character that `text` begins with; 0 when it begins with none.
std::size_t Utf8Length(std::string_view text);
// Appends the UTF-8 of a character.
void AppendUtf8(std::uint32_t code, std::string& out);
// \n, \r and \t by their letters, other bytes as \x1b.
void AppendEscapedBytes(std::string_view bytes, std::string& out);
// Behind blanks and characters that take no room or turn the direction of writing.
std::string_view WithoutInvisibleStart(std::string_view text);
// What stands between the separators: one part more than there are of them.
std::vector<std::string_view> Split(std::string_view text, char separator);
// "1 row", "3 rows".
std::string Plural(std::uint64_t count, std::string_view word);
bool IsDigits(std::string_view text);  // and at least one
// One word of a command line that can be pasted into a shell.
std::string ShellWord(std::string_view text);
// Compares two texts, taking ASCII letters of either case for the same.
bool EqualsIgnoringCase(std::string_view a, std::string_view b);
// The shortest decimal text that reads back as the same double; "nan", "inf", "-inf".
std::string ShortestText(double value);
// The candidate closest to `word` by edit distance (a swap of neighbours counts once), or empty when none is
// close.
std::string_view DidYouMean(std::string_view word, std::span<const std::string_view> candidates);
// The position of `word` among `choices`, or an error about `option` that guesses or names them.
Result<std::size_t> Choose(const std::string& option, std::string_view word,
                           std::span<const std::string_view> choices);

}  // namespace vernier
