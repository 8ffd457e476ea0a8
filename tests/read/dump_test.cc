#include "vernier/read.h"

#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "core/mapped_file.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "gmock/gmock.h"
#include "read/ordinary_user.h"
#include "temporary_folder.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void WriteText(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

TensorView Scalar(float value) {
  auto owner = std::make_shared<float>(value);
  TensorView view = BorrowTensor(Dtype::kF32, {}, owner.get());
  view.owner = std::move(owner);
  return view;
}

void WriteScalar(const fs::path& path, float value) {
  const Result<Done> written = WriteNpy(path, Scalar(value));
  ASSERT_TRUE(written) << written.error().Message();
}

void WriteShard(const fs::path& path, const std::vector<std::pair<std::string, float>>& values) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, value] : values) tensors.push_back({name, Scalar(value)});
  const Result<Done> written = WriteSafetensors(path, tensors);
  ASSERT_TRUE(written) << written.error().Message();
}

Dump Open(const fs::path& path, int num_threads = 0) {
  ReadOptions options;
  options.num_threads = num_threads;
  Result<Dump> dump = Dump::Open(path, options);
  if (!dump) ADD_FAILURE() << dump.error().Message();
  return *std::move(dump);
}

// "name=value" for each tensor, "name!KEY" for one that gives an error.
std::vector<std::string> Contents(const Dump& dump) {
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < dump.tensors().size(); ++i) {
    const Result<TensorView> view = dump.Load(i);
    const std::string& name = dump.tensors()[i].name;
    if (!view) {
      rows.push_back(name + "!" + std::string(Info(view.error().code).key));
      continue;
    }
    float value = 0;
    std::memcpy(&value, view->data, sizeof(value));
    rows.push_back(name + "=" + std::to_string(static_cast<int>(value)));
  }
  return rows;
}

TEST(DumpOfOneFile, NamesABareTensorByTheFilesStem) {
  const TemporaryFolder folder;
  WriteScalar(folder.path() / "Functional.gelu.0.npy", 3);
  const Dump dump = Open(folder.path() / "Functional.gelu.0.npy");
  EXPECT_THAT(Contents(dump), ElementsAre("Functional.gelu.0=3"));
  EXPECT_EQ(dump.FileOf(0), folder.path() / "Functional.gelu.0.npy");
  EXPECT_EQ(dump.path(), folder.path() / "Functional.gelu.0.npy");
}

