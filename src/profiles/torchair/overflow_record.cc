// Overflow records: where an accelerator saw a number leave the range of its type. Two versions of them
// exist.
#include <fmt/format.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/json_writer.h"
#include "format/little_endian.h"
#include "profiles/torchair/convert.h"

namespace vernier::torchair {
namespace {

constexpr std::uint32_t kMagic = 0x5a5a5a5a;

// What a field holds: a number, an address (in hexadecimal), or four numbers.
enum class Field : std::uint8_t { kNumber, kAddress, kFour };
struct FieldRow {
  std::string_view name;
  Field kind = Field::kNumber;
};

constexpr FieldRow kCore[] = {{"model_id"},
                              {"stream_id"},
                              {"task_id"},
                              {"task_type"},
                              {"context_id"},
                              {"thread_id"},
                              {"pc_start", Field::kAddress},
                              {"para_base", Field::kAddress},
                              {"core_id"},
                              {"block_id"},
                              {"status"}};
constexpr FieldRow kCoreOfVersion1[] = {{"model_id"},
                                        {"stream_id"},
                                        {"task_id"},
                                        {"task_type"},
                                        {"context_id"},
                                        {"thread_id"},
                                        {"pc_start", Field::kAddress},
                                        {"para_base", Field::kAddress},
                                        {"core_id"},
                                        {"block_id"},
                                        {"status", Field::kFour}};
constexpr FieldRow kCpu[] = {{"model_id"},   {"stream_id"}, {"task_id"},   {"task_type"},
                             {"context_id"}, {"cpu_id"},    {"thread_id"}, {"status"}};
constexpr FieldRow kCopy[] = {{"model_id"},
                              {"stream_id"},
                              {"task_id"},
                              {"task_type"},
                              {"context_id"},
                              {"thread_id"},
                              {"src_addr", Field::kAddress},
                              {"dst_addr", Field::kAddress},
                              {"channel_id"},
                              {"status"}};
constexpr std::string_view kUnits[] = {"AIC", "AIV", "AICPU", "SDMA"};

// The first version: three blocks of six numbers, then what became of them.
constexpr FieldRow kBlock[] = {{"model_id"},
                               {"stream_id"},
                               {"task_id"},
                               {"task_type"},
                               {"pc_start", Field::kAddress},
                               {"para_base", Field::kAddress}};
constexpr std::string_view kBlocks[] = {"DHA Atomic Add", "L2 Atomic Add", "AI Core"};
constexpr std::size_t kFirstVersionBytes = 8 * (3 * std::size(kBlock) + 5);

// Takes numbers from the front of a record and writes them down as members of an object.
class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool Has(std::size_t num_bytes) const { return num_bytes <= bytes_.size() - at_; }
  template <class T>
  T Take() {
    const T value = LoadLittle<T>(bytes_, at_);
    at_ += sizeof(T);
    return value;
  }
  void TakeField(const FieldRow& field, int depth, std::string& json) {
    Begin(field.name, depth, json);
    if (field.kind == Field::kFour) {
      constexpr int kCount = 4;
      json += '[';
      for (int i = 0; i < kCount; ++i) json += fmt::format("{}{}", i ? ", " : "", Take<std::uint64_t>());
      json += ']';
    } else {
      const auto value = Take<std::uint64_t>();
      json += field.kind == Field::kAddress ? fmt::format("\"{:#x}\"", value) : fmt::format("{}", value);
    }
  }
  static void Begin(std::string_view name, int depth, std::string& json) {
    if (!json.ends_with('{')) json += ',';
    AppendLine(4 * depth, json);
    AppendJsonString(name, json);
    json += ": ";
  }
  static void End(int depth, std::string& json) {
    AppendLine(4 * depth, json);
    json += '}';
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

Result<std::string> FirstVersion(std::span<const std::byte> bytes) {
  if (bytes.size() != kFirstVersionBytes) {
    return Error{ErrorCode::kBadShape, "",
                 fmt::format("{} bytes, an overflow record has {}", bytes.size(), kFirstVersionBytes)};
  }
  RecordReader record(bytes);
  std::string blocks[std::size(kBlocks)];
  for (std::string& block : blocks) {
    block = "{";
    for (const FieldRow& field : kBlock) record.TakeField(field, 2, block);
  }
  for (std::size_t i = 0; i < 2; ++i) record.TakeField({"status"}, 2, blocks[i]);
  for (const FieldRow& field :
       {FieldRow{"kernel_code", Field::kAddress}, FieldRow{"block_idx"}, FieldRow{"status"}})
    record.TakeField(field, 2, blocks[2]);
  std::string json = "{";
  for (std::size_t i = 0; i < std::size(kBlocks); ++i) {
    RecordReader::Begin(kBlocks[i], 1, json);
    json += blocks[i];
    RecordReader::End(1, json);
  }
  RecordReader::End(0, json);
  return json;
}

std::span<const FieldRow> FieldsOf(std::uint32_t unit, std::uint32_t version) {
  switch (unit) {
    case 0:
    case 1:
      return version == 1 ? std::span<const FieldRow>(kCoreOfVersion1) : kCore;
    case 2:
      return kCpu;
    default:
      return kCopy;
  }
}

Result<std::string> LaterVersion(std::span<const std::byte> bytes) {
  RecordReader record(bytes);
  constexpr std::size_t kHeadBytes = 6 * sizeof(std::uint32_t);
  if (!record.Has(kHeadBytes)) return Error{ErrorCode::kTruncated, "", "an overflow record has more bytes"};
  std::string json = "{";
  RecordReader::Begin("magic", 1, json);
  json += fmt::format("\"{:#x}\"", record.Take<std::uint32_t>());
  RecordReader::Begin("version", 1, json);
  const auto version = record.Take<std::uint32_t>();
  json += std::to_string(version);
  RecordReader::Begin("acc_list", 1, json);
  json += '{';
  RecordReader::Begin("valid", 2, json);
  json += std::to_string(record.Take<std::uint32_t>());
  const auto unit = record.Take<std::uint32_t>();
  if (unit >= std::size(kUnits)) return Error{ErrorCode::kUnsupported, "acc_type", std::to_string(unit)};
  RecordReader::Begin("acc_type", 2, json);
  AppendJsonString(kUnits[unit], json);
  for (const char* name : {"rsv", "data_len"}) {
    RecordReader::Begin(name, 2, json);
    json += std::to_string(record.Take<std::uint32_t>());
  }
  RecordReader::Begin("data", 2, json);
  json += '{';
  const std::span<const FieldRow> fields = FieldsOf(unit, version);
  std::size_t num_bytes = 0;
  for (const FieldRow& field : fields)
    num_bytes += sizeof(std::uint64_t) * (field.kind == Field::kFour ? 4 : 1);
  if (!record.Has(num_bytes)) return Error{ErrorCode::kTruncated, "", "an overflow record has more bytes"};
  for (const FieldRow& field : fields) record.TakeField(field, 3, json);
  for (const int depth : {2, 1, 0}) RecordReader::End(depth, json);
  return json;
}

}  // namespace

Result<std::string> OverflowJson(std::span<const std::byte> bytes) {
  const bool is_later = bytes.size() >= sizeof(kMagic) && LoadLittle<std::uint32_t>(bytes, 0) == kMagic;
  return is_later ? LaterVersion(bytes) : FirstVersion(bytes);
}

}  // namespace vernier::torchair
