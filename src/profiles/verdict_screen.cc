#include "profiles/verdict_screen.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "core/text.h"

namespace vernier {
namespace {

constexpr std::size_t kWidth = 100, kMostLines = 24;
constexpr std::size_t kLinesOfFiles = 6;  // at most, behind the screen: which files were written
constexpr std::size_t kShownEvidence = 2, kShownArguments = 3, kShownOutside = 3, kShownDoubts = 3,
                      kShownGroups = 4, kShownRenames = 4;
constexpr std::string_view kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::size_t kErrorWidth = 11;                  // of the column, with the space behind it
constexpr std::size_t kLeastName = 24, kMostValue = 24;  // columns that a name keeps, and a value may take
constexpr double kLowestBar = 1e-7;
constexpr double kOfRounding = 1e-2;  // the largest error that is called so

// Columns, counting a character of UTF-8 as one.
std::size_t Columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Cuts what does not fit, out of the middle: the two ends tell most. Of text that is read from its beginning
// the end is cut.
enum class Cut : std::uint8_t { kMiddle, kEnd };
std::string Fit(std::string_view text, std::size_t width, Cut cut = Cut::kMiddle) {
  std::string line = Printable(text);
  if (Columns(line) <= width || width < 3) return line;
  const std::size_t keep = width - 1, head = cut == Cut::kEnd ? keep : keep / 2, tail = keep - head;
  const auto byte_of = [&](std::size_t column) {
    std::size_t at = 0;
    for (std::size_t seen = 0; at < line.size(); ++at) {
      const bool starts = (static_cast<unsigned char>(line[at]) & 0xC0) != 0x80;
      if (starts && seen++ == column) break;
    }
    return at;
  };
  return line.substr(0, byte_of(head)) + "…" + line.substr(byte_of(Columns(line) - tail));
}

std::string ErrorText(double error) {
  if (std::isinf(error)) return "not finite";
  if (error != 0 && error < 1e-30) return "unknown";  // checksums differ, statistics do not
  return fmt::format("{:.3g}", error);
}

// A number with so many digits; other texts, and whole numbers, as they are.
std::string WithDigits(const std::string& text, int digits) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool is_whole = text.find_first_not_of("0123456789-") == std::string::npos;
  return error == std::errc() && stop == end && !is_whole ? fmt::format("{:.{}g}", number, digits) : text;
}

// Both sides with four digits, or with as many more as tell them apart.
std::pair<std::string, std::string> BothInShort(const std::string& a, const std::string& b) {
  constexpr int kFewest = 4, kMost = 17;
  for (int digits = kFewest; digits < kMost; ++digits) {
    std::pair<std::string, std::string> both = {WithDigits(a, digits), WithDigits(b, digits)};
    if (a == b || both.first != both.second) return both;
  }
  return {a, b};
}

std::string SidesText(const Outside& found) {
  if (found.target.empty() && found.golden.empty()) return {};
  const auto [target, golden] = BothInShort(found.target, found.golden);
  return fmt::format("   target {}   golden {}", target.empty() ? "none" : Fit(target, kMostValue),
                     golden.empty() ? "none" : Fit(golden, kMostValue));
}

bool IsNumber(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

class Lines {
 public:
  // `reserved`: lines at the end that are kept for commands.
  explicit Lines(std::size_t reserved) : reserved_(reserved) {}

  void Add(std::string_view line, Cut cut = Cut::kMiddle) { AddDone(Fit(line, kWidth, cut)); }
  // With colours, and cut where it must be. What does not fit one screen is left to summary.json.
  void AddDone(std::string line) {
    if (room() > reserved_) lines_.push_back(std::move(line));
  }
  void AddCommand(std::string_view line) {  // to be pasted: never cut
    if (room() > 0) lines_.push_back(Printable(line));
  }
  void Blank() {
    if (!lines_.empty() && !lines_.back().empty()) lines_.emplace_back();
  }
  std::size_t room() const { return lines_.size() >= kMostLines ? 0 : kMostLines - lines_.size(); }
  std::string Text() const {
    std::string text;
    for (const std::string& line : lines_) text += line + '\n';
    return text;
  }

 private:
  std::size_t reserved_;
  std::vector<std::string> lines_;
};

// "step1/rank0" of ".../golden/step1/rank0/dump.json": what the two paths do not share.
std::pair<std::string, std::string> ShortPaths(std::string a, std::string b) {
  for (std::string* path : {&a, &b}) {
    for (const std::string_view file : {"/dump.json", "/debug.json"}) {
      if (path->ends_with(file)) path->resize(path->size() - file.size());
    }
  }
  std::size_t shared = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) {
    if (a[i] == '/') shared = i + 1;
  }
  return {a.substr(shared), b.substr(shared)};
}

std::string Coloured(std::string_view text, RunVerdict verdict, bool colour) {
  if (!colour) return std::string(text);
  constexpr std::string_view kColours[] = {"\033[1;32m", "\033[1;32m", "\033[1;31m", "\033[1;33m"};
  return std::string(kColours[static_cast<std::size_t>(verdict)]) + std::string(text) + "\033[0m";
}

// Green promises that everything was compared.
std::string ColouredHeading(const CompareOutcome& outcome, bool colour) {
  const bool whole = std::all_of(outcome.ranks.begin(), outcome.ranks.end(),
                                 [](const RankOutcome& rank) { return rank.doubts.empty(); }) &&
                     outcome.doubts.empty();
  const bool fails = outcome.verdict == RunVerdict::kDiverged;
  return Coloured(Heading(outcome.verdict), whole || fails ? outcome.verdict : RunVerdict::kUnknown, colour);
}

// How calls were paired and rows were matched: on one line where it fits.
void AddMatching(const RankOutcome& rank, Lines& lines) {
  std::string text;
  if (rank.num_calls > 0) {
    std::uint64_t num_paired = 0;
    std::string others;
    for (const auto& [rule, count] : rank.num_calls_paired_by) {
      num_paired += count;
      if (rule != "name" && count > 0) others += fmt::format(", {} by {}", count, rule);
    }
    text = fmt::format("{} calls paired{}", num_paired, others);
    if (rank.num_alone > 0) text += fmt::format(", {} alone", rank.num_alone);
  }
  std::string rows =
      fmt::format("{}/{}{} matched", rank.num_matched, rank.num_target, rank.num_calls > 0 ? " rows" : "");
  for (std::size_t i = 0; i < rank.num_matched_by.size(); ++i)
    rows += fmt::format("{}{}", i == 0 ? " by " : ", ", rank.num_matched_by[i].first);
  rows += fmt::format(" · {} · {} failing", rank.mode, rank.num_failed);
  if (rank.num_failed_otherwise_paired > 0)
    rows += fmt::format(", {} of them not as the verdict pairs", rank.num_failed_otherwise_paired);
  const std::string both = text.empty() ? rows : text + " · " + rows;
  if (Columns(both) <= kWidth) return lines.Add(both);
  lines.Add(text);
  lines.Add(rows);
}

// "blocks.2.norm1 (LayerNorm)" of "Module.blocks.2.norm1.LayerNorm.forward.0".
std::string ModuleText(std::string_view module) {
  const std::vector<std::string_view> parts = Split(module, '.');
  std::size_t end = parts.size();
  while (end > 0 && parts[end - 1] != "forward" && parts[end - 1] != "backward") --end;
  if (end < 3) return std::string(module);
  std::string path;
  for (std::size_t i = 1; i + 2 < end; ++i) (path += path.empty() ? "" : ".") += parts[i];
  return fmt::format("{} ({})", path, parts[end - 2]);
}

// "train.py:42   x = f(x)" of "File train.py, line 42, in forward, \n x = f(x)".
std::string SourceText(std::string_view line) {
  constexpr std::string_view kFile = "File ", kLine = ", line ", kCode = "\n ";
  const std::size_t number = line.find(kLine);
  if (!line.starts_with(kFile) || number == std::string_view::npos) return std::string(line);
  std::string text(line.substr(kFile.size(), number - kFile.size()));
  if (text.size() > kWidth / 2) {  // the end of a path tells more than its beginning
    const std::size_t cut = text.find('/', text.size() - kWidth / 2);
    if (cut != std::string::npos) text.replace(0, cut, "…");
  }
  const std::string_view rest = line.substr(number + kLine.size());
  (text += ':') += rest.substr(0, rest.find_first_not_of("0123456789"));
  const std::size_t code = line.find(kCode);
  if (code != std::string_view::npos) (text += "   ") += line.substr(code + kCode.size());
  return text;
}

void AddCulprit(const RankOutcome& rank, bool colour, Lines& lines) {
  const Culprit& found = *rank.culprit;
  const std::string where = found.module.empty() ? "" : "   " + ModuleText(found.module);
  const std::string label = Coloured("CULPRIT", RunVerdict::kDiverged, colour);
  lines.AddDone(label + "  " +
                Fit(fmt::format("{}{}, {}{}", found.call.empty() ? found.record : found.call, where,
                                found.pass, rank.rank.empty() ? "" : "   on " + rank.rank),
                    kWidth - 9));
  lines.Add(fmt::format("  record  {}", found.record));
  if (const std::string& line = found.called_from.empty() ? found.stack : found.called_from; !line.empty())
    lines.Add("  " + SourceText(line), Cut::kEnd);
  lines.Add(fmt::format("  why     {}", found.why));
  for (std::size_t i = 1; i < std::min(found.arguments.size(), kShownArguments + 1); ++i)
    lines.Add("          " + ArgumentText(found.arguments[i], found.record));
  std::size_t num_same = 0, num_inputs = 0;
  double largest = 0;
  const std::string_view same = rank.mode == "statistics" ? "identical by their statistics" : "identical";
  std::vector<const Evidence*> outputs, inputs;
  for (const Evidence& evidence : found.evidence) {
    if (evidence.port == "output" || evidence.port == "parameters_grad") {
      outputs.push_back(&evidence);
      continue;
    }
    ++num_inputs;
    num_same += evidence.error == 0;
    largest = std::fmax(largest, evidence.error);
    if (evidence.error > 0) inputs.push_back(&evidence);
  }
  if (num_inputs > 0) {
    lines.Add(num_same == num_inputs
                  ? fmt::format("  inputs  {} {}",
                                num_inputs == 1 ? "1 of 1" : fmt::format("all {}", num_inputs), same)
                  : fmt::format("  inputs  {} of {} {}, largest error {}", num_same, num_inputs, same,
                                ErrorText(largest)));
  }
  const auto worse = [](const Evidence* a, const Evidence* b) { return a->error > b->error; };
  std::stable_sort(outputs.begin(), outputs.end(), worse);
  std::stable_sort(inputs.begin(), inputs.end(), worse);
  std::vector<const Evidence*> shown(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                                            outputs.size(), kShownEvidence)));
  if (found.reason == "input" && !inputs.empty()) shown.insert(shown.begin(), inputs[0]);
  const auto port = [&](const Evidence& evidence) {
    const std::size_t record = evidence.name.starts_with(found.record) ? found.record.size() + 1 : 0;
    return evidence.name.size() > record ? evidence.name.substr(record) : evidence.name;
  };
  std::size_t width = 7;
  for (const Evidence* evidence : shown) width = std::max(width, Columns(port(*evidence)));
  for (const Evidence* evidence : shown) {
    const bool has_numbers = IsNumber(evidence->target) || IsNumber(evidence->golden);
    const auto [target, golden] = BothInShort(evidence->target, evidence->golden);
    const std::string extremes = !has_numbers && evidence->target == evidence->golden
                                     ? ""
                                     : fmt::format("{}{} / {}", has_numbers ? "max " : "", target, golden);
    const std::string error = ErrorText(evidence->error);
    lines.Add(fmt::format("  {:<{}} error {:<{}}{}", port(*evidence), width, error,
                          extremes.empty() ? 0 : kErrorWidth, extremes));
  }
  if (!found.worst.empty()) lines.Add("  worst   " + found.worst);
}

