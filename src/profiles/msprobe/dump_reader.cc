#include "profiles/msprobe/dump_reader_internal.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "core/python_text.h"
#include "profiles/msprobe/json_members_internal.h"
#include "profiles/msprobe/leaf.h"

namespace vernier::msprobe {
namespace {

constexpr int kMaxDepth = 400;
constexpr int kUsualDepth = 8;  // below it, what is nested is measured out once
constexpr std::size_t kMaxSuffixes = std::size_t{1} << 27;
constexpr std::size_t kReleaseBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxNameOffset = (std::size_t{1} << 24) - 1;
constexpr std::uint32_t kNotRead = ~std::uint32_t{0};

struct PortKey {
  std::string_view key, base;
  std::string_view file_base;  // as names of files have it
  PortState state;
  bool checked;
};
// In visiting order. "input" is checked only where "input_args" has nothing.
constexpr PortKey kPortKeys[] = {
    {"input_args", ".input", ".input", PortState::kInput, true},
    {"input_kwargs", ".input", ".kwargs", PortState::kInput, true},
    {"input", ".input", ".input", PortState::kInput, true},
    {"output", ".output", ".output", PortState::kOutput, true},
    {"parameters", ".parameters", ".parameters", PortState::kParameters, false},
};

// The last two components of a name tell which way a call went.
bool HasDirection(std::string_view name) {
  for (int i = 0; i < 2; ++i) {
    const std::size_t dot = name.rfind('.');
    const std::string_view last = name.substr(dot + 1);
    if (last == "forward" || last == "backward" || last == "parameters_grad") return true;
    if (dot == std::string_view::npos) break;
    name = name.substr(0, dot);
  }
  return false;
}

bool HasComponent(std::string_view name, std::string_view wanted) {
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t dot = std::min(name.find('.', start), name.size());
    if (name.substr(start, dot - start) == wanted) return true;
    start = dot + 1;
  }
  return false;
}

}  // namespace

// Fills a Dump. One pass over the file; a record that cannot be read is stepped over and remembered.
class DumpReader {
 public:
  DumpReader(Dump& dump, const DumpOptions& options) : dump_(dump), text_(dump.text_), options_(options) {}

  const char* Run() {
    JsonCursor cursor(text_);
    if (cursor.Peek() == JsonKind::kArray) dump_.has_data_ = false;
    cursor.ForEachMember([&](std::string_view key, bool) {
      if (key == "data") return ReadData(cursor);
      std::optional<std::string> text;
      if (cursor.Peek() == JsonKind::kString) {
        std::string buffer;
        text = std::string(cursor.TakeString(buffer));
      } else {
        cursor.Skip();
      }
      if (key == "task") dump_.task_ = text.value_or("");
      if (key == "level") dump_.level_ = text.value_or("");
      if (key == "framework") dump_.framework_ = text;
    });
    if (cursor.ok() && !cursor.AtEnd()) cursor.Fail(JsonError::kMoreAfterEnd);
    RestoreRecordOrder();
    SettleSharedFiles();
    return dump_.torn_ ? nullptr : cursor.problem();
  }

 private:
  void ReadData(JsonCursor& cursor) {
    dump_.has_data_ = true;
    released_ = cursor.position();
    dump_.records_.clear();
    dump_.rows_.clear();
    dump_.problems_.clear();
    by_name_.clear();
    dump_.data_is_object_ = cursor.Peek() == JsonKind::kObject;
    if (!dump_.data_is_object_) return cursor.Skip();
    cursor.ForEachMember([&](std::string_view key, bool escaped) {
      cursor.Peek();
      const std::size_t start = cursor.position();
      const std::size_t num_before = dump_.records_.size();
      const std::uint32_t record = RecordFor(key, escaped);
      ReadRecord(cursor, record);
      ReleaseBefore(start);
      if (cursor.ok()) return;
      const std::string problem = cursor.problem();
      cursor.MoveTo(start);
      cursor.Skip();
      if (cursor.ok()) return SetBad(record, start, problem);
      dump_.records_.resize(num_before);
    });
    dump_.torn_ = cursor.ran_out();
  }

  // What was read is not needed until rows are shown: resident memory stays at the index and a window of the
  // file.
  void ReleaseBefore(std::size_t position) {
    if (position - released_ < kReleaseBytes) return;
    dump_.file_->Release(dump_.file_->bytes().subspan(released_, position - released_));
    released_ = position;
  }

