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
  std::optional<std::uint32_t> given_nan, infinite_parameter;  // the first row of each
};

NotFinite NotFiniteOf(const Dump& dump, const Call& call, const Record& record) {
  NotFinite found;
  TextArena arena;
  bool written_over = call.is_writer;  // the first input
  for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row) {
    if (dump.rows()[row].bad) continue;
    const auto state = static_cast<PortState>(dump.rows()[row].state);
    const Special::Kind kind = KindOf(ValueOf(dump.Read(dump.rows()[row], arena), arena));
    if (IsResult(state)) {
      found.made = std::max(found.made, kind);
    } else if (!std::exchange(written_over, false)) {
      found.given = std::max(found.given, kind);
      if (kind == Special::kNan && !found.given_nan) found.given_nan = row;
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
    if (call.pass == Pass::kBackward && not_finite_.contains(call.twin)) return {};  // it inherits that
    if (call.pass == Pass::kForward && std::max(found.given, found.made) != Special::kNothing)
      not_finite_.insert(call.twin);
    if (found.given_nan && is_new_nan) return Entered("NaN", call, *found.given_nan);
    // A mask is infinite as well, but no parameter.
    if (found.infinite_parameter && !std::exchange(any_infinite_parameter_, true))
      return Entered("infinity", call, *found.infinite_parameter);
    if (call.is_frame) return {};
    const Special special = SpecialOf(dump_, call, record);
    return {special.made == Special::kNothing ? "" : SpecialText(special), {}};
  }

 private:
  Finding Entered(std::string_view what, const Call& call, std::uint32_t row) const {
    const bool is_parameter = static_cast<PortState>(dump_.rows()[row].state) == PortState::kParameters;
    const std::string_view guess = is_parameter                   ? "a weight"
                                   : call.pass == Pass::kBackward ? "a call that was not recorded"
                                                                  : "data or a weight";
    std::string port = trace_.SuffixOf(row);
    if (port.starts_with('.')) port.erase(0, 1);
    return {fmt::format("is given {} that no call before made: {} ({})", what, guess, Printable(port)), row};
  }

  const Dump& dump_;
  const Trace& trace_;
  std::unordered_set<std::string_view> not_finite_;  // twins of forward calls that hold NaN or infinities
  bool any_nan_ = false, any_infinite_parameter_ = false;
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

Result<Listing> HuntNan(const std::string& path) {
  Listing listing;
  listing.columns = {"rank", "name", "finding", "input", "output", "called from"};
  for (const fs::path& file : RecordingsUnder(path)) {
    if (file.filename() == "debug.json") continue;
    DumpOptions options;
    options.check_values = false;
    VN_ASSIGN_OR_RETURN(const Dump dump, Dump::Open(file, options));
    const Trace trace(dump, Rules::Verdict());
    std::optional<Result<StackFile>> stacks;
    const std::string rank = fs::path(file).lexically_relative(path).parent_path().string();
    Hunt hunt(dump, trace);
    for (std::uint32_t record = 0; record < dump.records().size(); ++record) {
      const Hunt::Finding finding = hunt.FindingOf(record);
      if (finding.text.empty()) continue;
      std::string input, output;
      TextArena arena;
      const Record& rows = dump.records()[record];
      for (std::uint32_t row = rows.first_row; row < rows.first_row + rows.num_rows; ++row) {
        const Value value = ValueOf(dump.Read(dump.rows()[row], arena), arena);
        if (value.kind != Value::Kind::kTensor || value.max == Value::kUnknown) continue;
        const bool is_output = static_cast<PortState>(dump.rows()[row].state) == PortState::kOutput;
        std::string& text = is_output ? output : input;
        if (text.empty() || row == finding.entered) text = RangeText(value);
      }
      if (!stacks) stacks = StackFile::Open(file.parent_path() / "stack.json");
      const std::string line = UserLine(*stacks, rows.name);
      const Cell cells[] = {rank.empty() || rank == "." ? Cell() : Cell(rank),
                            rows.name,
                            finding.text,
                            input.empty() ? Cell() : Cell(input),
                            output.empty() ? Cell() : Cell(output),
                            line.empty() ? Cell() : Cell(line)};
      listing.rows.emplace_back(cells);
    }
  }
  return listing;
}

}  // namespace vernier::msprobe