void AddBar(const RankOutcome& rank, Lines& lines) {
  double largest = 0;
  for (const auto& [part, error] : rank.errors_along)
    if (std::isfinite(error)) largest = std::fmax(largest, error);
  const bool any = std::any_of(rank.errors_along.begin(), rank.errors_along.end(),
                               [](const auto& part) { return part.second > 0; });
  if (!any || rank.errors_along.size() < 2) return;
  const double top = std::log10(std::fmax(largest, kLowestBar * 1e3)), bottom = std::log10(kLowestBar);
  const auto bar = [&](double error) {
    if (std::isinf(error)) return kBars[std::size(kBars) - 1];
    if (error <= kLowestBar) return kBars[0];
    const double share = (std::log10(error) - bottom) / (top - bottom);
    return kBars[static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * (std::size(kBars) - 1)))];
  };
  std::string named = "error  ", plain = "error   ";
  for (const auto& [part, error] : rank.errors_along) {
    named += fmt::format(" {} {}", part, bar(error));
    plain += bar(error);
  }
  const bool has_names = !rank.errors_along.front().first.empty();
  if (has_names && Columns(named) <= kWidth) return lines.Add(named);
  lines.Add(has_names ? fmt::format("{}   {} … {}", plain, rank.errors_along.front().first,
                                    rank.errors_along.back().first)
                      : plain + "   first call … last call");
}

