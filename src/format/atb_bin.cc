#include "format/atb_bin.h"

#include <charconv>
#include <iterator>
#include <optional>
#include <string_view>

#include "core/mapped_file.h"
#include "format/little_endian.h"

namespace vernier {
namespace {

constexpr std::string_view kStart = "$Version=";

// The numbers of the runtime's own types, which are not those of GE dumps.
struct TypeRow {
  std::int64_t number;
  Dtype dtype;
};
constexpr TypeRow kTypes[] = {{0, Dtype::kF32}, {1, Dtype::kF16},   {2, Dtype::kI8},   {3, Dtype::kI32},
                              {9, Dtype::kI64}, {12, Dtype::kBool}, {27, Dtype::kBF16}};

Error Bad(std::string where, std::string detail) {
  return Error{ErrorCode::kBadHeader, std::move(where), std::move(detail)};
}

std::optional<std::int64_t> IntegerOf(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  if (text.empty() || problem != std::errc() || stop != end) return std::nullopt;
  return value;
}

Result<Shape> ParseDims(std::string_view text) {
  Shape shape;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    const auto dimension = IntegerOf(text.substr(start, comma - start));
    if (!dimension || *dimension < 0) return Bad("dims", "expected numbers ≥ 0");
    shape.push_back(*dimension);
    start = comma + 1;
  }
  return shape;
}

struct Header {
  std::int64_t type = 0;
  Shape shape;
  std::size_t data_offset_bytes = 0;
};

Result<Header> ParseHeader(std::string_view text) {
  Header header;
  for (std::size_t at = 0;;) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return Error{ErrorCode::kTruncated, "header", "no line $End=…"};
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || line.find('=', equals + 1) != std::string_view::npos)
      return Bad("header", "a line is not key=value");
    const std::string_view key = line.substr(0, equals), value = line.substr(equals + 1);
    if (key == "$End") {
      header.data_offset_bytes = at;
      return header;
    }
    if (key == "data") return Error{ErrorCode::kUnsupported, "data", "the tensor lies in another file"};
    if (key == "dims") {
      VN_ASSIGN_OR_RETURN(header.shape, ParseDims(value));
    } else if (key == "dtype" || key == "format") {
      const auto number = IntegerOf(value);
      if (!number) return Bad(std::string(key), "expected a number");
      if (key == "dtype") header.type = *number;
    }
  }
}

Result<TensorEntry> EntryOf(const FileRef& file) {
  VN_ASSIGN_OR_RETURN(const Header header, ParseHeader(AsText(file->bytes())));
  for (const TypeRow& row : kTypes) {
    if (row.number != header.type) continue;
    TensorEntry entry;
    entry.info.dtype = row.dtype;
    entry.info.shape = header.shape;
    VN_ASSIGN_OR_RETURN(entry.info.num_elements, NumElements(header.shape, row.dtype));
    entry.source.offset_bytes = header.data_offset_bytes;
    if (entry.info.num_bytes() != file->bytes().size() - header.data_offset_bytes) {
      return Error{ErrorCode::kBadShape, "dims",
                   ShapeText(header.shape) + " of " + std::string(Name(row.dtype)) + " for " +
                       std::to_string(file->bytes().size() - header.data_offset_bytes) + " bytes"};
    }
    return entry;
  }
  return Error{ErrorCode::kUnsupported, "dtype", std::to_string(header.type)};
}

}  // namespace

bool LooksLikeAtbBin(std::span<const std::byte> bytes) { return AsText(bytes).starts_with(kStart); }

Result<Entries> ListAtbBin(const FileRef& file) {
  VN_ASSIGN_OR_RETURN(TensorEntry entry, Inside(file->path(), EntryOf(file)));
  Entries entries;
  entries.push_back(std::move(entry));
  return entries;
}

}  // namespace vernier
