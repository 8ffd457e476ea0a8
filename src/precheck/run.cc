#include "precheck/run.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <set>
#include <thread>

#include "core/json_cursor.h"
#include "core/json_writer.h"
#include "core/text.h"
#include "core/threads.h"
#include "precheck/calls.h"
#include "precheck/csv_rows.h"
#include "precheck/result_files.h"
#include "precheck/worker_process.h"

namespace vernier::precheck {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMilliseconds = 100;
constexpr int kMaxStarts = 3;  // of a worker that dies before it has taken a call

void AppendKey(std::string_view key, std::string& json) {
  if (json.back() != '{') json += ',';
  AppendJsonString(key, json);
  json += ':';
}

void AppendText(std::string_view key, std::string_view text, std::string& json) {
  AppendKey(key, json);
  AppendJsonString(text, json);
}

// "cuda:1" -> "1", "cpu" -> "cpu"
std::string DeviceId(const std::string& device) { return device.substr(device.find(':') + 1); }

struct Item {
  const RecordedCall* call = nullptr;
  std::string device;
  std::optional<CallAnswer> answer;  // until it is written
};

// Consecutive calls that one worker takes first.
struct Part {
  std::deque<std::size_t> waiting;  // items
  std::size_t device = 0;           // of the request
};

struct Slot {
  enum class State { kNone, kStarting, kIdle, kBusy };
  State state = State::kNone;
  std::size_t part = 0;
  std::optional<WorkerProcess> process;
  std::string device;  // as the worker names it
  std::size_t item = 0;
  Clock::time_point deadline;
  int failed_starts = 0;
};

class Run {
 public:
  Run(const RunRequest& request, const RunHooks& hooks) : request_(request), hooks_(hooks) {}

  Result<RunSummary> Go() {
    VN_RETURN_IF_ERROR(ReadInputs());
    VN_RETURN_IF_ERROR(OpenFiles());
    if (hooks_.on_start) hooks_.on_start(summary_.result, summary_.details, summary_.error_data);
    PlanItems();
    VN_RETURN_IF_ERROR(WriteFinished());
    const Result<Done> executed = Execute();
    slots_.clear();
    if (!executed) return executed.error();
    if (summary_.interrupted) VN_RETURN_IF_ERROR(WriteRest());
    return std::move(summary_);
  }

 private:
  void Say(std::string_view line) const {
    if (hooks_.on_log) hooks_.on_log(line);
  }

  // -- what is to be done

  Result<Done> ReadInputs() {
    VN_ASSIGN_OR_RETURN(config_, request_.config ? ReadConfig(*request_.config) : DefaultConfig());
    VN_ASSIGN_OR_RETURN(calls_, CallList::Open(request_.api_info));
    if (calls_->torn()) Say("the recording ends inside a record, which is left out");
    summary_.torn = calls_->torn();
    if (request_.filter) calls_->DropRepeated();
    if (calls_->calls().empty()) Say(request_.api_info.string() + " holds no API calls");
    return Done{};
  }

  Result<Done> OpenFiles() {
    if (request_.csv_path) {
      VN_ASSIGN_OR_RETURN(files_, ResultFiles::Resume(*request_.csv_path));
    } else if (request_.only.empty() || request_.folder) {
      VN_ASSIGN_OR_RETURN(files_, NewFiles());
    }
    const std::string stamp = files_ ? files_->stamp() : TimeStamp();
    if (request_.save_error_data) summary_.error_data = config_.error_data_path / ("ut_error_data" + stamp);
    if (!files_) return Done{};
    summary_.result = files_->result();
    summary_.details = files_->details();
    if (request_.devices.size() < 2 || request_.num_parts < 2) return Done{};
    for (const std::string& device : request_.devices) {
      VN_ASSIGN_OR_RETURN(ResultFiles own,
                          ResultFiles::CreateOrContinue(files_->result().parent_path(), stamp,
                                                        "_device" + DeviceId(device), request_.header));
      summary_.of_devices.push_back(own.result());
      device_files_.push_back(std::move(own));
    }
    return Done{};
  }

