#include "profiles/msprobe/nan_hunt.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "core/text.h"
#include "profiles/msprobe/context.h"
#include "profiles/msprobe/tree.h"

namespace vernier::msprobe {
namespace {

namespace fs = std::filesystem;

Special::Kind KindOf(double value) {
  if (value == Value::kUnknown || std::isfinite(value)) return Special::kNothing;
  return std::isnan(value) ? Special::kNan : Special::kInfinity;
}

Special::Kind KindOf(const Value& value) {
  return value.kind == Value::Kind::kTensor ? std::max(KindOf(value.max), KindOf(value.min))
                                            : Special::kNothing;
}

// A number among the arguments that is itself not finite.
bool AsksForIt(const Value& value) {
  return value.kind == Value::Kind::kPlain &&
         (value.text == "inf" || value.text == "-inf" || value.text == "nan" || value.text == "Infinity" ||
          value.text == "-Infinity" || value.text == "NaN" || value.text == "Nan");
}

std::string RangeText(const Value& value) { return fmt::format("{:.4g} … {:.4g}", value.min, value.max); }

bool IsResult(PortState state) { return state == PortState::kOutput || state == PortState::kParametersGrad; }

// What a record holds that is not finite.
struct NotFinite {
  Special::Kind given = Special::kNothing, made = Special::kNothing;
  bool makes_infinity = false;  // +inf, which no mask holds
  // The first row of each. Of masks the least is infinite, and not the largest.
  std::optional<std::uint32_t> given_nan, given_infinity, infinite_parameter;
};

NotFinite NotFiniteOf(const Dump& dump, const Call& call, const Record& record) {
  NotFinite found;
  TextArena arena;
  bool written_over = call.is_writer;  // the first input
  for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row) {
    if (dump.rows()[row].bad) continue;
    const auto state = static_cast<PortState>(dump.rows()[row].state);
    const Value value = ValueOf(dump.Read(dump.rows()[row], arena), arena);
    const Special::Kind kind = KindOf(value);
    const bool is_positive = kind == Special::kInfinity && value.max > 0 && std::isinf(value.max);
    if (IsResult(state)) {
      found.made = std::max(found.made, kind);
      found.makes_infinity = found.makes_infinity || is_positive;
    } else if (!std::exchange(written_over, false)) {
      found.given = std::max(found.given, kind);
      if (kind == Special::kNan && !found.given_nan) found.given_nan = row;
      if (is_positive && !found.given_infinity) found.given_infinity = row;
      if (kind == Special::kInfinity && state == PortState::kParameters && !found.infinite_parameter)
        found.infinite_parameter = row;
    }
  }
  return found;
}

// The calls of one recording, asked about in the order in which they ran.
class Hunt {
 public:
  Hunt(const Dump& dump, const Trace& trace) : dump_(dump), trace_(trace) {}

  struct Finding {
    std::string text;                      // empty: none
    std::optional<std::uint32_t> entered;  // the row of what no call made
  };
  Finding FindingOf(std::uint32_t record) {
    const Call& call = trace_.calls()[record];
    if (call.pass == Pass::kGradient) return {};  // what a parameter got was made by a call before
    const NotFinite found = NotFiniteOf(dump_, call, dump_.records()[record]);
    const bool is_new_nan =
        !std::exchange(any_nan_, any_nan_ || std::max(found.given, found.made) == Special::kNan);
    const bool is_new_infinity = !std::exchange(
        any_infinity_, any_infinity_ || found.makes_infinity || found.given_infinity.has_value());
    if (call.pass == Pass::kBackward && not_finite_.contains(call.twin)) return {};  // it inherits that
    if (call.pass == Pass::kForward && std::max(found.given, found.made) != Special::kNothing)
      not_finite_.insert(call.twin);
    if (found.given_nan && is_new_nan) return Entered("NaN", call, *found.given_nan);
    if (found.given_infinity && is_new_infinity && !IsOfAParameter(record, *found.given_infinity))
      return Entered("infinity", call, *found.given_infinity);
    // A mask is infinite as well, but no parameter.
    if (found.infinite_parameter && !std::exchange(any_infinite_parameter_, true))
      return Entered("infinity", call, *found.infinite_parameter);
    if (call.is_frame) return {};
    const Special special = SpecialOf(dump_, call, record);
    return {special.made == Special::kNothing ? "" : SpecialText(special), {}};
  }

 private:
  // The module that has it says so better, and is recorded behind its calls.
  bool IsOfAParameter(std::uint32_t record, std::uint32_t row) const {
    TextArena arena;
    const Leaf given = dump_.Read(dump_.rows()[row], arena);
    for (; record < dump_.records().size(); ++record) {
      const auto parameter =
          NotFiniteOf(dump_, trace_.calls()[record], dump_.records()[record]).infinite_parameter;
      if (!parameter) continue;
      const Leaf leaf = dump_.Read(dump_.rows()[*parameter], arena);
      if (leaf.shape == given.shape && CellText(leaf.statistics[1]) == CellText(given.statistics[1]))
        return true;
    }
    return false;
  }
  Finding Entered(std::string_view what, const Call& call, std::uint32_t row) const {
    const bool is_parameter = static_cast<PortState>(dump_.rows()[row].state) == PortState::kParameters;
    const std::string_view guess = is_parameter                   ? "a weight"
                                   : call.pass == Pass::kBackward ? "a call that was not recorded"
                                                                  : "data or a weight";
    std::string port = trace_.SuffixOf(row);
    if (port.starts_with('.')) port.erase(0, 1);
    return {fmt::format("is given {} that no recorded call made: {} ({})", what, guess, Printable(port)),
            row};
  }