  // Names may repeat: the first keeps the place, the last gives the value, as Python's dict does.
  std::uint32_t RecordFor(std::string_view key, bool escaped) {
    const std::string decoded = escaped ? DecodeJsonString(key) : std::string();
    std::string_view name = escaped ? std::string_view(decoded) : key;
    const std::string repaired = RepairUtf8(name);
    if (!repaired.empty()) name = repaired;
    if (const auto earlier = by_name_.find(name); earlier != by_name_.end()) {
      out_of_order_ = true;
      dump_.problems_.erase(earlier->second);
      return earlier->second;
    }
    // A copy: names are looked up all over, and must not keep the pages of the file around them in memory.
    const auto record = static_cast<std::uint32_t>(dump_.records_.size());
    dump_.records_.push_back({dump_.names_.Keep(name), 0, 0});
    by_name_.emplace(dump_.records_.back().name, record);
    return record;
  }

  void ReadRecord(JsonCursor& cursor, std::uint32_t record) {
    record_ = record;
    found_.clear();
    const std::string_view name = dump_.records_[record].name;
    in_gradients_ = HasComponent(name, "parameters_grad");
    checked_ = options_.check_values;
    if (options_.check_values && IsDangerous(name))
      Refuse("api name contains special characters, please check!");
    path_.clear();
    base_ = file_base_ = {};
    if (options_.kind == DumpKind::kDebug) {
      checked_ = false;
      Visit(cursor, PortState::kInput, 1, false);
    } else if (cursor.Peek() != JsonKind::kObject) {
      cursor.Fail(JsonError::kNotAnObject);
    } else if (in_gradients_) {
      checked_ = false;
      Visit(cursor, PortState::kParametersGrad, 1, false);
    } else {
      ReadPorts(cursor);
    }
    if (cursor.ok()) KeepRows();
  }

  void ReadPorts(JsonCursor& cursor) {
    const std::size_t start = cursor.position();
    const bool had_md5 = dump_.has_md5_, had_failed = !dump_.check_failure_.empty();
    if (ReadPortsInOrder(cursor)) return;
    cursor.MoveTo(start);
    found_.clear();
    dump_.has_md5_ = had_md5;
    if (!had_failed) dump_.check_failure_.clear();
    ReadPortsInAnyOrder(cursor);
  }

  // The usual case in one pass: every port once, in the order in which they are to be visited. False for any
  // other, and for what cannot be read.
  bool ReadPortsInOrder(JsonCursor& cursor) {
    Members members = TakeSpare();
    const PortKey* next = std::begin(kPortKeys);
    bool in_order = true, has_args = false;
    cursor.ForEachMember([&](std::string_view key, bool escaped) {
      Member member{key, escaped, cursor.Peek(), cursor.position(), 0};
      const auto is_it = [&](const auto& known) { return known.key == key; };
      in_order = in_order && members.Find(key) == nullptr;
      const PortKey* port = std::find_if(next, std::end(kPortKeys), is_it);
      if (!in_order || port == std::end(kPortKeys)) {
        in_order = in_order && std::none_of(std::begin(kPortKeys), next, is_it);
        TakeChecked(cursor, member.kind);
        member.end = cursor.position();
        if (in_order && cursor.ok()) NoteMd5(member);
      } else {
        next = port + 1;
        VisitPort(cursor, *port, has_args);  // which sees checksums as well
      }
      if (in_order) members.Add(member);
    });
    spare_.push_back(std::move(members));
    return cursor.ok() && in_order;
  }

  void VisitPort(JsonCursor& cursor, const PortKey& port, bool& has_args) {
    checked_ = options_.check_values && port.checked && !(has_args && port.key == "input");
    path_ = base_ = port.base;
    file_base_ = port.file_base;
    const std::size_t num_before = found_.size(), begin = cursor.position();
    Visit(cursor, port.state, 1, false);
    if (port.key == "input_args") has_args = found_.size() > num_before || cursor.position() - begin > 2;
  }

  void ReadPortsInAnyOrder(JsonCursor& cursor) {
    Members members;
    Scan(cursor, members);
    if (!cursor.ok()) return;
    bool has_args = false;
    for (const PortKey& port : kPortKeys) {
      const Member* found = members.Find(port.key);
      if (found == nullptr) continue;
      JsonCursor value(text_, found->begin);
      VisitPort(value, port, has_args);
      if (!value.ok()) return cursor.Fail(value.error());
    }
    for (const Member& member : members) NoteMd5(member);
  }