void AddOutside(const RankOutcome& rank, Lines& lines) {
  std::string counts;
  for (const auto& [what, count] : rank.num_outside)
    counts += fmt::format("{}{}", counts.empty() ? "" : ", ", Plural(count, what));
  if (!counts.empty()) lines.Add("outside " + counts);
  std::size_t num_shown = 0;
  for (const Outside& found : rank.outside) {
    const bool told = rank.culprit && found.name.starts_with(rank.culprit->record);
    if (told || num_shown++ >= kShownOutside) continue;
    std::string text = found.parameter.empty() ? "" : fmt::format(" ({})", found.parameter);
    if (!found.where.empty()) text += "   " + found.where;
    if (found.error > 0) text += fmt::format("   error {}", ErrorText(found.error));
    text += SidesText(found);
    const std::string what = fmt::format("        {} ", found.what);
    const std::size_t taken = what.size() + Columns(text);
    lines.Add(what + Fit(found.name, taken + kLeastName < kWidth ? kWidth - taken : kLeastName) + text);
  }
  if (!rank.renames.empty() && (rank.num_alone > 0 || 2 * rank.num_matched < rank.num_target)) {
    lines.Add("        the same places under other names? Once more with");
    std::string command = "       ";
    for (std::size_t i = 0; i < std::min(rank.renames.size(), kShownRenames); ++i) {
      const std::string text = rank.renames[i].first + '=' + rank.renames[i].second;
      command += " --rename " + ShellWord(text);
    }
    lines.AddDone(Printable(command));  // to be pasted: never cut
  }
}

