#include "profiles/msprobe/dump.h"

#include <algorithm>

#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "core/python_text.h"
#include "profiles/msprobe/dump_reader_internal.h"
#include "profiles/msprobe/leaf.h"

namespace vernier::msprobe {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 40;  // what Row::value_at can tell

}  // namespace

Result<Dump> Dump::Open(const std::filesystem::path& path, const DumpOptions& options) {
  VN_ASSIGN_OR_RETURN(FileRef file, MappedFile::Open(path));
  return FromFile(std::move(file), options);
}

Result<Dump> Dump::FromFile(FileRef file, const DumpOptions& options) {
  Dump dump;
  dump.path_ = file->path();
  dump.text_ = TextOf(file);
  if (dump.text_.size() >= kMaxFileBytes)
    return Error{ErrorCode::kTooLarge, dump.path_.string(), "a dump of 1 TiB or more"};
  dump.file_ = std::move(file);
  const char* problem = ReadDump(dump, options);
  if (dump.file_->changed()) {
    return Error{ErrorCode::kFileChanged, dump.path_.string(), "it shrank while it was read"};
  }
  if (problem != nullptr) return Error{ErrorCode::kBadHeader, dump.path_.string(), problem};
  dump.rows_.shrink_to_fit();
  dump.records_.shrink_to_fit();
  return dump;
}

std::uint64_t Dump::num_bytes() const { return text_.size(); }

void Dump::AppendName(const Row& row, std::string& out) const {
  if (row.named_by_file) {
    std::string buffer;
    const std::string_view file = row.name_offset != 0
                                      ? JsonCursor(text_, row.value_at + row.name_offset).TakeString(buffer)
                                      : DataNameAt(text_, row.value_at, buffer);
    const std::size_t dot = file.rfind('.');
    if (dot != std::string_view::npos && dot > 0) {
      out += file.substr(0, dot);
      return;
    }
  }
  out += records_[row.record].name;
  out += suffixes_[row.suffix];
}

std::string Dump::NameOf(std::size_t row) const {
  std::string name;
  AppendName(rows_[row], name);
  return name;
}

Leaf Dump::Read(const Row& row, TextArena& arena) const {
  if (row.bad) return NoLeaf();
  return ReadLeaf(text_, row.value_at, suffixes_[row.suffix], arena);
}

std::string_view Dump::ProblemOf(std::uint32_t record) const {
  const auto found = problems_.find(record);
  return found == problems_.end() ? std::string_view() : std::string_view(found->second);
}

void Dump::ReleasePages(std::size_t first_row, std::size_t last_row) const {
  if (first_row >= last_row || first_row >= rows_.size()) return;
  const std::size_t from = rows_[first_row].value_at;
  const std::size_t to = last_row < rows_.size() ? rows_[last_row].value_at : text_.size();
  if (from < to) file_->Release(file_->bytes().subspan(from, to - from));
}

std::string_view Name(PortState state) {
  static constexpr std::string_view kNames[] = {"input", "parameters", "output", "parameters_grad"};
  return kNames[static_cast<std::size_t>(state)];
}

bool IsDangerous(std::string_view text) {
  static constexpr std::string_view kSigns[] = {"+", "-", "=", "%", "@", "＋", "－", "＝", "％", "＠"};
  const auto starts = [](std::string_view rest) {
    return std::any_of(std::begin(kSigns), std::end(kSigns),
                       [&](std::string_view sign) { return rest.starts_with(sign); });
  };
  // Hardly any text begins with a sign, and only few bytes begin one.
  constexpr std::string_view kFirstBytes = "+-=%@\xEF";
  if (!text.empty() && kFirstBytes.find(text.front()) != kFirstBytes.npos && starts(text)) return true;
  for (std::size_t at = text.find(';'); at != std::string_view::npos; at = text.find(';', at + 1)) {
    if (starts(text.substr(at + 1))) return true;
  }
  return false;
}

}  // namespace vernier::msprobe
