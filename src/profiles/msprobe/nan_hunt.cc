#include "profiles/msprobe/nan_hunt.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

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
    if (static_cast<PortState>(dump.rows()[row].state) == PortState::kOutput ||
        static_cast<PortState>(dump.rows()[row].state) == PortState::kParametersGrad) {
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
    for (std::uint32_t record = 0; record < dump.records().size(); ++record) {
      const Call& call = trace.calls()[record];
      // What a parameter got was made by a call before.
      if (call.pass == Pass::kGradient || call.is_frame) continue;
      const Special special = SpecialOf(dump, call, record);
      if (special.made == Special::kNothing) continue;
      std::string input, output;
      TextArena arena;
      const Record& rows = dump.records()[record];
      for (std::uint32_t row = rows.first_row; row < rows.first_row + rows.num_rows; ++row) {
        const Value value = ValueOf(dump.Read(dump.rows()[row], arena), arena);
        if (value.kind != Value::Kind::kTensor || value.max == Value::kUnknown) continue;
        const bool is_output = static_cast<PortState>(dump.rows()[row].state) == PortState::kOutput;
        std::string& text = is_output ? output : input;
        if (text.empty()) text = RangeText(value);
      }
      if (!stacks) stacks = StackFile::Open(file.parent_path() / "stack.json");
      const std::string finding = SpecialText(special), line = UserLine(*stacks, call.name);
      const Cell cells[] = {rank.empty() || rank == "." ? Cell() : Cell(rank),
                            call.name,
                            finding,
                            input.empty() ? Cell() : Cell(input),
                            output.empty() ? Cell() : Cell(output),
                            line.empty() ? Cell() : Cell(line)};
      listing.rows.emplace_back(cells);
    }
  }
  return listing;
}

}  // namespace vernier::msprobe
