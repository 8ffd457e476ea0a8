#include "precheck/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "precheck/compare.h"

namespace vernier::precheck {
namespace {

constexpr int kMaxDepth = 400;
// Members of a descriptor that are values: calls which differ in nothing else are alike.
constexpr std::string_view kValueMembers[] = {
    "Max", "Min", "Mean",      "Norm",    "Max_except_inf_nan", "Min_except_inf_nan",
    "md5", "xor", "data_name", "datapath"};

// What a call's arguments are but for their values, members in one order whatever the file's.
class StructureText {
 public:
  explicit StructureText(std::string_view json) : json_(json), cursor_(json) {}

  // Nothing where the text is too deep or damaged: such a call repeats no other.
  std::optional<std::string> Make() {
    std::string text = Value(0);
    return cursor_.ok() ? std::optional(std::move(text)) : std::nullopt;
  }

 private:
  std::string Value(int depth) {
    if (depth > kMaxDepth) cursor_.Fail(JsonError::kTooDeep);
    if (!cursor_.ok()) return {};
    const JsonKind kind = cursor_.Peek();
    if (kind == JsonKind::kObject) return Object(depth);
    if (kind == JsonKind::kArray) {
      std::string text = "[";
      cursor_.ForEachElement([&] { text += Value(depth + 1) + ','; });
      return text + ']';
    }
    const std::size_t begin = cursor_.position();
    cursor_.Skip();
    return std::string(json_.substr(begin, cursor_.position() - begin));
  }

  std::string Object(int depth) {
    std::map<std::string, std::string, std::less<>> members;
    cursor_.ForEachMember([&](std::string_view key, bool) {
      const bool is_value =
          std::find(std::begin(kValueMembers), std::end(kValueMembers), key) != std::end(kValueMembers);
      if (is_value || (depth == 0 && key == "output")) return cursor_.Skip();
      members[std::string(key)] = Value(depth + 1);
    });
    std::string text = "{";
    for (const auto& [key, value] : members) text += key + ':' + value + ',';
    return text + '}';
  }

  std::string_view json_;
  JsonCursor cursor_;
};

// Texts that a spreadsheet might run.
bool IsDangerous(std::string_view name) {
  static constexpr std::string_view kStarts[] = {"+", "-", "=", "%", "@", "＋", "－", "＝", "％", "＠"};
  const auto starts = [](std::string_view text) {
    return std::any_of(std::begin(kStarts), std::end(kStarts),
                       [text](std::string_view start) { return text.starts_with(start); });
  };
  if (starts(name)) return true;
  for (std::size_t at = name.find(';'); at != std::string_view::npos; at = name.find(';', at + 1)) {
    if (starts(name.substr(at + 1))) return true;
  }
  return false;
}

}  // namespace

class CallReader {
 public:
  explicit CallReader(FileRef file) : text_(TextOf(file)), cursor_(text_) { list_.file_ = std::move(file); }

  Result<CallList> Read() {
    const std::string& path = list_.file_->path();
    if (cursor_.Peek() != JsonKind::kObject)
      return Error{ErrorCode::kBadMagic, path, "expected a JSON object"};
    cursor_.ForEachMember([&](std::string_view key, bool) { TakeMember(key); });
    if (refusal_) return *refusal_;
    list_.torn_ = cursor_.ran_out() && has_data_;
    if (!cursor_.ok() && !list_.torn_) return Error{ErrorCode::kBadHeader, path, cursor_.problem()};
    if (!has_data_) return Refusal("data: missing");
    if (framework_ && *framework_ != "pytorch")
      return Refusal(fmt::format("framework {}: expected pytorch", Printable(*framework_)));
    if (level_ && (*level_ == "L0" || *level_ == "L2" || *level_ == "debug"))
      return Refusal(fmt::format("level {} holds no API calls: record with level L1 or mix", *level_));
    Join();
    if (has_data_folder_) list_.data_folder_ = std::filesystem::path(path).parent_path() / "dump_tensor_data";
    return std::move(list_);
  }

 private:
  Error Refusal(std::string what) const {
    return Error{ErrorCode::kNotADump, list_.file_->path(), std::move(what)};
  }

