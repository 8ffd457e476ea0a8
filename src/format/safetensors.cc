#include "format/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/atomic_file.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "format/little_endian.h"

namespace vernier {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::string_view kMetadataKey = "__metadata__";

struct DtypeName {
  std::string_view name;
  Dtype dtype;
};

// clang-format off
constexpr DtypeName kDtypeNames[] = {
    {"F64", Dtype::kF64}, {"F32", Dtype::kF32}, {"F16", Dtype::kF16}, {"BF16", Dtype::kBF16},
    {"F8_E4M3", Dtype::kF8E4M3FN}, {"F8_E5M2", Dtype::kF8E5M2},
    {"F8_E4M3FNUZ", Dtype::kF8E4M3FNUZ}, {"F8_E5M2FNUZ", Dtype::kF8E5M2FNUZ},
    {"I64", Dtype::kI64}, {"I32", Dtype::kI32}, {"I16", Dtype::kI16}, {"I8", Dtype::kI8},
    {"U64", Dtype::kU64}, {"U32", Dtype::kU32}, {"U16", Dtype::kU16}, {"U8", Dtype::kU8},
    {"BOOL", Dtype::kBool}, {"C64", Dtype::kC64},
};
// clang-format on

// The row that has `value` in a column; null when there is none.
template <class T>
const DtypeName* Find(T DtypeName::*column, T value) {
  const auto* row = std::find_if(std::begin(kDtypeNames), std::end(kDtypeNames),
                                 [&](const DtypeName& r) { return r.*column == value; });
  return row == std::end(kDtypeNames) ? nullptr : row;
}

// One tensor as the header has it, nothing checked but the types.
struct RawEntry {
  std::optional<std::string> dtype;
  std::optional<Shape> shape;
  std::optional<std::vector<std::uint64_t>> data_offsets;
};

Error BadHeader(std::string detail) {
  return Error{ErrorCode::kBadHeader, "safetensors header", std::move(detail)};
}

template <class T>
simdjson::error_code ReadArray(ondemand::value json, std::optional<std::vector<T>>& values) {
  if (values) return simdjson::TAPE_ERROR;  // the field twice
  values.emplace();
  ondemand::array array;
  if (const auto error = json.get_array().get(array)) return error;
  for (auto item : array) {
    T value{};
    if (const auto error = item.get(value)) return error;
    values->push_back(value);
  }
  return simdjson::SUCCESS;
}

simdjson::error_code ReadText(ondemand::value json, std::optional<std::string>& text) {
  if (text) return simdjson::TAPE_ERROR;
  std::string_view view;
  if (const auto error = json.get_string().get(view)) return error;
  text.emplace(view);
  return simdjson::SUCCESS;
}

simdjson::error_code ReadRaw(ondemand::value json, RawEntry& raw) {
  ondemand::object object;
  if (const auto error = json.get_object().get(object)) return error;
  for (auto field : object) {
    std::string_view key;
    if (const auto error = field.unescaped_key().get(key)) return error;
    ondemand::value value;
    if (const auto error = field.value().get(value)) return error;
    auto error = simdjson::SUCCESS;
    if (key == "dtype") error = ReadText(value, raw.dtype);
    if (key == "shape") error = ReadArray(value, raw.shape);
    if (key == "data_offsets") error = ReadArray(value, raw.data_offsets);
    if (error) return error;
  }
  return simdjson::SUCCESS;
}

// What is wrong with one tensor, or nothing.
Result<Done> Check(const RawEntry& raw, std::uint64_t data_begin, std::uint64_t file_bytes,
                   TensorEntry& entry) {
  if (!raw.dtype || !raw.shape || !raw.data_offsets || raw.data_offsets->size() != 2) {
    return BadHeader("dtype, shape and two data_offsets are needed");
  }
  const DtypeName* const row = Find(&DtypeName::name, std::string_view(*raw.dtype));
  if (!row) {
    return Error{ErrorCode::kUnsupported, "", "dtype '" + raw.dtype->substr(0, 40) + "'"};
  }
  entry.info.dtype = row->dtype;
  entry.info.shape = *raw.shape;
  VN_ASSIGN_OR_RETURN(entry.info.num_elements, NumElements(entry.info.shape, entry.info.dtype));
  const std::uint64_t begin = (*raw.data_offsets)[0], end = (*raw.data_offsets)[1];
  if (begin > end || end - begin != entry.info.num_bytes()) {
    return Error{ErrorCode::kBadShape, "",
                 "data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) + "], but " +
                     ShapeText(entry.info.shape) + " of " + *raw.dtype + " has " +
                     std::to_string(entry.info.num_bytes()) + " bytes"};
  }
  if (end > file_bytes - data_begin) {
    return Error{ErrorCode::kTruncated, "",
                 "its data ends at byte " + std::to_string(end) + " of the data, only " +
                     std::to_string(file_bytes - data_begin) + " are there"};
  }
  entry.source.offset_bytes = data_begin + begin;
  return Done{};
}