  // Another run may have started in the same second: the next one is ours then.
  Result<ResultFiles> NewFiles() const {
    const std::filesystem::path folder = request_.folder.value_or("./");
    for (int i = 0;; ++i) {
      Result<ResultFiles> files = ResultFiles::Create(folder, TimeStamp(i), "", request_.header);
      constexpr int kMaxTries = 60;
      if (files || files.error().code != ErrorCode::kIo || i == kMaxTries) return files;
    }
  }

  bool IsWanted(std::string_view name) const {
    return request_.only.empty() || fnmatch(request_.only.c_str(), std::string(name).c_str(), 0) == 0;
  }

  void PlanItems() {
    for (const RecordedCall& call : calls_->calls()) {
      if (!IsWanted(call.name)) continue;
      if (files_ && files_->IsDone(call.name)) {
        ++summary_.num_resumed;
        continue;
      }
      items_.push_back({&call, "", std::nullopt});
    }
    summary_.num_calls = items_.size();
    const std::size_t num_parts = std::max<std::size_t>(1, std::min(request_.num_parts, items_.size()));
    parts_.resize(num_parts);
    for (std::size_t i = 0; i < num_parts; ++i) parts_[i].device = i % request_.devices.size();
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const std::size_t part = i * num_parts / items_.size();
      items_[i].device = request_.devices[parts_[part].device];
      if (const auto reason = ReasonToSkip(*items_[i].call, request_.rules, config_)) {
        items_[i].answer = UncheckedCall(items_[i].call->name, Verdict::kSkip, *reason);
      } else {
        parts_[part].waiting.push_back(i);
        ++num_open_;
      }
    }
  }

  // -- the workers