bool HasOtherShapes(const RankOutcome& rank) {
  return std::any_of(rank.num_outside.begin(), rank.num_outside.end(),
                     [](const auto& count) { return count.first == "shape" && count.second > 0; });
}

std::string StateText(const RankOutcome& rank) {
  switch (rank.verdict) {
    case RunVerdict::kIdentical:
      return rank.mode == "statistics" ? "every recorded statistic is the same"
                                       : "everything that was compared is the same";
    case RunVerdict::kNoise:
      if (rank.worst_error == 0) {
        const bool is_whole =
            rank.num_calls > 0 ? rank.num_alone == 0 : rank.num_only_target() + rank.num_only_golden == 0;
        if (is_whole && rank.num_outside.empty()) return "what was compared is the same";
        return !is_whole ? "what was compared is the same; see below for what has no partner"
                         : "no result that was judged differs; what differs came from outside";
      }
      return fmt::format("the largest error is {} in {}: {}", ErrorText(rank.worst_error), rank.worst_record,
                         HasOtherShapes(rank)              ? "tensors of other shapes take part"
                         : rank.worst_error <= kOfRounding ? "rounding explains it"
                                                           : "grown from rounding, call by call");
    case RunVerdict::kDiverged:
      if (rank.worst_record.empty() && rank.num_failed == 0)
        return "no call makes the difference; it lies in what came from outside";
      if (rank.worst_record.empty())
        return Plural(rank.num_failed, "row") + " differ by more than the tolerance";
      if (std::isinf(rank.worst_error)) {
        return fmt::format(
            "no single call explains it; {} has a different shape, or NaN or infinity on one side",
            rank.worst_record);
      }
      return fmt::format("no single call explains it; the largest error is {} in {}",
                         ErrorText(rank.worst_error), rank.worst_record);
    case RunVerdict::kUnknown:
      break;
  }
  return "whether they agree cannot be told from these recordings";
}

void AddState(const RankOutcome& rank, Lines& lines) {
  lines.Add(StateText(rank));
  for (std::size_t i = 0; i < std::min(rank.doubts.size(), kShownDoubts); ++i)
    lines.Add("  " + rank.doubts[i]);
}

