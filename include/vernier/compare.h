// compare: two paths -> what was found, and the reports. All stages in one call, for every family of dumps;
// what a family does differently lives in its folder under src/profiles/.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vernier/judge.h"
#include "vernier/match.h"
#include "vernier/report.h"
#include "vernier/result.h"

namespace vernier {

// What is asked for. A plain struct: ToJson() and CompareRequestFromJson() carry it to another process.
struct CompareRequest {
  std::string target, golden;  // files or folders
  std::string family;          // "native", "msprobe", "xray"; empty: told by what is in them
  // Matching.
  std::optional<MatchMode> match;  // none: as the family does, which is kExact unless it says otherwise
  std::vector<std::pair<std::string, std::string>> renames;  // {OLD, NEW}, see MatchOptions
  std::string mapping;                                       // yaml: target name -> golden name
  // Judging.
  double rtol = -1, atol = -1;  // negative: torch.testing.assert_close's for the dtypes of each pair
  bool check_dtype = false;     // different dtypes fail
  bool strict = false;          // failing rows and rows without a partner are a difference
  std::string rules;            // JSON: thresholds and messages of the user's own
  // Reporting.
  std::vector<std::string> outputs;  // files, or a folder; "-": standard output
  std::string format;                // "csv", …; empty: by the ending of each file
  std::vector<std::string> only;     // "failed", "error", "unmatched", "passed"; empty: all
  std::string sort;                  // a column; empty: in the order of the recording
  std::optional<std::size_t> top;    // rows on the screen; none: as many as the family shows
  std::size_t worst = 0;             // elements of the worst failing pair to look at
  // What only one family knows, by the names in its table.
  std::map<std::string, std::string> options;
  // What only changes the speed.
  int num_threads = 0;  // 0: one per core
};

// One tensor of a call that is shown as evidence.
struct Evidence {
  std::string name, port;      // "input", "output", …
  double error = 0;            // relative to the golden's size; infinite where special values disagree
  std::string target, golden;  // the largest values
};

// Something that no call made: the two programs were given it, or do it differently.
struct Outside {
  // "setting", "input", "argument", "weight", "dtype", "shape", "missing call", "additional call",
  // "reordered call", "fused call"
  std::string what;
  std::string name;
  std::string target, golden;  // what stands there, where it can be said in a few words
  std::string where;           // of a call that one side alone makes: "before …"
  double error = 0;            // of a tensor
  std::string parameter{};     // of an argument, what its function calls it: "eps"; empty: not known
};

// Two calls that stand against each other under different names.
struct CallPair {
  std::string target, golden, how;  // "place", "order", "fused"
};

// The call that went wrong first.
struct Culprit {
  std::string record;
  std::string reason;     // "output", "argument", "input", "additional", "missing", "gradient"
  std::string why;        // the same as a sentence
  std::string call;       // what is called: "layer_norm"
  std::string pass;       // "forward", "backward", "gradient"
  std::uint64_t row = 0;  // its first in the report, from 0
  std::string module;     // the module call it belongs to; empty: not known
  std::string called_from, stack;
  double given = 0, made = 0, usual = 0;  // error of its inputs, of its outputs, and what its class shows
  std::vector<Outside> arguments;         // those of its own that differ
  std::vector<Evidence> evidence;
  std::vector<std::string> around, golden_around;  // the calls around it and itself: what to record again
  std::string worst;                               // of its worst tensor: where, and what stands there
  std::string target_file, golden_file;            // of its worst tensor; empty: none
};

// One pair whose elements were looked at, because CompareRequest::worst asked for it.
struct DifferentElement {
  std::vector<std::uint64_t> index;  // in the target's shape
  std::string part;                  // "real" or "imag" of a complex number
  double target = 0, golden = 0, abs_error = 0;
  std::optional<std::uint64_t> ulp;
};
struct WorstPair {
  std::string name, golden_name;  // of tensors; of recordings: the two files
  std::string error;              // why there is nothing to see; empty: nothing is wrong
  std::uint64_t num_elements = 0, num_different = 0;
  std::vector<DifferentElement> worst_elements;
  std::string concentrated_in;  // where most of the error lies, in a sentence; empty: nothing differs
  std::optional<std::uint64_t> axis, first, last;  // the same as numbers, where it is a stretch of an axis
  double share = 0;                                // of the squared error, or of the mismatches
};

// What was found in one rank; recordings without ranks have one, without a name.
struct RankOutcome {
  std::string rank;
  std::string target, golden;                    // the two files or folders that were compared
  std::string mode;                              // what was compared: "tensors", "statistics", …
  std::string level;                             // of the recording; empty: not known
  std::uint64_t num_target = 0, num_golden = 0;  // rows
  std::vector<std::pair<std::string, std::uint64_t>> num_matched_by;  // rule -> rows, those that apply
  std::uint64_t num_matched = 0, num_only_golden = 0;
  std::uint64_t num_measured = 0;  // pairs with numbers
  std::uint64_t num_passed = 0, num_failed = 0;
  std::uint64_t num_failed_otherwise_paired = 0;  // of those, rows that the verdict pairs otherwise
  std::uint64_t num_errors = 0;                   // rows that could not be judged
  std::uint64_t num_not_measured = 0;  // matched rows that name a file, and yet there are no numbers
  bool torn = false;                   // a recording ends in the middle: what follows is not known
  RunVerdict verdict = RunVerdict::kUnknown;
  std::vector<std::string> doubts;  // why it cannot be told, or how far it can
  std::optional<Culprit> culprit;
  std::string victim_of;   // the rank or step whose culprit came first and may have brought it here
  double worst_error = 0;  // the largest of an output or a gradient
  std::string worst_record;
  // The verdict's own pairing of calls, which may be another than that of the rows.
  std::uint64_t num_calls = 0, num_alone = 0;                              // of both sides; without a partner
  std::uint64_t num_alone_behind_backward = 0;                             // of these: there are optimizers
  std::vector<std::pair<std::string, std::uint64_t>> num_calls_paired_by;  // rule -> calls of the target
  std::vector<CallPair> pairs;  // those that are not paired by name; the first 1000
  std::vector<std::pair<std::string, std::string>> renames;        // module paths that seem to be the same
  std::vector<std::pair<std::string, std::uint64_t>> num_outside;  // what -> how many
  std::vector<Outside> outside;                                    // the first of each
  std::vector<std::pair<std::string, double>> errors_along;        // part of the model -> largest error
  std::vector<WorstPair> worst_pairs;                              // where elements were asked for

