#include "measure/strided.h"

#include <algorithm>
#include <cstring>

namespace vernier {
namespace {

template <std::size_t kItemBytes>
void CopyRun(const std::byte* from, std::int64_t stride, std::uint64_t count, std::byte* to) {
  for (std::uint64_t i = 0; i < count; ++i) {
    std::memcpy(to, from, kItemBytes);
    from += stride * static_cast<std::int64_t>(kItemBytes);
    to += kItemBytes;
  }
}

// Several rows whose elements lie closer together than those of one row: column by column, so that each line
// of memory is visited once.
template <std::size_t kItemBytes>
void CopyTile(const std::byte* from, std::uint64_t num_rows, std::int64_t row_stride,
              std::uint64_t num_columns, std::int64_t column_stride, std::byte* to) {
  constexpr auto kBytes = static_cast<std::int64_t>(kItemBytes);
  for (std::uint64_t column = 0; column < num_columns; ++column) {
    const std::byte* item = from + static_cast<std::int64_t>(column) * column_stride * kBytes;
    std::byte* place = to + column * kItemBytes;
    for (std::uint64_t row = 0; row < num_rows; ++row) {
      std::memcpy(place, item, kItemBytes);
      item += row_stride * kBytes;
      place += num_columns * kItemBytes;
    }
  }
}

struct Copiers {
  void (*run)(const std::byte* from, std::int64_t stride, std::uint64_t count, std::byte* to);
  void (*tile)(const std::byte* from, std::uint64_t num_rows, std::int64_t row_stride,
               std::uint64_t num_columns, std::int64_t column_stride, std::byte* to);
};

Copiers CopiersFor(std::size_t item_bytes) {
  switch (item_bytes) {
    case 1:
      return {CopyRun<1>, CopyTile<1>};
    case 2:
      return {CopyRun<2>, CopyTile<2>};
    case 4:
      return {CopyRun<4>, CopyTile<4>};
    case 8:
      return {CopyRun<8>, CopyTile<8>};
    default:
      return {CopyRun<16>, CopyTile<16>};
  }
}

}  // namespace

// Joins the axis to the one before it when both together are one axis.
void Walk::Add(Axis axis) {
  num_elements_ *= static_cast<std::uint64_t>(axis.size);
  if (axis.size == 1) return;
  if (num_axes_ > 0 && axes_[num_axes_ - 1].stride == axis.size * axis.stride) {
    axes_[num_axes_ - 1] = {axes_[num_axes_ - 1].size * axis.size, axis.stride};
  } else {
    axes_[num_axes_++] = axis;
  }
}

Walk Walk::InOrder(const StridedTensor& tensor) {
  Walk walk;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) walk.Add({tensor.shape[i], tensor.strides[i]});
  return walk;
}

Walk Walk::ByMemory(const StridedTensor& tensor) {
  Walk walk;
  std::array<Axis, kMaxAxes> sorted;
  std::size_t num_sorted = 0;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    const Axis axis{tensor.shape[i], tensor.strides[i]};
    if (axis.stride == 0 && axis.size > 0) {
      walk.repeat_ *= static_cast<std::uint64_t>(axis.size);
      continue;
    }
    // Few axes, nearly always in order already.
    std::size_t at = num_sorted++;
    for (; at > 0 && sorted[at - 1].stride < axis.stride; --at) sorted[at] = sorted[at - 1];
    sorted[at] = axis;
  }
  for (std::size_t i = 0; i < num_sorted; ++i) walk.Add(sorted[i]);
  return walk;
}

void Walk::Gather(const std::byte* data, std::size_t item_bytes, std::uint64_t first, std::uint64_t count,
                  std::byte* to) const {
  if (contiguous()) {
    std::memcpy(to, data + first * item_bytes, count * item_bytes);
    return;
  }
  std::array<std::int64_t, kMaxAxes> index;
  std::int64_t offset = 0;  // of the run that holds `first`, in elements
  auto rest = static_cast<std::int64_t>(first);
  for (std::size_t i = num_axes_; i-- > 0;) {
    index[i] = rest % axes_[i].size;
    rest /= axes_[i].size;
    offset += index[i] * axes_[i].stride;
  }
  const Axis inner = axes_[num_axes_ - 1];
  const Axis rows = num_axes_ > 1 ? axes_[num_axes_ - 2] : Axis{1, 0};
  const bool by_column = rows.stride < inner.stride && rows.size > 1;
  const Copiers copy = CopiersFor(item_bytes);
  std::int64_t& position = index[num_axes_ - 1];
  while (count > 0) {
    const std::byte* const from = data + offset * static_cast<std::int64_t>(item_bytes);
    std::uint64_t done = std::min<std::uint64_t>(count, static_cast<std::uint64_t>(inner.size - position));
    std::int64_t num_rows = 1;
    if (inner.stride == 1) {
      std::memcpy(to, from, done * item_bytes);
    } else if (by_column && position == 0 && count >= 2 * static_cast<std::uint64_t>(inner.size)) {
      num_rows = std::min(rows.size - index[num_axes_ - 2], static_cast<std::int64_t>(count) / inner.size);
      done = static_cast<std::uint64_t>(num_rows * inner.size);
      copy.tile(from, static_cast<std::uint64_t>(num_rows), rows.stride,
                static_cast<std::uint64_t>(inner.size), inner.stride, to);
    } else {
      copy.run(from, inner.stride, done, to);
    }
    to += done * item_bytes;
    count -= done;
    // On to the next run: like the digits of a number, an axis that is through starts again.
    offset -= position * inner.stride;
    position = 0;
    std::int64_t step = num_rows;
    for (std::size_t i = num_axes_ - 1; i-- > 0;) {
      offset += step * axes_[i].stride;
      index[i] += step;
      if (index[i] < axes_[i].size) break;
      offset -= index[i] * axes_[i].stride;
      index[i] = 0;
      step = 1;
    }
  }
}

}  // namespace vernier
