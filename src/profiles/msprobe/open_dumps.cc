// The two dumps of a rank, checked as the reference checks them, and their call stacks.
#include <fmt/format.h>

#include "core/paths.h"
#include "core/threads.h"
#include "profiles/msprobe/rank.h"

namespace vernier::msprobe {
namespace {

namespace fs = std::filesystem;

Result<Dump> OpenSide(const fs::path& path, const RankJob& job, const Profile& profile) {
  DumpOptions options;
  options.kind = job.kind;
  options.check_values = job.kind == DumpKind::kDump;
  options.drop_undirected = profile.drop_undirected && job.kind == DumpKind::kDump;
  return Dump::Open(path, options);
}

std::string FileName(DumpKind kind) { return kind == DumpKind::kDump ? "dump.json" : "debug.json"; }

// What the two files say about themselves must fit together.
Outcome<Mode> ModeOf(const Dump& npu, const Dump& bench, const std::string& rank, Log& log) {
  // Of several ranks, one that lacks what every dump has is left out.
  const auto unusable = [&](std::string_view member, std::string text) {
    Failure failure = PreparationFailure(log, std::move(text));
    if (!rank.empty())
      log.Error(fmt::format("Invalid or missing '{}' in dump.json. Skipping {} comparison.", member, rank));
    return failure;
  };
  for (const auto& [dump, side] : {std::pair{&npu, "npu"}, std::pair{&bench, "bench"}}) {
    if (dump->task().empty())
      return unusable("task", fmt::format("Task for {} is empty, please check.", side));
  }
  for (const auto& [dump, side] : {std::pair{&npu, "npu"}, std::pair{&bench, "bench"}}) {
    if (!dump->has_data()) {
      return unusable("data",
                      fmt::format("Missing 'data' in dump.json, please check dump.json of {}.", side));
    }
    if (!dump->data_is_object()) {
      return PreparationFailure(
          log, fmt::format("Invalid type for 'data': expected a dict. Please check dump.json of {}.", side));
    }
  }
  if (npu.task() != bench.task()) {
    return PreparationFailure(
        log, fmt::format("Please check the dump task is consistent. (target: {}, golden: {})", npu.task(),
                         bench.task()));
  }
  if (npu.task() == "tensor") return Mode::kReal;
  if (npu.task() != "statistics") {
    return PreparationFailure(log,
                              npu.task() == "structure"
                                  ? "Compare applies only to task is tensor or statistics, not to structure"
                                  : "Compare applies only to task is tensor or statistics");
  }
  if (npu.has_md5() != bench.has_md5()) {
    return PreparationFailure(log,
                              "Please check the dump task is consistent, dump mode of npu and bench should "
                              "both be statistics or md5.");
  }
  return npu.has_md5() ? Mode::kMd5 : Mode::kStatistics;
}

// Which stack.json is shown, if any.
Outcome<std::optional<StackFile>> OpenStack(const RankJob& job, const Settings& settings, const Dump& npu,
                                            Log& log) {
  fs::path path;
  if (settings.generation == Generation::kClassic && job.rank.empty() && settings.stack_path) {
    if (!settings.show_given_stack) return std::optional<StackFile>();
    path = *settings.stack_path;
    VN_RETURN_IF_ERROR(CheckInputFile(path, true, log));
  } else {
    const fs::path folder = job.npu_json.parent_path();
    path = folder / "stack.json";
    if (!Exists(path)) {
      log.Warning(
          fmt::format("stack.json is not found in dump dir {}.", folder.empty() ? "." : folder.string()));
      return std::optional<StackFile>();
    }
  }
  Result<StackFile> stack = StackFile::Open(path);
  if (!stack || (stack->torn() && settings.as_msprobe)) {
    return RunFailure(log, !stack && stack.error().code == ErrorCode::kBadShape
                               ? stack.error().detail
                               : fmt::format("load json file \"{}\" failed.", path.filename().string()));
  }
  if (stack->torn()) {
    log.Warning(fmt::format("{} ends in the middle: its writer was stopped. The stacks before that are used.",
                            path.string()));
  }
  for (const Record& record : npu.records()) {
    if (std::string problem = stack->Problem(record.name); !problem.empty())
      return RankFailure(log, std::move(problem));
  }
  return std::optional<StackFile>(std::move(*stack));
}

}  // namespace

Outcome<DumpPair> OpenDumps(const RankJob& job, const Settings& settings, Log& log) {
  const Profile& profile = ProfileOf(settings.generation);
  VN_RETURN_IF_ERROR(CheckInputFile(job.npu_json, profile.strict_paths, log));
  VN_RETURN_IF_ERROR(CheckInputFile(job.bench_json, profile.strict_paths, log));
  std::optional<Result<Dump>> npu, bench;
  ThreadPool(job.num_threads).ForEach(2, [&](std::size_t side) {
    (side == 0 ? npu : bench).emplace(OpenSide(side == 0 ? job.npu_json : job.bench_json, job, profile));
  });
  for (const Result<Dump>* side : {&*npu, &*bench}) {
    if (*side) continue;
    log.Debug(side->error().Message());
    return RunFailure(
        log, fmt::format("load json file \"{}\" failed. ({})", FileName(job.kind), side->error().detail));
  }
  VN_ASSIGN_OR_RETURN(const Mode mode, ModeOf(**npu, **bench, job.rank, log));
  if (settings.generation == Generation::kCurrent) {
    if (!(*npu)->framework()) {
      log.Warning("Unable to get framework information from target dump.json, default setting is pytorch.");
    }
    if (!(*bench)->framework()) {
      log.Warning("Unable to get framework information from golden dump.json, default setting is pytorch.");
    }
  }
  VN_ASSIGN_OR_RETURN(std::optional<StackFile> stack, OpenStack(job, settings, **npu, log));
  if (mode == Mode::kReal && !settings.diff_analyze) {
    for (const fs::path& json : {job.npu_json, job.bench_json}) {
      const fs::path folder = json.parent_path() / "dump_tensor_data";
      if (!IsFolder(folder)) {
        return PreparationFailure(log, fmt::format("The file path {} does not exist.", folder.string()));
      }
    }
  }
  for (const Dump* dump : {&**npu, &**bench}) {
    if (dump->torn() && settings.as_msprobe) {
      return RunFailure(
          log, fmt::format("load json file \"{}\" failed. (it ends in the middle)", FileName(job.kind)));
    }
    if (dump->torn()) {
      log.Warning(
          fmt::format("{} ends in the middle: its writer was stopped. The {} records before that are used.",
                      dump->path().string(), dump->records().size()));
    }
    if (dump->records().empty()) log.Warning(fmt::format("No APIs found in {}.", FileName(job.kind)));
    if (!dump->too_deep().empty() && settings.as_msprobe) {
      return RankFailure(
          log, fmt::format("parse of api/module of {} exceeds the recursion limit.", dump->too_deep()));
    }
    if (!dump->check_failure().empty()) return RankFailure(log, dump->check_failure());
  }
  const bool across = (*npu)->framework() == "mindspore" && (*bench)->framework() != "mindspore";
  return DumpPair{std::move(**npu), std::move(**bench), mode, std::move(stack),
                  across && settings.generation == Generation::kCurrent};
}

}  // namespace vernier::msprobe
