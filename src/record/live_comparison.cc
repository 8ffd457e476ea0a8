#include "record/live_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "core/text.h"

namespace vernier {
namespace fs = std::filesystem;
namespace {

constexpr char kTensorMark = '\x01';
constexpr std::uint64_t kMostSaid = 20;    // findings that get a line
constexpr int kDeepest = 64;               // containers in one another
constexpr std::size_t kMostNamed = 2;      // ports in such a line
constexpr std::size_t kLongestValue = 40;  // of an argument in it
constexpr std::string_view kProcess = "proc", kForward = ".forward", kBackward = ".backward",
                           kGradients = ".parameters_grad";

// What the fields of a record are; others hold the gradients of parameters, which are outputs.
struct Field {
  std::string_view key, port;
  bool is_input;
};
constexpr Field kFields[] = {
    {"input_args", "input", true},      {"input_kwargs", "kwargs", true}, {"input", "input", true},
    {"parameters", "parameters", true}, {"output", "output", false},
};

// JSON without the blanks between its parts.
std::string Compact(std::string_view json) {
  std::string compact;
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (!in_text && (c == ' ' || c == '\n' || c == '\t' || c == '\r')) continue;
    compact += c;
    if (in_text && c == '\\' && i + 1 < json.size()) compact += json[++i];
    if (c == '"') in_text = !in_text;
  }
  return compact;
}

std::string_view RawValue(JsonCursor& json, std::string_view text) {
  json.Peek();
  const std::size_t start = json.position();
  json.Skip();
  return json.ok() ? text.substr(start, json.position() - start) : std::string_view();
}

std::string Short(std::string_view value) {
  return value.size() <= kLongestValue ? std::string(value)
                                       : std::string(value.substr(0, kLongestValue)) + "...";
}

// As short as it can be pasted: from the working folder, where it lies below that.
std::string ShownPath(const fs::path& path) {
  std::error_code problem;
  const fs::path here = fs::current_path(problem);
  const fs::path below = problem ? fs::path() : path.lexically_relative(here);
  return below.empty() || *below.begin() == ".." ? path.string() : below.string();
}

// A record as it would stand in dump.json: descriptors in the place of the marks, and of what follows a mark
// to describe a tensor differently.
std::string WithDescriptors(std::string_view text, const std::vector<std::string>& descriptors) {
  std::string record;
  std::size_t next = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != kTensorMark) {
      record += text[i];
      continue;
    }
    record += next < descriptors.size() ? descriptors[next++] : "null";
    if (i + 1 < text.size() && text[i + 1] == '{') {
      JsonCursor json(text, i + 1);
      json.Skip();
      i = (json.ok() ? json.position() : text.size()) - 1;
    }
  }
  return record;
}

}  // namespace

// One record, flattened.
class CallReader {
 public:
  using Port = LiveComparison::Port;

  explicit CallReader(std::string_view text) : text_(text), json_(text) {}

  Result<Done> Read(LiveComparison::Call& call) {
    json_.ForEachMember([&](std::string_view key, bool) {
      const auto* field = std::find_if(std::begin(kFields), std::end(kFields),
                                       [&](const Field& known) { return known.key == key; });
      const bool is_known = field != std::end(kFields);
      if (!is_known && json_.Peek() != JsonKind::kArray && json_.Peek() != JsonKind::kObject)
        return json_.Skip();
      const bool is_input = is_known && field->is_input;
      if (is_input) call.input_fields.emplace_back(field->port);
      Flatten(is_known ? std::string(field->port) : std::string(key), is_input ? call.inputs : call.outputs);
    });
    if (!json_.ok()) return Error{ErrorCode::kBadHeader, "", json_.problem()};
    return Done{};
  }

