// Recordings of statistics, written call by call, and what a comparison of them says.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "profiles/msprobe/run.h"
#include "temporary_folder.h"

namespace vernier::msprobe {

class MsprobeVerdict : public testing::Test {
 protected:
  static std::string Tensor(const std::string& max, const std::string& min = "-1.0") {
    return R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[100],"Max":)" + max + R"(,"Min":)" +
           min + R"(,"Mean":0.1,"Norm":5.0,"requires_grad":false})";
  }
  static std::string Call(const std::string& name, const std::string& in, const std::string& out,
                          const std::string& more = "") {
    return '"' + name + R"(":{"input_args":[)" + in + more + R"(],"input_kwargs":{},"output":[)" + out + "]}";
  }
  static std::string Linear(int number, double in, double out) {
    return Call("Functional.linear." + std::to_string(number) + ".forward", Tensor(std::to_string(in)),
                Tensor(std::to_string(out)));
  }
  void Write(const std::string& where, const std::vector<std::string>& calls) {
    const std::filesystem::path path = folder_.path() / where / "dump.json";
    std::filesystem::create_directories(path.parent_path());
    std::ofstream file(path);
    file << R"({"task":"statistics","level":"L1","framework":"pytorch","data":{)";
    for (std::size_t i = 0; i < calls.size(); ++i) file << (i == 0 ? "" : ",\n") << calls[i];
    file << "}}";
  }
  CompareOutcome Compare(bool strict = false) {
    Settings settings;
    settings.strict = strict;
    return Compare(std::move(settings));
  }
  CompareOutcome Compare(Settings settings) {
    settings.generation = Generation::kCurrent;
    if (settings.npu_path.empty()) settings.npu_path = folder_.path() / "t";
    if (settings.bench_path.empty()) settings.bench_path = folder_.path() / "g";
    Result<CompareOutcome> outcome = RunCompare(settings);
    EXPECT_TRUE(outcome) << outcome.error().Message();
    return outcome ? *std::move(outcome) : CompareOutcome();
  }
  static std::vector<std::string> Chain(int num_calls) {
    std::vector<std::string> calls;
    for (int i = 0; i < num_calls; ++i) calls.push_back(Linear(i, 2, 2));
    return calls;
  }

  TemporaryFolder folder_;
};

}  // namespace vernier::msprobe
