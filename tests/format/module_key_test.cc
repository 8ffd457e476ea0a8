#include "format/module_key.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

TEST(ModuleKey, TakesKeysApart) {
  struct Case {
    std::string_view key, path, class_name, call, category, index;
  };
  const Case cases[] = {
      {"blocks.0.norm1.LayerNorm.0.forward_output.0", "blocks.0.norm1", "LayerNorm", "0", "forward_output",
       "0"},
      {"fc.ColumnParalleLinear.forward_params.bias", "fc", "ColumnParalleLinear", "", "forward_params",
       "bias"},
      {"Linear.12.forward_input.1.mask", "", "Linear", "12", "forward_input", "1.mask"},
      {"a.B.0.params_grad", "a", "B", "0", "params_grad", ""},
      {"forward_input.forward_output.0", "", "forward_input", "", "forward_output", "0"},
      {"no.category.at.all", "no.category.at.all", "", "", "", ""},
      {"forward_input", "", "", "", "forward_input", ""},
      {"", "", "", "", "", ""},
  };
  for (const Case& wanted : cases) {
    const ModuleKey key = SplitModuleKey(wanted.key);
    EXPECT_EQ(key.path, wanted.path) << wanted.key;
    EXPECT_EQ(key.class_name, wanted.class_name) << wanted.key;
    EXPECT_EQ(key.call, wanted.call) << wanted.key;
    EXPECT_EQ(key.category, wanted.category) << wanted.key;
    EXPECT_EQ(key.index, wanted.index) << wanted.key;
  }
}

}  // namespace
}  // namespace vernier