 private:
  void Flatten(const std::string& name, std::vector<Port>& ports, int depth = 0) {
    if (depth == kDeepest) return json_.Fail(JsonError::kTooDeep);
    if (json_.Peek() == JsonKind::kArray) {
      std::size_t i = 0;
      return json_.ForEachElement([&] { Flatten(fmt::format("{}.{}", name, i++), ports, depth + 1); });
    }
    if (json_.Peek() != JsonKind::kObject) {
      ports.push_back({name, false, std::string(RawValue(json_, text_)), "", ""});
      return;
    }
    const std::size_t start = json_.position();
    if (const std::optional<Port> leaf = Leaf(name)) return ports.push_back(*leaf);
    json_.MoveTo(start);
    json_.ForEachMember(
        [&](std::string_view key, bool) { Flatten(fmt::format("{}.{}", name, key), ports, depth + 1); });
  }

  // None: the object is a container.
  std::optional<Port> Leaf(const std::string& name) {
    std::string_view dtype, shape, md5, value, file, max, min;
    bool has_type = false;
    json_.Peek();
    const std::size_t start = json_.position();
    json_.ForEachMember([&](std::string_view key, bool) {
      const std::string_view raw = RawValue(json_, text_);
      has_type |= key == "type";
      if (key == "dtype") dtype = raw;
      if (key == "shape") shape = raw;
      if (key == "md5") md5 = raw;
      if (key == "value") value = raw;
      if (key == "Max") max = raw;
      if (key == "Min") min = raw;
      const bool is_text = raw.size() > 2 && raw.front() == '"';
      if (key == "data_name" && is_text && raw.find('/') == std::string_view::npos)
        file = raw.substr(1, raw.size() - 2);
    });
    if (!json_.ok() || !has_type) return std::nullopt;
    if (!shape.empty()) {
      // Extremes of booleans, integers and constants are those of many tensors.
      const bool is_telling = dtype.find("float") != std::string_view::npos && max != "null" && max != min;
      return Port{name, true, fmt::format("{} {} {}", dtype, Compact(shape), md5), DecodeJsonString(file),
                  is_telling ? fmt::format("{} {} {}", dtype, max, min) : ""};
    }
    const std::string_view all = text_.substr(start, json_.position() - start);
    return Port{name, false, Compact(value.empty() ? all : value), "", ""};
  }

  std::string_view text_;
  JsonCursor json_;
};

// ---- the reference

Result<Done> LiveComparison::BeginStep(fs::path folder) {
  std::error_code problem;
  if (folder.filename().string().starts_with(kProcess)) {
    std::vector<fs::path> found;
    for (fs::directory_iterator entry(folder.parent_path(), problem), end; !problem && entry != end;
         entry.increment(problem)) {
      const bool is_process = entry->path().filename().string().starts_with(kProcess);
      if (is_process && fs::exists(entry->path() / "dump.json", problem)) found.push_back(entry->path());
    }
    if (found.size() != 1) {
      return Error{
          ErrorCode::kNotFound, "bench_path: " + folder.parent_path().string(),
          fmt::format("must hold exactly one proc folder with a dump.json, it holds {}", found.size())};
    }
    folder = found.front();
  }
  path_ = folder / "dump.json";
  const std::string where = "bench_path: " + path_.string();
  Result<FileRef> file = MappedFile::Open(path_.string());
  if (!file) {
    Error error = file.error();
    error.where = where;
    return error;
  }
  file_ = *std::move(file);
  records_.clear();
  different_.clear();
  makers_.clear();
  num_compared_ = num_unknown_ = num_found_here_ = 0;
  first_found_.clear();
  const std::string_view text = TextOf(file_);
  JsonCursor json(text);
  std::string buffer;
  json.ForEachMember([&](std::string_view key, bool) {
    if (key != "data") return json.Skip();
    json.ForEachMember([&](std::string_view name, bool escaped) {
      std::string decoded = escaped ? DecodeJsonString(name) : std::string(name);
      records_.insert_or_assign(std::move(decoded), RawValue(json, text));
    });
  });
  if (!json.ok()) return Error{ErrorCode::kBadHeader, where, json.problem()};
  const std::size_t checksum = text.find("\"md5\"");
  if (records_.empty() || checksum == std::string_view::npos)
    return Error{ErrorCode::kBadArgument, where, "it holds no checksums; record it with summary_mode md5"};
  const std::size_t quote = text.find('"', checksum + 5);
  if (text.substr(std::min(text.size(), quote + 1)).starts_with("0x"))
    return Error{ErrorCode::kBadArgument, where, "its checksums are of summary_mode xor; record it with md5"};
  return Done{};
}

