#include "core/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "temporary_folder.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string TextOf(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class AtomicFileTest : public testing::Test {
 protected:
  // Writes `text` and commits it.
  void Put(const fs::path& path, std::string_view text) {
    Result<AtomicFile> file = AtomicFile::Create(path);
    ASSERT_TRUE(file) << file.error().Message();
    ASSERT_TRUE(file->Write(text));
    ASSERT_TRUE(file->Commit());
  }
  std::vector<std::string> Listing() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) names.push_back(entry.path().filename());
    return names;
  }
  TemporaryFolder folder_;
};

TEST_F(AtomicFileTest, AppearsOnlyWhenCommitted) {
  const fs::path path = folder_.path() / "out.csv";
  Result<AtomicFile> file = AtomicFile::Create(path);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->Write("hello"));
  EXPECT_FALSE(fs::exists(path));
  ASSERT_TRUE(file->Commit());
  EXPECT_EQ(TextOf(path), "hello");
  EXPECT_THAT(Listing(), testing::ElementsAre("out.csv"));
}

TEST_F(AtomicFileTest, LeavesNothingBehindWhenDropped) {
  { ASSERT_TRUE(AtomicFile::Create(folder_.path() / "out.csv")); }
  EXPECT_TRUE(Listing().empty());
}

// In containers every first process has the number 1.
TEST_F(AtomicFileTest, IsNotBlockedByWhatAProcessOfTheSameNumberLeft) {
  for (int i = 0; i < 100; ++i) {
    std::ofstream(folder_.path() / (".out.csv.tmp-" + std::to_string(getpid()) + "-" + std::to_string(i)));
  }
  EXPECT_TRUE(AtomicFile::Create(folder_.path() / "out.csv"));
  const Result<AtomicFile> one = AtomicFile::Create(folder_.path() / "out.csv"),
                           two = AtomicFile::Create(folder_.path() / "out.csv");
  EXPECT_NE(one->temporary_path(), two->temporary_path());
}

TEST_F(AtomicFileTest, RemovesWhatDeadProcessesLeftAndNothingElse) {
  const auto age = [](const fs::path& path) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  };
  for (const char* name : {".old.csv.0.vernier-tmp", ".young.csv.0.vernier-tmp", "kept.vernier-tmp", ".kept"})
    std::ofstream(folder_.path() / name);
  for (const char* name : {".old.csv.0.vernier-tmp", "kept.vernier-tmp", ".kept"}) age(folder_.path() / name);
  fs::create_symlink("kept.vernier-tmp", folder_.path() / ".link.vernier-tmp");
  const Result<AtomicFile> in_use = AtomicFile::CreateReport(folder_.path() / "slow.csv");
  age(in_use->temporary_path());
  RemoveLeftovers(folder_.path());
  EXPECT_THAT(Listing(), testing::UnorderedElementsAre(".young.csv.0.vernier-tmp", "kept.vernier-tmp",
                                                       ".kept", ".link.vernier-tmp",
                                                       in_use->temporary_path().filename().string()));
}

TEST_F(AtomicFileTest, KeepsTheOldContentUntilCommitted) {
  const fs::path path = folder_.path() / "out.csv";
  Put(path, "old");
  {
    Result<AtomicFile> file = AtomicFile::Create(path);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->Write("new"));
  }
  EXPECT_EQ(TextOf(path), "old");
  Put(path, "new");
  EXPECT_EQ(TextOf(path), "new");
}

TEST_F(AtomicFileTest, WritesMoreThanItsBufferInOrder) {
  const fs::path path = folder_.path() / "big";
  Result<AtomicFile> file = AtomicFile::Create(path);
  ASSERT_TRUE(file);
  std::string want;
  for (const std::size_t size :
       {std::size_t{10}, std::size_t{1} << 20, std::size_t{3} << 20, std::size_t{7}}) {
    const std::string part(size, static_cast<char>('a' + want.size() % 26));
    ASSERT_TRUE(file->Write(part));
    want += part;
  }
  ASSERT_TRUE(file->Commit());
  EXPECT_TRUE(TextOf(path) == want);
}

TEST_F(AtomicFileTest, CreatesMissingFolders) {
  Put(folder_.path() / "a" / "b" / "out.csv", "x");
  EXPECT_EQ(TextOf(folder_.path() / "a" / "b" / "out.csv"), "x");
}

TEST_F(AtomicFileTest, FollowsASymbolicLinkAndKeepsTheMode) {
  const fs::path real = folder_.path() / "real.csv", link = folder_.path() / "link.csv";
  Put(real, "old");
  ASSERT_EQ(chmod(real.c_str(), 0640), 0);
  fs::create_symlink("real.csv", link);
  Put(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(TextOf(real), "new");
  EXPECT_EQ(static_cast<unsigned>(fs::status(real).permissions()), 0640u);
}

TEST_F(AtomicFileTest, ReportsAFullDiskByName) {
  Result<AtomicFile> file = AtomicFile::Create("/dev/full");
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->Write("hello"));
  const Result<Done> done = file->Commit();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kIo);
  EXPECT_THAT(done.error().Message(), HasSubstr("/dev/full"));
  EXPECT_THAT(done.error().Message(), HasSubstr("No space left"));
  EXPECT_FALSE(file->Write("more"));
  EXPECT_TRUE(fs::exists("/dev/full"));
}

TEST_F(AtomicFileTest, RefusesAFolderAndAFileUsedAsFolder) {
  EXPECT_THAT(AtomicFile::Create(folder_.path()).error().Message(), HasSubstr("directory"));
  Put(folder_.path() / "file", "x");
  const Result<AtomicFile> below = AtomicFile::Create(folder_.path() / "file" / "out.csv");
  ASSERT_FALSE(below);
  EXPECT_THAT(below.error().Message(), HasSubstr("out.csv"));
}

TEST_F(AtomicFileTest, RefusesAFolderThatIsNotWritable) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  ASSERT_EQ(chmod(folder_.path().c_str(), 0500), 0);
  const Result<AtomicFile> file = AtomicFile::Create(folder_.path() / "out.csv");
  ASSERT_EQ(chmod(folder_.path().c_str(), 0700), 0);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kNoPermission);
}

TEST_F(AtomicFileTest, AcceptsNamesAsLongAsTheFileSystemDoes) {
  const std::string name(250, 'n');
  Put(folder_.path() / name, "x");
  EXPECT_THAT(Listing(), testing::ElementsAre(name));
}

TEST_F(AtomicFileTest, UnfinishedFilesCanBeRemovedFromOutside) {
  Put(folder_.path() / "finished", "x");
  Result<AtomicFile> one = AtomicFile::Create(folder_.path() / "one"),
                     two = AtomicFile::Create(folder_.path() / "two");
  ASSERT_TRUE(one && two);
  const AtomicFile moved = std::move(*one);
  EXPECT_EQ(Listing().size(), 3u);
  RemoveUnfinishedFiles();
  EXPECT_THAT(Listing(), testing::ElementsAre("finished"));
}

}  // namespace
}  // namespace vernier