  // Records may hold other keys; a checksum there tells the mode as well.
  void NoteMd5(const Member& member) {
    if (dump_.has_md5_ ||
        text_.substr(member.begin, member.end - member.begin).find("\"md5\"") == std::string_view::npos) {
      return;
    }
    JsonCursor cursor(text_, member.begin);
    Members inner;
    const auto look = [&] {
      Scan(cursor, inner);
      dump_.has_md5_ = dump_.has_md5_ || inner.Find("md5") != nullptr;
    };
    if (member.kind == JsonKind::kObject) {
      look();
    } else if (member.kind == JsonKind::kArray) {
      cursor.ForEachElement([&] { cursor.Peek() == JsonKind::kObject ? look() : cursor.Skip(); });
    }
  }

  // Steps over a value; of what is not nested, only over a well-formed one.
  void TakeChecked(JsonCursor& cursor, JsonKind kind) const {
    switch (kind) {
      case JsonKind::kNull:
        return cursor.TakeNull();
      case JsonKind::kBool:
        cursor.TakeBool();
        return;
      case JsonKind::kInt:
      case JsonKind::kFloat:
        cursor.TakeNumberText();
        return;
      case JsonKind::kBad:
        return cursor.Fail(JsonError::kExpectedValue);
      case JsonKind::kArray:
      case JsonKind::kObject:
        if (ends_.Covers(cursor.position())) return cursor.MoveTo(ends_.Of(cursor.position()));
        return cursor.Skip();
      default:
        return cursor.Skip();
    }
  }

  // Calls fn for a list or object that starts here.
  template <class Fn>
  void Nested(const JsonCursor& cursor, int depth, const Fn& fn) {
    if (depth != kUsualDepth || ends_.Covers(cursor.position())) return fn();
    JsonCursor over = cursor;
    over.Skip();
    if (over.ok()) ends_.Find(text_, cursor.position(), over.position());
    fn();
    ends_.Forget();
  }

  // The members of an object, each key once.
  void Scan(JsonCursor& cursor, Members& members) const {
    members.Clear();
    cursor.ForEachMember([&](std::string_view key, bool escaped) {
      Member member{key, escaped, cursor.Peek(), cursor.position(), 0};
      TakeChecked(cursor, member.kind);
      member.end = cursor.position();
      Member* earlier = members.Find(key);
      earlier != nullptr ? void(*earlier = member) : members.Add(member);
    });
  }

  void Visit(JsonCursor& cursor, PortState state, int depth, bool in_list) {
    if (depth > kMaxDepth) {
      if (dump_.too_deep_.empty()) dump_.too_deep_ = dump_.records_[record_].name;
      return cursor.Fail(JsonError::kTooDeep);
    }
    switch (cursor.Peek()) {
      case JsonKind::kNull:
        AddRow(cursor.position(), state);
        return cursor.TakeNull();
      case JsonKind::kArray:
        return Nested(cursor, depth, [&] { VisitList(cursor, state, depth); });
      case JsonKind::kObject:
        return Nested(cursor, depth, [&] { VisitObject(cursor, state, depth, in_list); });
      default:
        return TakeChecked(cursor, cursor.Peek());
    }
  }

  void VisitList(JsonCursor& cursor, PortState state, int depth) {
    const std::size_t base = path_.size();
    std::size_t index = 0;
    cursor.ForEachElement([&] {
      if (!in_gradients_) path_ += fmt::format(".{}", index);
      Visit(cursor, state, depth + 1, true);
      path_.resize(base);
      ++index;
    });
  }

