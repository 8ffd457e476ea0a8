#include "profiles/msprobe/nan_hunt.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "temporary_folder.h"

namespace vernier::msprobe {
namespace {

// What inspect --nan says of some calls: "NAME finding".
class MsprobeNanHunt : public testing::Test {
 protected:
  std::vector<std::string> Hunted(const std::vector<std::string>& calls) {
    Write(folder_.path(), calls);
    return Hunted();
  }
  static void Write(const std::filesystem::path& folder, const std::vector<std::string>& calls) {
    std::filesystem::create_directories(folder);
    std::ofstream file(folder / "dump.json");
    file << R"({"task":"statistics","level":"mix","framework":"pytorch","data":{)";
    for (std::size_t i = 0; i < calls.size(); ++i) file << (i == 0 ? "" : ",\n") << calls[i];
    file << "}}";
  }
  std::vector<std::string> Hunted() {
    const Result<Listing> found = HuntNan(folder_.path().string());
    EXPECT_TRUE(found) << found.error().Message();
    std::vector<std::string> said;
    if (!found) return said;
    for (const KeptCells& row : found->rows)
      said.push_back(std::string(row.cells()[1].text) + " " + std::string(row.cells()[2].text));
    return said;
  }
  static std::string Tensor(const std::string& max, const std::string& min = "-1.0") {
    return fmt::format(
        R"({{"type":"torch.Tensor","dtype":"torch.float32","shape":[100],"Max":{},"Min":{},"Mean":0.1,)"
        R"("Norm":5.0,"requires_grad":false}})",
        max, min);
  }
  static std::string Forward(const std::string& name, const std::string& in, const std::string& out) {
    return fmt::format(R"("{}.forward":{{"input_args":[{}],"input_kwargs":{{}},"output":[{}]}})", name, in,
                       out);
  }
  static std::string Backward(const std::string& name, const std::string& in, const std::string& out) {
    return fmt::format(R"("{}.backward":{{"input":[{}],"output":[{}]}})", name, in, out);
  }
  static std::string Module(const std::string& path, const std::string& weight, const std::string& out) {
    return fmt::format(
        R"("Module.{}.Linear.forward.0":{{"input_args":[{}],"output":[{}],"parameters":{{"weight":{}}}}})",
        path, Tensor("2.0"), out, weight);
  }
  const std::string one_ = Tensor("1.0"), nan_ = Tensor("NaN", "NaN"), infinite_ = Tensor("Infinity"),
                    mask_ = Tensor("0.0", "-Infinity");
  TemporaryFolder folder_;
};

using Said = std::vector<std::string>;

TEST_F(MsprobeNanHunt, ABackwardInheritsFromItsForward) {
  EXPECT_EQ(Hunted({Forward("Torch.log.0", one_, mask_), Forward("Tensor.pow.0", mask_, infinite_),
                    Forward("Torch.sqrt.0", one_, one_), Backward("Torch.sqrt.0", one_, infinite_),
                    Backward("Tensor.pow.0", one_, nan_), Backward("Torch.log.0", nan_, nan_)}),
            (Said{"Torch.log.0.forward makes infinity from finite inputs",
                  "Torch.sqrt.0.backward makes infinity from finite inputs"}));
}

TEST_F(MsprobeNanHunt, WhatComesInIsSaidOnce) {
  EXPECT_EQ(
      Hunted({Forward("Functional.linear.0", one_, one_),
              Forward("Functional.linear.1", one_ + "," + nan_, nan_),
              Forward("Functional.relu.0", nan_, nan_),
              Forward("Functional.linear.2", one_ + "," + nan_, nan_)}),
      Said{
          "Functional.linear.1.forward is given NaN that no recorded call made: data or a weight (input.1)"});
}

TEST_F(MsprobeNanHunt, WhatACallGaveDoesNotComeIn) {
  EXPECT_EQ(Hunted({Forward("Torch.log.0", one_, nan_), Forward("Functional.relu.0", nan_, nan_)}),
            Said{"Torch.log.0.forward makes NaN from finite inputs"});
}

TEST_F(MsprobeNanHunt, AParameterIsNamedThatIsNotFinite) {
  EXPECT_EQ(Hunted({Module("a", nan_, nan_)}),
            Said{"Module.a.Linear.forward.0 is given NaN that no recorded call made: a weight "
                 "(parameters.weight)"});
  // Also where the operator inside was recorded too, which cannot tell it from a mask.
  EXPECT_EQ(Hunted({Forward("Functional.linear.0", one_ + "," + infinite_, infinite_),
                    Module("a", infinite_, infinite_), Module("b", infinite_, infinite_)}),
            Said{"Module.a.Linear.forward.0 is given infinity that no recorded call made: a weight "
                 "(parameters.weight)"});
}

TEST_F(MsprobeNanHunt, InfiniteDataIsNamedWhereItComesIn) {
  EXPECT_EQ(Hunted({Forward("Tensor.masked_fill.0", one_, mask_),
                    Forward("Functional.linear.0", infinite_ + "," + one_, infinite_)})
                .size(),
            2u)
      << "a mask that was made before is none";
  EXPECT_EQ(Hunted({Forward("Functional.linear.0", infinite_ + "," + one_, infinite_),
                    Forward("Functional.linear.1", infinite_ + "," + one_, infinite_)}),
            Said{"Functional.linear.0.forward is given infinity that no recorded call made: data or a weight "
                 "(input.0)"});
}

TEST_F(MsprobeNanHunt, MasksAndMemoryThatIsWrittenOverAreNone) {
  EXPECT_EQ(Hunted({Forward("Tensor.__add__.0", one_ + "," + mask_, mask_),
                    Forward("Tensor.copy_.0", nan_ + "," + one_, one_)}),
            Said{});
}

TEST_F(MsprobeNanHunt, ACollectiveHandsOnWhatAnotherRankMade) {
  const auto rank = [&](int number) { return folder_.path() / fmt::format("rank{}", number); };
  Write(rank(0), {Forward("Distributed.all_reduce.0", one_, nan_)});
  Write(rank(1), {Forward("Torch.log.0", one_, nan_), Forward("Distributed.all_reduce.0", nan_, nan_)});
  EXPECT_EQ(Hunted(), (Said{"Torch.log.0.forward makes NaN from finite inputs"}));
  Write(rank(1), {Forward("Distributed.all_reduce.0", one_, nan_)});
  EXPECT_EQ(Hunted().size(), 2u) << "their own sum";
}

TEST_F(MsprobeNanHunt, ARankThatCannotBeReadIsTold) {
  Write(folder_.path() / "rank0", {Forward("Torch.exp.0", one_, one_)});
  Write(folder_.path() / "rank1", {});
  std::ofstream(folder_.path() / "rank1" / "dump.json", std::ios::trunc).flush();
  const Said said = Hunted();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(said[0].starts_with("dump.json could not be read: ")) << said[0];
}

}  // namespace
}  // namespace vernier::msprobe
