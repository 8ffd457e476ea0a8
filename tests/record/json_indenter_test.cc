#include "record/json_indenter.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

// Writes each tensor as <path|extras>.
class Marker : public JsonIndenter::TensorWriter {
 public:
  Result<Done> WriteTensor(std::string_view extras, int depth, std::string& out) override {
    out += '<';
    for (const PathPart& part : indenter->path()) {
      out += part.index >= 0 ? std::to_string(part.index) : std::string(part.key);
      out += '.';
    }
    out += "|" + std::string(extras) + "@" + std::to_string(depth) + ">";
    return Done{};
  }
  const JsonIndenter* indenter = nullptr;
};

Result<std::string> Indented(std::string_view text, int depth = 0) {
  Marker marker;
  JsonIndenter indenter(text, &marker);
  marker.indenter = &indenter;
  std::string out;
  VN_RETURN_IF_ERROR(indenter.Value(depth, out));
  if (!indenter.AtEnd()) return Error{ErrorCode::kBadArgument, "", "rest"};
  return out;
}

TEST(JsonIndenter, IndentsByOneBlankALevel) {
  EXPECT_EQ(*Indented(R"({"a":[1,{"b":null}],"c":{},"d":[]})"),
            "{\n \"a\": [\n  1,\n  {\n   \"b\": null\n  }\n ],\n \"c\": {},\n \"d\": []\n}");
  EXPECT_EQ(*Indented("[1]", 2), "[\n   1\n  ]");
}

TEST(JsonIndenter, KeepsNumbersAndTextsAsTheyAreWritten) {
  EXPECT_EQ(*Indented(R"([NaN,-Infinity,1e-05,1.50,"a , ] \" \u00e9",true])"),
            "[\n NaN,\n -Infinity,\n 1e-05,\n 1.50,\n \"a , ] \\\" \\u00e9\",\n true\n]");
  EXPECT_EQ(*Indented(" { \"\" : 1 , \"b\" : 2 } "), "{\n \"\": 1,\n \"b\": 2\n}");
}

TEST(JsonIndenter, TellsTheWriterOfTensorsWhereTheyStand) {
  EXPECT_EQ(*Indented("[\x01,[7,\x01{\"type\":\"x\"}],{\"k\":\x01}]"),
            "[\n <0.|@1>,\n [\n  7,\n  <1.1.|{\"type\":\"x\"}@2>\n ],\n {\n  \"k\": <2.k.|@2>\n }\n]");
}

TEST(JsonIndenter, RefusesWhatIsNoJson) {
  for (const char* text : {"", "[1", "[1,]", "{\"a\"}", "{\"a\":}", "\"abc", "[1 2]", "{1:2}", "*"}) {
    EXPECT_FALSE(Indented(text)) << text;
  }
  const std::string deep(5000, '[');
  EXPECT_FALSE(Indented(deep));
}

}  // namespace
}  // namespace vernier
