#include "xray_ops/blacklist.h"

#include <gtest/gtest.h>

#include <fstream>

#include "temporary_folder.h"

namespace vernier::xray_ops {
namespace {

TEST(Blacklist, HoldsWhatTheSpecificationNames) {
  const Blacklist list = Blacklist::Shipped();
  for (const char* op : {"aten.empty.memory_format",
                         "aten.new_empty_strided.default",
                         "aten.resize_.default",
                         "aten.randn.default",
                         "aten.randint.low",
                         "aten.normal_.default",
                         "aten.bernoulli.p",
                         "aten.multinomial.default",
                         "aten.native_dropout.default",
                         "aten._fused_dropout.default",
                         "aten.uniform_.default",
                         "aten.exponential_.default",
                         "aten.random_.from",
                         "aten.view.default",
                         "aten.view.dtype",
                         "aten._unsafe_view.default",
                         "aten.alias.default",
                         "aten.detach.default",
                         "aten.as_strided.default",
                         "aten.expand.default",
                         "aten.t.default",
                         "aten.transpose.int",
                         "aten.permute.default",
                         "aten.unsqueeze.default",
                         "aten.squeeze.dim",
                         "aten.slice.Tensor",
                         "aten.select.int",
                         "aten.split.Tensor",
                         "aten.split_with_sizes.default",
                         "aten._reshape_alias.default",
                         "aten._to_copy.default",
                         "aten.copy_.default",
                         "aten._local_scalar_dense.default",
                         "aten.item.default",
                         "aten.record_stream.default",
                         "c10d.allreduce_.default"}) {
    EXPECT_TRUE(list.Has(op)) << op;
  }
}

TEST(Blacklist, LeavesNeighboursAlone) {
  const Blacklist list = Blacklist::Shipped();
  for (const char* op : {"aten.add.Tensor", "aten.select_scatter.default", "aten.select.Dimname",
                         "aten.tanh.default", "aten.copy.default", "aten.viewfinder.default",
                         "aten.transpose.Dimname", "aten.linspace.default", "aten.slice_scatter.default"}) {
    EXPECT_FALSE(list.Has(op)) << op;
  }
}

TEST(Blacklist, AddsPatternsOfAFile) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "mine.txt") << "# mine\n  relu  # all of them\r\n\nadd.Tensor\nmy_ops.*\n";
  Blacklist list;
  ASSERT_TRUE(list.AddFile(folder.path() / "mine.txt"));
  EXPECT_EQ(list.patterns(), (std::vector<std::string>{"relu", "add.Tensor", "my_ops.*"}));
  EXPECT_TRUE(list.Has("aten.relu.default"));
  EXPECT_TRUE(list.Has("aten.add.Tensor"));
  EXPECT_FALSE(list.Has("aten.add.Scalar"));
  EXPECT_TRUE(list.Has("my_ops.fused.default"));
  EXPECT_FALSE(list.AddFile(folder.path() / "missing.txt"));
  std::ofstream(folder.path() / "binary") << std::string("\x80\0\x01", 3);
  EXPECT_FALSE(list.AddFile(folder.path() / "binary"));
}

}  // namespace
}  // namespace vernier::xray_ops
