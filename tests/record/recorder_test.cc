// What the documents look like, and in which order.
#include "vernier/record.h"

#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cmath>

#include "recording.h"

namespace vernier {
namespace {

const std::vector<float> kOnes{1, 1}, kTwos{2, 2, 2};

std::string Descriptor(const std::string& indent, int size, const std::string& value,
                       const std::string& mean_norm) {
  const std::string next = "\n" + indent + " ";
  return "{" + next + "\"type\": \"torch.Tensor\"," + next + "\"dtype\": \"torch.float32\"," + next +
         "\"shape\": [" + next + " " + std::to_string(size) + next + "]," + next + "\"Max\": " + value + "," +
         next + "\"Min\": " + value + "," + next + mean_norm + "," + next + "\"requires_grad\": false\n" +
         indent + "}";
}

std::vector<std::string> Names(const Recording& recording) {
  std::vector<std::string> names;
  const std::string text = recording.Data();
  for (std::size_t at = text.find("\n  \""); at != std::string::npos; at = text.find("\n  \"", at + 1)) {
    names.push_back(text.substr(at + 4, text.find('"', at + 4) - at - 4));
  }
  return names;
}

TEST(Recorder, StartsWithEmptyDocuments) {
  Recording recording;
  EXPECT_EQ(
      recording.Document(),
      "{\n \"task\": \"statistics\",\n \"level\": \"L1\",\n \"dump_data_dir\": null,\n \"data\": {}\n}");
  EXPECT_EQ(recording.File("stack.json"), "{}");
  EXPECT_EQ(recording.File("construct.json"), "{}");
}

TEST(Recorder, WritesARecordAsTheReferenceDoes) {
  Recording recording;
  recording.Put("Torch.add.0.forward",
                "{\"input_args\":[\x01,{\"type\":\"int\",\"value\":3}],\"input_kwargs\":{}}", Floats(kOnes),
                0);
  EXPECT_EQ(recording.Data(), "{}");  // not finished yet
  recording.Put("Torch.add.0.forward", "{\"output\":[\x01]}", Floats(kTwos));
  EXPECT_EQ(
      recording.Data(),
      "{\n  \"Torch.add.0.forward\": {\n   \"input_args\": [\n    " +
          Descriptor("    ", 2, "1.0", "\"Mean\": 1.0,\n     \"Norm\": 1.4142135381698608") +
          ",\n    {\n     \"type\": \"int\",\n     \"value\": 3\n    }\n   ],\n   \"input_kwargs\": {},\n"
          "   \"output\": [\n    " +
          Descriptor("    ", 3, "2.0", "\"Mean\": 2.0,\n     \"Norm\": 3.464101552963257") +
          "\n   ]\n  }\n }");
}

TEST(Recorder, DescribesATensorDifferentlyWhenTold) {
  Recording recording;
  recording.Put("A.0.forward",
                "{\"input_args\":[\x01{\"type\":\"numpy.ndarray\",\"dtype\":\"float32\"},"
                "\x01{\"after\":{\"device_mesh\":[0,1],\"placements\":[]}}]}",
                Floats(kOnes, {.flags = kArray}) + Floats(kOnes, {.flags = kRequiresGrad}));
  const std::string text = recording.Data();
  EXPECT_NE(text.find("\"type\": \"numpy.ndarray\",\n     \"dtype\": \"float32\","), std::string::npos);
  EXPECT_EQ(ValuesOf(text, "requires_grad"), std::vector<std::string>{"true"});
  EXPECT_NE(text.find("\"requires_grad\": true,\n     \"device_mesh\": [\n      0,\n      1\n     ],\n"
                      "     \"placements\": []\n    }"),
            std::string::npos);
}

TEST(Recorder, TheDocumentIsWholeAfterEveryRecord) {
  Recording recording;
  for (int i = 0; i < 5; ++i) {
    recording.Put("A." + std::to_string(i), "{\"output\":[null]}");
    EXPECT_EQ(Names(recording).size(), static_cast<std::size_t>(i + 1));
    EXPECT_TRUE(recording.Document().ends_with("\n }\n}"));
  }
}

TEST(Recorder, EntriesStandInTheOrderOfTheirFirstPut) {
  Recording recording;
  recording.Put("A", "{\"input\":1}", {}, 0);
  recording.Put("B", "{\"input\":1}");
  recording.Put("A", "{\"output\":2}");
  recording.Put("C", "{\"input\":1}");
  EXPECT_EQ(Names(recording), (std::vector<std::string>{"B", "A", "C"}));
  recording.Flush();
  EXPECT_EQ(Names(recording), (std::vector<std::string>{"A", "B", "C"}));
  recording.Put("D", "{}");
  EXPECT_EQ(Names(recording), (std::vector<std::string>{"A", "B", "C", "D"}));
}

TEST(Recorder, AModuleMovesBehindWhatItCalled) {
  Recording recording;
  recording.Put("Module", "{\"input_args\":[]}", {}, 0);
  recording.Put("Api", "{\"output\":[]}");
  recording.Put("Module", "{\"output\":[]}", {}, kFinish | kMoveToEnd);
  EXPECT_EQ(Names(recording), (std::vector<std::string>{"Api", "Module"}));
  recording.Flush();
  EXPECT_EQ(
      recording.Data(),
      "{\n  \"Api\": {\n   \"output\": []\n  },\n  \"Module\": {\n   \"input_args\": [],\n   \"output\": []\n"
      "  }\n }");
}

TEST(Recorder, UnfinishedEntriesAreWrittenAsTheyAreAtFlush) {
  Recording recording;
  recording.Put("Raises", "{\"input_args\":[1]}", {}, 0);
  recording.Put("Fine", "{}");
  recording.Flush();
  EXPECT_EQ(recording.Data(),
            "{\n  \"Raises\": {\n   \"input_args\": [\n    1\n   ]\n  },\n  \"Fine\": {}\n }");
}

TEST(Recorder, AnEntryInTheFileIsReadBackToBeAddedTo) {
  Recording recording;
  recording.Put("A", "{\"input\":{\"x\":[1,\"a \\\" b\"]},\"b\\\"q\":[]}", {}, 0);
  recording.Flush();
  recording.Put("B", "{}");
  recording.Put("A", "{\"output\":3}");
  recording.Flush();
  EXPECT_EQ(recording.Data(),
            "{\n  \"A\": {\n   \"input\": {\n    \"x\": [\n     1,\n     \"a \\\" b\"\n    ]\n   },\n"
            "   \"b\\\"q\": [],\n   \"output\": 3\n  },\n  \"B\": {}\n }");
}

TEST(Recorder, AFieldIsReplacedInItsPlace) {
  for (const std::uint32_t keep : {0u, static_cast<std::uint32_t>(kKeep)}) {
    Recording recording;
    recording.Put("A", "{\"input\":1,\"output\":2,\"x\":3}", {}, kFinish | keep);
    recording.Put("B", "{}");
    recording.Put("A", "{\"output\":[\x01],\"new\":4}", Floats(kOnes), kFinish | kReplace);
    recording.Flush();
    EXPECT_EQ(recording.Data(),
              "{\n  \"A\": {\n   \"input\": 1,\n   \"output\": [\n    " +
                  Descriptor("    ", 2, "1.0", "\"Mean\": 1.0,\n     \"Norm\": 1.4142135381698608") +
                  "\n   ],\n   \"x\": 3,\n   \"new\": 4\n  },\n  \"B\": {}\n }");
  }
}

TEST(Recorder, AWholeEntryIsOneValue) {
  Recording recording({}, /*debug=*/true);
  recording.Put("x.0.debug", "\x01", Floats(kOnes), kFinish | kWhole);
  recording.Put("x_grad.0.debug", "[null,null]", {}, kFinish | kWhole | kKeep);
  recording.Put("y.0.debug", "null", {}, kFinish | kWhole);
  recording.Put("x_grad.0.debug", "[\x01,null]", Floats(kOnes), kFinish | kWhole);
  recording.Flush();
  EXPECT_EQ(
      recording.Data(),
      "{\n  \"x.0.debug\": " + Descriptor("  ", 2, "1.0", "\"Mean\": 1.0,\n   \"Norm\": 1.4142135381698608") +
          ",\n  \"x_grad.0.debug\": [\n   " +
          Descriptor("   ", 2, "1.0", "\"Mean\": 1.0,\n    \"Norm\": 1.4142135381698608") +
          ",\n   null\n  ],\n  \"y.0.debug\": null\n }");
}

TEST(Recorder, NamesAreEscaped) {
  Recording recording;
  recording.Put("é\"\n", "{}");
  recording.Put("é\"\n", "{\"x\":1}");
  recording.Flush();
  EXPECT_EQ(recording.Data(), "{\n  \"\\u00e9\\\"\\n\": {\n   \"x\": 1\n  }\n }");
}

TEST(Recorder, GoesOnInTheSameFolderUntilItEnds) {
  Recording recording;
  recording.Put("A", "{}");
  ASSERT_TRUE(recording->Begin(recording.where()));
  recording.Put("B", "{}");
  EXPECT_EQ(Names(recording), (std::vector<std::string>{"A", "B"}));
  ASSERT_TRUE(recording->End());
  std::uint32_t seen = 0;
  EXPECT_FALSE(recording->Put("C", "{}", {}, -1, kFinish, seen));
  RecordFolder next = recording.where();
  next.folder = next.folder.parent_path() / "rank1";
  ASSERT_TRUE(recording->Begin(next));
  recording.Put("A", "{\"again\":1}");
  ASSERT_TRUE(recording->End());
  EXPECT_EQ(Names(recording), (std::vector<std::string>{"A", "B"}));
  EXPECT_NE(ReadFile(next.folder / "dump.json").find("\"again\": 1"), std::string::npos);
}

TEST(Recorder, StacksAreNumberedByFirstUseAndEqualOnesMerged) {
  Recording recording;
  ASSERT_TRUE(recording->DeclareStack(9, R"(["frame \n a","b"])"));
  ASSERT_TRUE(recording->DeclareStack(4, R"(["c"])"));
  ASSERT_TRUE(recording->DeclareStack(5, R"([ "c" ])"));
  recording.Put("A", "{}", {}, 0, 4);
  recording.Put("B", "{}", {}, kFinish, 9);
  recording.Put("A", "{\"x\":1}", {}, kFinish, 4);
  recording.Put("C", "{}", {}, kFinish, 5);
  recording.Put("D", "{}", {}, kFinish, -1);
  recording.Flush();
  EXPECT_EQ(recording.File("stack.json"),
            "{\n \"0\": [\n  [\n   \"A\",\n   \"C\"\n  ],\n  [\n   \"c\"\n  ]\n ],\n \"1\": [\n  [\n   "
            "\"B\"\n  ],\n"
            "  [\n   \"frame \\n a\",\n   \"b\"\n  ]\n ]\n}");
  std::uint32_t seen = 0;
  EXPECT_FALSE(recording->Put("E", "{}", {}, 77, kFinish, seen));
  EXPECT_FALSE(recording->DeclareStack(1, "{}"));
}

TEST(Recorder, ConstructKeepsTheFirstPlaceAndTheLastParent) {
  Recording recording;
  ASSERT_TRUE(recording->Construct("a", "b"));
  ASSERT_TRUE(recording->Construct("b", std::nullopt));
  ASSERT_TRUE(recording->Construct("a", "c"));
  recording.Flush();
  EXPECT_EQ(recording.File("construct.json"), "{\n \"a\": \"c\",\n \"b\": null\n}");
}

TEST(Recorder, SaysWhetherATensorIsNotFinite) {
  Recording recording;
  const std::vector<float> nan{1, std::nanf("")}, inf{-INFINITY, 1};
  EXPECT_EQ(recording.Put("A", "{\"x\":[\x01]}", Floats(kOnes)), 0u);
  EXPECT_EQ(recording.Put("B", "{\"x\":[\x01,\x01]}", Floats(kOnes) + Floats(nan)), kSeenNotFinite);
  EXPECT_EQ(recording.Put("C", "{\"x\":[\x01]}", Floats(inf)), kSeenNotFinite);
}

TEST(Recorder, RefusesWhatItCannotWriteAndGoesOn) {
  Recording recording;
  std::uint32_t seen = 0;
  for (const char* text : {"", "[]", "{\"a\":}", "{\"a\":1", "{} x", "{\"a\":\x01}"}) {
    EXPECT_FALSE(recording->Put("A", text, {}, -1, kFinish, seen)) << text;
  }
  Words negative = Floats(kOnes);
  negative.back() = -1;
  EXPECT_FALSE(recording->Put("A", "{\"a\":\x01}", negative, -1, kFinish, seen));
  const Words huge = Tensor(kOnes.data(), Dtype::kF32, {INT64_MAX, 8}, {}, {8, 1});
  EXPECT_FALSE(recording->Put("A", "{\"a\":\x01}", huge, -1, kFinish, seen));
  Words deep = Floats(kOnes);
  deep[5] = 65;
  EXPECT_FALSE(recording->Put("A", "{\"a\":\x01}", deep, -1, kFinish, seen));
  recording.Put("B", "{\"x\":1}");
  recording.Flush();
  EXPECT_EQ(recording.Data(), "{\n  \"A\": {},\n  \"B\": {\n   \"x\": 1\n  }\n }");
}

TEST(Recorder, DescribesATensorOnItsOwn) {
  Recording recording;
  const Result<std::string> text = recording->Describe("x", Floats(kOnes));
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, Descriptor("", 2, "1.0", "\"Mean\": 1.0,\n \"Norm\": 1.4142135381698608"));
}

TEST(Recorder, SaysWhyAFolderCannotBeUsed) {
  TemporaryFolder parent;
  std::ofstream(parent.path() / "file") << "x";
  auto recorder = *Recorder::Open({});
  RecordFolder where;
  where.folder = parent.path() / "file" / "step0";
  where.header = "{}";
  const Result<Done> begun = recorder->Begin(where);
  ASSERT_FALSE(begun);
  EXPECT_NE(begun.error().Message().find("file"), std::string::npos);
}

// ---- deferred tensors

Words Deferred(std::int64_t slot, std::uint32_t more_flags = 0) {
  Words words = Floats(kTwos, {.flags = kDeferred | more_flags});
  words[0] = slot;
  return words;
}

FilledValue Number(double value) { return {FilledValue::kDouble, std::bit_cast<std::int64_t>(value)}; }
const FilledValue kFour[4] = {Number(2), {FilledValue::kInt, -7}, {FilledValue::kBool, 1}, {}};

TEST(Deferred, TheRecordWaitsForItsNumbers) {
  RecorderOptions options;
  options.summary = SummaryMode::kMd5;
  Recording recording(options);
  recording.Put("A", "{\"input\":[\x01]}", Deferred(5), 0);
  recording.Put("A", "{\"output\":[\x01,\x01]}", Deferred(6) + Floats(kOnes));
  recording.Put("B", "{}");
  EXPECT_EQ(Names(recording), std::vector<std::string>{"B"});
  ASSERT_TRUE(recording->Fill(6, kFour, 0xab));
  EXPECT_EQ(Names(recording), std::vector<std::string>{"B"});
  ASSERT_TRUE(recording->Fill(5, kFour, std::nullopt));
  recording.Flush();
  EXPECT_EQ(Names(recording), (std::vector<std::string>{"A", "B"}));
  const std::string text = recording.Data();
  EXPECT_EQ(ValuesOf(text, "Max"), (std::vector<std::string>{"2.0", "2.0", "1.0"}));
  EXPECT_EQ(ValuesOf(text, "Min"), (std::vector<std::string>{"-7", "-7", "1.0"}));
  EXPECT_EQ(ValuesOf(text, "Mean"), (std::vector<std::string>{"true", "true", "1.0"}));
  EXPECT_EQ(ValuesOf(text, "Norm")[1], "null");
  EXPECT_EQ(ValuesOf(text, "md5")[0], "null");
  EXPECT_EQ(ValuesOf(text, "md5")[1], "\"000000ab\"");
  EXPECT_FALSE(recording->Fill(5, kFour, std::nullopt));  // forgotten once filled
}

TEST(Deferred, WhatNeverCameIsNull) {
  Recording recording;
  recording.Put("A", "{\"output\":[\x01]}", Deferred(5));
  recording.Flush();
  EXPECT_EQ(Statistics(recording.Data()), "null null null null");
}

TEST(Deferred, ACopyOnTheHostIsMeasuredAndStored) {
  RecorderOptions options;
  options.tensors = true;
  Recording recording(options);
  recording.Put("A", "{\"output\":[\x01,\x01]}", Deferred(1, kCopyFollows) + Deferred(2, kCopyFollows));
  const std::vector<float> copy{5, 6, 7};
  ASSERT_TRUE(recording->FillTensor(1, Floats(copy)));
  ASSERT_TRUE(recording->Fill(2, kFour, std::nullopt));
  EXPECT_EQ(Names(recording), std::vector<std::string>{});
  ASSERT_TRUE(recording->FillTensor(2, Floats(copy)));
  recording.Flush();
  EXPECT_EQ(ValuesOf(recording.Data(), "Max"), (std::vector<std::string>{"7.0", "2.0"}));
  EXPECT_EQ(ValuesOf(recording.Data(), "data_name"),
            (std::vector<std::string>{"\"A.output.0.pt\"", "\"A.output.1.pt\""}));
}

TEST(Deferred, AWholeStepMayWait) {
  Recording recording;
  constexpr int kNumCalls = 20000;
  std::vector<std::string> names;
  for (int i = 0; i < kNumCalls; ++i) {
    names.push_back("A." + std::to_string(i));
    recording.Put(names.back(), "{\"output\":[\x01]}", Deferred(i));
  }
  EXPECT_EQ(recording.Data(), "{}");
  for (int i = 0; i < kNumCalls; ++i) ASSERT_TRUE(recording->Fill(i, kFour, std::nullopt));
  EXPECT_EQ(Names(recording), names);
  recording.Flush();
  EXPECT_EQ(Names(recording), names);
}

TEST(Deferred, AReplacedFieldNoLongerWaits) {
  Recording recording;
  recording.Put("A", "{\"output\":[\x01]}", Deferred(5));
  recording.Put("A", "{\"output\":[null]}", {}, kFinish | kReplace);
  EXPECT_EQ(Names(recording), std::vector<std::string>{"A"});
  EXPECT_TRUE(recording->Fill(5, kFour, std::nullopt));
  recording.Flush();
  EXPECT_EQ(recording.Data(), "{\n  \"A\": {\n   \"output\": [\n    null\n   ]\n  }\n }");
}

// ---- forked children

TEST(Recorder, AForkedChildLeavesTheFilesAlone) {
  Recording recording;
  recording.Put("A", "{}", {}, 0);
  const pid_t child = fork();
  if (child == 0) {
    recording.Close();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(recording.Data(), "{}");
  recording.Flush();
  EXPECT_EQ(Names(recording), std::vector<std::string>{"A"});
}

}  // namespace
}  // namespace vernier
