// What is on the disk while recording goes on, and where the system refuses a thread or a name.
#include <sys/stat.h>

#include <chrono>
#include <thread>

#include "recording.h"
#include "without_threads.h"

namespace vernier {
namespace {

const std::vector<float> kOnes{1, 1};

RecorderOptions Identified() {
  RecorderOptions options;
  options.identity = true;
  return options;
}

Words Placed(std::int64_t storage) {
  return Tensor(kOnes.data(), Dtype::kF32, {2}, {.storage = storage, .flags = kPlaced}) + Words{0};
}

// A step of two modules that call from the same line, and their calls.
void PutPart(Recording& recording, int part) {
  const std::string module = "Module." + std::to_string(part) + ".forward.0";
  const std::string call = "Torch." + std::to_string(part) + ".forward";
  recording.Put(module, "{\"input_args\":[\x01]}", Placed(part + 1), 0, 0);
  recording.Put(call, "{\"output\":[\x01]}", Placed(part + 5), kFinish, 1);
  ASSERT_TRUE(recording->Construct(call, module));
  ASSERT_TRUE(recording->Construct(module, std::nullopt, part));
  recording.Put(module, "{\"output\":[1]}", {}, kFinish | kMoveToEnd);
}

void DeclareStacks(Recording& recording) {
  ASSERT_TRUE(recording->DeclareStack(0, "[\"module\"]"));
  ASSERT_TRUE(recording->DeclareStack(1, "[\"call\"]"));
}

// Waits until a file holds this text. A recorder that never writes it fails the test.
void ExpectToAppear(const Recording& recording, const std::string& file, const std::string& text) {
  for (int i = 0; i < 1000; ++i) {
    if (recording.File(file).find(text) != std::string::npos) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << file << " has no " << text << ":\n" << recording.File(file);
}

TEST(KeepUp, WritesWhatIsFinishedThoughNothingFollows) {
  Recording recording(Identified());
  DeclareStacks(recording);
  PutPart(recording, 0);
  ExpectToAppear(recording, "stack.json", "\"Module.0.forward.0\"");
  ExpectToAppear(recording, "stack.json", "\"call\"");
  ExpectToAppear(recording, "construct.json", "\"Torch.0.forward\": \"Module.0.forward.0\"");
  ExpectToAppear(recording, "identity.jsonl", "[\"Torch.0.forward\",{\"output\":[[5]]}]\n");
  PutPart(recording, 1);  // under stacks that are there already
  ExpectToAppear(recording, "stack.json", "\"Module.1.forward.0\"");
  ExpectToAppear(recording, "construct.json", "\"Torch.1.forward\": \"Module.1.forward.0\"");
  EXPECT_EQ(ValuesOf(recording.File("construct.json"), "megatron_micro_step_number"),
            (std::vector<std::string>{"0", "1"}));
}

TEST(KeepUp, ChangesNothingInTheFilesThatAPauseLeaves) {
  std::string texts[2];
  for (const bool slowly : {false, true}) {
    RecorderOptions options = Identified();
    options.keep_up_every = slowly ? std::chrono::milliseconds(1) : std::chrono::hours(1);
    Recording recording(options);
    DeclareStacks(recording);
    for (int part = 0; part < 4; ++part) {
      PutPart(recording, part);
      if (slowly) {
        ExpectToAppear(recording, "construct.json", "\"Torch." + std::to_string(part) + ".forward\"");
      }
      if (part == 2) recording.Flush();
    }
    recording.Flush();
    for (const char* name : {"dump.json", "stack.json", "construct.json", "identity.jsonl"}) {
      texts[slowly ? 1 : 0] += recording.File(name);
    }
    for (const auto& file : std::filesystem::directory_iterator(recording.folder())) {
      EXPECT_NE(file.path().filename().native()[0], '.') << file.path();
    }
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_NE(texts[0].find("Torch.3.forward"), std::string::npos);
}

// A disk that has room for so many bytes at first, and none from the second question on.
RecorderOptions OnFillingDisk(std::uint64_t free_bytes) {
  RecorderOptions options;
  options.min_free_bytes = 1 << 20;
  options.disk_space = [free_bytes, num_calls = 0](const auto&) mutable {
    return DiskSpace{num_calls++ == 0 ? (1 << 20) + free_bytes : 0, 1 << 30};
  };
  return options;
}

TEST(WithoutThreads, EverythingIsRecordedOnTheOneThereIs) {
  RecorderOptions options = Identified();
  options.tensors = true;
  options.num_threads = 4;
  options.keep_up_every = std::chrono::milliseconds(0);
  const auto parent = std::make_shared<TemporaryFolder>();
  chmod(parent->path().c_str(), 0777);
  const std::vector<float> large(1 << 22, 3);
  const std::optional<int> status = WithoutThreads([&] {
    Recording recording(options, false, parent);
    DeclareStacks(recording);
    for (int i = 0; i < 100; ++i) {
      recording.Put("Torch." + std::to_string(i) + ".forward", "{\"output\":[\x01]}", Placed(i + 1), kFinish,
                    1);
    }
    EXPECT_NE(recording.File("stack.json").find("Torch.50.forward"), std::string::npos);  // before a pause
    recording.Put("Torch.large.forward", "{\"output\":[\x01]}", Floats(large));
    recording.Flush();
    EXPECT_EQ(ValuesOf(recording.Document(), "data_name").size(), 101u);
    EXPECT_EQ(ValuesOf(recording.Document(), "Max").back(), "3.0");
    for (const std::string& name : recording.TensorFiles()) {
      EXPECT_GT(std::filesystem::file_size(recording.folder() / "dump_tensor_data" / name), 8u);
    }
  });
  if (!status) GTEST_SKIP() << "threads cannot be forbidden here";
  EXPECT_EQ(*status, 0);
}

TEST(WithoutThreads, AFullDiskIsToldOnce) {
  RecorderOptions options = OnFillingDisk(2000);
  options.tensors = true;
  const auto parent = std::make_shared<TemporaryFolder>();
  chmod(parent->path().c_str(), 0777);
  const std::optional<int> status = WithoutThreads([&] {
    Recording recording(options, false, parent);
    int num_errors = 0;
    std::uint32_t seen = 0;
    for (int i = 0; i < 10; ++i) {
      const std::vector<float> data(2, static_cast<float>(i));
      const std::string name = "Torch." + std::to_string(i) + ".forward";
      if (!recording->Put(name, "{\"output\":[\x01]}", Floats(data), -1, kFinish, seen)) ++num_errors;
    }
    EXPECT_EQ(num_errors, 1);
    EXPECT_EQ(seen, kSeenStopped);
    const std::set<std::string> files = recording.TensorFiles();
    const std::vector<std::string> names = ValuesOf(recording.Document(), "data_name");
    EXPECT_GT(names.size(), 1u);
    for (const std::string& name : names)
      EXPECT_TRUE(files.contains(name.substr(1, name.size() - 2))) << name;
  });
  if (!status) GTEST_SKIP() << "threads cannot be forbidden here";
  EXPECT_EQ(*status, 0);
}

TEST(DiskFloor, HoldsForRecordsWithoutTensors) {
  RecorderOptions options = OnFillingDisk(2000);
  options.keep_up_every = std::chrono::hours(1);
  Recording recording(options);
  int num_errors = 0, num_stopped = 0;
  for (int i = 0; i < 100; ++i) {
    std::uint32_t seen = 0;
    const std::string name = "Torch." + std::to_string(i) + ".forward";
    const Result<Done> put = recording->Put(name, "{\"output\":[\x01]}", Floats(kOnes), -1, kFinish, seen);
    num_stopped += seen == kSeenStopped ? 1 : 0;
    if (put) continue;
    ++num_errors;
    EXPECT_NE(put.error().Message().find("min_free_space"), std::string::npos) << put.error().Message();
  }
  EXPECT_EQ(num_errors, 1);
  EXPECT_GT(num_stopped, 50);
  EXPECT_TRUE(recording->Flush());
  const std::size_t num_records = ValuesOf(recording.Data(), "Max").size();
  EXPECT_GT(num_records, 1u);
  EXPECT_EQ(num_records + static_cast<std::size_t>(num_stopped), 100u);
}

TEST(DiskFloor, IsAskedEachTimeWhatIsFinishedIsWritten) {
  RecorderOptions options = OnFillingDisk(1 << 20);
  options.keep_up_every = std::chrono::milliseconds(1);
  Recording recording(options);
  DeclareStacks(recording);
  int num_errors = 0;
  for (int i = 0; i < 10000 && num_errors == 0; ++i) {  // stacks alone, as task structure records
    if (!recording->Note("Torch." + std::to_string(i % 4) + ".forward", 1)) ++num_errors;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(num_errors, 1);
}

TEST(HiddenFile, FollowsNoLinkThatSomebodyHasPutThere) {
  Recording recording;
  const std::filesystem::path victim = recording.folder().parent_path() / "victim";
  std::ofstream(victim) << "precious";
  std::filesystem::create_symlink(victim, recording.folder() / ".dump.json.spare");
  const std::string long_text(5000, 'x');  // into another page: that is when the file is needed
  recording.Put("A", "{\"x\":\"" + long_text + "\"}");
  recording.Put("B", "{\"x\":\"" + long_text + "\"}");
  EXPECT_EQ(ReadFile(victim), "precious");
  EXPECT_EQ(ValuesOf(recording.Document(), "x").size(), 2u);
  EXPECT_FALSE(std::filesystem::is_symlink(recording.folder() / "dump.json"));
  recording.Flush();
  EXPECT_EQ(ReadFile(victim), "precious");
  EXPECT_FALSE(std::filesystem::is_symlink(recording.folder() / "dump.json"));
}

}  // namespace
}  // namespace vernier
