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

// Calls append(i, text) for each of `count` members, and writes what it gives.
template <class Fn>
Result<Done> WriteObject(const std::filesystem::path& path, std::size_t count, Fn&& append) {
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  std::string text = "{";
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) text += ',';
    AppendLine(1, text);
    append(i, text);
    VN_RETURN_IF_ERROR(file.Write(text));
    text.clear();
  }
  if (count > 0) AppendLine(0, text);
  text += '}';
  VN_RETURN_IF_ERROR(file.Write(text));
  return file.CommitUnsynced();
}

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

void StackFile::Add(std::uint32_t stack, std::string_view name) {
  const auto [use, is_new] = use_of_.try_emplace(stack, uses_.size());
  if (is_new) uses_.push_back({stack, {}});
  uses_[use->second].names.push_back(name);
}

Result<Done> StackFile::Write(const std::filesystem::path& path, const StackTable& stacks) const {
  return WriteObject(path, uses_.size(), [&](std::size_t i, std::string& text) {
    text += '"';
    AppendInteger(static_cast<std::int64_t>(i), text);
    text += "\": [";
    AppendLine(kFramesDepth, text);
    text += '[';
    for (const std::string_view& name : uses_[i].names) {
      if (&name != uses_[i].names.data()) text += ',';
      AppendLine(kFramesDepth + 1, text);
      AppendJsonString(name, text);
    }
    AppendLine(kFramesDepth, text);
    text += "],";
    AppendLine(kFramesDepth, text);
    text += stacks.text(uses_[i].stack);
    AppendLine(1, text);
    text += ']';
  });
}

ConstructFile::Member& ConstructFile::MemberFor(std::string_view name) {
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return members_[found->second];
  Member& member = members_.emplace_back();
  member.name = name;
  by_name_.emplace(member.name, members_.size() - 1);
  return member;
}

void ConstructFile::Set(std::string_view name, std::optional<std::string_view> parent,
                        std::optional<std::int64_t> micro_step) {
  Member& member = MemberFor(name);
  member.parent = parent;
  member.micro_step = micro_step;
  if (!micro_step) return;
  Member& number = MemberFor(kMicroSteps);
  number.is_number = true;
  number.micro_step = std::max(*micro_step, number.micro_step.value_or(0));
}

Result<Done> ConstructFile::Write(const std::filesystem::path& path) const {
  return WriteObject(path, members_.size(), [&](std::size_t i, std::string& text) {
    const Member& member = members_[i];
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
  });
}

Result<Done> IdentityFile::Create(const std::filesystem::path& path) {
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) return Error{CodeOfErrno(errno), path.string(), std::generic_category().message(errno)};
  lines_ = "{\"format\":\"vernier-identity\",\"version\":1}\n";
  return Flush();
}

IdentityFile::~IdentityFile() {
  if (fd_ >= 0) close(fd_);
}

Result<Done> IdentityFile::Add(const Entry& entry, std::span<const Field> fields) {
  if (fd_ < 0) return Done{};
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
  return lines_.size() < kManyLines ? Done{} : Flush();
}

void IdentityFile::SetState(std::string_view state) {
  if (fd_ >= 0) lines_.append(state).append("\n");
}

Result<Done> IdentityFile::Flush() {
  for (std::string_view rest = lines_; !rest.empty();) {
    const ssize_t written = write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      return Error{CodeOfErrno(errno), "identity.jsonl", std::generic_category().message(errno)};
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  lines_.clear();
  return Done{};
}

}  // namespace vernier