  void TakeMember(std::string_view key) {
    std::string buffer;
    const JsonKind kind = cursor_.Peek();
    if (key == "data" && kind == JsonKind::kObject) return TakeData();
    if (kind != JsonKind::kString) return cursor_.Skip();
    const std::string value(cursor_.TakeString(buffer));
    if (key == "framework") framework_ = value;
    if (key == "level") level_ = value;
    if (key == "dump_data_dir") has_data_folder_ = !value.empty();
  }

  void TakeData() {
    has_data_ = true;
    cursor_.ForEachMember([&](std::string_view key, bool escaped) {
      const std::string_view name = escaped ? list_.names_.Keep(DecodeJsonString(key)) : key;
      cursor_.Peek();  // steps over blanks
      const std::size_t begin = cursor_.position();
      cursor_.Skip();
      if (cursor_.ok()) Add(name, text_.substr(begin, cursor_.position() - begin));
    });
  }

  void Add(std::string_view record, std::string_view json) {
    if (record.find("Module") != std::string_view::npos) return;
    const std::size_t dot = record.rfind('.');
    const std::string_view name = record.substr(0, dot == std::string_view::npos ? 0 : dot);
    const std::string_view direction = dot == std::string_view::npos ? record : record.substr(dot + 1);
    if (direction == "backward") {
      backward_[name] = json;
    } else if (direction == "forward") {
      const auto [place, is_new] = place_of_.try_emplace(name, list_.calls_.size());
      if (is_new) list_.calls_.push_back({name, {}, {}, {}, {}});
      list_.calls_[place->second].forward = json;
    } else if (!refusal_) {
      refusal_ =
          Error{ErrorCode::kBadHeader, list_.file_->path(),
                fmt::format("record {}: its name ends in neither forward nor backward", Printable(record))};
      cursor_.Stop();
    }
  }

  void Join() {
    for (RecordedCall& call : list_.calls_) {
      const auto found = backward_.find(call.name);
      if (found != backward_.end()) call.backward = found->second;
      if (const std::optional<ApiName> parts = ParseApiName(call.name)) {
        call.prefix = parts->prefix;
        call.api = parts->api;
      }
    }
  }

  CallList list_;
  std::string_view text_;
  JsonCursor cursor_;
  std::optional<std::string> framework_, level_;
  bool has_data_ = false, has_data_folder_ = false;
  std::optional<Error> refusal_;
  std::unordered_map<std::string_view, std::string_view> backward_;
  std::unordered_map<std::string_view, std::size_t> place_of_;
};

Result<CallList> CallList::Open(const std::filesystem::path& path) {
  VN_ASSIGN_OR_RETURN(FileRef file, MappedFile::Open(path.string()));
  return FromFile(std::move(file));
}

Result<CallList> CallList::FromFile(FileRef file) { return CallReader(std::move(file)).Read(); }

void CallList::DropRepeated() {
  std::unordered_set<std::string> seen;
  const auto repeats = [&](const RecordedCall& call) {
    const std::optional<std::string> structure = StructureText(call.forward).Make();
    const std::string_view api = call.name.substr(0, call.name.rfind('.'));
    return structure && !seen.insert(std::string(api) + *structure).second;
  };
  calls_.erase(std::remove_if(calls_.begin(), calls_.end(), repeats), calls_.end());
}

std::optional<std::string> ReasonToSkip(const RecordedCall& call, const Rules& rules, const Config& config) {
  const std::string name = Printable(call.name);
  if (IsDangerous(call.name)) return fmt::format("API {} could be read as a formula", name);
  const std::string cannot = fmt::format("API {} cannot be pre-checked", name);
  if (call.api.empty()) return cannot;
  const bool is_listed = config.Admits(rules, call.api);
  if (rules.Lists("prefixes.never_served", call.prefix)) return cannot;
  if (!is_listed)
    return fmt::format("API {} is in the black list or not in the white list", Printable(call.api));
  if (!rules.Lists("prefixes.served", call.prefix)) return cannot;
  return std::nullopt;
}

}  // namespace vernier::precheck
