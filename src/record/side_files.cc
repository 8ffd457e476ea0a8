#include "record/side_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/atomic_file.h"
#include "core/json_writer.h"
#include "record/json_indenter.h"

namespace vernier {
namespace {

constexpr int kFramesDepth = 2;
constexpr std::string_view kMicroSteps = "megatron_micro_step_number";
constexpr std::size_t kManyLines = std::size_t{1} << 14;  // bytes
constexpr std::uint64_t kManyRepeated = std::uint64_t{1} << 20;

bool IsKnown(const Port& port) { return port.identity.storage != 0; }

bool IsContiguous(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  std::int64_t expected = 1;
  for (std::size_t axis = shape.size(); axis-- > 0; expected *= shape[axis]) {
    if (shape[axis] == 0) return true;
    if (shape[axis] != 1 && strides[axis] != expected) return false;
  }
  return true;
}

// [storage, version, is a Parameter, offset, strides ...]: zeros at the end are left out, and strides where
// they follow from the shape.
void AppendIdentity(const Port& port, std::span<const std::int64_t> sizes, std::string& out) {
  const Identity& identity = port.identity;
  if (!IsKnown(port)) {
    out += "null";
    return;
  }
  const std::int64_t numbers[] = {static_cast<std::int64_t>(identity.storage), identity.version,
                                  port.Has(kParameter) ? 1 : 0, identity.offset};
  const std::span<const std::int64_t> strides = port.strides(sizes);
  const bool has_strides = !IsContiguous(port.shape(sizes), strides);
  std::size_t count = std::size(numbers);
  while (!has_strides && count > 1 && numbers[count - 1] == 0) --count;
  out += '[';
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    AppendInteger(numbers[i], out);
  }
  for (std::size_t i = 0; has_strides && i < strides.size(); ++i) {
    out += ',';
    AppendInteger(strides[i], out);
  }
  out += ']';
}

}  // namespace

Result<Done> StackTable::Declare(std::int64_t number, std::string_view frames) {
  JsonIndenter indenter(frames, nullptr);
  std::string text;
  VN_RETURN_IF_ERROR(indenter.Value(kFramesDepth, text));
  if (!text.starts_with('[') || !indenter.AtEnd()) {
    return Error{ErrorCode::kBadArgument, "frames", "not a JSON list"};
  }
  auto found = by_text_.find(text);
  if (found == by_text_.end()) {
    const auto stack = static_cast<std::uint32_t>(texts_.size());
    found = by_text_.emplace(texts_.emplace_back(std::move(text)), stack).first;
  }
  by_number_[number] = found->second;
  return Done{};
}

Result<std::uint32_t> StackTable::Find(std::int64_t number, std::string_view name) const {
  const auto found = by_number_.find(number);
  if (found != by_number_.end()) return found->second;
  return Error{ErrorCode::kBadArgument, std::string(name),
               "stack " + std::to_string(number) + " is not declared"};
}

Result<Done> MembersFile::Write(std::size_t count,
                                const std::function<void(std::size_t, std::string&)>& append) {
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path_));
  std::uint64_t end = 0;
  buffer_ = "{";
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) buffer_ += ',';
    AppendLine(1, buffer_);
    append(i, buffer_);
    end += buffer_.size();
    VN_RETURN_IF_ERROR(file.Write(buffer_));
    buffer_.clear();
  }
  end += buffer_.size();
  const std::string_view tail = count == 0 ? kEmptyTail : kTail;
  VN_RETURN_IF_ERROR(file.Write(buffer_.append(tail)));
  VN_RETURN_IF_ERROR(file.CommitUnsynced());
  whole_bytes_ = end;
  empty_ = count == 0;
  return file_.Open(path_, end, tail);
}

Result<Done> MembersFile::Grow(std::size_t count,
                               const std::function<void(std::size_t, std::string&)>& append) {
  buffer_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 || !empty_) buffer_ += ',';
    AppendLine(1, buffer_);
    append(i, buffer_);
  }
  if (count == 0) return Done{};
  VN_RETURN_IF_ERROR(file_.Append(buffer_, kTail));
  empty_ = false;
  return Done{};
}

void StackFile::Add(std::uint32_t stack, std::string_view name) {
  const auto [found, is_new] = use_of_.try_emplace(stack, uses_.size());
  if (is_new) uses_.push_back({stack, {}});
  Use& use = uses_[found->second];
  if (use.num_written == use.names.size()) fresh_.push_back(found->second);
  use.names.push_back(name);
  is_whole_ = false;
}

void StackFile::AppendUse(std::size_t key, const Use& use, std::size_t first_name, std::string& text) const {
  text += '"';
  AppendInteger(static_cast<std::int64_t>(key), text);
  text += "\": [";
  AppendLine(kFramesDepth, text);
  text += '[';
  for (std::size_t i = first_name; i < use.names.size(); ++i) {
    if (i > first_name) text += ',';
    AppendLine(kFramesDepth + 1, text);
    AppendJsonString(use.names[i], text);
  }
  AppendLine(kFramesDepth, text);
  text += "],";
  AppendLine(kFramesDepth, text);
  text += stacks_.text(use.stack);
  AppendLine(1, text);
  text += ']';
}