// ---- one call

Result<LiveComparison::Call> LiveComparison::Read(std::string_view record) {
  Call call;
  VN_RETURN_IF_ERROR(CallReader(record).Read(call));
  return call;
}

// The dtype that the value of a tensor begins with, in quotes.
std::string_view LiveComparison::TypeOf(const Port& port) {
  const std::string_view value = port.value;
  const std::size_t end = value.find('"', 1);
  return port.is_tensor && value.starts_with('"') && end != std::string_view::npos ? value.substr(1, end - 1)
                                                                                   : std::string_view();
}

void LiveComparison::AddDifferentInput(const Port* is, const Port* was, Differences& found) {
  const std::string& port = (is != nullptr ? is : was)->name;
  if ((is != nullptr && is->is_tensor) || (was != nullptr && was->is_tensor)) {
    found.inputs.push_back(port);
    const std::string_view now = is == nullptr ? "" : TypeOf(*is), then = was == nullptr ? "" : TypeOf(*was);
    if (found.types.empty() && !now.empty() && !then.empty() && now != then)
      found.types = fmt::format(" ({} is {}, reference {})", port, now, then);
    return;
  }
  const auto value = [](const Port* side) { return side == nullptr ? "not given" : Short(side->value); };
  found.arguments.push_back(fmt::format("{}: {}, reference {}", port, value(is), value(was)));
}

void LiveComparison::CompareInputs(const Call& now, const Call& then, Differences& found) {
  // A port that only one side has, of a field that both have, was given there and left out here.
  const auto has_field_of = [](const Call& call, const Port& port) {
    const std::string_view field = std::string_view(port.name).substr(0, port.name.find('.'));
    return std::find(call.input_fields.begin(), call.input_fields.end(), field) != call.input_fields.end();
  };
  found.has_inputs = !now.input_fields.empty() && !then.input_fields.empty();
  std::unordered_map<std::string_view, const Port*> earlier;
  for (const Port& port : then.inputs) earlier.emplace(port.name, &port);
  for (const Port& port : now.inputs) {
    const auto known = earlier.find(port.name);
    if (known == earlier.end()) {
      if (has_field_of(then, port)) AddDifferentInput(&port, nullptr, found);
      continue;
    }
    if (known->second->value != port.value) AddDifferentInput(&port, known->second, found);
    earlier.erase(known);
  }
  for (const Port& port : then.inputs) {
    if (earlier.contains(port.name) && has_field_of(now, port)) AddDifferentInput(nullptr, &port, found);
  }
}

void LiveComparison::CompareOutputs(std::string_view name, const Call& now, const Call& then,
                                    Differences& found) {
  const auto tensors = [](const Call& call) {
    std::vector<const Port*> ports;
    for (const Port& port : call.outputs) {
      if (port.is_tensor) ports.push_back(&port);
    }
    return ports;
  };
  // Where data_mode leaves the outputs out on a side there is nothing to compare.
  if (now.outputs.empty() || then.outputs.empty()) return;
  const std::vector<const Port*> is = tensors(now), was = tensors(then);
  found.output = is.size() != was.size();
  for (std::size_t i = 0; i < std::min(is.size(), was.size()); ++i) {
    if (is[i]->value == was[i]->value) continue;
    found.output = true;
    if (was[i]->file.empty() || !found.golden_file.empty()) continue;
    // Equal tensors of a call are stored once, under the first of their names.
    const auto first = std::find_if(now.inputs.begin(), now.inputs.end(),
                                    [&](const Port& input) { return input.value == is[i]->value; });
    found.target_file = fmt::format("{}.{}.pt", name, first == now.inputs.end() ? is[i]->name : first->name);
    found.golden_file = was[i]->file;
  }
}