// The format forbids that two tensors share bytes: an altered header could make one stand for another.
void DamageOverlaps(const FileRef& file, Entries& entries) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].info.damage && entries[i].info.num_elements > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return entries[a].source.offset_bytes < entries[b].source.offset_bytes;
  });
  std::uint64_t end = 0;
  std::size_t last = 0;
  for (const std::size_t i : order) {
    const TensorEntry& entry = entries[i];
    if (entry.source.offset_bytes < end) {
      entries[i].info.damage = Error{ErrorCode::kBadHeader, file->path() + ": " + entry.info.name,
                                     "its data overlaps that of " + entries[last].info.name};
      continue;
    }
    end = entry.source.offset_bytes + entry.info.num_bytes();
    last = i;
  }
}

Result<Entries> ReadHeader(const FileRef& file, std::string_view text) {
  const std::uint64_t data_begin = kLengthBytes + text.size();
  // A copy, because the parser reads some bytes past the end and must not see the file change under it.
  const simdjson::padded_string padded(text);
  ondemand::parser parser;
  ondemand::document document;
  ondemand::object object;
  if (const auto error = parser.iterate(padded).get(document))
    return BadHeader(simdjson::error_message(error));
  if (const auto error = document.get_object().get(object)) return BadHeader(simdjson::error_message(error));
  Entries entries;
  std::unordered_set<std::string> names;
  for (auto field : object) {
    std::string_view key;
    if (const auto error = field.unescaped_key().get(key)) return BadHeader(simdjson::error_message(error));
    const auto [name, is_new] = names.emplace(key);
    if (!is_new) return BadHeader("'" + *name + "' twice");
    ondemand::value value;
    if (const auto error = field.value().get(value)) return BadHeader(simdjson::error_message(error));
    if (*name == kMetadataKey) continue;
    RawEntry raw;
    if (const auto error = ReadRaw(value, raw))
      return BadHeader(*name + ": " + simdjson::error_message(error));
    TensorEntry entry;
    entry.info.name = *name;
    if (auto good = Check(raw, data_begin, file->bytes().size(), entry); !good) {
      entry.info.damage = In(file->path() + ": " + *name, std::move(good).error());
    }
    entries.push_back(std::move(entry));
  }
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
    return BadHeader("text after the object");
  DamageOverlaps(file, entries);
  return entries;
}

Result<std::string_view> HeaderText(const FileRef& file) {
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() < kLengthBytes) return Error{ErrorCode::kTruncated, "safetensors header", "no length"};
  const auto length = LoadLittle<std::uint64_t>(bytes, 0);
  if (length > kMaxHeaderBytes) {
    return Error{ErrorCode::kTooLarge, "safetensors header", std::to_string(length) + " bytes long"};
  }
  if (length > bytes.size() - kLengthBytes) {
    return Error{ErrorCode::kTruncated, "safetensors header",
                 std::to_string(length) + " bytes long, only " + std::to_string(bytes.size() - kLengthBytes) +
                     " are there"};
  }
  return AsText(bytes.subspan(kLengthBytes, length));
}

