#include "record/descriptor_style.h"

#include <string_view>

#include "core/json_writer.h"

namespace vernier {
namespace {

constexpr std::size_t kNumKept = 16;  // nothing but deep nests lies deeper

std::string Line(int depth) {
  std::string text;
  AppendLine(depth, text);
  return text;
}

DescriptorStyle MakeStyle(int depth) {
  const auto member = [&](std::string_view key) {
    return "," + Line(depth + 1) + "\"" + std::string(key) + "\": ";
  };
  DescriptorStyle style;
  style.open_type = "{" + Line(depth + 1) + "\"type\": ";
  style.dtype = member("dtype");
  style.shape = member("shape");
  style.shape_item = Line(depth + 2);
  style.shape_end = Line(depth + 1);
  style.statistics = {member("Max"), member("Min"), member("Mean"), member("Norm")};
  style.requires_grad = member("requires_grad");
  style.data_name = member("data_name");
  style.md5 = member("md5");
  style.end = Line(depth);
  return style;
}

}  // namespace

const DescriptorStyle& StyleAt(int depth) {
  static const std::array<DescriptorStyle, kNumKept> kept = [] {
    std::array<DescriptorStyle, kNumKept> styles;
    for (std::size_t i = 0; i < kNumKept; ++i) styles[i] = MakeStyle(static_cast<int>(i));
    return styles;
  }();
  if (static_cast<std::size_t>(depth) < kNumKept) return kept[static_cast<std::size_t>(depth)];
  thread_local DescriptorStyle deep;
  deep = MakeStyle(depth);
  return deep;
}

}  // namespace vernier
