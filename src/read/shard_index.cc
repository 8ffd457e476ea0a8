#include "read/shard_index_internal.h"

#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "core/mapped_file.h"
#include "format/entry.h"
#include "format/little_endian.h"

namespace vernier {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::string_view kWeightMap = "weight_map";
constexpr std::size_t kMaxIndexBytes = 100'000'000;
constexpr std::size_t kSniffedBytes = std::size_t{64} << 10;

Result<std::vector<ShardedTensor>> ReadWeightMap(ondemand::object map) {
  const auto bad = [](simdjson::error_code error) {
    return Error{ErrorCode::kBadHeader, "weight_map", simdjson::error_message(error)};
  };
  std::vector<ShardedTensor> tensors;
  std::unordered_set<std::string> names;
  for (auto field : map) {
    std::string_view name, shard;
    if (const auto error = field.unescaped_key().get(name)) return bad(error);
    const auto [kept, is_new] = names.emplace(name);
    if (!is_new) return Error{ErrorCode::kBadHeader, "weight_map", "'" + *kept + "' twice"};
    if (const auto error = field.value().get_string().get(shard)) return bad(error);
    tensors.push_back({*kept, std::string(shard)});
  }
  return tensors;
}

Result<std::vector<ShardedTensor>> Parse(std::string_view text) {
  const simdjson::padded_string padded(text);
  ondemand::parser parser;
  ondemand::document document;
  if (const auto error = parser.iterate(padded).get(document)) {
    return Error{ErrorCode::kBadHeader, "", simdjson::error_message(error)};
  }
  ondemand::object map;
  const auto error = document.find_field_unordered(kWeightMap).get_object().get(map);
  if (error == simdjson::NO_SUCH_FIELD || error == simdjson::INCORRECT_TYPE) {
    return Error{ErrorCode::kNotADump, "", "JSON without a weight_map"};
  }
  if (error) return Error{ErrorCode::kBadHeader, "", simdjson::error_message(error)};
  return ReadWeightMap(map);
}

}  // namespace

bool IsShardIndexName(std::string_view file_name) { return file_name.ends_with(".index.json"); }

bool LooksLikeShardIndex(std::span<const std::byte> bytes) {
  const std::string_view text = AsText(bytes.first(std::min(bytes.size(), kSniffedBytes)));
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  return start != text.npos && text[start] == '{' && text.find("\"weight_map\"") != text.npos;
}

Result<std::vector<ShardedTensor>> ParseShardIndex(const FileRef& file) {
  if (file->bytes().size() > kMaxIndexBytes)
    return Error{ErrorCode::kTooLarge, file->path(), "an index over 100 MB"};
  return Inside(file->path(), Parse(AsText(file->bytes())));
}

Result<Done> CheckShardPath(std::string_view shard) {
  const std::filesystem::path path(shard);
  const bool leaves = path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
  const bool has_zero = shard.find('\0') != shard.npos;
  if (!shard.empty() && !leaves && !has_zero) return Done{};
  return Error{ErrorCode::kBadHeader, "weight_map",
               "'" + std::string(shard.substr(0, 200)) + "' is not a file in the folder of the index"};
}

}  // namespace vernier
