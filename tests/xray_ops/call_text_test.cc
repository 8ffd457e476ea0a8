#include "xray_ops/call_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vernier::xray_ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A record of one argument.
std::string With(const std::string& value) {
  return R"({"id": 4, "op": "aten.add.Tensor", "args": [)" + value + R"(], "kwargs": {}, "mutates": []})";
}
std::string ArgumentOf(const std::string& value) {
  const Result<CallText> call = ReadCall(With(value), true);
  if (!call) return call.error().where + ": " + call.error().detail;
  const std::string start = R"({"id": 4, "op": "aten.add.Tensor", "args": [)";
  const std::string end = R"(], "kwargs": {}, "mutates": []})";
  EXPECT_TRUE(call->literal.starts_with(start) && call->literal.ends_with(end)) << call->literal;
  return call->literal.substr(start.size(), call->literal.size() - start.size() - end.size());
}

TEST(CallText, WritesTheCallOfTheSpecification) {
  const Result<CallText> call = ReadCall(
      R"({"id": 4, "name": "00004-aten", "op": "aten.linspace.default", "schema": "…", "phase": "forward",
          "repeat": 1, "args": [{"kind": "int", "value": 0}, {"kind": "int", "value": 47},
          {"kind": "int", "value": 10}],
          "kwargs": {"dtype": {"kind": "dtype", "value": "torch.float32"}}, "outputs": [], "mutates": []})",
      true);
  ASSERT_TRUE(call) << call.error().Message();
  EXPECT_EQ(call->id, 4);
  EXPECT_EQ(call->op, "aten.linspace.default");
  EXPECT_EQ(call->literal, R"({"id": 4, "op": "aten.linspace.default", "args": [0, 47, 10], )"
                           R"("kwargs": {"dtype": "torch.float32"}, "mutates": []})");
}

TEST(CallText, WritesEveryKindOfValue) {
  EXPECT_EQ(ArgumentOf(R"({"kind": "none"})"), "None");
  EXPECT_EQ(ArgumentOf(R"({"kind": "bool", "value": true})"), "True");
  EXPECT_EQ(ArgumentOf(R"({"value": -7, "kind": "int"})"), "-7");
  EXPECT_EQ(ArgumentOf(R"({"kind": "float", "value": 2})"), "2.0");
  EXPECT_EQ(ArgumentOf(R"({"kind": "float", "value": 1e-05})"), "1e-05");
  EXPECT_EQ(ArgumentOf(R"({"kind": "float", "value": "-inf"})"), R"({"float": "-inf"})");
  EXPECT_EQ(ArgumentOf(R"({"kind": "str", "value": "floor"})"), R"("floor")");
  EXPECT_EQ(ArgumentOf(R"({"kind": "str", "value": "torch.float32"})"), R"({"str": "torch.float32"})");
  EXPECT_EQ(ArgumentOf(R"({"kind": "memory_format", "value": "torch.channels_last"})"),
            R"("torch.channels_last")");
  EXPECT_EQ(ArgumentOf(R"({"kind": "device", "value": "cuda:0"})"), R"({"device": "cuda:0"})");
  EXPECT_EQ(ArgumentOf(R"({"kind": "generator", "seed": 7, "offset": 0})"), R"({"generator": 7})");
  EXPECT_EQ(ArgumentOf(R"({"kind": "scalar", "type": "complex", "value": [1, "nan"]})"),
            R"({"complex": [1.0, "nan"]})");
  EXPECT_EQ(ArgumentOf(R"({"kind": "object", "type": "ProcessGroup"})"), R"({"object": "ProcessGroup"})");
  EXPECT_EQ(ArgumentOf(R"({"kind": "list", "items": [{"kind": "int", "value": 1}, {"kind": "none"}]})"),
            "[1, None]");
  EXPECT_EQ(ArgumentOf(R"({"kind": "tensor_list", "items": []})"), "[]");
}

TEST(CallText, WritesOfTensorsWhatRebuildsThem) {
  const char* tensor =
      R"({"kind": "tensor", "dtype": "torch.float32", "shape": [2, 3], "stride": [1, 2], "offset": 4,
      "storage": "args.0", "device": "cuda:0", "layout": "torch.strided", "requires_grad": true, "contiguous": false,
      "min": "-inf", "max": 2.5, "nan": 0, "inf": 1, "finite_min": -1, "finite_max": 2.5, "file": "dump/00004.arg0.pt"})";
  const std::string text =
      R"({"dtype": "torch.float32", "shape": [2, 3], "stride": [1, 2], "offset": 4, )"
      R"("storage": "args.0", "min": "-inf", "max": 2.5, "finite_min": -1, "finite_max": 2.5)";
  const Result<CallText> loaded = ReadCall(With(tensor), true);
  ASSERT_TRUE(loaded);
  EXPECT_THAT(loaded->literal, HasSubstr(text + R"(, "file": "dump/00004.arg0.pt"})"));
  EXPECT_THAT(loaded->files, ElementsAre("dump/00004.arg0.pt"));
  const Result<CallText> drawn = ReadCall(With(tensor), false);
  ASSERT_TRUE(drawn);
  EXPECT_THAT(drawn->literal, HasSubstr(text + "}"));
  EXPECT_TRUE(drawn->files.empty());
  EXPECT_EQ(
      ArgumentOf(R"({"kind": "tensor", "dtype": "torch.int64", "shape": [], "min": null, "file": null})"),
      R"({"dtype": "torch.int64", "shape": []})");
  EXPECT_EQ(ArgumentOf(R"({"kind": "tensor", "dtype": "torch.int64", "shape": [1], "same_as": "args.0"})"),
            R"({"same_as": "args.0"})");
}

