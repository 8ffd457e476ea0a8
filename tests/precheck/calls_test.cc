#include "precheck/calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/mapped_file.h"

namespace vernier::precheck {
namespace {

using ::testing::HasSubstr;

Result<CallList> Read(std::string text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return CallList::FromFile(MappedFile::FromBytes({bytes, bytes + text.size()}, "x/dump.json"));
}

std::string Dump(const std::string& head, const std::string& data) {
  return "{" + head + (head.empty() ? "" : ", ") + "\"data\": {" + data + "}}";
}

std::vector<std::string> Names(const CallList& list) {
  std::vector<std::string> names;
  for (const RecordedCall& call : list.calls()) names.emplace_back(call.name);
  return names;
}

TEST(CallList, JoinsForwardAndBackwardAndPassesModulesOver) {
  const CallList list = Read(Dump(R"("framework": "pytorch", "level": "mix", "dump_data_dir": "somewhere")",
                                  R"("Module.fc.Linear.forward.0": {}, "Torch.linalg.inv.0.forward": {"a": 1},
                   "Functional.relu.0.forward": {}, "Torch.linalg.inv.0.backward": {"b": 2})"))
                            .value();
  EXPECT_EQ(Names(list), (std::vector<std::string>{"Torch.linalg.inv.0", "Functional.relu.0"}));
  EXPECT_EQ(list.calls()[0].prefix, "Torch");
  EXPECT_EQ(list.calls()[0].api, "linalg.inv");
  EXPECT_EQ(list.calls()[0].forward, R"({"a": 1})");
  EXPECT_EQ(list.calls()[0].backward, R"({"b": 2})");
  EXPECT_FALSE(list.calls()[1].backward);
  EXPECT_EQ(list.data_folder()->string(), "x/dump_tensor_data");
}

TEST(CallList, RefusesWhatHoldsNoCalls) {
  for (const char* level : {"L0", "L2", "debug"}) {
    EXPECT_THAT(Read(Dump("\"level\": \"" + std::string(level) + "\"", "")).error().Message(),
                HasSubstr(level));
  }
  EXPECT_THAT(Read(Dump(R"("framework": "mindspore")", "")).error().Message(),
              HasSubstr("framework mindspore"));
  EXPECT_THAT(Read(R"({"level": "L1"})").error().Message(), HasSubstr("data: missing"));
  EXPECT_THAT(Read(Dump("", R"("Torch.add.0.sideways": {})")).error().Message(),
              HasSubstr("Torch.add.0.sideways"));
  EXPECT_EQ(Read("[1]").error().code, ErrorCode::kBadMagic);
  EXPECT_EQ(Read("").error().code, ErrorCode::kBadMagic);
}

TEST(CallList, KeepsTheWholeRecordsOfATornDump) {
  const CallList list =
      Read(R"({"level": "L1", "data": {"Torch.add.0.forward": {}, "Torch.add.1.forward": {"input_args": [)")
          .value();
  EXPECT_TRUE(list.torn());
  EXPECT_EQ(Names(list), std::vector<std::string>{"Torch.add.0"});
}

TEST(CallList, DropsCallsThatDifferInNothingButValues) {
  const std::string tensor = R"({"type": "torch.Tensor", "shape": [2], "Max": )";
  CallList list =
      Read(Dump("", "\"Torch.add.0.forward\": {\"input_args\": [" + tensor + "1}], \"output\": [1]}," +
                        "\"Torch.add.1.forward\": {\"output\": [2], \"input_args\": [" + tensor + "2}]}," +
                        "\"Torch.add.2.forward\": {\"input_args\": [[" + tensor + "1}]]}," +
                        "\"Torch.mul.3.forward\": {\"input_args\": [" + tensor + "1}]}"))
          .value();
  list.DropRepeated();
  EXPECT_EQ(Names(list), (std::vector<std::string>{"Torch.add.0", "Torch.add.2", "Torch.mul.3"}));
}

TEST(ReasonToSkip, NamesPrefixesListsAndNamesThatCannotBeServed) {
  const Rules& rules = Rules::Shipped();
  Config config;
  config.black_list = {"relu"};
  const auto reason = [&](std::string_view name, std::string_view prefix, std::string_view api) {
    return ReasonToSkip({name, prefix, api, "{}", {}}, rules, config).value_or("");
  };
  EXPECT_EQ(reason("Torch.add.0", "Torch", "add"), "");
  EXPECT_THAT(reason("Torch.a.b.c.0", "", ""), HasSubstr("cannot be pre-checked"));
  EXPECT_THAT(reason("Distributed.all_reduce.0", "Distributed", "all_reduce"),
              HasSubstr("cannot be pre-checked"));
  EXPECT_THAT(reason("VF.lstm.0", "VF", "lstm"), HasSubstr("cannot be pre-checked"));
  EXPECT_THAT(reason("Functional.relu.0", "Functional", "relu"), HasSubstr("black list"));
  EXPECT_THAT(reason("Tensor.to.0", "Tensor", "to"), HasSubstr("black list"));
  EXPECT_THAT(reason("=cmd.add.0", "=cmd", "add"), HasSubstr("formula"));
  config.white_list = {"mul"};
  EXPECT_THAT(reason("Torch.add.0", "Torch", "add"), HasSubstr("white list"));
}

}  // namespace
}  // namespace vernier::precheck