std::string LiveComparison::MakerOf(const Call& now, const Differences& found) const {
  for (const Port& port : now.inputs) {
    if (std::find(found.inputs.begin(), found.inputs.end(), port.name) == found.inputs.end()) continue;
    const auto maker = makers_.find(port.range);
    if (maker != makers_.end()) return maker->second;
  }
  return {};
}

LiveComparison::Kind LiveComparison::Judge(std::string_view name, const Differences& differences,
                                           std::uint64_t found_before) {
  if (!differences.output) return Kind::kSame;
  const bool is_first = different_.empty();
  different_.emplace(name);
  if (!differences.has_inputs) return is_first ? Kind::kUnknownInputs : Kind::kInherited;
  if (!differences.inputs.empty()) return is_first ? Kind::kFromOutside : Kind::kInherited;
  if (found_before < num_found_) return Kind::kAround;
  // A backward also uses what the forward saved.
  if (const std::size_t at = name.find(kBackward); at != std::string_view::npos) {
    std::string forward(name);
    forward.replace(at, kBackward.size(), kForward);
    if (different_.contains(forward)) return Kind::kInherited;
  }
  return name.starts_with("Distributed.") ? Kind::kOtherRank : Kind::kSameInputs;
}

std::string LiveComparison::Words(Kind kind, std::string_view name, const Differences& differences) const {
  const auto some = [](const std::vector<std::string>& all, std::string_view between) {
    const std::vector<std::string> named(all.begin(), all.begin() + std::min(all.size(), kMostNamed));
    const std::string more =
        all.size() > named.size() ? fmt::format(" and {} more", all.size() - named.size()) : "";
    return fmt::format("{}{}", fmt::join(named, between), more);
  };
  const std::string shown = Printable(name);
  const std::string arguments =
      differences.arguments.empty()
          ? ""
          : fmt::format(" (argument {})", Printable(some(differences.arguments, "; ")));
  switch (kind) {
    case Kind::kSameInputs:
      return fmt::format("same inputs, different output: {}{}", shown, arguments);
    case Kind::kOtherRank:
      return fmt::format(
          "same inputs on this rank, different output: {}; look at the lines of the other ranks", shown);
    case Kind::kFromOutside:
      return fmt::format("inputs already different: {}, {}{}; {}", shown,
                         Printable(some(differences.inputs, ", ")), Printable(differences.types),
                         differences.made_by.empty()
                             ? "no recorded call made them"
                             : "made by a call that the reference does not have: " + differences.made_by);
    default:
      return name.find(kGradients) != std::string_view::npos
                 ? fmt::format("different gradient of a parameter, all calls before are the same: {}", shown)
                 : fmt::format("different output, inputs not recorded: {}", shown);
  }
}

std::string LiveComparison::Next(Kind kind, std::string_view name, const Differences& differences,
                                 const fs::path& folder) const {
  if (kind == Kind::kFromOutside && !differences.made_by.empty())
    return "next: make the same calls on both sides, or record both: vernier compare pairs a fused call with "
           "several";
  if (kind == Kind::kFromOutside)
    return differences.types.empty()
               ? "next: compare what goes in on both sides: data, weights, masks, seeds, the step before"
               : "next: look at where the two sides begin to compute in different types";
  if (kind == Kind::kOtherRank) return "next: look at the rank that differs first";
  if (!differences.golden_file.empty()) {
    const auto file = [](const fs::path& beside, const std::string& data_name) {
      return Printable(ShellWord(ShownPath(beside / "dump_tensor_data" / data_name)));
    };
    return fmt::format("next: vernier compare {} {} --worst 10", file(folder, differences.target_file),
                       file(path_.parent_path(), differences.golden_file));
  }
  return fmt::format(
      "next: record the reference again with task tensor and list [\"{}\"], then vernier compare the two "
      "with "
      "--worst 10",
      Printable(name));
}

