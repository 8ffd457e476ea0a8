// stack.json as it grows.
#include "record/side_files.h"

#include <deque>
#include <set>

#include "core/json_cursor.h"
#include "recording.h"

namespace vernier {
namespace {

// The names of a stack.json; fails when it is not a whole document of distinct members.
std::multiset<std::string> NamesIn(const std::string& text) {
  std::multiset<std::string> names;
  std::set<std::string> keys;
  JsonCursor cursor(text);
  std::string buffer;
  cursor.ForEachMember([&](std::string_view key, bool) {
    EXPECT_TRUE(keys.insert(std::string(key)).second) << key;
    bool is_first = true;
    cursor.ForEachElement([&] {
      if (!std::exchange(is_first, false)) return cursor.Skip();
      cursor.ForEachElement([&] { names.insert(std::string(cursor.TakeString(buffer))); });
    });
  });
  EXPECT_TRUE(cursor.ok() && cursor.AtEnd()) << cursor.problem();
  return names;
}

TEST(StackFile, GrowsWithTheNamesAndNotWithTheTimes) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "stack.json";
  StackTable stacks;
  const std::string frames(10000, 'f');
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(stacks.Declare(i, "[\"" + frames + std::to_string(i) + "\"]"));
  }
  StackFile file(stacks);
  file.SetPath(path);
  ASSERT_TRUE(file.Write());
  std::deque<std::string> kept;
  std::multiset<std::string> expected;
  for (int time = 0; time < 1000; ++time) {
    const std::string& name = kept.emplace_back("Torch." + std::to_string(time) + ".forward");
    file.Add(static_cast<std::uint32_t>(time % 3), name);
    expected.insert(name);
    ASSERT_TRUE(file.Grow());
    ASSERT_LT(std::filesystem::file_size(path), 1500000u) << time;  // the frames once for each time: 10 MB
    if (time % 50 != 0) continue;
    ASSERT_EQ(NamesIn(ReadFile(path)), expected) << time;
  }
  ASSERT_TRUE(file.Write());
  EXPECT_EQ(NamesIn(ReadFile(path)), expected);
  const std::string written = ReadFile(path);
  ASSERT_TRUE(file.Grow());  // nothing is new
  EXPECT_EQ(ReadFile(path), written);
}

}  // namespace
}  // namespace vernier