  void VisitObject(JsonCursor& cursor, PortState state, int depth, bool in_list) {
    const std::size_t start = cursor.position();
    Members members = TakeSpare();
    Scan(cursor, members);
    if (!cursor.ok()) return;
    bool is_leaf = false, named_by_file = false;
    bool wraps_tensor = false;  // then which name counts is for DataNameAt to tell
    std::size_t name_at = 0;
    for (const Member& member : members) {
      if (member.kind != JsonKind::kString) continue;
      const std::string_view text = text_.substr(member.begin + 1, member.end - member.begin - 2);
      is_leaf = is_leaf || member.key == "type" || (member.key == "class_type" && text == kP2pClass);
    }
    for (const Member& member : members) {
      const bool place_counts = options_.kind == DumpKind::kDebug || depth == 1 || (depth == 2 && in_list);
      if (member.key == "md5" && place_counts) dump_.has_md5_ = true;
      if ((member.key == "sketch" || member.key == "values") && member.kind == JsonKind::kString)
        dump_.has_sketches_ = dump_.has_sketches_ || (is_leaf && members.Find("dtype") != nullptr);
      if (member.key == "data_name") {
        named_by_file = member.kind == JsonKind::kString && member.end - member.begin > 2;
        name_at = member.begin;
      }
      if (member.key == "tensor") {
        named_by_file = named_by_file || WrapsNamedTensor(member);
        wraps_tensor = true;
      }
      if (checked_ && is_leaf) CheckAll(member, depth);
    }
    if (is_leaf) {
      const bool foreign = named_by_file && !wraps_tensor && IsForeign(name_at);
      foreign ? AddRowNamedLikeItsFile(start, state) : AddRow(start, state);
      found_.back().maybe_shared = foreign ? 1 : 0;
      any_foreign_ = any_foreign_ || foreign;
      found_.back().named_by_file = named_by_file ? 1 : 0;
      if (named_by_file && !wraps_tensor && name_at - start <= kMaxNameOffset)
        found_.back().name_offset = name_at - start;
    } else {
      VisitMembers(cursor, members, state, depth);
    }
    spare_.push_back(std::move(members));
  }

  bool IsForeign(std::size_t name_at) {
    const std::string_view file = JsonCursor(text_, name_at).TakeString(buffer_);
    const std::string_view record = dump_.records_[record_].name;
    return !(file.starts_with(record) && file.size() > record.size() && file[record.size()] == '.');
  }

  // With the name that a file of its own would give it.
  void AddRowNamedLikeItsFile(std::size_t start, PortState state) {
    std::string path =
        path_.starts_with(base_) ? std::string(file_base_) + path_.substr(base_.size()) : path_;
    path_.swap(path);
    AddRow(start, state);
    path_.swap(path);
  }

  // Equal tensors may be stored once: a file that is named after a value of another record of this dump is
  // shared with it and says nothing about the name of this one.
  void SettleSharedFiles() {
    if (!any_foreign_) return;
    for (Row& row : dump_.rows_) {
      if (!row.maybe_shared) continue;
      row.maybe_shared = 0;
      const std::string_view file = JsonCursor(text_, row.value_at + row.name_offset).TakeString(buffer_);
      if (row.name_offset != 0 && IsOfSomeRecord(file)) row.named_by_file = 0;
    }
  }

  bool IsOfSomeRecord(std::string_view file) const {
    for (std::size_t dot = file.find('.'); dot != std::string_view::npos; dot = file.find('.', dot + 1)) {
      if (by_name_.contains(file.substr(0, dot))) return true;
    }
    return false;
  }

  bool WrapsNamedTensor(const Member& member) {
    return text_.substr(member.begin, member.end - member.begin).find("\"data_name\"") !=
           std::string_view::npos;
  }

  void VisitMembers(JsonCursor& cursor, const Members& members, PortState state, int depth) {
    const std::size_t base = path_.size();
    for (const Member& member : members) {
      if (checked_) Check(member);
      path_ += '.';
      path_ += member.escaped ? DecodeJsonString(member.key) : member.key;
      JsonCursor value(text_, member.begin);
      Visit(value, state, depth + 1, false);
      path_.resize(base);
      if (!value.ok()) return cursor.Fail(value.error());
    }
  }

  // The checks that the reference makes before it trusts a dump.
  void Check(const Member& member) {
    const std::string_view api = dump_.records_[record_].name;
    if (member.kind == JsonKind::kString) {
      const std::string_view raw = text_.substr(member.begin + 1, member.end - member.begin - 2);
      const bool has_escape = std::memchr(raw.data(), '\\', raw.size()) != nullptr;
      if (IsDangerous(has_escape ? DecodeJsonString(raw) : raw)) {
        Refuse(fmt::format("data info of {} contains special characters, please check!", api));
      }
    }
    if (member.kind == JsonKind::kObject) return;  // an argument of that name, as of torch.arange
    if (member.key == "shape" && member.kind != JsonKind::kArray) {
      Refuse(fmt::format("shape of input or output of {} is not list or tuple, please check!", api));
    }
    if (member.key == "requires_grad" && member.kind != JsonKind::kBool) {
      Refuse(fmt::format("requires_grad of input or output of {} is not bool, please check!", api));
    }
  }

