// From the order in which a device stores a tensor to plain (C) order, without a copy of it: where each
// element lies is a sum over the axes. See docs/formats/ge_dump.md for the layouts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

// What a dump file says about the order of one tensor.
struct GeOrder {
  std::uint64_t format = 2;     // the number of the layout; 2: ND
  std::int64_t sub_format = 0;  // groups of a grouped convolution
  Shape shape, original_shape;  // as stored; as the model sees it
};

std::string GeFormatName(std::uint64_t format);  // "FRACTAL_NZ"; "layout 77" where there is no name

// One axis of the result. Element i lies (i + phase) div inner steps of `outer_step` and (i + phase) mod
// inner steps of `inner_step` from the beginning.
struct PlainAxis {
  std::int64_t count = 1;
  std::int64_t inner = 1;
  std::int64_t outer_step = 0, inner_step = 0;

  std::int64_t At(std::int64_t i) const { return i / inner * outer_step + i % inner * inner_step; }
};

// Where the groups of a grouped convolution lie: the first axis of the result is the output channel, the
// second the input channel of its group.
struct PlainGroups {
  std::int64_t outputs_of_a_group = 1;  // channels
  std::int64_t inputs_of_a_group = 1;
  std::int64_t groups_together = 1;  // that share one block
  std::int64_t block_step = 0;       // from one block to the next
  std::int64_t channel_step = 0;     // from one output channel to the next inside of a block
};

// A tensor in plain order. Immutable.
class PlainOrder {
 public:
  // What `order` means, for `num_stored` elements. None: the stored order is the plain one, or the only one
  // known; the shape is then the stored one. `note` says why a layout was left as it is stored, and is empty
  // otherwise.
  static std::optional<PlainOrder> Find(const GeOrder& order, std::uint64_t num_stored, std::string& note);

  const Shape& shape() const { return shape_; }
  // Copies elements [first, first + count) of the result out of what is stored.
  // REQUIRES: first + count <= the number of elements of shape()
  void Gather(const std::byte* stored, std::size_t item_bytes, std::uint64_t first, std::size_t count,
              std::byte* out) const;

 private:
  PlainOrder(Shape shape, std::vector<PlainAxis> axes);
  template <std::size_t kItemBytes>
  void GatherItems(const std::byte* stored, std::uint64_t first, std::size_t count, std::byte* out) const;
  static std::optional<PlainOrder> Convert(const GeOrder& order, std::string& note);
  static std::optional<PlainOrder> Grouped(const GeOrder& order);
  void CutTo(const Shape& original);

  Shape shape_;
  std::vector<PlainAxis> axes_;  // as many as shape_
  std::optional<PlainGroups> groups_;
};

}  // namespace vernier
