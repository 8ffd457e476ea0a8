// Tensor files: names, contents, which are written once, and what is remembered of a tensor.
#include "record/tensor_files.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <numeric>

#include "core/mapped_file.h"
#include "format/pt.h"
#include "record/staging_pool.h"
#include "recording.h"
#include "vernier/read.h"

namespace vernier {
namespace {

const std::vector<float> kOnes{1, 1}, kTwos{2, 2, 2};
const std::vector<float> kSix{1, 2, 3, 4, 5, 6};

RecorderOptions Storing() {
  RecorderOptions options;
  options.tensors = true;
  return options;
}

std::vector<std::string> DataNames(const Recording& recording) {
  std::vector<std::string> names = ValuesOf(recording.Data(), "data_name");
  for (std::string& name : names) name = name.substr(1, name.size() - 2);
  return names;
}

using Strings = std::vector<std::string>;
using Set = std::set<std::string>;

TEST(TensorFiles, AreNamedByFieldAndPath) {
  Recording recording(Storing());
  recording.Put("Torch.f.0.forward",
                "{\"input_args\":[\x01,[null,\x01]],\"input_kwargs\":{\"mask\":\x01,\"d\":{\"k\":[\x01]}}}",
                Floats({1}) + Floats({2}) + Floats({3}) + Floats({4}), 0);
  recording.Put("Torch.f.0.forward", "{\"output\":[\x01],\"parameters\":{\"weight\":\x01}}",
                Floats({5}) + Floats({6}));
  recording.Put("Torch.f.0.backward", "{\"input\":[null,\x01]}", Floats({7}));
  recording.Put("Module.a.B.parameters_grad.0", "{\"weight\":[\x01],\"bias\":[\x01]}",
                Floats({8}) + Floats({9}));
  recording.Flush();
  EXPECT_EQ(DataNames(recording),
            (Strings{"Torch.f.0.forward.input.0.pt", "Torch.f.0.forward.input.1.1.pt",
                     "Torch.f.0.forward.kwargs.mask.pt", "Torch.f.0.forward.kwargs.d.k.0.pt",
                     "Torch.f.0.forward.output.0.pt", "Torch.f.0.forward.parameters.weight.pt",
                     "Torch.f.0.backward.input.1.pt", "Module.a.B.parameters_grad.0.weight.pt",
                     "Module.a.B.parameters_grad.0.bias.pt"}));
  EXPECT_EQ(Load(recording, "Torch.f.0.forward.kwargs.d.k.0.pt"), std::vector<float>{4});
}

TEST(TensorFiles, OfAWholeEntryAreNamedByItAndThePath) {
  Recording recording(Storing(), /*debug=*/true);
  recording.Put("x.0.debug", "\x01", Floats({1}), kFinish | kWhole);
  recording.Put("y.0.debug", "{\"k\":[null,\x01]}", Floats({2}), kFinish | kWhole);
  recording.Flush();
  EXPECT_EQ(DataNames(recording), (Strings{"x.0.debug.pt", "y.0.debug.k.1.pt"}));
}

TEST(TensorFiles, DataNameComesBeforeMd5) {
  RecorderOptions options = Storing();
  options.summary = SummaryMode::kMd5;
  Recording recording(options);
  recording.Put("A", "{\"output\":[\x01]}", Floats({1}));
  recording.Flush();
  EXPECT_NE(recording.Data().find(
                "\"requires_grad\": false,\n     \"data_name\": \"A.output.0.pt\",\n     \"md5\": \""),
            std::string::npos);
}

TEST(TensorFiles, HoldViewsInLogicalOrder) {
  Recording recording(Storing());
  const auto put = [&](const char* name, const std::vector<std::int64_t>& shape,
                       const std::vector<std::int64_t>& strides) {
    recording.Put(name, "{\"x\":\x01}", Tensor(kSix.data(), Dtype::kF32, shape, {}, strides));
  };
  put("transposed", {3, 2}, {1, 3});
  put("expanded", {2, 3}, {0, 1});
  put("strided", {3}, {2});
  put("zero", {2, 2}, {0, 0});
  recording.Flush();
  EXPECT_EQ(Load(recording, "transposed.x.pt"), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(Load(recording, "expanded.x.pt"), (std::vector<float>{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(Load(recording, "strided.x.pt"), (std::vector<float>{1, 3, 5}));
  EXPECT_EQ(Load(recording, "zero.x.pt"), (std::vector<float>{1, 1, 1, 1}));
}

TEST(TensorFiles, AreOnlyWrittenForTensorsWithElementsThatAreWanted) {
  RecorderOptions options;
  options.min_free_bytes = 0;
  TemporaryFolder parent;
  auto recorder = *Recorder::Open(options);
  RecordFolder where;
  where.folder = parent.path();
  where.header = "{}";
  where.dump_data_dir = "x";  // for a list of tensors
  ASSERT_TRUE(recorder->Begin(where));
  std::uint32_t seen = 0;
  const std::vector<float> one{1}, two{2}, three{3};
  const Words words = Floats(one) + Floats(two, {.flags = kStore}) +
                      Tensor(nullptr, Dtype::kF32, {0}, {.flags = kStore}) +
                      Floats(three, {.flags = kStore | kNoStore}) +
                      Tensor(nullptr, Dtype::kF32, {3}, {.flags = kStore | kNoData});
  ASSERT_TRUE(recorder->Put("A", "{\"x\":[\x01,\x01,\x01,\x01,\x01]}", words, -1, kFinish, seen));
  ASSERT_TRUE(recorder->End());
  EXPECT_EQ(ValuesOf(ReadFile(parent.path() / "dump.json"), "data_name"), Strings{"\"A.x.1.pt\""});
}

// ---- equal tensors

TEST(Dedup, EqualTensorsShareOneFile) {
  Recording recording(Storing());
  const std::vector<float> same = kTwos;
  recording.Put("A", "{\"x\":\x01}", Floats(kTwos));
  recording.Put("B", "{\"x\":\x01}", Floats(same));  // while the first may still be waiting
  recording.Flush();
  recording.Put("C", "{\"x\":\x01}", Floats(same));                              // and once it is written
  recording.Put("D", "{\"x\":\x01}", Tensor(same.data(), Dtype::kF32, {3, 1}));  // another shape
  recording.Put("E", "{\"x\":\x01}", Tensor(same.data(), Dtype::kI32, {3}));     // another dtype
  recording.Flush();
  EXPECT_EQ(DataNames(recording), (Strings{"A.x.pt", "A.x.pt", "A.x.pt", "D.x.pt", "E.x.pt"}));
  EXPECT_EQ(recording.TensorFiles(), (Set{"A.x.pt", "D.x.pt", "E.x.pt"}));
  const RecordTotals totals = recording->Totals();
  EXPECT_EQ(totals.bytes_seen, 60u);
  EXPECT_EQ(totals.bytes_stored, 36u);
  EXPECT_EQ(totals.bytes_saved, 24u);
  EXPECT_EQ(totals.num_files, 3u);
}

TEST(Dedup, CanBeSwitchedOff) {
  RecorderOptions options = Storing();
  options.dedup = false;
  Recording recording(options);
  recording.Put("A", "{\"x\":\x01}", Floats(kTwos, {.storage = 1}));
  recording.Put("B", "{\"x\":\x01}", Floats(kTwos, {.storage = 1}));
  recording.Flush();
  EXPECT_EQ(DataNames(recording), (Strings{"A.x.pt", "B.x.pt"}));
}

TEST(Dedup, AFileThatOthersNameIsNotOverwritten) {
  Recording recording(Storing());
  recording.Put("A", "{\"x\":\x01}", Floats({1}));
  recording.Put("B", "{\"x\":\x01}", Floats({1}));
  recording.Put("A", "{\"x\":\x01}", Floats({2}), kFinish | kReplace);
  recording.Flush();
  EXPECT_EQ(DataNames(recording), (Strings{"A.x~2.pt", "A.x.pt"}));
  EXPECT_EQ(Load(recording, "A.x.pt"), std::vector<float>{1});
  EXPECT_EQ(Load(recording, "A.x~2.pt"), std::vector<float>{2});
}

TEST(Dedup, AReplacedTensorLeavesNoFileBehind) {
  Recording recording(Storing());
  recording.Put("A", "{\"x\":\x01,\"y\":\x01}", Floats({1}) + Floats({3}));
  recording.Put("A", "{\"x\":\x01,\"y\":null}", Floats({2}), kFinish | kReplace);
  recording.Flush();
  EXPECT_EQ(recording.TensorFiles(), Set{"A.x.pt"});
  EXPECT_EQ(Load(recording, "A.x.pt"), std::vector<float>{2});
}

// ---- names

TEST(TensorFileName, StaysInTheFolder) {
  EXPECT_EQ(TensorFileName("a.b"), "a.b.pt");
  EXPECT_EQ(TensorFileName("../a/b"), ".._a_b.pt");
  EXPECT_EQ(TensorFileName(std::string_view("a\0b\n", 4)), "a_b_.pt");
  EXPECT_EQ(TensorFileName(""), ".pt");
}

TEST(TensorFileName, IsNeverTooLongAndStaysDifferent) {
  const std::string long_stem(400, 'x');
  const std::string one = TensorFileName(long_stem + "1"), two = TensorFileName(long_stem + "2");
  EXPECT_EQ(one.size(), 255u);
  EXPECT_NE(one, two);
  EXPECT_TRUE(one.ends_with(".pt"));
  std::string wide;
  while (wide.size() < 300) wide += "é";
  EXPECT_LE(TensorFileName("x" + wide).size(), 255u);
}

TEST(TensorFiles, NamesThatBecomeTheSameAreToldApart) {
  Recording recording(Storing());
  recording.Put("a/b", "{\"x\":\x01}", Floats({1}));
  recording.Put("a_b", "{\"x\":\x01}", Floats({2}));
  recording.Flush();
  EXPECT_EQ(DataNames(recording), (Strings{"a_b.x.pt", "a_b.x~2.pt"}));
}

// ---- what is remembered

TEST(Remembering, AKnownTensorIsNotCopiedAgain) {
  Recording recording(Storing());
  const Words words = Floats(kTwos, {.storage = 7, .version = 1});
  recording.Put("A", "{\"x\":\x01}", words);
  recording.Put("B", "{\"x\":\x01}", words);
  EXPECT_EQ(recording->Totals().num_measured, 1u);
  EXPECT_EQ(recording->Totals().num_tensors, 2u);
  recording.Put("C", "{\"x\":\x01}", Floats(kTwos, {.storage = 7, .version = 2}));
  EXPECT_EQ(recording->Totals().num_measured, 2u);
  recording.Put("D", "{\"x\":\x01}", Tensor(kTwos.data(), Dtype::kF32, {2}, {.storage = 7, .version = 1}));
  EXPECT_EQ(recording->Totals().num_measured, 3u);
  recording.Put("E", "{\"x\":\x01}", Floats(kTwos));  // no storage: never remembered
  recording.Put("F", "{\"x\":\x01}", Floats(kTwos));
  EXPECT_EQ(recording->Totals().num_measured, 5u);
  ASSERT_TRUE(recording->End());
  ASSERT_TRUE(recording->Begin(recording.where()));
  recording.Put("A", "{\"x\":\x01}", words);
  EXPECT_EQ(recording->Totals().num_measured, 6u);
}

// One element, wherever it is: p.data[i] = 2, or a kernel of somebody else.
TEST(Remembering, SeesAWriteThatMovedNoVersion) {
  for (const bool stores : {false, true}) {
    for (const std::size_t count : {3u, 70u, 5000u, 100003u}) {
      RecorderOptions options = Storing();
      options.tensors = stores;
      Recording recording(options);
      std::vector<float> data(count, 1.0f);
      const Words words = Floats(data, {.storage = 7});
      recording.Put("before", "{\"x\":\x01}", words);
      std::size_t num_writes = 0;
      for (std::size_t at = 0; at < count; at += count / 40 + 1, ++num_writes) {
        data[at] = 2.0f;
        recording.Put("written " + std::to_string(at), "{\"x\":\x01}", words);
        data[at] = 1.0f;
      }
      recording.Put("after", "{\"x\":\x01}", words);
      recording.Flush();
      std::vector<std::string> expected(num_writes + 2, "2.0");
      expected.front() = expected.back() = "1.0";
      EXPECT_EQ(ValuesOf(recording.Data(), "Max"), expected) << count;
      if (!stores) continue;
      EXPECT_EQ(recording.TensorFiles().size(), num_writes + 1) << count;
    }
  }
}

TEST(Remembering, SeesAWriteBetweenTheElementsOfAView) {
  Recording recording(Storing());
  std::vector<float> data(3000, 1.0f);
  const Words column = Tensor(data.data(), Dtype::kF32, {1000}, {.storage = 7}, {3});
  recording.Put("A", "{\"x\":\x01}", column);
  data[1] = 5;  // of no element of the view
  recording.Put("B", "{\"x\":\x01}", column);
  data[1500] = 2;
  recording.Put("C", "{\"x\":\x01}", column);
  recording.Flush();
  EXPECT_EQ(ValuesOf(recording.Data(), "Max"), (Strings{"1.0", "1.0", "2.0"}));
  EXPECT_EQ(DataNames(recording), (Strings{"A.x.pt", "A.x.pt", "C.x.pt"}));
}

TEST(Remembering, AFileIsNamedAgain) {
  Recording recording(Storing());
  const Words words = Floats(kTwos, {.storage = 7});
  recording.Put("A", "{\"x\":\x01}", words);
  recording.Put("B", "{\"x\":\x01}", words);
  recording.Flush();
  EXPECT_EQ(DataNames(recording), (Strings{"A.x.pt", "A.x.pt"}));
  EXPECT_EQ(recording->Totals().num_measured, 1u);
}

// ---- the pool

TEST(StagingPool, WaitsForRoomAndNeverHoldsMoreThanItMay) {
  StagingPool pool(1 << 20);
  std::vector<StagingPool::Buffer> held;
  for (int i = 0; i < 16; ++i) held.push_back(pool.Take(64 << 10));
  EXPECT_EQ(pool.used_bytes(), 1u << 20);
  std::atomic<bool> got{false};
  std::thread waiting([&] {
    const StagingPool::Buffer late = pool.Take(64 << 10);
    got = true;
  });
  EXPECT_FALSE(got);
  held.clear();
  waiting.join();
  EXPECT_TRUE(got);
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST(StagingPool, GivesMoreThanTheWholePoolAlone) {
  StagingPool pool(1 << 20);
  const StagingPool::Buffer large = pool.Take(5 << 20);
  ASSERT_NE(large, nullptr);
  std::memset(large.get(), 1, 5 << 20);
}

TEST(StagingPool, RecordsMoreThanFitsThroughASmallPool) {
  RecorderOptions options = Storing();
  options.staging_bytes = 256 << 10;
  Recording recording(options);
  std::vector<float> data(50000);
  for (int i = 0; i < 40; ++i) {
    std::iota(data.begin(), data.end(), static_cast<float>(i));
    recording.Put("A." + std::to_string(i), "{\"x\":\x01}", Floats(data));
  }
  std::vector<float> larger(200000, 3.0f);  // than the pool
  recording.Put("B", "{\"x\":\x01}", Floats(larger));
  recording.Flush();
  EXPECT_EQ(recording.TensorFiles().size(), 41u);
  EXPECT_EQ(Load(recording, "B.x.pt"), larger);
  EXPECT_EQ(Load(recording, "A.39.x.pt"), data);
}

// ---- a disk that fills up

struct FakeDisk {
  std::shared_ptr<std::atomic<std::uint64_t>> free_bytes;
  Result<DiskSpace> operator()(const std::filesystem::path&) const {
    return DiskSpace{free_bytes->load(), std::uint64_t{1} << 40};
  }
};

TEST(DiskFloor, StopsBeforeTheDiskIsFull) {
  const auto free_bytes = std::make_shared<std::atomic<std::uint64_t>>(std::uint64_t{6} << 30);
  RecorderOptions options = Storing();
  options.min_free_bytes = std::int64_t{5} << 30;
  options.disk_space = FakeDisk{free_bytes};
  Recording recording(options);
  const std::vector<float> block(1 << 20, 1.0f);  // 4 MiB
  recording.Put("before", "{\"x\":\x01}", Floats(block));
  recording.Flush();
  *free_bytes = std::uint64_t{4} << 30;
  std::vector<float> other = block;
  int num_put = 0, num_failed = 0, num_ignored = 0;
  for (int i = 0; i < 60; ++i) {
    other[0] = static_cast<float>(i + 2);
    std::uint32_t seen = 0;
    const Result<Done> result =
        recording->Put("B." + std::to_string(i), "{\"x\":\x01}", Floats(other), -1, kFinish, seen);
    if (!result) {
      ++num_failed;
      EXPECT_NE(result.error().Message().find("4096 MiB are free"), std::string::npos)
          << result.error().Message();
      EXPECT_EQ(seen & kSeenStopped, kSeenStopped);
    } else if ((seen & kSeenStopped) != 0) {
      ++num_ignored;
    } else {
      ++num_put;
    }
    usleep(1000);
  }
  EXPECT_EQ(num_failed, 1);  // it is said once
  EXPECT_GT(num_ignored, 0);
  EXPECT_TRUE(recording->Flush());
  for (const std::string& name : DataNames(recording)) EXPECT_EQ(Load(recording, name).size(), block.size());
  EXPECT_EQ(DataNames(recording).size(), recording.TensorFiles().size());
  // The next folder looks at the disk again.
  RecordFolder next = recording.where();
  next.folder += "-next";
  EXPECT_FALSE(recording->Begin(next));
  *free_bytes = std::uint64_t{8} << 30;
  EXPECT_TRUE(recording->Begin(next));
  recording.Put("after", "{\"x\":\x01}", Floats(block));
  EXPECT_TRUE(recording->End());
}

TEST(DiskFloor, IsFivePercentOrFiveGigabytes) {
  const auto checked = [](std::uint64_t free_bytes, std::uint64_t total_bytes) {
    RecorderOptions options;
    options.disk_space = [=](const std::filesystem::path&) -> Result<DiskSpace> {
      return DiskSpace{free_bytes, total_bytes};
    };
    return DiskFloor(options).Check("x", 0).has_value();
  };
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  EXPECT_TRUE(checked(5 * kGiB, 1000 * kGiB));
  EXPECT_FALSE(checked(5 * kGiB - 1, 1000 * kGiB));
  EXPECT_TRUE(checked(kGiB, 20 * kGiB));
  EXPECT_FALSE(checked(kGiB - 1, 20 * kGiB));
}

TEST(DiskFloor, HoldsOnASmallDiskToo) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  std::uint64_t free_bytes = 8 * kMiB;
  RecorderOptions options;
  options.min_free_bytes = static_cast<std::int64_t>(2 * kMiB);
  options.disk_space = [&](const std::filesystem::path&) -> Result<DiskSpace> {
    return DiskSpace{free_bytes, 8 * kMiB};
  };
  DiskFloor floor(options);
  int num_files = 0;
  for (; num_files < 100 && floor.Check("x", kMiB); ++num_files) free_bytes -= kMiB;
  EXPECT_EQ(num_files, 6);
}

// Runs in a child, because the limit is the process's.
int RecordUnderALimit(const std::filesystem::path& folder, bool tensors) {
  signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{100000, 100000};
  setrlimit(RLIMIT_FSIZE, &limit);
  RecorderOptions options;
  options.tensors = tensors;
  options.min_free_bytes = 0;
  auto recorder = *Recorder::Open(options);
  RecordFolder where;
  where.folder = folder;
  where.header = "{}";
  if (!recorder->Begin(where)) return 2;
  std::vector<float> data(tensors ? 10000 : 10, 1.0f);
  bool failed = false;
  for (int i = 0; i < 1000 && !failed; ++i) {
    if (tensors && i == 5) data.resize(50000);  // does not fit any more
    data[0] = static_cast<float>(i);
    std::uint32_t seen = 0;
    failed = !recorder->Put("Torch.relu." + std::to_string(i) + ".forward", "{\"output\":[\x01]}",
                            Floats(data), -1, kFinish, seen);
  }
  const bool flush_failed = !recorder->Flush();
  recorder.reset();
  return failed || flush_failed ? 0 : 3;
}

void ExpectUsableAfterALimit(bool tensors) {
  TemporaryFolder parent;
  const std::filesystem::path folder = parent.path() / "rank0";
  const pid_t child = fork();
  if (child == 0) _exit(RecordUnderALimit(folder, tensors));
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  const std::string text = ReadFile(folder / "dump.json");
  EXPECT_TRUE(text.ends_with("\n  }\n }\n}")) << text.substr(text.size() > 200 ? text.size() - 200 : 0);
  const std::size_t num_records = ValuesOf(text, "Max").size();
  EXPECT_GT(num_records, 3u);
  if (!tensors) return;
  EXPECT_EQ(num_records, 5u);
  std::size_t num_files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder / "dump_tensor_data")) {
    ++num_files;
    EXPECT_TRUE(Dump::Open(file.path(), {})) << file.path();
  }
  EXPECT_EQ(num_files, 5u);  // no half of one is left
}

TEST(FullDisk, LeavesTheDocumentAsItWas) { ExpectUsableAfterALimit(false); }
TEST(FullDisk, LeavesNoHalfTensor) { ExpectUsableAfterALimit(true); }

}  // namespace
}  // namespace vernier