  // Of a member of a leaf, which is not visited.
  void CheckAll(const Member& member, int depth) {
    Check(member);
    const std::string_view whole = text_.substr(member.begin, member.end - member.begin);
    if (member.kind == JsonKind::kObject ||
        (member.kind == JsonKind::kArray && whole.find('{') != whole.npos)) {
      CheckInside(member, depth + 1);
    }
  }

  void CheckInside(const Member& member, int depth) {
    if (depth > kMaxDepth) return;
    JsonCursor cursor(text_, member.begin);
    Nested(cursor, depth, [&] {
      if (member.kind == JsonKind::kObject) {
        Members members;
        Scan(cursor, members);
        for (const Member& inner : members) CheckAll(inner, depth);
        return;
      }
      cursor.ForEachElement([&] {
        const JsonKind kind = cursor.Peek();
        const std::size_t begin = cursor.position();
        TakeChecked(cursor, kind);
        if (kind == JsonKind::kObject || kind == JsonKind::kArray) {
          CheckInside({"", false, kind, begin, cursor.position()}, depth + 1);
        }
      });
    });
  }

  void Refuse(std::string message) {
    if (dump_.check_failure_.empty()) dump_.check_failure_ = std::move(message);
  }

  Members TakeSpare() {
    if (spare_.empty()) return {};
    Members members = std::move(spare_.back());
    spare_.pop_back();
    members.Clear();
    return members;
  }

  void AddRow(std::size_t value_at, PortState state) {
    Row row{};
    row.value_at = value_at;
    row.record = record_;
    row.suffix = SuffixFor(path_);
    row.state = static_cast<std::uint32_t>(state);
    found_.push_back(row);
  }

  std::uint32_t SuffixFor(const std::string& suffix) {
    const auto found = by_suffix_.find(suffix);
    if (found != by_suffix_.end()) return found->second;
    if (dump_.suffixes_.size() == kMaxSuffixes - 1) return 0;
    dump_.suffixes_.push_back(suffix);
    const auto index = static_cast<std::uint32_t>(dump_.suffixes_.size() - 1);
    by_suffix_.emplace(dump_.suffixes_.back(), index);
    return index;
  }

  void KeepRows() {
    Record& record = dump_.records_[record_];
    if (options_.drop_undirected && !HasDirection(record.name)) found_.clear();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Row& a, const Row& b) { return a.state < b.state; });
    record.first_row = static_cast<std::uint32_t>(dump_.rows_.size());
    record.num_rows = static_cast<std::uint32_t>(found_.size());
    dump_.rows_.insert(dump_.rows_.end(), found_.begin(), found_.end());
  }

  void SetBad(std::uint32_t record, std::size_t start, const std::string& problem) {
    record_ = record;
    found_.clear();
    path_.clear();
    AddRow(start, PortState::kInput);
    found_.back().bad = 1;
    KeepRows();
    dump_.problems_[record] = problem;
  }

  // Only needed when a name repeated: rows follow the order of the records again.
  void RestoreRecordOrder() {
    if (!out_of_order_) return;
    std::vector<Row> rows;
    for (Record& record : dump_.records_) {
      const auto first = dump_.rows_.begin() + record.first_row;
      record.first_row = static_cast<std::uint32_t>(rows.size());
      rows.insert(rows.end(), first, first + record.num_rows);
    }
    dump_.rows_ = std::move(rows);
  }

  Dump& dump_;
  std::string_view text_;
  DumpOptions options_;
  std::unordered_map<std::string_view, std::uint32_t> by_name_, by_suffix_;
  std::vector<Members> spare_;
  Ends ends_;
  std::vector<Row> found_;
  std::string path_, buffer_;
  std::string_view base_, file_base_;  // of the port that is being read
  std::uint32_t record_ = kNotRead;
  std::size_t released_ = 0;
  bool in_gradients_ = false, checked_ = false, out_of_order_ = false, any_foreign_ = false;
};

const char* ReadDump(Dump& dump, const DumpOptions& options) { return DumpReader(dump, options).Run(); }

}  // namespace vernier::msprobe