// Ranks that have the same to say are one line.
void AddOtherRanks(const std::vector<const RankOutcome*>& ranks, Lines& lines) {
  std::vector<std::pair<std::string, std::vector<const RankOutcome*>>> groups;
  for (const RankOutcome* rank : ranks) {
    std::string says;
    if (!rank->victim_of.empty()) {
      says = fmt::format("diverged too, after {} did", rank->victim_of);
    } else if (rank->culprit) {
      says = fmt::format("diverged at {}", rank->culprit->record);
    } else {
      says = std::string(Heading(rank->verdict));
      std::transform(says.begin(), says.end(), says.begin(), [](unsigned char c) { return std::tolower(c); });
    }
    const auto found =
        std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == says; });
    if (found == groups.end()) {
      groups.push_back({says, {rank}});
    } else {
      found->second.push_back(rank);
    }
  }
  for (std::size_t i = 0; i < std::min(groups.size(), kShownGroups); ++i) {
    const auto& [says, members] = groups[i];
    // One rank in several steps is told by its steps.
    const std::string_view last = members.back()->rank, of_rank = last.substr(last.rfind('/') + 1);
    const bool are_steps =
        of_rank.size() < last.size() && std::all_of(ranks.begin(), ranks.end(), [&](const RankOutcome* rank) {
          return rank->rank.ends_with("/" + std::string(of_rank));
        });
    const std::string count = Plural(members.size(), are_steps ? "step" : "rank");
    const std::size_t room = std::max(kLeastName, kWidth - std::min(kWidth, count.size() + says.size() + 5));
    std::string names;
    for (std::size_t k = 0; k < members.size(); ++k) {
      std::string_view name = members[k]->rank;
      if (are_steps) name.remove_suffix(of_rank.size() + 1);
      const std::string more = (k == 0 ? "" : ", ") + Fit(name, room);
      const bool is_last = k + 1 == members.size();
      if (k > 0 && Columns(names) + Columns(more) + (is_last ? 0 : 3) > room) {
        names += ", …";
        break;
      }
      names += more;
    }
    lines.Add(fmt::format("{} ({}): {}", count, names, says));
  }
  if (groups.size() > kShownGroups)
    lines.Add(fmt::format("… and {} more; summary.json has all of them",
                          Plural(groups.size() - kShownGroups, "kind")));
}

// The rank that is shown in full: the one whose culprit came first, else the worst.
const RankOutcome& Shown(const CompareOutcome& outcome) {
  if (const RankOutcome* const first = FirstToBlame(outcome)) return *first;
  const auto rating = [](const RankOutcome& rank) {
    constexpr int kOfVerdict[] = {0, 1, 3, 2};
    return kOfVerdict[static_cast<std::size_t>(rank.verdict)];
  };
  return *std::max_element(outcome.ranks.begin(), outcome.ranks.end(), [&](const auto& a, const auto& b) {
    return std::pair(rating(a), a.worst_error) < std::pair(rating(b), b.worst_error);
  });
}

void AddRank(const RankOutcome& rank, bool colour, Lines& lines) {
  if (rank.culprit) {
    AddCulprit(rank, colour, lines);
    for (std::size_t i = 0; i < std::min<std::size_t>(rank.doubts.size(), 2); ++i)
      lines.Add("note    " + rank.doubts[i], Cut::kEnd);
  } else {
    AddState(rank, lines);
  }
  AddBar(rank, lines);
  AddOutside(rank, lines);
}

}  // namespace

std::string ArgumentText(const Outside& argument, std::string_view record) {
  std::string_view name = argument.name;
  if (name.starts_with(record) && name.size() > record.size()) name.remove_prefix(record.size() + 1);
  const std::string port =
      argument.parameter.empty() ? std::string(name) : fmt::format("{} ({})", argument.parameter, name);
  return fmt::format("argument {} differs{}", port, SidesText(argument));
}

RunVerdict VerdictOf(const CompareOutcome& outcome) {
  const auto any = [&](RunVerdict verdict) {
    return std::any_of(outcome.ranks.begin(), outcome.ranks.end(),
                       [&](const RankOutcome& rank) { return rank.verdict == verdict; });
  };
  if (any(RunVerdict::kDiverged)) return RunVerdict::kDiverged;
  if (any(RunVerdict::kUnknown) || outcome.num_skipped_ranks > 0 || outcome.incomplete ||
      outcome.ranks.empty())
    return RunVerdict::kUnknown;
  return any(RunVerdict::kNoise) || !outcome.doubts.empty() ? RunVerdict::kNoise : RunVerdict::kIdentical;
}

