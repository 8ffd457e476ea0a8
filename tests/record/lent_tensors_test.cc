// Deferred tensors whose memory is lent: measured, told apart and written by the writer's threads.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "measure/summary.h"
#include "recording.h"
#include "vernier/read.h"
#include "without_threads.h"

namespace vernier {
namespace {

using Strings = std::vector<std::string>;

RecorderOptions Storing(int num_writers = 0) {
  RecorderOptions options;
  options.tensors = true;
  options.num_writers = num_writers;
  return options;
}

Words Deferred(std::int64_t slot, std::int64_t num_elements) {
  Words words = Tensor(nullptr, Dtype::kF32, {num_elements}, {.flags = kDeferred | kCopyFollows});
  words[0] = slot;
  return words;
}

Strings DataNames(const Recording& recording) {
  Strings names = ValuesOf(recording.Data(), "data_name");
  for (std::string& name : names) name = name.substr(1, name.size() - 2);
  return names;
}

// Waits for the memory of so many slots.
std::multiset<std::int64_t> Returned(Recording& recording, std::size_t count) {
  std::multiset<std::int64_t> slots;
  while (slots.size() < count) {
    std::int64_t some[8];
    const std::size_t found = recording->TakeReturned(some, /*wait=*/true);
    if (found == 0) break;
    slots.insert(some, some + found);
  }
  return slots;
}

// A tensor of its own for each number.
std::vector<float> Numbered(int number, std::size_t num_elements) {
  std::vector<float> values(num_elements);
  std::iota(values.begin(), values.end(), static_cast<float>(number * 7));
  return values;
}

TEST(LentTensors, AreStoredUnderTheirNamesAndInOrderByAnyNumberOfThreads) {
  Strings documents;
  for (const int num_writers : {1, 2, 8}) {
    Recording recording(Storing(num_writers));
    constexpr int kNumCalls = 60;
    std::vector<std::vector<float>> memory;
    // Every third one is as the one before: sometimes of the same record, sometimes of another one.
    for (int i = 0; i < 2 * kNumCalls; ++i) {
      memory.push_back(Numbered(i % 3 == 2 ? i - 1 : i, 1000 + static_cast<std::size_t>(i) * 500));
      if (i % 3 == 2) memory.back() = memory[static_cast<std::size_t>(i - 1)];
    }
    for (int i = 0; i < kNumCalls; ++i) {
      const auto first = static_cast<std::size_t>(2 * i), second = first + 1;
      recording.Put("A." + std::to_string(i), "{\"x\":[\x01,\x01]}",
                    Deferred(2 * i + 1, static_cast<std::int64_t>(memory[first].size())) +
                        Deferred(2 * i + 2, static_cast<std::int64_t>(memory[second].size())));
      for (const std::size_t at : {first, second}) {
        ASSERT_TRUE(recording->LendTensor(static_cast<std::int64_t>(at) + 1, Floats(memory[at])));
      }
    }
    EXPECT_EQ(Returned(recording, 2 * kNumCalls).size(), 2u * kNumCalls);
    recording.Flush();
    const Strings names = DataNames(recording);
    ASSERT_EQ(names.size(), memory.size());
    for (std::size_t i = 0; i < names.size(); ++i)
      EXPECT_EQ(Load(recording, names[i]), memory[i]) << names[i];
    EXPECT_EQ(names[0], "A.0.x.0.pt");
    EXPECT_EQ(names[2], "A.0.x.1.pt");  // the same elements, in another record
    EXPECT_EQ(names[5], "A.2.x.1.pt");  // in the same record: a name of its own
    documents.push_back(recording.Data());
    const RecordTotals totals = recording->Totals();
    EXPECT_EQ(totals.bytes_stored + totals.bytes_saved, totals.bytes_seen);
    EXPECT_EQ(totals.num_files, 80u);
    EXPECT_EQ(totals.num_tensors, 120u);
  }
  EXPECT_EQ(documents[0], documents[1]);
  EXPECT_EQ(documents[0], documents[2]);
}

TEST(LentTensors, GiveTheDocumentOfCopiedOnes) {
  Strings documents;
  const std::vector<float> first{5, 6, 7}, second{-1, 3, 2}, small{1e-30f, 2e-30f, 0};
  for (const bool lends : {false, true}) {
    RecorderOptions options = Storing();
    options.summary = SummaryMode::kMd5;
    Recording recording(options);
    recording.Put("A", "{\"x\":[\x01,\x01]}", Deferred(1, 3) + Deferred(2, 3));
    recording.Put("B", "{\"x\":[\x01],\"y\":{\"z\":\x01}}", Deferred(3, 3) + Deferred(4, 3));
    std::int64_t slot = 1;
    for (const auto* memory : {&first, &second, &first, &small}) {
      ASSERT_TRUE(lends ? recording->LendTensor(slot, Floats(*memory))
                        : recording->FillTensor(slot, Floats(*memory)));
      ++slot;
    }
    recording.Flush();
    documents.push_back(recording.Data());
  }
  EXPECT_EQ(documents[0], documents[1]);
  EXPECT_EQ(ValuesOf(documents[0], "Max")[1], "3.0");
}

TEST(LentTensors, AreOnlyMeasuredWhereNoFileIsWanted) {
  RecorderOptions options;
  options.summary = SummaryMode::kMd5;
  Recording recording(options);
  const std::vector<float> memory = Numbered(1, 100000);
  recording.Put("A", "{\"x\":[\x01]}", Deferred(1, 100000));
  ASSERT_TRUE(recording->LendTensor(1, Floats(memory)));
  recording.Flush();
  EXPECT_EQ(ValuesOf(recording.Data(), "Min"), Strings{"7.0"});
  EXPECT_NE(ValuesOf(recording.Data(), "md5"), Strings{"null"});
  EXPECT_EQ(Returned(recording, 1), std::multiset<std::int64_t>{1});
}

TEST(LentTensors, KeepTheNumbersThatCameBefore) {
  Recording recording(Storing());
  recording.Put("A", "{\"x\":[\x01]}", Deferred(1, 3));
  const FilledValue four[4] = {{FilledValue::kInt, 4}, {FilledValue::kInt, 3}, {}, {}};
  ASSERT_TRUE(recording->Fill(1, four, std::nullopt));
  const std::vector<float> memory{1, 2, 3};
  ASSERT_TRUE(recording->LendTensor(1, Floats(memory)));
  recording.Flush();
  EXPECT_EQ(Statistics(recording.Data()), "4 3 null null");
  EXPECT_EQ(Load(recording, "A.x.0.pt"), memory);
}

TEST(LentTensors, InAnotherOrderAreCopiedDuringTheCall) {
  Recording recording(Storing());
  recording.Put("A", "{\"x\":[\x01]}", Deferred(1, 6));
  std::vector<float> memory{1, 2, 3, 4, 5, 6};
  ASSERT_TRUE(recording->LendTensor(1, Tensor(memory.data(), Dtype::kF32, {3, 2}, {}, {1, 3})));
  EXPECT_EQ(Returned(recording, 1), std::multiset<std::int64_t>{1});
  std::fill(memory.begin(), memory.end(), 0.0f);
  recording.Flush();
  EXPECT_EQ(Load(recording, "A.x.0.pt"), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(LentTensors, ComeBackWhateverBecomesOfTheCall) {
  Recording recording(Storing());
  const std::vector<float> memory{1, 2, 3};
  EXPECT_FALSE(recording->LendTensor(9, Floats(memory)));  // nothing waits for it
  EXPECT_FALSE(recording->LendTensor(8, Words{1, 2}));
  recording.Put("A", "{\"x\":[\x01]}", Deferred(1, 0));
  EXPECT_TRUE(recording->LendTensor(1, Tensor(nullptr, Dtype::kF32, {0})));
  EXPECT_EQ(Returned(recording, 3), (std::multiset<std::int64_t>{1, 8, 9}));
  ASSERT_TRUE(recording->End());
  EXPECT_FALSE(recording->LendTensor(7, Floats(memory)));  // no folder is open
  EXPECT_EQ(Returned(recording, 1), std::multiset<std::int64_t>{7});
  std::int64_t none[1];
  EXPECT_EQ(recording->TakeReturned(none, /*wait=*/true), 0u);
}

TEST(LentTensors, AFieldThatIsReplacedLeavesNoFileBehind) {
  for (int i = 0; i < 20; ++i) {
    Recording recording(Storing(4));
    const std::vector<float> before = Numbered(1, 200000), after = Numbered(2, 10);
    recording.Put("A", "{\"x\":\x01}", Deferred(1, 200000), kKeep);
    ASSERT_TRUE(recording->LendTensor(1, Floats(before)));
    recording.Put("A", "{\"x\":\x01}", Deferred(2, 10), kReplace | kFinish);
    ASSERT_TRUE(recording->LendTensor(2, Floats(after)));
    recording.Flush();
    EXPECT_EQ(recording.TensorFiles(), std::set<std::string>{"A.x.pt"});
    EXPECT_EQ(Load(recording, "A.x.pt"), after);
  }
}

// The disk fills up: records before the first tensor that found no room are there, none behind it, and every
// file that is there is named.
TEST(LentTensors, AFullDiskLeavesWholeFilesAndTheirRecords) {
  for (const int num_writers : {1, 8}) {
    const auto free_bytes = std::make_shared<std::atomic<std::uint64_t>>(std::uint64_t{6} << 30);
    RecorderOptions options = Storing(num_writers);
    options.min_free_bytes = std::int64_t{5} << 30;
    options.disk_space = [free_bytes](const auto&) -> Result<DiskSpace> {
      return DiskSpace{free_bytes->load(), std::uint64_t{1} << 40};
    };
    Recording recording(options);
    *free_bytes = std::uint64_t{4} << 30;
    constexpr int kNumCalls = 60;
    std::vector<std::vector<float>> memory;
    int num_failed = 0;
    for (int i = 0; i < kNumCalls; ++i) memory.push_back(Numbered(i, 500000));
    for (int i = 0; i < kNumCalls; ++i) {
      std::uint32_t seen = 0;
      num_failed += !recording->Put("A." + std::to_string(i), "{\"x\":\x01}", Deferred(i + 1, 500000), -1,
                                    kFinish, seen);
      num_failed += !recording->LendTensor(i + 1, Floats(memory[static_cast<std::size_t>(i)]));
    }
    EXPECT_EQ(Returned(recording, kNumCalls).size(), static_cast<std::size_t>(kNumCalls));
    num_failed += !recording->Flush();
    EXPECT_EQ(num_failed, 1);
    const Strings names = DataNames(recording);
    EXPECT_LT(names.size(), static_cast<std::size_t>(kNumCalls));
    for (std::size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(names[i], "A." + std::to_string(i) + ".x.pt");
      EXPECT_EQ(Load(recording, names[i]), memory[i]);
    }
    EXPECT_EQ(recording.TensorFiles(), std::set<std::string>(names.begin(), names.end()));
  }
}

TEST(LentTensors, AreRecordedWhereThereAreNoThreads) {
  const auto parent = std::make_shared<TemporaryFolder>();
  std::filesystem::permissions(parent->path(), std::filesystem::perms::all);
  const std::optional<int> status = WithoutThreads([&] {
    Recording recording(Storing(), false, parent);
    const std::vector<float> memory{1, 2, 3};
    recording.Put("A", "{\"x\":[\x01,\x01]}", Deferred(1, 3) + Deferred(2, 3));
    EXPECT_TRUE(recording->LendTensor(1, Floats(memory)));
    EXPECT_TRUE(recording->LendTensor(2, Floats(memory)));
    EXPECT_EQ(Returned(recording, 2).size(), 2u);
    recording.Flush();
    EXPECT_EQ(DataNames(recording), (Strings{"A.x.0.pt", "A.x.1.pt"}));
    EXPECT_EQ(Load(recording, "A.x.1.pt"), memory);
  });
  if (!status) GTEST_SKIP() << "threads cannot be forbidden here";
  EXPECT_EQ(*status, 0);
}

// ---- what the step before has stored

TEST(LentTensors, UnchangedSinceTheStepBeforeAreLinkedToItsFile) {
  Recording recording(Storing(4));
  const std::vector<float> weight = Numbered(1, 100000), before = Numbered(2, 100), after = Numbered(3, 100);
  std::vector<std::filesystem::path> folders;
  for (const int step : {0, 1, 2}) {
    RecordFolder where = recording.where();
    where.folder += "-" + std::to_string(step);
    folders.push_back(where.folder / "dump_tensor_data");
    ASSERT_TRUE(recording->Begin(where));
    if (step == 2) {
      // What somebody did to the file of the step before is nobody else's.
      std::filesystem::remove(folders[1] / "A.x.0.pt");
      std::filesystem::copy_file(folders[1] / "A.x.1.pt", folders[1] / "A.x.0.pt");
    }
    recording.Put("A", "{\"x\":[\x01,\x01]}", Deferred(1, 100000) + Deferred(2, 100));
    ASSERT_TRUE(recording->LendTensor(1, Floats(weight)));
    ASSERT_TRUE(recording->LendTensor(2, Floats(step == 0 ? before : after)));
  }
  ASSERT_TRUE(recording->End());
  const auto num_names = [](const std::filesystem::path& path) {
    return std::filesystem::hard_link_count(path);
  };
  EXPECT_EQ(num_names(folders[0] / "A.x.0.pt"), 1u);  // its second name was removed
  EXPECT_EQ(num_names(folders[0] / "A.x.1.pt"), 1u);
  EXPECT_EQ(num_names(folders[1] / "A.x.1.pt"), 2u);
  EXPECT_EQ(num_names(folders[2] / "A.x.0.pt"), 1u);
  for (const int step : {0, 1, 2}) {
    const std::filesystem::path& folder = folders[static_cast<std::size_t>(step)];
    if (step != 1) {
      EXPECT_EQ(Load(folder / "A.x.0.pt"), weight) << step;
    }
    EXPECT_EQ(Load(folder / "A.x.1.pt"), step == 0 ? before : after) << step;
  }
  const RecordTotals totals = recording->Totals();
  EXPECT_EQ(totals.bytes_saved, 400000u + 400u);
  EXPECT_EQ(totals.bytes_stored + totals.bytes_saved, totals.bytes_seen);
  EXPECT_EQ(totals.num_files, 4u);
}

// ---- equal ones, known by their checksums before they are copied

Summary ChecksumsOf(const std::vector<float>& values) {
  const std::int64_t shape[] = {static_cast<std::int64_t>(values.size())}, strides[] = {1};
  const StridedTensor tensor{Dtype::kF32, reinterpret_cast<const std::byte*>(values.data()), shape, strides};
  return Summarize(tensor, {.statistics = false, .crc32 = true, .xor64 = true});
}

TEST(SameTensors, ShareTheFileAndTheNumbersOfTheFirst) {
  for (const int num_writers : {1, 4}) {
    Recording recording(Storing(num_writers));
    const std::vector<float> memory = Numbered(1, 300000), other = Numbered(2, 300000);
    const auto same = [&](std::int64_t slot, const std::vector<float>& values) {
      const Summary sums = ChecksumsOf(values);
      return *recording->FindSame(slot, Floats(values), sums.crc32, sums.xor64);
    };
    EXPECT_EQ(same(1, memory), 0);
    EXPECT_EQ(same(2, other), 0);
    EXPECT_EQ(same(3, memory), 1);
    EXPECT_EQ(same(4, memory), 1);
    recording.Put("A", "{\"x\":[\x01,\x01,\x01]}",
                  Deferred(1, 300000) + Deferred(2, 300000) + Deferred(3, 300000));
    recording.Put("B", "{\"x\":[\x01]}", Deferred(4, 300000));
    EXPECT_FALSE(recording->FillSame(3, 1));  // the first is not there yet
    ASSERT_TRUE(recording->LendTensor(1, Floats(memory)));
    ASSERT_TRUE(recording->LendTensor(2, Floats(other)));
    ASSERT_TRUE(recording->FillSame(3, 1));
    ASSERT_TRUE(recording->FillSame(4, 1));
    EXPECT_FALSE(recording->FillSame(4, 1));
    recording.Flush();
    EXPECT_EQ(DataNames(recording), (Strings{"A.x.0.pt", "A.x.1.pt", "A.x.2.pt", "A.x.0.pt"}));
    EXPECT_EQ(Load(recording, "A.x.2.pt"), memory);
    EXPECT_EQ(ValuesOf(recording.Data(), "Min"), (Strings{"7.0", "14.0", "7.0", "7.0"}));
    const RecordTotals totals = recording->Totals();
    EXPECT_EQ(totals.bytes_seen, 4800000u);
    EXPECT_EQ(totals.bytes_saved, 2400000u);
    EXPECT_EQ(totals.num_measured, 2u);
    // Another folder knows nothing of them.
    RecordFolder next = recording.where();
    next.folder += "-next";
    ASSERT_TRUE(recording->Begin(next));
    EXPECT_EQ(same(9, memory), 0);
  }
}

TEST(SameTensors, DifferInShapeOrDtypeOrAreNotAskedFor) {
  RecorderOptions options = Storing();
  Recording recording(options);
  const float memory[6] = {};
  const auto find = [](Recording& in, std::int64_t slot, const Words& words) {
    return *in->FindSame(slot, words, 1, 2);
  };
  EXPECT_EQ(find(recording, 1, Tensor(memory, Dtype::kF32, {6})), 0);
  EXPECT_EQ(find(recording, 2, Tensor(memory, Dtype::kF32, {2, 3})), 0);
  EXPECT_EQ(find(recording, 3, Tensor(memory, Dtype::kI32, {6})), 0);
  EXPECT_EQ(find(recording, 4, Tensor(memory, Dtype::kI32, {6})), 3);
  EXPECT_EQ(find(recording, 5, Tensor(memory, Dtype::kI32, {0})), 0);
  EXPECT_EQ(find(recording, 6, Tensor(memory, Dtype::kI32, {0})), 0);
  options.dedup = false;
  Recording apart(options);
  EXPECT_EQ(find(apart, 1, Tensor(memory, Dtype::kF32, {6})), 0);
  EXPECT_EQ(find(apart, 2, Tensor(memory, Dtype::kF32, {6})), 0);
}

// Two pairs of words exchanged keep the xor; the CRC-32 of bytes that differ by a multiple of its polynomial
// is the same. So both checksums agree, and the bytes do not.
TEST(LentTensors, WithEqualChecksumsAndOtherBytesHaveFilesOfTheirOwn) {
  constexpr std::size_t kNumWords = 64;
  constexpr std::uint64_t kPolynomial = 0x1'DB71'0641;  // of CRC-32, its lowest power in the highest bit
  std::vector<std::uint64_t> first(kNumWords, 0x3f80'0000'3f80'0000), second = first;
  // Where the polynomial is added twice, at the same place of two words, the xor of all words is as before.
  second[3] ^= kPolynomial << 3;
  second[9] ^= kPolynomial << 3;
  ASSERT_NE(first, second);
  const auto floats = [](const std::vector<std::uint64_t>& words) {
    std::vector<float> values(2 * words.size());
    std::memcpy(values.data(), words.data(), 8 * words.size());
    return values;
  };
  const std::vector<float> one = floats(first), two = floats(second);
  const Summary sums = ChecksumsOf(one), other_sums = ChecksumsOf(two);
  ASSERT_EQ(sums.xor64, other_sums.xor64);
  ASSERT_EQ(sums.crc32, other_sums.crc32);
  const auto size = static_cast<std::int64_t>(one.size());
  Recording recording(Storing(4));
  recording.Put("A", "{\"x\":[\x01,\x01,\x01]}", Deferred(1, size) + Deferred(2, size) + Deferred(3, size));
  recording.Put("B", "{\"x\":[\x01]}", Deferred(4, size));
  ASSERT_TRUE(recording->LendTensor(1, Floats(one)));
  ASSERT_TRUE(recording->LendTensor(2, Floats(two)));
  ASSERT_TRUE(recording->LendTensor(3, Floats(one)));
  ASSERT_TRUE(recording->LendTensor(4, Floats(two)));
  recording.Flush();
  const Strings names = DataNames(recording);
  ASSERT_EQ(names.size(), 4u);
  const std::vector<float>* const expected[] = {&one, &two, &one, &two};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::vector<float> found = Load(recording, names[i]);
    ASSERT_EQ(found.size(), one.size());
    EXPECT_EQ(std::memcmp(found.data(), expected[i]->data(), 4 * found.size()), 0) << names[i];
  }
}

}  // namespace
}  // namespace vernier
