#include "core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

namespace vernier {
namespace {

// One row per lead byte range of Unicode's table of well-formed sequences: the second byte's limits keep out
// overlong forms, surrogates and what lies beyond U+10FFFF.
struct Utf8Row {
  unsigned char first_low, first_high, second_low, second_high;
  std::size_t length;
};
// clang-format off
constexpr Utf8Row kUtf8Rows[] = {
    {0x00, 0x7f, 0x00, 0x00, 1},
    {0xc2, 0xdf, 0x80, 0xbf, 2},
    {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
    {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};
// clang-format on

unsigned char ByteAt(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

bool IsPlain(char c) { return c >= 0x20 && c < 0x7f; }

// What changes the direction of writing, so that a terminal shows a text in another order than it has.
constexpr std::string_view kDirections[] = {"\u061c", "\u200e", "\u200f", "\u202a", "\u202b", "\u202c",
                                            "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"};
constexpr std::string_view kOtherInvisible[] = {" ",      "\t",     "\r",     "\n",     "\u00a0", "\u200b",
                                                "\u200c", "\u200d", "\u2060", "\u3000", "\ufeff"};

template <class Table>
bool IsOneOf(std::string_view character, const Table& table) {
  return std::find(std::begin(table), std::end(table), character) != std::end(table);
}

// C0, DEL, C1 (which terminals obey too), the line and paragraph separators, and directions.
bool IsControl(std::string_view character) {
  const unsigned char first = ByteAt(character, 0);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  if (character.size() == 2 && first == 0xc2) return ByteAt(character, 1) < 0xa0;
  return character == "\u2028" || character == "\u2029" || IsOneOf(character, kDirections);
}

// Optimal string alignment: insertions, deletions, substitutions, and swaps of neighbours.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      const std::size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + cost});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

template <class MustEscape>
std::string Escaped(std::string_view text, const MustEscape& must_escape) {
  std::string out;
  out.reserve(text.size() + 8);
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    const std::string_view head = text.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0 || must_escape(head)) {
      AppendEscapedBytes(head, out);
    } else {
      out += head;
    }
    text.remove_prefix(head.size());
  }
  return out;
}

}  // namespace

std::size_t Utf8Length(std::string_view text) {
  if (text.empty()) return 0;
  const unsigned char first = ByteAt(text, 0);
  for (const Utf8Row& row : kUtf8Rows) {
    if (first < row.first_low || first > row.first_high) continue;
    if (text.size() < row.length) return 0;
    for (std::size_t i = 1; i < row.length; ++i) {
      const unsigned char low = i == 1 ? row.second_low : 0x80, high = i == 1 ? row.second_high : 0xbf;
      if (ByteAt(text, i) < low || ByteAt(text, i) > high) return 0;
    }
    return row.length;
  }
  return 0;
}

void AppendUtf8(std::uint32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  const int num_tails = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static constexpr unsigned char kLeads[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(kLeads[num_tails] | (code >> (6 * num_tails)));
  for (int i = num_tails - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3F));
}

void AppendEscapedBytes(std::string_view bytes, std::string& out) {
  constexpr std::string_view kLetters = "nrt", kMeanings = "\n\r\t";
  for (const char byte : bytes) {
    if (const std::size_t at = kMeanings.find(byte); at != kMeanings.npos) {
      out.append("\\").append(1, kLetters[at]);
    } else {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(byte));
    }
  }
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  const auto same_letter = [](char x, char y) { return (x | 0x20) == (y | 0x20); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_letter);
}

std::string Printable(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), IsPlain)) return std::string(text);
  return Escaped(text, IsControl);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0;;) {
    const std::size_t end = text.find(separator, start);
    parts.push_back(text.substr(start, end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string Plural(std::uint64_t count, std::string_view word) {
  std::string text = std::to_string(count) + ' ';
  text += word;
  if (count != 1) text += 's';
  return text;
}

std::string ShellWord(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=+,@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + '\'';
}

std::string_view WithoutInvisibleStart(std::string_view text) {
  for (std::size_t length = Utf8Length(text); length != 0; length = Utf8Length(text)) {
    const std::string_view head = text.substr(0, length);
    if (!IsOneOf(head, kOtherInvisible) && !IsOneOf(head, kDirections)) break;
    text.remove_prefix(length);
  }
  return text;
}

std::string ValidUtf8(std::string_view text) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return std::string(text);
  return Escaped(text, [](std::string_view) { return false; });
}

std::string ShortestText(double value) {
  if (std::isnan(value)) return "nan";  // its sign says nothing
  return fmt::format("{}", value);
}

std::string_view DidYouMean(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t kLongestWord = 64;  // longer ones are no slip of the finger
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  if (word.empty() || word.size() > kLongestWord) return best;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = EditDistance(word, candidate.substr(0, kLongestWord));
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

Result<std::size_t> Choose(const std::string& option, std::string_view word,
                           std::span<const std::string_view> choices) {
  const auto found = std::find(choices.begin(), choices.end(), word);
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  const std::string_view guess = DidYouMean(word, choices);
  return Error{ErrorCode::kBadArgument, fmt::format("{} {}", option, word),
               guess.empty() ? fmt::format("choose one of {}", fmt::join(choices, ", "))
                             : fmt::format("did you mean {}?", guess)};
}

}  // namespace vernier