  std::uint64_t num_only_target() const { return num_target - num_matched; }
  double coverage() const {
    return num_target == 0 ? 0 : static_cast<double>(num_matched) / static_cast<double>(num_target);
  }
};

// What was found. A plain struct as well.
struct CompareOutcome {
  std::string family;
  RunVerdict verdict = RunVerdict::kUnknown;  // of all ranks together
  int status = 2;  // of the command: 0 identical or noise, 1 diverged, 2 could not tell
  std::vector<RankOutcome> ranks;
  std::uint64_t num_skipped_ranks = 0;
  std::vector<std::string> doubts;             // about the whole: what was left out
  bool incomplete = false;                     // so much was left out that nothing can be told
  std::vector<std::string> first_differences;  // over all ranks, where that was asked for
  std::vector<std::string> written;            // files, in order
  std::string text;                            // for the screen
  std::vector<std::string> next;               // the commands that look closer; empty: none
};

std::string ToJson(const CompareRequest& request);
std::string ToJson(const CompareOutcome& outcome);
// Fails for what is no such JSON, naming an unknown key.
Result<CompareRequest> CompareRequestFromJson(std::string_view json);
Result<CompareOutcome> CompareOutcomeFromJson(std::string_view json);

enum class LogLevel { kDebug, kInfo, kWarning, kError };
using LogSink = std::function<void(LogLevel level, std::string_view line)>;

struct CompareProgress {
  std::uint64_t items_done = 0, num_items = 0;
  std::uint64_t bytes_done = 0, num_bytes = 0;  // 0: not known
};

// How whoever asks is kept informed, and can stop it. All may be left empty. Calls come one at a time, from
// any thread.
struct CompareHooks {
  std::stop_token stop;
  std::function<void(const CompareProgress& progress)> on_progress;
  LogSink on_log;
  // Every row that is reported, in order; `statuses` are those of the rows.
  std::function<void(const std::string& rank, std::span<const std::string> columns, const RowBlock& rows,
                     std::span<const Status> statuses)>
      on_rows;
  struct Screen {
    std::size_t width = 0;  // 0: any
    bool colour = false, quiet = false;
  } screen;
};

// Compares everything under two paths. Fails when nothing could be compared; with kCancelled when it was
// stopped. Writes no file but the reports that are asked for. Any number of calls may run at once.
Result<CompareOutcome> CompareRecordings(const CompareRequest& request, const CompareHooks& hooks = {});

// The same comparison rank by rank, for whoever runs them apart: one request for each.
Result<std::vector<CompareRequest>> SplitByRank(const CompareRequest& request);

// The families: their columns and options for help texts, and what they hold.
struct FamilyColumn {
  std::string key, help;
};
struct FamilyOption {
  std::string_view name, help;
};
// What a recording says of its rows, without looking at tensors.
struct Listing {
  std::vector<std::string> columns;
  std::vector<KeptCells> rows;
};
struct Family {
  std::string_view name, says;  // "native", "tensors (files, checkpoints, folders of them)"
  std::vector<FamilyColumn> (*columns)();
  std::span<const FamilyOption> (*options)();
  Result<Listing> (*list)(const std::string& path);  // null: what it holds is listed by read.h
  Result<Listing> (*hunt)(
      const std::string& path);  // calls that make NaN or infinities; null: it knows no calls
};
std::span<const Family> Families();
// The family that a path is of; null when it is of none.
const Family* FamilyOf(const std::string& path);

}  // namespace vernier