Result<LiveVerdict> LiveComparison::Compare(std::string_view name, std::string_view parts,
                                            std::uint64_t found_before, const fs::path& folder) {
  const auto earlier = records_.find(std::string(name));
  LiveVerdict verdict;
  verdict.num_found = num_found_;
  Call now;
  JsonCursor json(parts);
  json.ForEachElement([&] {
    std::string text, buffer;
    std::vector<std::string> descriptors;
    bool is_first = true;
    json.ForEachElement([&] {
      std::string taken(json.TakeString(buffer));
      std::exchange(is_first, false) ? text = std::move(taken) : descriptors.emplace_back(std::move(taken));
    });
    const std::string record = WithDescriptors(text, descriptors);
    if (json.ok() && !CallReader(record).Read(now)) json.Fail(JsonError::kExpectedObject);
  });
  if (earlier == records_.end()) {
    ++num_unknown_;
    for (const Port& port : now.outputs) {
      if (different_.empty() && !port.range.empty()) makers_.emplace(port.range, Printable(name));
    }
    return verdict;
  }
  if (!json.ok()) return Error{ErrorCode::kBadArgument, "call", json.problem()};
  Result<Call> then = Read(earlier->second);
  if (!then) return In("bench_path: " + path_.string() + ": " + std::string(name), then.error());
  if (file_->changed()) return Error{ErrorCode::kFileChanged, "bench_path: " + path_.string(), ""};
  ++num_compared_;
  Differences differences;
  CompareInputs(now, *then, differences);
  CompareOutputs(name, now, *then, differences);
  const Kind kind = Judge(name, differences, found_before);
  if (kind == Kind::kFromOutside) differences.made_by = MakerOf(now, differences);
  verdict.store = kind >= Kind::kAround;
  if (kind <= Kind::kAround) return verdict;
  verdict.num_found = ++num_found_;
  if (num_found_here_++ == 0) first_found_ = name;
  verdict.stop = diff_nums_ > 0 && num_found_ >= static_cast<std::uint64_t>(diff_nums_);
  if (num_found_ <= kMostSaid || verdict.stop) verdict.says = Words(kind, name, differences);
  if (verdict.stop) {
    const std::string after = num_found_ == 1 ? "here" : fmt::format("after {} such calls", num_found_);
    verdict.says += fmt::format("; recording stopped {} (diff_nums={})\n{}", after, diff_nums_,
                                Next(kind, name, differences, folder));
  } else if (num_found_ == kMostSaid) {
    verdict.says += "\nmore of them are counted and stored, not shown";
  }
  return verdict;
}

LiveSummary LiveComparison::Summary() const {
  LiveSummary summary;
  const std::uint64_t num_calls = num_compared_ + num_unknown_;
  const std::string where = Printable(path_.string());
  if (num_compared_ == 0) {
    summary.is_problem = true;
    summary.says = num_calls == 0
                       ? fmt::format("no call was compared with {}", where)
                       : fmt::format("{} in {}; was it recorded at the same level?",
                                     num_calls == 1 ? "the only call is not"
                                                    : fmt::format("none of {} calls is", num_calls),
                                     where);
    return summary;
  }
  const std::string unknown = num_unknown_ == 0
                                  ? ""
                                  : fmt::format("; {} {} not in it", Plural(num_unknown_, "more call"),
                                                num_unknown_ == 1 ? "is" : "are");
  summary.says = fmt::format("{} compared with {}: ", Plural(num_compared_, "call"), where);
  summary.says += different_.empty() ? "no difference"
                                     : fmt::format("{} different, beginning in {} ({})", different_.size(),
                                                   Plural(num_found_here_, "call"), Printable(first_found_));
  summary.says += unknown;
  return summary;
}

}  // namespace vernier
