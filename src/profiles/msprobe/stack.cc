#include "profiles/msprobe/stack.h"

#include <fmt/format.h>

#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "core/python_text.h"
#include "profiles/msprobe/leaf.h"

namespace vernier::msprobe {
namespace {

// {"0": non-empty, …}: values are [record names, lines].
bool IsGrouped(std::string_view text) {
  JsonCursor cursor(text);
  bool grouped = false;
  cursor.ForEachMember([&](std::string_view key, bool) {
    cursor.Peek();
    const std::size_t start = cursor.position();
    cursor.Skip();
    const std::string_view value = text.substr(start, cursor.position() - start);
    if (key == "0") grouped = value != "[]" && value != "{}" && value != "null" && value != "\"\"";
  });
  return grouped;
}

}  // namespace

Result<StackFile> StackFile::Open(const std::filesystem::path& path) {
  StackFile stack;
  VN_ASSIGN_OR_RETURN(stack.file_, MappedFile::Open(path));
  stack.text_ = TextOf(stack.file_);
  JsonCursor cursor(stack.text_);
  if (cursor.Peek() != JsonKind::kObject) {
    cursor.Skip();
    if (!cursor.ok() || !cursor.AtEnd())
      return Error{ErrorCode::kBadHeader, path.string(), "load json file failed"};
    return Error{ErrorCode::kBadShape, path.string(),
                 "The format of the stack.json is incorrect, the outermost layer of stack.json should be a "
                 "dict type."};
  }
  const bool grouped = IsGrouped(stack.text_);
  std::string buffer;
  cursor.ForEachMember([&](std::string_view key, bool escaped) {
    const JsonKind kind = cursor.Peek();
    const std::size_t start = cursor.position();
    if (!grouped) {
      cursor.Skip();
      if (cursor.ok()) stack.stack_at_[escaped ? DecodeJsonString(key) : std::string(key)] = start;
      return;
    }
    if (kind != JsonKind::kArray) return cursor.Skip();
    std::vector<std::size_t> parts;
    cursor.ForEachElement([&] {
      cursor.Peek();
      parts.push_back(cursor.position());
      cursor.Skip();
    });
    if (!cursor.ok() || parts.size() != 2) return;
    JsonCursor names(stack.text_, parts[0]);
    if (names.Peek() != JsonKind::kArray) return;
    names.ForEachElement([&] {
      if (names.Peek() != JsonKind::kString) return names.Skip();
      stack.stack_at_[std::string(names.TakeString(buffer))] = parts[1];
    });
  });
  stack.torn_ = cursor.ran_out();
  if (!stack.torn_ && (!cursor.ok() || !cursor.AtEnd()))
    return Error{ErrorCode::kBadHeader, path.string(), "load json file failed"};
  return stack;
}

std::vector<std::string> StackFile::Lines(std::string_view api) const {
  std::vector<std::string> lines;
  const auto found = stack_at_.find(std::string(api));
  if (found == stack_at_.end()) return lines;
  JsonCursor cursor(text_, found->second);
  std::string buffer;
  cursor.ForEachElement([&] {
    if (cursor.Peek() != JsonKind::kString) return cursor.Skip();
    lines.emplace_back(cursor.TakeString(buffer));
  });
  return lines;
}

std::string StackFile::ListText(std::string_view api) const {
  if (stack_at_.find(std::string(api)) == stack_at_.end()) return {};
  std::string text = "[";
  for (const std::string& line : Lines(api)) {
    if (text.size() > 1) text += ", ";
    AppendPythonQuoted(line, text);
  }
  return text + ']';
}

std::string StackFile::Problem(std::string_view api) const {
  const auto found = stack_at_.find(std::string(api));
  if (found == stack_at_.end()) return {};
  const JsonKind kind = JsonCursor(text_, found->second).Peek();
  if (kind != JsonKind::kArray) {
    constexpr std::size_t kBefore = 8, kAround = 10;  // "<class '", and with "'>"
    const std::string_view type = ClassText(kind);
    return fmt::format("Expected stack_info to be a list, but got {} for '{}'",
                       type.substr(kBefore, type.size() - kAround), api);
  }
  for (const std::string& line : Lines(api)) {
    if (IsDangerous(line))
      return fmt::format("stack info of {} contains special characters, please check!", api);
  }
  return {};
}

}  // namespace vernier::msprobe