  const Dump& dump_;
  const Trace& trace_;
  std::unordered_set<std::string_view> not_finite_;  // twins of forward calls that hold NaN or infinities
  bool any_nan_ = false, any_infinity_ = false, any_infinite_parameter_ = false;
};

}  // namespace

Special SpecialOf(const Dump& dump, const Call& call, std::uint32_t record_index) {
  const Record& record = dump.records()[record_index];
  if (call.is_unset) return {};
  TextArena arena;
  Special::Kind given = Special::kNothing, made = Special::kNothing;
  bool asked = false, infinite = false, first = true;
  for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row) {
    if (dump.rows()[row].bad) continue;
    const Value value = ValueOf(dump.Read(dump.rows()[row], arena), arena);
    if (IsResult(static_cast<PortState>(dump.rows()[row].state))) {
      made = std::max(made, KindOf(value));
      continue;
    }
    asked = asked || AsksForIt(value);
    const bool written_over = call.is_writer && std::exchange(first, false);
    if (written_over && KindOf(value) != Special::kNothing) return {};  // whatever the memory held
    given = std::max(given, KindOf(value));
    infinite = infinite || KindOf(value) == Special::kInfinity;
  }
  if (made <= given || (asked && made == Special::kInfinity)) return {};
  return {made, infinite};
}

std::string SpecialText(const Special& special) {
  return fmt::format("makes {} from {}", special.made == Special::kNan ? "NaN" : "infinity",
                     special.from_infinity ? "infinities" : "finite inputs");
}

namespace {

// What one recording adds to the list.
class Hunter {
 public:
  explicit Hunter(const std::string& path) : path_(path) {
    listing_.columns = {"rank", "name", "finding", "input", "output", "called from"};
  }

  Result<Done> Look(const fs::path& file) {
    DumpOptions options;
    options.check_values = false;
    VN_ASSIGN_OR_RETURN(const Dump dump, Dump::Open(file, options));
    const Trace trace(dump, Rules::Verdict());
    std::optional<Result<StackFile>> stacks;
    Hunt hunt(dump, trace);
    for (std::uint32_t record = 0; record < dump.records().size(); ++record) {
      const Hunt::Finding finding = hunt.FindingOf(record);
      if (finding.text.empty()) continue;
      if (!stacks) stacks = StackFile::Open(file.parent_path() / "stack.json");
      const auto [input, output] = RangesOf(dump, record, finding.entered);
      const std::string_view name = dump.records()[record].name;
      std::string line = UserLine(*stacks, name);
      std::replace(line.begin(), line.end(), '\n', ' ');
      Add(file, name, finding.text, input, output, line, trace.calls()[record].is_collective);
    }
    return Done{};
  }

  void AddUnread(const fs::path& file, const Error& error) {
    Add(file, file.filename().string(), "could not be read: " + error.Message(), "", "", "", false);
    --num_makers_;
  }

  // A collective hands on what another rank made; where none did, its own sum is to blame.
  Listing Take() && {
    for (Found& found : found_) {
      if (!found.is_collective || num_makers_ == 0) listing_.rows.push_back(std::move(found.row));
    }
    return std::move(listing_);
  }

 private:
  struct Found {
    decltype(Listing::rows)::value_type row;
    bool is_collective;
  };

  // Of what goes in and of what comes out; of several the one that is not finite.
  static std::pair<std::string, std::string> RangesOf(const Dump& dump, std::uint32_t record,
                                                      std::optional<std::uint32_t> entered) {
    std::string texts[2];
    bool shows_it[2] = {};
    TextArena arena;
    const Record& rows = dump.records()[record];
    for (std::uint32_t row = rows.first_row; row < rows.first_row + rows.num_rows; ++row) {
      if (dump.rows()[row].bad) continue;
      const Value value = ValueOf(dump.Read(dump.rows()[row], arena), arena);
      if (value.kind != Value::Kind::kTensor || value.max == Value::kUnknown) continue;
      const std::size_t side = IsResult(static_cast<PortState>(dump.rows()[row].state)) ? 1 : 0;
      const bool is_it = row == entered || (side == 1 && KindOf(value) != Special::kNothing);
      if (!texts[side].empty() && (shows_it[side] || !is_it)) continue;
      texts[side] = RangeText(value);
      shows_it[side] = is_it;
    }
    return {texts[0], texts[1]};
  }

  void Add(const fs::path& file, std::string_view name, const std::string& finding, const std::string& input,
           const std::string& output, const std::string& line, bool is_collective) {
    const std::string rank = fs::path(file).lexically_relative(path_).parent_path().string();
    const auto cell = [](const std::string& text) { return text.empty() ? Cell() : Cell(text); };
    const Cell cells[] = {
        rank == "." ? Cell() : cell(rank), name, finding, cell(input), cell(output), cell(line)};
    found_.push_back({decltype(Listing::rows)::value_type(cells), is_collective});
    num_makers_ += !is_collective;
  }

  const std::string& path_;
  Listing listing_;
  std::vector<Found> found_;
  std::int64_t num_makers_ = 0;  // findings of calls that are no collectives
};

}  // namespace

Result<Listing> HuntNan(const std::string& path) {
  Hunter hunter(path);
  std::vector<fs::path> damaged;
  const std::vector<fs::path> files = RecordingsUnder(path, &damaged);
  for (const fs::path& file : files) {
    if (file.filename() == "debug.json") continue;
    const Result<Done> looked = hunter.Look(file);
    if (looked) continue;
    if (files.size() == 1) return looked.error();
    hunter.AddUnread(file, looked.error());
  }
  for (const fs::path& file : damaged)
    hunter.AddUnread(file, Error{ErrorCode::kBadHeader, "", "it does not begin as a recording does"});
  return std::move(hunter).Take();
}

}  // namespace vernier::msprobe
