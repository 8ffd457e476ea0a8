#include "record/entry.h"

#include <algorithm>

#include "core/json_cursor.h"
#include "core/json_writer.h"
#include "record/descriptor_style.h"

namespace vernier {
namespace {

constexpr int kEntryDepth = 2;

void AppendHex(std::uint64_t value, int num_digits, std::string& out) {
  static constexpr char kDigits[] = "0123456789abcdef";
  while (num_digits-- > 0) out += kDigits[value >> (4 * num_digits) & 0xF];
}

void AppendDigest(const Measured& measured, SummaryMode mode, int depth, std::string& out) {
  out += StyleAt(depth).md5;
  if (!measured.has_digest) {
    out += "null";
    return;
  }
  out += mode == SummaryMode::kXor ? "\"0x" : "\"";
  AppendHex(measured.digest, mode == SummaryMode::kXor ? 16 : 8, out);
  out += '"';
}

void AppendField(const Field& field, SummaryMode mode, std::string& out) {
  std::size_t at = 0;
  for (const Hole& hole : field.holes) {
    out.append(field.text, at, hole.offset - at);
    at = hole.offset;
    const Slot& slot = *hole.slot;
    const Measured measured = slot.has_numbers ? slot.measured : NothingMeasured();
    if (hole.part == Hole::kSummary) {
      AppendSummary(measured, mode, hole.depth, out);
    } else {
      AppendTail(measured, slot.file, mode, hole.depth, out);
    }
  }
  out.append(field.text, at);
}

struct Category {
  std::string_view field, name;
};
constexpr Category kCategories[] = {{"input_args", "input"}, {"input_kwargs", "kwargs"}};

// "Module.conv.Conv2d.parameters_grad.0": its fields are parameters.
bool HoldsGradients(std::string_view name) {
  const std::size_t last = name.rfind('.');
  return last != std::string_view::npos && name.substr(0, last).ends_with(".parameters_grad");
}

}  // namespace

void AppendSummary(const Measured& measured, SummaryMode mode, int depth, std::string& out) {
  if (mode == SummaryMode::kXor) return AppendDigest(measured, mode, depth, out);
  const DescriptorStyle& style = StyleAt(depth);
  for (std::size_t i = 0; i < style.statistics.size(); ++i) {
    out += style.statistics[i];
    out += measured.statistics[i].view();
  }
}

void AppendTail(const Measured& measured, const StoredFile* file, SummaryMode mode, int depth,
                std::string& out) {
  if (file != nullptr) {
    out += StyleAt(depth).data_name;
    AppendJsonString(file->name, out);
  }
  if (mode == SummaryMode::kMd5) AppendDigest(measured, mode, depth, out);
}

bool IsComplete(const Entry& entry) {
  return std::all_of(entry.fields.begin(), entry.fields.end(), [](const Field& field) {
    return std::all_of(field.holes.begin(), field.holes.end(),
                       [](const Hole& hole) { return hole.slot->sequence != 0 || hole.slot->filled; });
  });
}

std::uint64_t LastSequence(const Entry& entry) {
  std::uint64_t last = 0;
  for (const Field& field : entry.fields) {
    for (const Hole& hole : field.holes) last = std::max(last, hole.slot->sequence);
  }
  return last;
}

void AppendValue(const Entry& entry, SummaryMode mode, std::string& out) {
  if (entry.whole) {
    if (entry.fields.empty()) out += "null";
    for (const Field& field : entry.fields) AppendField(field, mode, out);
    return;
  }
  out += '{';
  for (const Field& field : entry.fields) {
    if (&field != entry.fields.data()) out += ',';
    AppendLine(kEntryDepth + 1, out);
    out += '"';
    out += field.key;
    out += "\": ";
    AppendField(field, mode, out);
  }
  if (!entry.fields.empty()) AppendLine(kEntryDepth, out);
  out += '}';
}

std::vector<Field> SplitValue(std::string_view value, bool whole) {
  std::vector<Field> fields;
  if (whole) {
    fields.emplace_back().text = value;
    return fields;
  }
  // A key of the entry itself is a quote behind a line break and exactly three blanks.
  constexpr std::string_view kKey = "\n   \"", kEnd = "\n  }";
  std::size_t at = value.find(kKey);
  while (at != std::string_view::npos) {
    const std::size_t key = at + kKey.size();
    const std::size_t next = value.find(kKey, key);
    std::size_t key_end = key;
    while (key_end < value.size() && value[key_end] != '"') key_end += value[key_end] == '\\' ? 2 : 1;
    const std::size_t begin = key_end + 3;
    const std::size_t end = next != std::string_view::npos ? next - 1 : value.size() - kEnd.size();
    if (begin > end) break;
    Field& field = fields.emplace_back();
    field.key = value.substr(key, key_end - key);
    field.text = value.substr(begin, end - begin);
    at = next;
  }
  return fields;
}

std::string FileStem(const Entry& entry, std::string_view field, bool& skip_first) {
  skip_first = false;
  std::string stem = entry.name;
  if (entry.whole) return stem;
  stem += '.';
  if (HoldsGradients(entry.name)) {
    skip_first = true;
    return stem + DecodeJsonString(field);
  }
  for (const Category& category : kCategories) {
    if (field == category.field) return stem.append(category.name);
  }
  return stem + DecodeJsonString(field);
}

}  // namespace vernier