Result<Done> StackFile::Write() {
  if (is_whole_) return Done{};
  VN_RETURN_IF_ERROR(
      file_.Write(uses_.size(), [&](std::size_t i, std::string& text) { AppendUse(i, uses_[i], 0, text); }));
  for (Use& use : uses_) use.num_written = use.names.size();
  fresh_.clear();
  next_key_ = uses_.size();
  repeated_bytes_ = 0;
  is_whole_ = true;
  return Done{};
}

Result<Done> StackFile::Grow() {
  for (const std::size_t i : fresh_) {
    if (uses_[i].num_written > 0) repeated_bytes_ += stacks_.text(uses_[i].stack).size();
  }
  // So that the repeated frames take no more room, and writing no more time, than all the rest.
  if (repeated_bytes_ > std::max(kManyRepeated, file_.whole_bytes())) return Write();
  VN_RETURN_IF_ERROR(file_.Grow(fresh_.size(), [&](std::size_t i, std::string& text) {
    const Use& use = uses_[fresh_[i]];
    AppendUse(next_key_ + i, use, use.num_written, text);
  }));
  next_key_ += fresh_.size();
  for (const std::size_t i : fresh_) uses_[i].num_written = uses_[i].names.size();
  fresh_.clear();
  return Done{};
}

ConstructFile::Member& ConstructFile::MemberFor(std::string_view name) {
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return members_[found->second];
  Member& member = members_.emplace_back();
  member.name = name;
  by_name_.emplace(member.name, members_.size() - 1);
  Changed(member);
  return member;
}

void ConstructFile::Changed(Member& member) {
  is_whole_ = false;
  if (!std::exchange(member.is_fresh, true)) fresh_.push_back(&member);
}

void ConstructFile::Set(std::string_view name, std::optional<std::string_view> parent,
                        std::optional<std::int64_t> micro_step) {
  Member& member = MemberFor(name);
  if (member.parent != parent || member.micro_step != micro_step) Changed(member);
  member.parent = parent;
  member.micro_step = micro_step;
  if (!micro_step) return;
  Member& number = MemberFor(kMicroSteps);
  number.is_number = true;
  if (number.micro_step && *number.micro_step >= *micro_step) return;
  number.micro_step = std::max<std::int64_t>(*micro_step, 0);
  Changed(number);
}

Result<Done> ConstructFile::Write() {
  if (is_whole_) return Done{};
  VN_RETURN_IF_ERROR(file_.Write(members_.size(),
                                 [&](std::size_t i, std::string& text) { AppendMember(members_[i], text); }));
  for (Member* member : fresh_) member->is_fresh = false;
  fresh_.clear();
  is_whole_ = true;
  return Done{};
}

Result<Done> ConstructFile::Grow() {
  VN_RETURN_IF_ERROR(
      file_.Grow(fresh_.size(), [&](std::size_t i, std::string& text) { AppendMember(*fresh_[i], text); }));
  for (Member* member : fresh_) member->is_fresh = false;
  fresh_.clear();
  return Done{};
}

void ConstructFile::AppendMember(const Member& member, std::string& text) {
  AppendJsonString(member.name, text);
  text += ": ";
  if (member.is_number) return AppendInteger(*member.micro_step, text);
  if (member.micro_step) {
    text += '[';
    AppendLine(2, text);
  }
  if (member.parent) {
    AppendJsonString(*member.parent, text);
  } else {
    text += "null";
  }
  if (!member.micro_step) return;
  text += ',';
  AppendLine(2, text);
  AppendInteger(*member.micro_step, text);
  AppendLine(1, text);
  text += ']';
}

Result<Done> IdentityFile::Create(const std::filesystem::path& path) {
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) return Error{CodeOfErrno(errno), path.string(), std::generic_category().message(errno)};
  lines_ = "{\"format\":\"vernier-identity\",\"version\":1}\n";
  return FlushLines();
}

IdentityFile::~IdentityFile() {
  if (fd_ >= 0) close(fd_);
}

Result<Done> IdentityFile::Add(const Entry& entry, std::span<const Field> fields) {
  if (fd_ < 0) return Done{};
  const std::scoped_lock lock(mutex_);
  const std::size_t start = lines_.size();
  lines_ += '[';
  AppendJsonString(entry.name, lines_);
  lines_ += ",{";
  bool first = true;
  for (const Field& field : fields) {
    if (field.from_sink || std::none_of(field.ports.begin(), field.ports.end(), IsKnown)) continue;
    if (!std::exchange(first, false)) lines_ += ',';
    lines_.append("\"").append(field.key).append("\":[");
    for (const Port& port : field.ports) {
      if (&port != field.ports.data()) lines_ += ',';
      AppendIdentity(port, field.sizes, lines_);
    }
    lines_ += ']';
  }
  lines_ += entry.repeated ? "},true]\n" : "}]\n";
  if (first && !entry.repeated) lines_.resize(start);
  return lines_.size() < kManyLines ? Done{} : FlushLines();
}

void IdentityFile::SetState(std::string_view state) {
  if (fd_ < 0) return;
  const std::scoped_lock lock(mutex_);
  lines_.append(state).append("\n");
}

Result<Done> IdentityFile::Flush() {
  const std::scoped_lock lock(mutex_);
  return FlushLines();
}

Result<Done> IdentityFile::FlushLines() {
  while (!lines_.empty()) {
    const ssize_t written = write(fd_, lines_.data(), lines_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return ErrnoError("identity.jsonl", errno);
    lines_.erase(0, static_cast<std::size_t>(written));
  }
  return Done{};
}

}  // namespace vernier
