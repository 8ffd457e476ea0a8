#include "profiles/torchair/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "profiles/torchair/dumps.h"
#include "temporary_folder.h"

namespace vernier::torchair {
namespace {

using testing::ElementsAre;
using testing::EndsWith;

class TreeTest : public testing::Test {
 protected:
  std::string Touch(const std::string& name, const std::string& text = "x") {
    const std::filesystem::path path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  Tree Read() const { return Tree(folder_.path()); }
  std::vector<std::uint64_t> TokensOf(const TokenGroup& group) const {
    std::vector<std::uint64_t> tokens;
    for (const auto& [token, files] : group.tokens) tokens.push_back(token);
    return tokens;
  }
  const Warn warn_ = [this](const std::string& line) { warnings_.push_back(line); };
  std::vector<std::string> warnings_;
  TemporaryFolder folder_;
};

TEST_F(TreeTest, FindsRanksAndTheirGraphs) {
  Touch("worldsize16_global_rank3/x");
  Touch("worldsize16_global_rank12/x");
  Touch("worldsize_rank_x/x");
  Touch("dynamo_original_graph_2_rank_3_pid_1_ts_5.txt");
  Touch("dynamo_original_graph_10_rank_3_pid_1_ts_5.txt");
  Touch("dynamo_original_graph_1_rank_12_pid_1_ts_5.txt");
  Touch("dynamo_optimized_graph_1_rank_3_pid_1_ts_5.txt");
  const Tree tree = Read();
  EXPECT_EQ(RankFolders(tree).size(), 2u);
  const std::vector<GraphFile> graphs = GraphFiles(tree, 3);
  ASSERT_EQ(graphs.size(), 2u);
  EXPECT_EQ(graphs[0].id, 2u);
  EXPECT_EQ(graphs[1].id, 10u);
  EXPECT_EQ(GraphFiles(tree, std::nullopt).size(), 3u);
  EXPECT_TRUE(HoldsGraph(folder_.path().string()));
  EXPECT_FALSE(HoldsGraph((folder_.path() / "worldsize16_global_rank3").string()));
}

TEST_F(TreeTest, GroupsByModelAndMergesTimes) {
  Touch("20250101000000/0/m/2/0/a");
  Touch("20250101000000/0/m/10/0/b");
  Touch("20250101000001/0/m/2/0/c");
  const Tree tree = Read();
  const std::vector<TokenGroup> groups = GeGroups(tree, tree.root());
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[0].tokens.at(0).files, ElementsAre(EndsWith("/a"), EndsWith("/c")));
}

TEST_F(TreeTest, GroupsByDeviceWhereThereAreSeveral) {
  Touch("20250101000000/0/m/1/0/a");
  Touch("20250101000000/1/m/1/0/b");
  const Tree tree = Read();
  const std::vector<TokenGroup> groups = GeGroups(tree, tree.root());
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[1].tokens.at(0).files, ElementsAre(EndsWith("/b")));
}

TEST_F(TreeTest, CountsTokensOfTheEarlierLayoutFromOne) {
  Touch("data_dump/1/gm_1_dump/a.npy");
  Touch("data_dump/2/gm_1_dump/a.npy");
  Touch("data_dump/2/gm_2_dump/a.npy");
  const Tree tree = Read();
  const std::vector<TokenGroup> groups = FxGroups(tree, tree.root(), warn_);
  ASSERT_EQ(groups.size(), 1u);  // the smallest number of graphs counts
  EXPECT_THAT(TokensOf(groups[0]), ElementsAre(0, 1));
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(TreeTest, OrdersGraphsByTheirNumberAndMergesEqualTokens) {
  Touch("graph_10/0/a.npy");
  Touch("graph_2/1/a.npy");
  Touch("graph_2/01/b.npy");
  Touch("graph_2/3/not_a_tensor.txt");
  const Tree tree = Read();
  const std::vector<TokenGroup> groups = FxGroups(tree, tree.root(), warn_);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].id, 2u);
  EXPECT_THAT(TokensOf(groups[0]), ElementsAre(1));
  EXPECT_EQ(groups[0].tokens.at(1).files.size(), 2u);
  EXPECT_EQ(groups[1].id, 10u);
}

TEST_F(TreeTest, FollowsLinksButNotInACircle) {
  Touch("real/0/a.npy");
  std::filesystem::create_directory_symlink(folder_.path() / "real", folder_.path() / "link");
  std::filesystem::create_directory_symlink(folder_.path(), folder_.path() / "real" / "circle");
  EXPECT_NE(Read().Find(Read().root() + "/link/0"), nullptr);
  EXPECT_LE(Read().folders().size(), 5u);
  EXPECT_EQ(Tree(folder_.path(), Links::kPassOver).Find(Read().root() + "/link"), nullptr);
}

TEST_F(TreeTest, KeepsTheLargerOfTwoFilesAndReadsLongNames) {
  TokenFiles files;
  files.files = {Touch("Add.Add_2.1.1.10", "x"),
                 Touch("Add.Add_2.2.1.11", "longer"),
                 Touch("123456", "hashed"),
                 Touch("mapping.csv", "123456,Mul.Mul_3.1.1.12\n"),
                 Touch("name.csv"),
                 Touch("short"),
                 Touch("graph.txt")};
  const GeToken token = ReadGeToken(files, warn_);
  EXPECT_THAT(token.ops.at("Add_2").path, EndsWith("Add.Add_2.2.1.11"));
  EXPECT_THAT(token.ops.at("Mul_3").path, EndsWith("123456"));
  EXPECT_EQ(token.ops.size(), 2u);
  EXPECT_EQ(token.unreadable.size(), 2u);  // the statistics, and the name with too few parts
  EXPECT_EQ(warnings_.size(), 3u);
}

TEST_F(TreeTest, ADumpBeatsWhatShrinkingLeftOfIt) {
  TokenFiles files;
  files.files = {Touch("Add.Add_2.1.1.10", "x"), Touch("Add.Add_2.1.1.10_min_max.npz", "longer")};
  const GeToken token = ReadGeToken(files, warn_);
  EXPECT_FALSE(token.ops.at("Add_2").shrunk);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(TreeTest, OrdersArgumentsByNumber) {
  TokenFiles files;
  for (const char* name :
       {"n-aten.x.INPUT.10.2025.npy", "n-aten.x.INPUT.2.2025.npy", "n-aten.x.INPUT.2.10.2025.npy",
        "n-aten.x.INPUT.2.9.2025.npy", "n-aten.x.OUTPUT.0.2025_min_max.npy"})
    files.files.push_back(std::string("/") + name);
  const FxToken token = ReadFxToken(files);
  const FxNode& node = token.at("n-aten.x");
  EXPECT_THAT(node.inputs, ElementsAre("/n-aten.x.INPUT.2.2025.npy", "/n-aten.x.INPUT.2.9.2025.npy",
                                       "/n-aten.x.INPUT.2.10.2025.npy", "/n-aten.x.INPUT.10.2025.npy"));
  EXPECT_THAT(node.outputs, ElementsAre("/n-aten.x.OUTPUT.0.2025_min_max.npy"));
}

}  // namespace
}  // namespace vernier::torchair