TEST(CallText, BreaksLongCallsIntoLines) {
  std::string value = R"({"kind": "str", "value": ")" + std::string(120, 'x') + R"("})";
  const Result<CallText> call = ReadCall(With(value + ", " + value), true);
  ASSERT_TRUE(call);
  const std::string line = "\n        \"" + std::string(120, 'x') + "\",";
  EXPECT_EQ(call->literal, "{\n    \"id\": 4,\n    \"op\": \"aten.add.Tensor\",\n    \"args\": [" + line +
                               line + "\n    ],\n    \"kwargs\": {},\n    \"mutates\": [],\n}");
}

TEST(CallText, NeverWritesCode) {
  EXPECT_EQ(ArgumentOf(R"({"kind": "str", "value": "\"; import os #\n'''\\"})"),
            R"("\"; import os #\n'''\\")");
  EXPECT_THAT(ArgumentOf(R"({"kind": "int", "value": "__import__"
})"),
              HasSubstr("expected a whole number"));
  EXPECT_THAT(ArgumentOf(R"({"kind": "float", "value": "1+1"})"), HasSubstr("expected a number"));
  EXPECT_THAT(ArgumentOf(R"({"kind": "bool", "value": 1})"), HasSubstr("expected true or false"));
  EXPECT_THAT(ArgumentOf(R"({"kind": "dtype", "value": "torch.hub.load"})"), HasSubstr("nothing of torch's"));
  EXPECT_THAT(ArgumentOf(R"({"kind": "tensor", "dtype": "os.system", "shape": []})"),
              HasSubstr("nothing of torch's"));
  for (const char* op :
       {"aten.add", "aten..add.x", "aten.add.Tensor\\n", "a/../b.c.d", "", ".a.b.c", "aten.\\\"\\\"\\\".x"}) {
    const Result<CallText> call = ReadCall(std::string(R"({"id": 1, "op": ")") + op + R"("})", true);
    EXPECT_FALSE(call) << op;
  }
  EXPECT_FALSE(ReadCall(R"({"id": 1, "op": "aten.a.b", "kwargs": {"x\"": {"kind": "none"}}})", true));
}

TEST(CallText, KeepsFilesInsideTheFolder) {
  for (const char* file : {"/etc/passwd", "../x.pt", "dump/../../x.pt", ""}) {
    EXPECT_THAT(
        ArgumentOf(std::string(R"({"kind": "tensor", "dtype": "torch.int8", "shape": [], "file": ")") + file +
                   "\"}"),
        HasSubstr("leads out of the folder"))
        << file;
  }
}

TEST(CallText, NamesTheMemberThatIsWrong) {
  EXPECT_EQ(ArgumentOf(R"({"kind": "thing"})"), "args.0: unknown kind thing");
  EXPECT_EQ(ArgumentOf(R"({"value": 1})"), "args.0: its kind is missing");
  EXPECT_EQ(ArgumentOf(R"({"kind": "int"})"), "args.0: its value is missing");
  EXPECT_EQ(ArgumentOf("3"), "args.0: expected an object with a kind");
  EXPECT_EQ(ArgumentOf(R"({"kind": "list", "items": [{"kind": "int", "value": 1.5}]})"),
            "args.0.0: expected a whole number");
  EXPECT_EQ(ArgumentOf(R"({"kind": "tensor", "shape": []})"), "args.0: dtype is missing");
  EXPECT_EQ(ArgumentOf(R"({"kind": "tensor", "dtype": "torch.int8", "shape": [-1]})"),
            "args.0.shape: expected a whole number ≥ 0");
  EXPECT_EQ(ArgumentOf(R"({"kind": "int", "value": 123456789012345678901234567890})"),
            "args.0: the number is too long");
  EXPECT_FALSE(ReadCall(R"({"op": "aten.a.b"})", true));
  EXPECT_FALSE(ReadCall(R"({"id": -1, "op": "aten.a.b"})", true));
  EXPECT_FALSE(ReadCall(R"({"id": 1})", true));
  EXPECT_FALSE(ReadCall("[]", true));
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += R"({"kind": "list", "items": [)";
  for (int i = 0; i < 40; ++i) deep += "]}";
  EXPECT_THAT(ArgumentOf(deep), HasSubstr("nested too deeply"));
}

TEST(CallText, EndsAtEveryCutWithoutACrash) {
  const std::string whole =
      R"({"id": 4, "op": "aten.add.Tensor", "args": [{"kind": "tensor", "dtype": "torch.int8", "shape": [1], "min": 1,
       "max": "inf", "file": "dump/a.pt"}, {"kind": "list", "items": [{"kind": "float", "value": 1.5}]}],
       "kwargs": {"alpha": {"kind": "int", "value": 1}}, "mutates": [0, "out"]})";
  ASSERT_TRUE(ReadCall(whole, true)) << ReadCall(whole, true).error().Message();
  EXPECT_THAT(ReadCall(whole, true)->literal, HasSubstr(R"("mutates": [0, "out"])"));
  for (std::size_t end = 0; end < whole.size(); ++end)
    EXPECT_FALSE(ReadCall(whole.substr(0, end), true)) << end;
}

}  // namespace
}  // namespace vernier::xray_ops