int StatusOf(const CompareOutcome& outcome, bool strict) {
  if (outcome.verdict == RunVerdict::kDiverged || !outcome.first_differences.empty()) return 1;
  if (strict && !outcome.doubts.empty()) return 1;
  for (const RankOutcome& rank : outcome.ranks) {
    if (strict && rank.num_failed + rank.num_only_target() + rank.num_only_golden > 0) return 1;
  }
  return outcome.verdict == RunVerdict::kUnknown ? 2 : 0;
}

const RankOutcome* FirstToBlame(const CompareOutcome& outcome) {
  const RankOutcome* first = nullptr;
  for (const RankOutcome& rank : outcome.ranks) {
    if (rank.culprit && (first == nullptr || (!first->victim_of.empty() && rank.victim_of.empty())))
      first = &rank;
  }
  return first;
}

std::string_view Heading(RunVerdict verdict) {
  constexpr std::string_view kHeadings[] = {"IDENTICAL", "WITHIN NOISE", "DIVERGED", "CANNOT TELL"};
  return kHeadings[static_cast<std::size_t>(verdict)];
}

std::string VerdictScreen(const CompareOutcome& outcome, bool colour, double seconds) {
  const std::size_t num_files = outcome.written.empty() ? 0 : outcome.written.size() + 1;  // and the summary
  Lines lines(outcome.next.size() + std::min(num_files, kLinesOfFiles));
  const std::string_view heading = Heading(outcome.verdict);
  if (outcome.ranks.empty()) {
    lines.AddDone(ColouredHeading(outcome, colour) + "  nothing was compared");
    for (const std::string& doubt : outcome.doubts) lines.Add("  " + doubt, Cut::kEnd);
    return lines.Text();
  }
  const RankOutcome& shown = Shown(outcome);
  auto [target, golden] = ShortPaths(shown.target, shown.golden);
  const std::string time = seconds < 0 ? "" : fmt::format("{:.1f} s", seconds);
  std::string names;
  if (!target.empty() && !golden.empty()) {
    constexpr std::string_view kNames = "target {}  vs  golden {}";
    const std::size_t width = kWidth - heading.size() - time.size() - kNames.size();
    // Each is cut by itself, the longer one first.
    const std::size_t half = std::max(width / 2, width - std::min(width, Columns(golden)));
    target = Fit(target, half);
    names = fmt::format(kNames, target, Fit(golden, width - Columns(target)));
  }
  lines.AddDone(ColouredHeading(outcome, colour) + (names.empty() ? "" : "  ") +
                (time.empty()
                     ? names
                     : fmt::format("{}{:>{}}", names, time, kWidth - heading.size() - 2 - Columns(names))));
  AddMatching(shown, lines);
  lines.Blank();
  AddRank(shown, colour, lines);
  std::vector<const RankOutcome*> others;
  for (const RankOutcome& rank : outcome.ranks) {
    if (&rank != &shown) others.push_back(&rank);
  }
  if (!others.empty()) AddOtherRanks(others, lines);
  if (outcome.num_skipped_ranks > 0)
    lines.Add(
        fmt::format("{} could not be read; see the log above", Plural(outcome.num_skipped_ranks, "rank")));
  for (const std::string& doubt : outcome.doubts) lines.Add(doubt, Cut::kEnd);
  for (const std::string& difference : outcome.first_differences)
    lines.Add(fmt::format("first difference over all ranks: {}", difference));
  for (std::size_t i = 0; i < outcome.next.size(); ++i)
    lines.AddCommand((i == 0 ? "NEXT    " : "        ") + outcome.next[i]);
  return lines.Text();
}

std::string HeadingOf(const RankOutcome& rank, bool colour) {
  const bool whole = rank.doubts.empty() && rank.num_only_target() + rank.num_only_golden == 0;
  const bool fails = rank.verdict == RunVerdict::kDiverged;
  return Coloured(Heading(rank.verdict), whole || fails ? rank.verdict : RunVerdict::kUnknown, colour);
}

std::string VerdictLines(const RankOutcome& rank, bool colour) {
  std::string text = HeadingOf(rank, colour);
  if (rank.culprit)
    text += fmt::format("  {}: {}", Printable(rank.culprit->record), Printable(rank.culprit->why));
  text += '\n';
  for (const std::string& doubt : rank.doubts) text += "  " + doubt + '\n';
  return text;
}

std::string RankScreen(const RankOutcome& rank) {
  Lines lines(0);
  lines.Add(Heading(rank.verdict));
  AddMatching(rank, lines);
  AddRank(rank, false, lines);
  return lines.Text();
}

}  // namespace vernier
