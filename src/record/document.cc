#include "record/document.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "core/atomic_file.h"
#include "core/json_writer.h"
#include "record/json_indenter.h"

namespace vernier {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;
constexpr int kRecordDepth = 2;

}  // namespace

Result<Done> Document::Create(const std::filesystem::path& path, std::string_view header,
                              const std::optional<std::string>& dump_data_dir) {
  path_ = path;
  VN_RETURN_IF_ERROR(WriteHead(header, dump_data_dir));
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  VN_RETURN_IF_ERROR(file.Write(head_));
  VN_RETURN_IF_ERROR(file.Write(kEmptyTail));
  VN_RETURN_IF_ERROR(file.CommitUnsynced());
  return file_.Open(path, head_.size(), kEmptyTail);
}

Result<Done> Document::WriteHead(std::string_view header, const std::optional<std::string>& dump_data_dir) {
  head_ = "{";
  JsonIndenter members(header, nullptr);
  VN_RETURN_IF_ERROR(members.Members([&](std::string_view key) {
    AppendLine(1, head_);
    head_.append("\"").append(key).append("\": ");
    Result<Done> value = members.Value(1, head_);
    head_ += ',';
    return value;
  }));
  AppendLine(1, head_);
  head_ += "\"dump_data_dir\": ";
  if (dump_data_dir) {
    AppendJsonString(*dump_data_dir, head_);
  } else {
    head_ += "null";
  }
  head_ += ",\n \"data\": {";
  return Done{};
}

Result<RecordRange> Document::Append(std::string_view name, std::string_view value) {
  buffer_.clear();
  if (!empty_) buffer_ += ',';
  const std::uint64_t offset = file_.end() + buffer_.size();
  AppendLine(kRecordDepth, buffer_);
  AppendJsonString(name, buffer_);
  buffer_ += ": ";
  buffer_ += value;
  VN_RETURN_IF_ERROR(file_.Append(buffer_, kTail));
  empty_ = false;
  return RecordRange{offset, file_.end() - offset};
}

Result<std::string> Document::Read(const RecordRange& range) const {
  std::string text;
  VN_RETURN_IF_ERROR(file_.Read(range.offset, range.size, text));
  // Line break, blanks and name stand before the value; the name is ours and ends at an unescaped quote.
  std::size_t at = kRecordDepth + 2;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  const std::size_t value = at + 3;
  if (value > text.size()) return ErrnoError(path_.string(), EIO);
  return text.substr(value);
}

Result<Done> Document::Rewrite(std::span<RecordRange* const> records) {
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path_));
  VN_RETURN_IF_ERROR(file.Write(head_));
  std::vector<std::uint64_t> new_offsets(records.size());
  std::uint64_t position = head_.size();
  std::string copy;
  // Records that follow each other already, with the comma between them, are copied together.
  for (std::size_t first = 0; first < records.size();) {
    if (first > 0) {
      VN_RETURN_IF_ERROR(file.Write(","));
      ++position;
    }
    const std::uint64_t from = records[first]->offset;
    std::uint64_t to = from;
    std::size_t next = first;
    do {
      new_offsets[next] = position + (records[next]->offset - from);
      to = records[next]->offset + records[next]->size;
    } while (++next < records.size() && records[next]->offset == to + 1);
    for (std::uint64_t at = from; at < to; at += copy.size()) {
      VN_RETURN_IF_ERROR(file_.Read(at, std::min<std::uint64_t>(kCopyBytes, to - at), copy));
      VN_RETURN_IF_ERROR(file.Write(copy));
    }
    position += to - from;
    first = next;
  }
  const std::string_view tail = records.empty() ? kEmptyTail : kTail;
  VN_RETURN_IF_ERROR(file.Write(tail));
  VN_RETURN_IF_ERROR(file.CommitUnsynced());
  empty_ = records.empty();
  VN_RETURN_IF_ERROR(file_.Open(path_, position, tail));
  for (std::size_t i = 0; i < records.size(); ++i) records[i]->offset = new_offsets[i];
  return Done{};
}

}  // namespace vernier