  Result<Done> Execute() {
    if (num_open_ == 0) return Done{};
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].waiting.empty()) continue;
      slots_.emplace_back().part = i;
    }
    while (num_open_ > 0) {
      for (Slot& slot : slots_) {
        if (slot.state == Slot::State::kNone && PartWithWork(slot)) VN_RETURN_IF_ERROR(StartWorker(slot));
      }
      Wait();
      for (Slot& slot : slots_) VN_RETURN_IF_ERROR(Attend(slot));
      VN_RETURN_IF_ERROR(WriteFinished());
      if (hooks_.stop.stop_requested()) {
        summary_.interrupted = true;
        return Done{};
      }
    }
    return Done{};
  }

  // The worker's own part, or the one of the same device with most left to do.
  Part* PartWithWork(const Slot& slot) {
    Part& own = parts_[slot.part];
    if (!own.waiting.empty()) return &own;
    Part* fullest = nullptr;
    for (Part& part : parts_) {
      if (part.device != own.device || part.waiting.empty()) continue;
      if (fullest == nullptr || part.waiting.size() > fullest->waiting.size()) fullest = &part;
    }
    return fullest;
  }

  Result<Done> StartWorker(Slot& slot) {
    VN_ASSIGN_OR_RETURN(slot.process, WorkerProcess::Start(request_.python));
    slot.state = Slot::State::kStarting;
    // One that died at once says so when it is listened to.
    if (const Result<Done> sent = slot.process->Send(SetupJson(slot)); !sent) return Done{};
    return Done{};
  }

  std::string SetupJson(const Slot& slot) const {
    const int cores = NumThreads(0), workers = static_cast<int>(slots_.size());
    const int threads = std::max(1, cores / workers);
    std::string json = "{";
    AppendText("device", request_.devices[parts_[slot.part].device], json);
    AppendKey("threads", json);
    AppendInteger(threads, json);
    AppendKey("jit", json);
    AppendJsonBool(request_.jit_compile, json);
    AppendKey("data_dir", json);
    if (calls_->data_folder()) {
      AppendJsonString(calls_->data_folder()->string(), json);
    } else {
      json += "null";
    }
    AppendText("error_dir", summary_.error_data.string(), json);
    AppendKey("rules", json);
    json += request_.rules_json.empty() ? "{}" : request_.rules_json;
    AppendKey("settings", json);
    json += '{';
    AppendText("policy", kPolicyNames[static_cast<std::size_t>(request_.policy)], json);
    AppendText("thresholds", kThresholdNames[static_cast<std::size_t>(request_.thresholds)], json);
    AppendKey("precision", json);
    AppendInteger(config_.precision, json);
    AppendKey("threads", json);
    AppendInteger(threads, json);
    AppendKey("explain", json);
    AppendJsonBool(!request_.only.empty(), json);
    if (!request_.rules_json.empty()) {
      AppendKey("rules", json);
      json += request_.rules_json;
    }
    AppendKey("quantised", json);
    json += '[';
    for (const std::string& api : config_.quantised) {
      if (&api != config_.quantised.data()) json += ',';
      AppendJsonString(api, json);
    }
    return json + "]}}";
  }

  static std::string CallJson(const RecordedCall& call) {
    std::string json = "{";
    AppendText("name", call.name, json);
    AppendText("prefix", call.prefix, json);
    AppendText("api", call.api, json);
    AppendKey("forward", json);
    json += call.forward;
    AppendKey("backward", json);
    json += call.backward.value_or("null");
    return json + '}';
  }

  // Until a worker has something to say.
  void Wait() const {
    std::vector<pollfd> polled;
    for (const Slot& slot : slots_) {
      if (!slot.process) continue;
      polled.push_back({slot.process->message_fd(), POLLIN, 0});
      if (slot.process->log_fd() >= 0) polled.push_back({slot.process->log_fd(), POLLIN, 0});
    }
    poll(polled.data(), polled.size(), kPollMilliseconds);
  }

  Result<Done> Attend(Slot& slot) {
    if (!slot.process) return Done{};
    for (const std::string& line : slot.process->ReadLog()) {
      if (line.find("rror") != std::string::npos) Say(Printable(line));
    }
    std::string message;
    switch (slot.process->Receive(message)) {
      case WorkerProcess::Received::kMessage:
        if (slot.state == Slot::State::kStarting) return TakeGreeting(slot, message);
        TakeAnswer(slot, message);
        return Done{};
      case WorkerProcess::Received::kGone:
        return TakeDeath(slot, slot.process->End(/*kill_first=*/false));
      case WorkerProcess::Received::kNothingYet:
        break;
    }
    if (slot.state == Slot::State::kBusy && request_.timeout_s > 0 && Clock::now() > slot.deadline) {
      slot.process->End(/*kill_first=*/true);
      return TakeDeath(slot, fmt::format("no answer within {} s", request_.timeout_s));
    }
    return Done{};
  }

  Result<Done> TakeGreeting(Slot& slot, const std::string& message) {
    JsonCursor cursor(message);
    std::string problem, device, torch, buffer;
    cursor.ForEachMember([&](std::string_view key, bool) {
      if (key == "error") return void(problem = cursor.TakeString(buffer));
      cursor.ForEachMember([&](std::string_view inner, bool) {
        (inner == "device" ? device : torch) = cursor.TakeString(buffer);
      });
    });
    if (!cursor.ok()) problem = "the worker's greeting cannot be read";
    if (!problem.empty()) return Error{ErrorCode::kBadArgument, "", problem};
    if (summary_.device.empty()) {
      summary_.device = device;
      summary_.torch = torch;
    }
    slot.device = device;
    slot.failed_starts = 0;
    slot.state = Slot::State::kIdle;
    Assign(slot);
    return Done{};
  }

  void Assign(Slot& slot) {
    Part* part = PartWithWork(slot);
    if (part == nullptr) {
      slot.process.reset();
      slot.state = Slot::State::kNone;
      return;
    }
    slot.item = part->waiting.front();
    part->waiting.pop_front();
    slot.state = Slot::State::kBusy;
    slot.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                       std::chrono::duration<double>(request_.timeout_s));
    // One that is gone says so when it is listened to.
    if (const Result<Done> sent = slot.process->Send(CallJson(*items_[slot.item].call)); !sent) return;
  }

  void TakeAnswer(Slot& slot, const std::string& message) {
    const std::string_view name = items_[slot.item].call->name;
    Result<CallAnswer> answer = AnswerFromJson(message, name);
    Finish(slot,
           answer ? *std::move(answer) : UncheckedCall(name, Verdict::kError, answer.error().Message()));
    Assign(slot);
  }

  void Finish(const Slot& slot, CallAnswer answer) {
    items_[slot.item].answer = std::move(answer);
    items_[slot.item].device = slot.device;
    --num_open_;
  }

  Result<Done> TakeDeath(Slot& slot, const std::string& how) {
    const std::string last_line = slot.process->last_line();
    slot.process.reset();
    const Slot::State state = std::exchange(slot.state, Slot::State::kNone);
    if (state == Slot::State::kBusy) {
      Finish(slot, UncheckedCall(items_[slot.item].call->name, Verdict::kError, how));
      return Done{};
    }
    if (summary_.device.empty() || ++slot.failed_starts == kMaxStarts) {
      return Error{
          ErrorCode::kBadArgument, request_.python.front(),
          fmt::format("cannot execute the calls: {}", last_line.empty() ? how : Printable(last_line))};
    }
    return Done{};
  }

  // -- the files

  // In the order of the dump, whatever the order of finishing.
  Result<Done> WriteFinished() {
    const std::size_t before = num_written_;
    for (; num_written_ < items_.size() && items_[num_written_].answer; ++num_written_)
      VN_RETURN_IF_ERROR(Write(items_[num_written_]));
    if (hooks_.on_progress && (before != num_written_ || num_open_ > 0))
      hooks_.on_progress(NumFinished(), items_.size());
    return Done{};
  }

  std::uint64_t NumFinished() const { return items_.size() - num_open_; }

  // What is finished behind gaps, so that a run that goes on has less to do.
  Result<Done> WriteRest() {
    for (std::size_t i = num_written_; i < items_.size(); ++i) {
      if (items_[i].answer) VN_RETURN_IF_ERROR(Write(items_[i]));
    }
    return Done{};
  }

  Result<Done> Write(Item& item) {
    const std::string_view name = item.call->name;
    const CallAnswer answer = *std::move(item.answer);
    item.answer.emplace();  // its rows are not kept
    if (!device_files_.empty()) VN_RETURN_IF_ERROR(DeviceFilesOf(item).Append(name, answer));
    if (files_) VN_RETURN_IF_ERROR(files_->Append(name, answer));
    if (!request_.only.empty() && hooks_.on_explained) hooks_.on_explained(name, answer);
    const std::string prefix(item.call->prefix.empty() ? "other" : item.call->prefix);
    summary_.Count(prefix,
                   {std::string(name), answer.failed_by, item.device, answer.verdict(), answer.severity});
    return Done{};
  }

  ResultFiles& DeviceFilesOf(const Item& item) {
    for (std::size_t i = 0; i < device_files_.size(); ++i) {
      if (DeviceId(request_.devices[i]) == DeviceId(item.device)) return device_files_[i];
    }
    return device_files_.front();
  }

  const RunRequest& request_;
  const RunHooks& hooks_;
  Config config_;
  std::optional<CallList> calls_;
  std::optional<ResultFiles> files_;
  std::vector<ResultFiles> device_files_;
  std::vector<Item> items_;
  std::vector<Part> parts_;
  std::vector<Slot> slots_;
  std::uint64_t num_open_ = 0;  // items without an answer
  std::size_t num_written_ = 0;
  RunSummary summary_;
};

}  // namespace

Result<RunSummary> CheckCalls(const RunRequest& request, const RunHooks& hooks) {
  return Run(request, hooks).Go();
}

}  // namespace vernier::precheck
