#include "profiles/torchair/graph_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vernier::torchair {
namespace {

using testing::ElementsAre;

TEST(Graph, HasOperatorsProducersAndNodesInOrder) {
  const Graph graph = Graph::Parse(R"text(name: "graph_1"
op {
  name: "arg0_1"
  type: "Data"
}
op {
  name: "TopK_2"
  input: "arg0_1:0"
  input: "a:b:1"
  input: "x:-1"
  output_desc {
    name: "y0"
    attr {
      key: "_meta"
      value {
        s: "Tensor(dtype=torch.float32, shape=torch.Size([2, 2]))"
      }
    }
    attr {
      key: "_fx_tensor_name"
      value {
        s: "topk_1-aten.topk.default.OUTPUT.0"
      }
    }
  }
  output_desc {
    attr {
      key: "_fx_tensor_name"
      value {
        s: "topk_1-aten.topk.default.OUTPUT.1"
      }
    }
  }
}
)text")
                          .value();
  ASSERT_EQ(graph.ops().size(), 2u);
  EXPECT_EQ(graph.PositionOf("TopK_2"), 1);
  EXPECT_EQ(graph.PositionOf("none"), -1);
  const GraphOp& op = *graph.Find("TopK_2");
  EXPECT_THAT(op.producers, ElementsAre("arg0_1", "a:b", "x"));
  EXPECT_THAT(op.fx_nodes, ElementsAre("topk_1-aten.topk.default", "topk_1-aten.topk.default"));
}

TEST(Graph, SurvivesWhatStandsAroundAndInsideTexts) {
  const Graph graph = Graph::Parse(R"text(attr {
  key: "op {"
  value {
    s: "name: \"no\" }"
  }
}
op {
  name: "A: {"
  input: "b: c {:0"
  attr {
    key: "_fx_tensor_name"
    value {
      s: "of the operator itself.OUTPUT.0"
    }
  }
}
attr: {
  key: "tail"
}
)text")
                          .value();
  ASSERT_EQ(graph.ops().size(), 1u);
  EXPECT_EQ(graph.ops()[0].name, "A: {");
  EXPECT_THAT(graph.ops()[0].producers, ElementsAre("b: c {"));
  EXPECT_TRUE(graph.ops()[0].fx_nodes.empty());
}

TEST(Graph, UndoesEscapes) {
  const Graph graph = Graph::Parse("op {\n  name: \"a\\\"b\\\\\\303\\251\\n\"\n}\n").value();
  EXPECT_EQ(graph.ops()[0].name, "a\"b\\\u00e9\n");
}

TEST(Graph, WithoutOperatorsIsNone) {
  EXPECT_FALSE(Graph::Parse(""));
  EXPECT_FALSE(Graph::Parse("name: \"x\"\n}\n}\n"));
  EXPECT_FALSE(Graph::Parse("op {\n  type: \"no name\"\n}\n"));
}

}  // namespace
}  // namespace vernier::torchair