void AppendJsonString(std::string_view text, std::string& out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += std::string("\\u00") + kHex[c / 16] + kHex[c % 16];
    } else {
      out += c;
    }
  }
  out += '"';
}

Result<Done> CheckWritable(std::span<const NamedTensor> tensors) {
  std::unordered_set<std::string_view> names;
  for (const NamedTensor& named : tensors) {
    if (!Find(&DtypeName::dtype, named.tensor.dtype)) {
      return Error{ErrorCode::kUnsupported, named.name,
                   std::string(Name(named.tensor.dtype)) + " in .safetensors; write .pt"};
    }
    if (named.name == kMetadataKey || !simdjson::validate_utf8(named.name)) {
      return Error{ErrorCode::kBadArgument, named.name, "cannot be the name of a tensor in .safetensors"};
    }
    if (!names.insert(named.name).second) {
      return Error{ErrorCode::kBadArgument, named.name, "two tensors have this name"};
    }
  }
  return Done{};
}

// The positions of `tensors`, those with the largest items first.
std::vector<std::size_t> DataOrder(std::span<const NamedTensor> tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return ItemBytes(tensors[a].tensor.dtype) > ItemBytes(tensors[b].tensor.dtype);
  });
  return order;
}

std::string BuildHeader(std::span<const NamedTensor> tensors, const std::vector<std::size_t>& order) {
  std::vector<std::uint64_t> begins(tensors.size());
  std::uint64_t position = 0;
  for (const std::size_t i : order) {
    begins[i] = position;
    position += tensors[i].tensor.num_bytes();
  }
  // Loaders of checkpoints ask which framework wrote the file; the layout of every framework is the same.
  std::string text = R"({"__metadata__":{"format":"pt"})";
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& tensor = tensors[i].tensor;
    text += ',';
    AppendJsonString(tensors[i].name, text);
    text += R"(:{"dtype":")" + std::string(Find(&DtypeName::dtype, tensor.dtype)->name) + R"(","shape":)" +
            ShapeText(tensor.shape) + R"(,"data_offsets":[)" + std::to_string(begins[i]) + "," +
            std::to_string(begins[i] + tensor.num_bytes()) + "]}";
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace

bool LooksLikeSafetensors(std::span<const std::byte> bytes) {
  if (bytes.size() <= kLengthBytes || bytes[kLengthBytes] != std::byte{'{'}) return false;
  return LoadLittle<std::uint64_t>(bytes, 0) <= kMaxHeaderBytes;
}

Result<Entries> ListSafetensors(const FileRef& file) {
  VN_ASSIGN_OR_RETURN(const std::string_view text, Inside(file->path(), HeaderText(file)));
  return Inside(file->path(), ReadHeader(file, text));
}

Result<Done> WriteSafetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors) {
  VN_RETURN_IF_ERROR(Inside(path.string(), CheckWritable(tensors)));
  const std::vector<std::size_t> order = DataOrder(tensors);
  const std::string header = BuildHeader(tensors, order);
  if (header.size() > kMaxHeaderBytes) {
    return Error{ErrorCode::kTooLarge, path.string(),
                 "the header has " + std::to_string(header.size()) + " bytes"};
  }
  std::string length;
  AppendLittle(length, static_cast<std::uint64_t>(header.size()));
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  VN_RETURN_IF_ERROR(file.Write(length));
  VN_RETURN_IF_ERROR(file.Write(header));
  for (const std::size_t i : order) VN_RETURN_IF_ERROR(file.Write(tensors[i].tensor.bytes()));
  return file.Commit();
}

}  // namespace vernier
