#include <sys/stat.h>

#include <fstream>

#include "gmock/gmock.h"
#include "read/folder_internal.h"
#include "read/ordinary_user.h"
#include "temporary_folder.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

void Touch(const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path);
  ASSERT_TRUE(file) << path;
}

std::vector<std::string> Names(const fs::path& root) {
  const Result<std::vector<FoundFile>> found = WalkFolder(root);
  EXPECT_TRUE(found);
  std::vector<std::string> names;
  for (const FoundFile& file : *found) names.push_back(file.relative + (file.failure ? " !" : ""));
  return names;
}

TEST(WalkFolder, SortsByTheBytesOfTheRelativePath) {
  const TemporaryFolder folder;
  for (const char* name : {"b", "a/z", "a/b/c", "a.x", "B", "\xff", "10", "9", "line\nbreak", ".hidden"}) {
    Touch(folder.path() / name);
  }
  EXPECT_THAT(Names(folder.path()),
              ElementsAre(".hidden", "10", "9", "B", "a.x", "a/b/c", "a/z", "b", "line\nbreak", "\xff"));
}

TEST(WalkFolder, GivesNothingForAnEmptyFolder) {
  const TemporaryFolder folder;
  EXPECT_THAT(Names(folder.path()), IsEmpty());
}

TEST(WalkFolder, EndsAtLoopsOfLinks) {
  const TemporaryFolder folder;
  Touch(folder.path() / "a/b/x");
  fs::create_directory_symlink(folder.path(), folder.path() / "a/b/up");
  fs::create_directory_symlink(".", folder.path() / "self");
  fs::create_symlink("round", folder.path() / "round");  // a link to itself leads nowhere
  EXPECT_THAT(Names(folder.path()), ElementsAre("a/b/x", "round"));
}

TEST(WalkFolder, PrefersTheFolderItselfOverLinksToIt) {
  const TemporaryFolder folder, elsewhere;
  Touch(folder.path() / "real/x");
  fs::create_directory_symlink("real", folder.path() / "a_link");
  Touch(elsewhere.path() / "y");
  fs::create_directory_symlink(elsewhere.path(), folder.path() / "out2");
  fs::create_directory_symlink(elsewhere.path(), folder.path() / "out1");
  fs::create_symlink("real/x", folder.path() / "file_link");
  EXPECT_THAT(Names(folder.path()), ElementsAre("file_link", "out1/y", "real/x"));
}

TEST(WalkFolder, NamesFoldersItMayNotRead) {
  const TemporaryFolder folder;
  Touch(folder.path() / "closed/x");
  Touch(folder.path() / "open/x");
  chmod((folder.path() / "closed").c_str(), 0);
  {
    const AsOrdinaryUser user(folder.path());
    EXPECT_THAT(Names(folder.path()), ElementsAre("closed !", "open/x"));
  }
  chmod((folder.path() / "closed").c_str(), 0700);
}

TEST(WalkFolder, FailsWhenTheFolderIsNotThere) {
  const TemporaryFolder folder;
  EXPECT_EQ(WalkFolder(folder.path() / "none").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace vernier
