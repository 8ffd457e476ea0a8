#include "profiles/msprobe/context.h"

#include <algorithm>
#include <utility>

#include "core/json_cursor.h"
#include "core/mapped_file.h"

namespace vernier::msprobe {
namespace {

constexpr std::string_view kModule = "Module.";

// The module call that made the call, or nothing. Under Megatron a parent is a list that begins with it.
std::string ParentOf(const std::filesystem::path& construct_json, std::string_view name) {
  const Result<FileRef> file = MappedFile::Open(construct_json);
  if (!file) return {};
  JsonCursor cursor(TextOf(*file));
  std::string parent, buffer;
  // A recording that was killed may have a name twice, and end inside one: the last whole one counts.
  cursor.ForEachMember([&](std::string_view key, bool escaped) {
    if ((escaped ? DecodeJsonString(key) : key) != name) return cursor.Skip();
    std::string found;
    const auto take = [&] {
      if (found.empty() && cursor.Peek() == JsonKind::kString) {
        found = cursor.TakeString(buffer);
      } else {
        cursor.Skip();
      }
    };
    if (cursor.Peek() == JsonKind::kArray) {
      cursor.ForEachElement(take);
    } else {
      take();
    }
    if (cursor.ok()) parent = std::move(found);
  });
  return parent;
}

}  // namespace

std::string UserLine(const Result<StackFile>& stacks, std::string_view name) {
  if (!stacks) return {};
  const std::vector<std::string> lines = stacks->Lines(name);
  const auto found = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("/torch/") == std::string::npos && line.find("/torch_npu/") == std::string::npos;
  });
  return found == lines.end() ? std::string() : *found;
}

void AddContext(const std::filesystem::path& dump_json, RankOutcome& outcome) {
  if (!outcome.culprit) return;
  Culprit& found = *outcome.culprit;
  const std::filesystem::path folder = dump_json.parent_path();
  found.called_from = UserLine(StackFile::Open(folder / "stack.json"), found.record);
  if (found.record.starts_with(kModule)) {
    found.module = found.record;
  } else if (std::string parent = ParentOf(folder / "construct.json", found.record);
             parent.starts_with(kModule)) {
    found.module = std::move(parent);
  }
}

std::map<std::string, std::string> EnvironmentOf(const std::filesystem::path& dump_json) {
  constexpr std::size_t kLines = 8;  // it stands among the first
  std::map<std::string, std::string> found;
  const Result<FileRef> file = MappedFile::Open(dump_json.parent_path() / "identity.jsonl");
  if (!file) return found;
  std::string_view text = TextOf(*file);
  for (std::size_t i = 0; i < kLines && !text.empty(); ++i) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with('{')) continue;
    JsonCursor cursor(line);
    std::string buffer;
    std::map<std::string, std::string> here;
    cursor.ForEachMember([&](std::string_view key, bool) {
      if (key != "environment" || cursor.Peek() != JsonKind::kObject) return cursor.Skip();
      cursor.ForEachMember([&](std::string_view name, bool) {
        if (cursor.Peek() != JsonKind::kString) return cursor.Skip();
        here[std::string(name)] = cursor.TakeString(buffer);
      });
    });
    if (cursor.ok()) found.merge(here);  // a line may end in the middle
  }
  return found;
}

}  // namespace vernier::msprobe
