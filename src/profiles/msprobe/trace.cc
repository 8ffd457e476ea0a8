#include "profiles/msprobe/trace.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <unordered_map>

#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "profiles/msprobe/estimates.h"
#include "vernier/match.h"

namespace vernier::msprobe {
namespace {

constexpr std::uint32_t kLookAhead = 4;  // construct.json has the order of dump.json, with gaps
constexpr std::string_view kModules[] = {"Module", "Cell"};
constexpr std::string_view kPasses[] = {"forward", "backward", "parameters_grad"};  // in the order of Pass
constexpr std::string_view kDispatched = "Aten.", kBackwardOperator = "_backward";
constexpr std::string_view kCollectives[] = {"Distributed", "MintDist"};

template <class List>
bool Contains(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

// The parts of a record's name.
struct NameParts {
  std::vector<std::string_view> path;   // of a module; of an API its name
  std::string_view type, leaf, number;  // leaf: the class of a module
  std::optional<Pass> pass;
  bool is_module = false;
};

NameParts PartsOf(std::string_view name) {
  NameParts parts;
  std::vector<std::string_view> all = Split(name, '.');
  parts.type = all[0];
  parts.is_module = Contains(kModules, all[0]);
  std::size_t at = all.size();
  while (at > 1 && !Contains(kPasses, all[at - 1])) --at;
  if (at <= 1) {  // no direction
    parts.path.assign(all.begin() + 1, all.end());
    return parts;
  }
  const std::size_t direction = at - 1;
  parts.pass = static_cast<Pass>(std::find(std::begin(kPasses), std::end(kPasses), all[direction]) -
                                 std::begin(kPasses));
  std::size_t end = direction;
  if (parts.is_module) {
    if (direction + 1 < all.size() && IsDigits(all[direction + 1])) parts.number = all[direction + 1];
    if (end > 1) parts.leaf = all[--end];
  } else if (end > 1 && IsDigits(all[end - 1])) {
    parts.number = all[--end];
  }
  parts.path.assign(all.begin() + 1,
                    all.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(end, 1)));
  return parts;
}

double NumElements(std::string_view shape) {
  double product = 1;
  for (std::size_t at = 0; at < shape.size();) {
    double number = 0;
    const auto [end, error] = std::from_chars(shape.data() + at, shape.data() + shape.size(), number);
    if (error != std::errc()) {
      ++at;
      continue;
    }
    product *= number;
    at = static_cast<std::size_t>(end - shape.data());
  }
  return product;
}

bool HasAny(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

// Of booleans 0 and 1.
std::optional<double> StatisticOf(const Cell& cell) {
  if (cell.kind == Cell::Kind::kText && cell.text == "True") return 1;
  if (cell.kind == Cell::Kind::kText && cell.text == "False") return 0;
  return NumericOf(cell);
}

}  // namespace

Trace::Trace(const Dump& dump, const Rules& rules, const Renames& renames) : dump_(dump), rules_(rules) {
  calls_.reserve(dump.records().size());
  for (const Record& record : dump.records()) calls_.push_back(ParseCall(record.name, renames));
  ReadParents(renames);
  MarkFrames(calls_);
  FindBackward();
}

// Dispatched operators do not say that they run backward: from the first one that only does so on, they do.
void Trace::FindBackward() {
  const auto is_backward = [](const Call& call) {
    return call.kind.starts_with(kDispatched) && call.kind.find(kBackwardOperator) != std::string_view::npos;
  };
  auto at = std::find_if(calls_.begin(), calls_.end(), is_backward);
  for (; at != calls_.end(); ++at) {
    if (at->kind.starts_with(kDispatched)) at->pass = Pass::kBackward;
  }
}

// Where a module call stands, however the model was wrapped and whatever its class is called.
std::string_view Trace::PlaceOf(std::string_view module_name) {
  const NameParts parts = PartsOf(module_name);
  std::string place;
  for (const std::string_view part : parts.path) {
    if (rules_.Lists("wrappers", part)) continue;
    if (!place.empty()) place += '.';
    place += part;
  }
  place += '#';
  place += parts.number.empty() ? "0" : parts.number;
  return arena_.Keep(place);
}

const Call& Trace::TraitsOf(std::string_view leaf) {
  const auto [found, is_new] = traits_.try_emplace(std::string(leaf));
  Call& traits = found->second;
  if (!is_new) return traits;
  const std::pair<const char*, bool Call::*> lists[] = {
      {"products", &Call::is_product},      {"steps", &Call::is_step},
      {"cancelling", &Call::is_cancelling}, {"scalings", &Call::is_scaling},
      {"writers", &Call::is_writer},        {"unset", &Call::is_unset},
      {"random", &Call::is_random},         {"orders", &Call::is_order},
      {"shares", &Call::is_share},          {"workspaces", &Call::has_workspace}};
  for (const auto& [list, trait] : lists) traits.*trait = rules_.Lists(list, leaf);
  return traits;
}

Call Trace::ParseCall(std::string_view name, const Renames& renames) {
  const std::string_view recorded = name;
  std::string renamed;
  if (!renames.empty()) name = renamed = Renamed(std::string(name), renames);
  const NameParts parts = PartsOf(name);
  const std::string_view leaf = parts.is_module      ? parts.leaf
                                : parts.path.empty() ? std::string_view()
                                                     : parts.path.back();
  Call call = TraitsOf(leaf);
  call.name = recorded;
  call.pass = parts.pass.value_or(Pass::kForward);
  call.is_module = parts.is_module;
  call.is_in_place = !parts.is_module && leaf.ends_with('_') && !leaf.ends_with("__");
  call.is_collective = Contains(kCollectives, parts.type);
  std::string kind(parts.is_module ? std::string_view("Module") : parts.type);
  if (parts.is_module) {
    kind += '.';
    kind += parts.leaf;
    call.place = PlaceOf(name);
    call.twin = call.place;
  } else {
    for (const std::string_view part : parts.path) (kind += '.') += part;
    std::string twin = kind + '.';
    twin += parts.number;
    call.twin = arena_.Keep(twin);
  }
  call.kind = arena_.Keep(kind);
  return call;
}

void Trace::ReadParents(const Renames& renames) {
  const Result<FileRef> file = MappedFile::Open(dump_.path().parent_path() / "construct.json");
  if (!file) return;
  std::unordered_map<std::string_view, std::uint32_t> at;  // made when the order does not tell
  std::uint32_t next = 0;
  const auto find = [&](std::string_view name) -> Call* {
    for (std::uint32_t i = next; i < std::min<std::size_t>(calls_.size(), next + kLookAhead); ++i) {
      if (calls_[i].name != name) continue;
      next = i + 1;
      return &calls_[i];
    }
    if (at.empty()) {
      for (std::uint32_t i = 0; i < calls_.size(); ++i) at.emplace(calls_[i].name, i);
    }
    const auto found = at.find(name);
    if (found == at.end()) return nullptr;
    next = found->second + 1;
    return &calls_[found->second];
  };
  std::unordered_map<std::string, std::string_view> places;
  JsonCursor cursor(TextOf(*file));
  std::string buffer, parent, decoded;
  cursor.ForEachMember([&](std::string_view key, bool escaped) {
    if (escaped) key = decoded = DecodeJsonString(key);
    parent.clear();
    const auto take = [&] {
      if (parent.empty() && cursor.Peek() == JsonKind::kString) {
        parent = cursor.TakeString(buffer);
      } else {
        cursor.Skip();
      }
    };
    if (cursor.Peek() == JsonKind::kArray) {  // under Megatron, a list that begins with it
      cursor.ForEachElement(take);
    } else {
      take();
    }
    if (!cursor.ok() || parent.empty()) return;
    Call* const call = find(key);
    if (call == nullptr || call->is_module) return;
    const auto [place, is_new] = places.try_emplace(parent);
    if (is_new) place->second = PlaceOf(renames.empty() ? parent : Renamed(parent, renames));
    call->place = place->second;
  });
}

std::string Trace::SuffixOf(std::size_t row) const {
  std::string name = dump_.NameOf(row);
  const std::string_view record = dump_.records()[dump_.rows()[row].record].name;
  if (name.starts_with(record)) name.erase(0, record.size());
  return name;
}

std::uint64_t Trace::SignatureOf(std::uint32_t call) const {
  const Record& record = dump_.records()[call];
  TextArena arena;
  std::string text;
  for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row) {
    if (dump_.rows()[row].bad) continue;
    const Leaf leaf = dump_.Read(dump_.rows()[row], arena);
    (text += leaf.dtype) += ' ';
    (text += leaf.shape) += ' ';
    text += std::to_string(dump_.rows()[row].state) + '\n';
  }
  return std::hash<std::string>()(text);
}

Value ValueOf(const Leaf& leaf, TextArena& arena) {
  Value value;
  if (leaf.dtype == "None" || leaf.dtype == "N/A") return value;
  const bool is_class = leaf.dtype.starts_with("<class");
  const bool is_tensor = !is_class && HasAny(leaf.dtype, {"float", "Float", "int", "Int", "bool", "Bool",
                                                          "complex", "Complex", "hif"});
  if (!is_tensor) {
    value.kind = Value::Kind::kPlain;
    value.dtype = leaf.dtype;
    value.shape = leaf.shape;
    value.text = arena.Keep(is_class ? CellText(leaf.statistics[0]) : std::string(leaf.shape));
    return value;
  }
  value.kind = Value::Kind::kTensor;
  value.dtype = leaf.dtype;
  value.shape = leaf.shape;
  value.is_float = HasAny(leaf.dtype, {"float", "Float", "complex", "Complex", "hif"});
  value.is_half = HasAny(leaf.dtype, {"float16", "Float16", "float8", "Float8", "hif"});
  value.is_eighth = value.is_half && HasAny(leaf.dtype, {"float8", "Float8", "hif"});
  value.num_elements = NumElements(leaf.shape);
  double* const statistics[] = {&value.max, &value.min, &value.mean, &value.norm};
  for (std::size_t i = 0; i < std::size(statistics); ++i) {
    if (const auto number = StatisticOf(leaf.statistics[i])) *statistics[i] = *number;
  }
  if (leaf.has_md5) value.checksum = leaf.md5;
  value.num_masked = leaf.sketch_bad;
  return value;
}

Role RoleOf(PortState state) {
  static constexpr Role kRoles[] = {Role::kInput, Role::kParameter, Role::kOutput, Role::kGradient};
  return kRoles[static_cast<std::size_t>(state)];
}

Facts FactsOf(Mode mode, const ResultRow& row, TextArena& arena) {
  static constexpr Compared kCompared[] = {Compared::kTensors, Compared::kStatistics, Compared::kChecksums};
  const Value target = ValueOf(row.npu, arena);
  const Value golden = row.matched ? ValueOf(row.bench, arena) : Value();
  std::optional<SketchEstimate> estimate = row.estimate;
  if (!estimate && mode == Mode::kStatistics && row.matched)
    estimate = EstimateFrom(row.npu, row.bench).difference;
  // Of tensors that nobody stored, or whose files cannot be read, the statistics beside them tell.
  const Compared by = mode == Mode::kReal && row.measures == nullptr
                          ? Compared::kStatistics
                          : kCompared[static_cast<std::size_t>(mode)];
  return vernier::FactsOf(RoleOf(row.state), target, row.matched ? &golden : nullptr, row.measures,
                          estimate ? &*estimate : nullptr, by);
}

}  // namespace vernier::msprobe
