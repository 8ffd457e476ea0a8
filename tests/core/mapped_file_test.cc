#include "core/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>

namespace vernier {
namespace {

constexpr std::size_t kLargeBytes = std::size_t{1} << 20;

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/vernier_mapped_file_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path Write(const std::string& name, std::size_t num_bytes, char fill = 'x') {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << std::string(num_bytes, fill);
    return path;
  }

  static std::uint64_t Sum(std::span<const std::byte> bytes) {
    return std::accumulate(
        bytes.begin(), bytes.end(), std::uint64_t{0},
        [](std::uint64_t sum, std::byte byte) { return sum + std::to_integer<unsigned>(byte); });
  }

  std::filesystem::path folder_;
};

TEST_F(MappedFileTest, GivesTheBytesOfSmallAndLargeFiles) {
  for (const std::size_t num_bytes : {std::size_t{0}, std::size_t{5}, kLargeBytes}) {
    const Result<FileRef> file = MappedFile::Open(Write("f", num_bytes));
    ASSERT_TRUE(file);
    EXPECT_EQ((*file)->bytes().size(), num_bytes);
    EXPECT_EQ(Sum((*file)->bytes()), num_bytes * 'x');
    EXPECT_FALSE((*file)->changed());
  }
}

TEST_F(MappedFileTest, NamesWhatCannotBeOpened) {
  EXPECT_EQ(MappedFile::Open(folder_ / "absent").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(MappedFile::Open(folder_).error().code, ErrorCode::kIo);
  const std::filesystem::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(pipe).error().code, ErrorCode::kUnsupported);  // and does not hang
}

TEST_F(MappedFileTest, SurvivesAFileThatShrinksUnderIt) {
  const std::filesystem::path path = Write("f", kLargeBytes);
  const FileRef file = MappedFile::Open(path).value();
  ASSERT_EQ(truncate(path.c_str(), 4096), 0);
  file->Fetch(file->bytes());
  EXPECT_EQ(Sum(file->bytes()), 4096u * 'x');  // the rest reads as zero
  EXPECT_TRUE(file->changed());
}

TEST_F(MappedFileTest, NoticesAFileWrittenInPlaceButNotOneRenamedOverIt) {
  const std::filesystem::path path = Write("f", kLargeBytes);
  const FileRef file = MappedFile::Open(path).value();
  std::filesystem::rename(Write("g", kLargeBytes, 'y'), path);
  EXPECT_FALSE(file->changed());
  EXPECT_EQ(Sum(file->bytes()), kLargeBytes * 'x');

  const FileRef second = MappedFile::Open(path).value();
  const timespec later[2] = {{2'000'000'000, 0}, {2'000'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), later, 0), 0);
  EXPECT_TRUE(second->changed());
}

TEST_F(MappedFileTest, ReleasedWindowsCanBeReadAgain) {
  const FileRef file = MappedFile::Open(Write("f", kLargeBytes)).value();
  const auto window = file->bytes().subspan(100, 500'000);
  file->Fetch(window);
  const std::uint64_t before = Sum(window);
  file->Release(window);
  EXPECT_EQ(Sum(window), before);
}

// A sanitizer has a handler of its own, which is then the one that was there before ours.
bool DiedOfABusError(int status) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) return true;
#endif
  return testing::KilledBySignal(SIGBUS)(status);
}

TEST_F(MappedFileTest, LeavesOtherPeoplesBusErrorsAlone) {
  const FileRef ours = MappedFile::Open(Write("f", kLargeBytes)).value();  // installs the handler
  const std::filesystem::path path = Write("g", 4096);
  EXPECT_EXIT(
      {
        const int fd = open(path.c_str(), O_RDONLY);
        const auto* data = static_cast<const char*>(mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd, 0));
        _exit(data[5000]);
      },
      DiedOfABusError, "");
}

}  // namespace
}  // namespace vernier