TEST(DumpOfOneFile, KeepsTheNamesInsideAndTheirOrder) {
  const TemporaryFolder folder;
  const std::string long_name(10'000, 'x');
  WriteShard(folder.path() / "m.safetensors", {{"b", 1}, {"a", 2}, {"line\nbreak", 3}, {long_name, 4}});
  EXPECT_THAT(Contents(Open(folder.path() / "m.safetensors")),
              ElementsAre("b=1", "a=2", "line\nbreak=3", long_name + "=4"));
}

TEST(DumpOfOneFile, TellsTheFormatByContent) {
  const TemporaryFolder folder;
  WriteScalar(folder.path() / "wrong.safetensors", 5);
  WriteShard(folder.path() / "no_extension.1", {{"a", 6}});
  WriteScalar(folder.path() / "bare.1", 7);
  EXPECT_THAT(Contents(Open(folder.path() / "wrong.safetensors")), ElementsAre("wrong=5"));
  EXPECT_THAT(Contents(Open(folder.path() / "no_extension.1")), ElementsAre("a=6"));
  EXPECT_THAT(Contents(Open(folder.path() / "bare.1")), ElementsAre("bare.1=7"));
}

TEST(DumpOfOneFile, KnowsEveryFormatWhateverItsName) {
  const TemporaryFolder folder;
  for (const char* fixture :
       {"npy_f4.npy", "npz_stored.npz", "npz_deflated.npz", "pt_bare.pt", "pt_bare_legacy.pt",
        "all.safetensors", "hdf5_tiny.h5", "hdf5_tiny_latest.h5", "hdf5_user_block.h5"}) {
    fs::copy_file(fs::path(VN_TEST_DATA) / fixture, folder.path() / "some.tensors",
                  fs::copy_options::overwrite_existing);
    const Result<Dump> dump = Dump::Open(folder.path() / "some.tensors");
    ASSERT_TRUE(dump) << dump.error().Message();
    ASSERT_FALSE(dump->tensors().empty()) << fixture;
    EXPECT_TRUE(dump->Load(0)) << fixture;
  }
}

TEST(DumpOfOneFile, ListsADamagedFileAsOneDamagedTensor) {
  const TemporaryFolder folder;
  WriteText(folder.path() / "x.npy", "\x93NUMPY");
  const Dump dump = Open(folder.path() / "x.npy");
  EXPECT_THAT(Contents(dump), ElementsAre("x!TRUNCATED"));
  EXPECT_THAT(dump.Load(0).error().Message(), HasSubstr((folder.path() / "x.npy").string()));
}

TEST(DumpOfOneFile, FailsWhenItIsNoDump) {
  const TemporaryFolder folder;
  WriteText(folder.path() / "x.npy", "hello, this is no array");
  WriteText(folder.path() / "x.txt", "hello");
  WriteText(folder.path() / "x.json", "{\"a\": 1}");
  const auto code_of = [&](const char* name) { return Dump::Open(folder.path() / name).error().code; };
  EXPECT_EQ(code_of("x.npy"), ErrorCode::kBadMagic);
  EXPECT_EQ(code_of("x.txt"), ErrorCode::kNotADump);
  EXPECT_EQ(code_of("x.json"), ErrorCode::kNotADump);
  EXPECT_EQ(code_of("none.npy"), ErrorCode::kNotFound);
}

TEST(DumpOfAFolder, NamesTensorsByTheirRelativePath) {
  const TemporaryFolder folder;
  WriteScalar(folder.path() / "b.0.npy", 1);
  WriteScalar(folder.path() / "a/deep/x.npy", 2);
  WriteShard(folder.path() / "a/many.safetensors", {{"w", 3}, {"b", 4}});
  WriteScalar(folder.path() / "bytes \xff\n.npy", 5);
  EXPECT_THAT(Contents(Open(folder.path())),
              ElementsAre("a/deep/x=2", "a/many:w=3", "a/many:b=4", "b.0=1", "bytes \xff\n=5"));
}

TEST(DumpOfAFolder, KeepsEndingsThatTellFilesApart) {
  const TemporaryFolder folder;
  WriteScalar(folder.path() / "x.npy", 1);
  WriteShard(folder.path() / "x.safetensors", {{"w", 2}});
  EXPECT_THAT(Contents(Open(folder.path())), ElementsAre("x.npy=1", "x.safetensors:w=2"));
}

TEST(DumpOfAFolder, SkipsWhatHoldsNoTensors) {
  const TemporaryFolder folder;
  WriteScalar(folder.path() / "x.npy", 1);
  for (const char* name : {"dump.json", "notes.TXT", "log", "a.csv", "raw.bin", "construct.index.json"}) {
    WriteText(folder.path() / name, "{}");
  }
  ASSERT_EQ(mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(Contents(Open(folder.path())), ElementsAre("x=1"));
}

TEST(DumpOfAFolder, KeepsADamagedFileAsOneRow) {
  const TemporaryFolder folder;
  WriteScalar(folder.path() / "a.npy", 1);
  WriteText(folder.path() / "b.npy", "garbage");
  WriteText(folder.path() / "c.pt", "");
  WriteText(folder.path() / "d.bin", "\x93NUMPY\x01");
  fs::create_symlink("nowhere", folder.path() / "e.h5");
  WriteScalar(folder.path() / "f.npy", 2);
  EXPECT_THAT(Contents(Open(folder.path())),
              ElementsAre("a=1", "b!BAD_MAGIC", "c!TRUNCATED", "d!TRUNCATED", "e!NOT_FOUND", "f=2"));
}

TEST(DumpOfAFolder, KeepsAFileItMayNotReadAsOneRow) {
  const TemporaryFolder folder;
  WriteScalar(folder.path() / "a.npy", 1);
  WriteScalar(folder.path() / "b.npy", 2);
  chmod((folder.path() / "a.npy").c_str(), 0);
  WriteText(folder.path() / "closed/x.npy", "");
  chmod((folder.path() / "closed").c_str(), 0);
  chmod((folder.path() / "b.npy").c_str(), 0644);
  const AsOrdinaryUser user(folder.path());
  EXPECT_THAT(Contents(Open(folder.path())), ElementsAre("a!NO_PERMISSION", "b=2", "closed!NO_PERMISSION"));
}

TEST(DumpOfAFolder, FailsWhenNothingInItIsADump) {
  const TemporaryFolder folder;
  EXPECT_EQ(Dump::Open(folder.path()).error().code, ErrorCode::kNotADump);
  WriteText(folder.path() / "x.txt", "hello");
  EXPECT_EQ(Dump::Open(folder.path()).error().code, ErrorCode::kNotADump);
}

class ManyFiles : public ::testing::Test {
 protected:
  static constexpr int kNumFiles = 300;  // more than are kept open
  ManyFiles() {
    // Written plainly: a safe write waits for the disk, three hundred times here.
    const TemporaryFolder one;
    for (int i = 0; i < kNumFiles; ++i) {
      const fs::path path = folder_.path() / (std::to_string(1000 + i) + ".npy");
      if (i == 0) WriteScalar(one.path() / "x.npy", 0);
      fs::copy_file(one.path() / "x.npy", path);
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      const auto value = static_cast<float>(i);
      file.seekp(-static_cast<std::streamoff>(sizeof(value)), std::ios::end);
      file.write(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }
  TemporaryFolder folder_;
};

TEST_F(ManyFiles, GiveTheSameIndexOnAnyNumberOfThreads) {
  const std::vector<std::string> once = Contents(Open(folder_.path(), 1));
  ASSERT_EQ(once.size(), static_cast<std::size_t>(kNumFiles));
  EXPECT_EQ(once[17], "1017=17");
  for (const int num_threads : {2, 7}) EXPECT_EQ(Contents(Open(folder_.path(), num_threads)), once);
}

TEST_F(ManyFiles, CanBeLoadedByManyThreadsAtOnce) {
  const Dump dump = Open(folder_.path());
  std::vector<std::vector<std::string>> contents(4);
  {
    std::vector<std::jthread> threads;
    for (auto& rows : contents) threads.emplace_back([&] { rows = Contents(dump); });
  }
  for (const auto& rows : contents) EXPECT_EQ(rows, contents[0]);
}

TEST_F(ManyFiles, ReportAFileThatWasWrittenToAfterwards) {
  const Dump dump = Open(folder_.path());
  WriteText(folder_.path() / "1005.npy", "shorter");
  fs::remove(folder_.path() / "1006.npy");
  fs::last_write_time(folder_.path() / "1007.npy", fs::file_time_type::clock::now() + std::chrono::hours(1));
  const std::vector<std::string> rows = Contents(dump);
  EXPECT_EQ(rows[4], "1004=4");
  EXPECT_EQ(rows[5], "1005!FILE_CHANGED");
  EXPECT_EQ(rows[6], "1006!NOT_FOUND");
  EXPECT_EQ(rows[7], "1007!FILE_CHANGED");
}

TEST_F(ManyFiles, OutliveTheDump) {
  TensorView view;
  {
    const Dump dump = Open(folder_.path());
    view = dump.Load(3).value();
  }
  float value = 0;
  std::memcpy(&value, view.data, sizeof(value));
  EXPECT_EQ(value, 3);
}

constexpr std::string_view kIndex = R"({"metadata": {"total_size": 12}, "weight_map": {
    "b": "m-1.safetensors", "a": "m-2.safetensors", "c": "m-1.safetensors"}})";

TEST(ShardedCheckpoint, ReadsItsShardsInTheOrderOfTheIndex) {
  const TemporaryFolder folder;
  WriteText(folder.path() / "m.safetensors.index.json", kIndex);
  WriteShard(folder.path() / "m-1.safetensors", {{"c", 1}, {"b", 2}, {"unlisted", 9}});
  WriteShard(folder.path() / "m-2.safetensors", {{"a", 3}});
  const auto expected = ElementsAre("b=2", "a=3", "c=1", "unlisted=9");
  const Dump dump = Open(folder.path() / "m.safetensors.index.json");
  EXPECT_THAT(Contents(dump), expected);
  EXPECT_EQ(dump.FileOf(1), folder.path() / "m-2.safetensors");
  EXPECT_THAT(Contents(Open(folder.path())), expected) << "the folder of one checkpoint is the checkpoint";
}

TEST(ShardedCheckpoint, IsNotReadTwiceInAFolderOfMore) {
  const TemporaryFolder folder;
  WriteText(folder.path() / "sub/m.safetensors.index.json", kIndex);
  WriteShard(folder.path() / "sub/m-1.safetensors", {{"c", 1}, {"b", 2}});
  WriteShard(folder.path() / "sub/m-2.safetensors", {{"a", 3}});
  WriteScalar(folder.path() / "x.npy", 4);
  EXPECT_THAT(Contents(Open(folder.path())), ElementsAre("sub/m:b=2", "sub/m:a=3", "sub/m:c=1", "x=4"));
}

TEST(ShardedCheckpoint, LosesOnlyTheTensorsOfABadShard) {
  const TemporaryFolder folder;
  WriteText(folder.path() / "m.safetensors.index.json", kIndex);
  WriteShard(folder.path() / "m-1.safetensors", {{"b", 2}});
  const Dump dump = Open(folder.path() / "m.safetensors.index.json");
  EXPECT_THAT(Contents(dump), ElementsAre("b=2", "a!NOT_FOUND", "c!NOT_FOUND"));
  EXPECT_THAT(dump.Load(1).error().Message(), HasSubstr("m-2.safetensors"));
  EXPECT_THAT(dump.Load(2).error().Message(), HasSubstr("the shard lacks it"));
}

TEST(ShardedCheckpoint, RefusesShardsOutsideItsFolder) {
  const TemporaryFolder folder;
  WriteShard(folder.path() / "secret.safetensors", {{"a", 1}});
  for (const std::string& escape :
       {std::string("../secret.safetensors"), std::string("x/../../secret.safetensors"),
        (folder.path() / "secret.safetensors").string(), std::string(), std::string("a\\u0000b")}) {
    WriteText(folder.path() / "in/m.index.json", R"({"weight_map": {"a": ")" + escape + R"("}})");
    const Dump dump = Open(folder.path() / "in/m.index.json");
    EXPECT_THAT(Contents(dump), ElementsAre("a!BAD_HEADER")) << escape;
    EXPECT_THAT(dump.Load(0).error().Message(), HasSubstr("m.index.json: weight_map"));
  }
}

TEST(ShardedCheckpoint, NamesWhatIsWrongWithItsIndex) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "m.safetensors.index.json";
  WriteScalar(folder.path() / "x.npy", 1);
  for (const char* text : {R"({"weight_map": {"a": 1}})", R"({"weight_map": {"a": "x", "a": "x"}})",
                           R"({"weight_map": {"a": "x")", R"({"weight_map": {"a")"}) {
    WriteText(path, text);
    EXPECT_EQ(Dump::Open(path).error().code, ErrorCode::kBadHeader) << text;
    EXPECT_THAT(Contents(Open(folder.path())), ElementsAre("m.safetensors.index.json!BAD_HEADER", "x=1"))
        << text;
  }
}

TEST(LoadTensorFile, GivesTheOneTensorOfAFile) {
  const TemporaryFolder folder;
  WriteScalar(folder.path() / "x.npy", 5);
  WriteShard(folder.path() / "one.safetensors", {{"a", 6}});
  WriteShard(folder.path() / "two.safetensors", {{"a", 6}, {"b", 7}});
  WriteShard(folder.path() / "none.safetensors", {});
  EXPECT_EQ(LoadTensorFile(folder.path() / "x.npy")->num_elements, 1u);
  EXPECT_THAT(LoadTensorFile(folder.path() / "one.safetensors").error().Message(),
              HasSubstr("inside another object"));
  EXPECT_THAT(LoadTensorFile(folder.path() / "two.safetensors").error().Message(),
              HasSubstr("2 tensors, expected one"));
  EXPECT_THAT(LoadTensorFile(folder.path() / "none.safetensors").error().Message(),
              HasSubstr("0 tensors, expected one"));
  EXPECT_EQ(LoadTensorFile(folder.path() / "absent.npy").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace vernier
