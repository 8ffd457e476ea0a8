// Several threads at once, and a process that is killed at any moment.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "core/json_cursor.h"
#include "profiles/msprobe/dump.h"
#include "recording.h"
#include "vernier/read.h"

namespace vernier {
namespace {

RecorderOptions Storing(SummaryMode mode) {
  RecorderOptions options;
  options.tensors = true;
  options.summary = mode;
  options.min_free_bytes = 0;
  options.num_threads = 2;
  return options;
}

// What a training step looks like to the recorder: modules around calls, some of whose tensors return.
void RecordStep(Recorder& recorder, int thread, int num_calls, std::atomic<bool>& failed) {
  std::uint32_t seen = 0;
  const std::string prefix = "T" + std::to_string(thread) + ".";
  std::vector<float> data(600), large(40000);
  const auto put = [&](const std::string& name, std::string_view text, const Words& words,
                       std::uint32_t flags, std::int64_t stack) {
    if (!recorder.Put(name, text, words, stack, flags, seen)) failed = true;
  };
  for (int i = 0; i < num_calls; ++i) {
    const std::string module = "Module." + prefix + std::to_string(i) + ".forward.0";
    const std::string call = "Torch." + prefix + std::to_string(i) + ".forward";
    std::fill(data.begin(), data.end(), static_cast<float>(i * 10 + thread));
    large[static_cast<std::size_t>(i) % large.size()] += 1;
    put(module, "{\"input_args\":[\x01]}", Floats(data, {.storage = 100 + thread}), 0, i % 3);
    put(call, "{\"input_args\":[\x01,\x01]}", Floats(data, {.storage = 100 + thread}) + Floats(large), 0, -1);
    put(call, "{\"output\":[\x01]}", Floats(data), kFinish, -1);
    put(module, "{\"output\":[null]}", {}, kFinish | kMoveToEnd, -1);
    if (!recorder.Construct(call, module)) failed = true;
  }
}

void DeclareStacks(Recorder& recorder) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(recorder.DeclareStack(i, "[\"frame " + std::to_string(i) + "\"]"));
  }
}

// Every file that a record names is there, whole.
void ExpectNamedFilesAreWhole(const std::filesystem::path& folder) {
  const std::string text = ReadFile(folder / "dump.json");
  std::set<std::string> names;
  for (const std::string& name : ValuesOf(text, "data_name")) names.insert(name.substr(1, name.size() - 2));
  for (const std::string& name : names) {
    const Result<Dump> dump = Dump::Open(folder / "dump_tensor_data" / name, {});
    ASSERT_TRUE(dump) << dump.error().Message();
    ASSERT_EQ(dump->tensors().size(), 1u) << name;
    EXPECT_TRUE(dump->Load(0)) << name;
  }
}

TEST(Threads, MayPutAtOnce) {
  constexpr int kNumThreads = 4, kNumCalls = 60;
  Recording recording(Storing(SummaryMode::kMd5));
  DeclareStacks(*recording);
  std::atomic<bool> failed{false};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kNumThreads; ++i) {
      threads.emplace_back([&, i] { RecordStep(*recording, i, kNumCalls, failed); });
    }
    for (int i = 0; i < 3; ++i) {
      if (!recording->Flush()) failed = true;
      (void)recording->Totals();
    }
  }
  EXPECT_FALSE(failed);
  recording.Flush();
  const Result<msprobe::Dump> dump = msprobe::Dump::Open(recording.folder() / "dump.json", {});
  ASSERT_TRUE(dump) << dump.error().Message();
  EXPECT_FALSE(dump->torn());
  EXPECT_EQ(dump->records().size(), static_cast<std::size_t>(2 * kNumThreads * kNumCalls));
  // Each thread's own records stand in its own order, a module behind what it called.
  std::vector<int> next(kNumThreads, 0);
  for (const msprobe::Record& record : dump->records()) {
    const bool is_module = record.name.starts_with("Module.");
    const std::string name(record.name.substr(is_module ? 8 : 7));
    int thread = 0, call = 0;
    ASSERT_EQ(std::sscanf(name.c_str(), "%d.%d.forward", &thread, &call), 2) << name;
    EXPECT_EQ(2 * call + (is_module ? 1 : 0), next[static_cast<std::size_t>(thread)]++) << record.name;
  }
  ExpectNamedFilesAreWhole(recording.folder());
}

TEST(Threads, ALargeTensorGivesTheSameNumbersOnAny) {
  std::vector<float> data(3000000);
  std::mt19937 random(5);
  for (float& value : data) value = static_cast<float>(random()) * 1e-6f;
  std::string texts[2];
  for (const int num_threads : {1, 4}) {
    RecorderOptions options;
    options.summary = SummaryMode::kMd5;
    options.num_threads = num_threads;
    Recording recording(options);
    recording.Put("A", "{\"x\":\x01}", Floats(data));
    recording.Put("B", "{\"x\":\x01}", Floats(data));
    texts[num_threads == 1 ? 0 : 1] = recording.Data();
  }
  EXPECT_EQ(texts[0], texts[1]);
}

// Records until it is killed.
[[noreturn]] void RecordForever(const std::filesystem::path& folder, bool tensors) {
  RecorderOptions options = Storing(SummaryMode::kStatistics);
  options.tensors = tensors;
  options.keep_up_every = std::chrono::milliseconds(1);
  auto recorder = *Recorder::Open(options);
  RecordFolder where;
  where.folder = folder;
  where.header = R"({"task":"statistics"})";
  if (!recorder->Begin(where)) _exit(2);
  for (int i = 0; i < 3; ++i) (void)recorder->DeclareStack(i, "[\"frame\"]");
  std::atomic<bool> failed{false};
  for (int round = 0;; ++round) {
    RecordStep(*recorder, round, 20, failed);
    if (round % 4 == 3 && !recorder->Flush()) _exit(3);
    if (failed) _exit(4);
  }
}

TEST(Kill, LeavesADumpThatCanBeReadAtAnyMoment) {
  std::mt19937 random(11);
  std::size_t num_records = 0, num_beside = 0;
  for (int round = 0; round < 50; ++round) {
    TemporaryFolder parent;
    const std::filesystem::path folder = parent.path() / "rank0";
    const pid_t child = fork();
    if (child == 0) RecordForever(folder, round % 2 == 0);
    usleep(3000 + random() % 40000);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    if (!std::filesystem::exists(folder / "dump.json")) continue;  // it had hardly begun
    const Result<msprobe::Dump> dump = msprobe::Dump::Open(folder / "dump.json", {});
    ASSERT_TRUE(dump) << dump.error().Message();
    for (std::size_t i = 0; i < dump->records().size(); ++i) {
      EXPECT_EQ(dump->ProblemOf(static_cast<std::uint32_t>(i)), "");
    }
    num_records += dump->records().size();
    if (round % 2 == 0) ExpectNamedFilesAreWhole(folder);
    for (const char* name : {"stack.json", "construct.json"}) {
      const std::string text = ReadFile(folder / name);
      if (text.empty()) continue;  // it had hardly begun
      JsonCursor cursor(text);
      cursor.ForEachMember([&](std::string_view, bool) {
        cursor.Skip();
        ++num_beside;
      });
      EXPECT_TRUE(cursor.ok() && cursor.AtEnd()) << name << " " << cursor.problem() << "\n" << text;
    }
  }
  EXPECT_GT(num_records, 100u);
  EXPECT_GT(num_beside, 100u);
}

}  // namespace
}  // namespace vernier
