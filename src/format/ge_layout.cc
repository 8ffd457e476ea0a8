#include "format/ge_layout.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>

namespace vernier {
namespace {

// In the order of their numbers.
constexpr std::string_view kFormatNames[] = {"NCHW",
                                             "NHWC",
                                             "ND",
                                             "NC1HWC0",
                                             "FRACTAL_Z",
                                             "NC1C0HWPAD",
                                             "NHWC1C0",
                                             "FSR_NCHW",
                                             "FRACTAL_DECONV",
                                             "C1HWNC0",
                                             "FRACTAL_DECONV_TRANSPOSE",
                                             "FRACTAL_DECONV_SP_STRIDE_TRANS",
                                             "NC1HWC0_C04",
                                             "FRACTAL_Z_C04",
                                             "CHWN",
                                             "FRACTAL_DECONV_SP_STRIDE8_TRANS",
                                             "HWCN",
                                             "NC1KHKWHWC0",
                                             "BN_WEIGHT",
                                             "FILTER_HWCK",
                                             "HASHTABLE_LOOKUP_LOOKUPS",
                                             "HASHTABLE_LOOKUP_KEYS",
                                             "HASHTABLE_LOOKUP_VALUE",
                                             "HASHTABLE_LOOKUP_OUTPUT",
                                             "HASHTABLE_LOOKUP_HITS",
                                             "C1HWNCoC0",
                                             "MD",
                                             "NDHWC",
                                             "FRACTAL_ZZ",
                                             "FRACTAL_NZ",
                                             "NCDHW",
                                             "DHWCN",
                                             "NDC1HWC0",
                                             "FRACTAL_Z_3D",
                                             "CN",
                                             "NC",
                                             "DHWNC",
                                             "FRACTAL_Z_3D_TRANSPOSE",
                                             "FRACTAL_ZN_LSTM",
                                             "FRACTAL_Z_G",
                                             "RESERVED",
                                             "ALL",
                                             "NULL",
                                             "ND_RNN_BIAS",
                                             "FRACTAL_ZN_RNN",
                                             "YUV",
                                             "YUV_A",
                                             "NCL",
                                             "FRACTAL_Z_WINO",
                                             "C1HWC0"};

enum Format : std::uint64_t {
  kNchw = 0,
  kNhwc = 1,
  kNd = 2,
  kNc1hwc0 = 3,
  kFractalZ = 4,
  kHwcn = 16,
  kFractalNz = 29,
  kNdc1hwc0 = 32
};

constexpr std::size_t kPlainDimensions = 4;

// The steps of C order.
std::vector<std::int64_t> StepsOf(const Shape& shape) {
  std::vector<std::int64_t> steps(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    steps[i] = step;
    step *= shape[i];
  }
  return steps;
}

std::int64_t Product(const Shape& shape, std::size_t first, std::size_t last) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(first),
                         shape.begin() + static_cast<std::ptrdiff_t>(last), std::int64_t{1},
                         std::multiplies<>());
}

PlainAxis Whole(std::int64_t count, std::int64_t step) { return {count, 1, step, 0}; }
// Two stored axes that make one: `outer` blocks of `inner` elements, cut to `wanted`.
PlainAxis Joined(std::int64_t outer, std::int64_t outer_step, std::int64_t inner, std::int64_t inner_step,
                 std::int64_t wanted) {
  return {std::min(outer * inner, wanted), std::max<std::int64_t>(inner, 1), outer_step, inner_step};
}

struct Converted {
  Shape shape;
  std::vector<PlainAxis> axes;

  void Add(const PlainAxis& axis) {
    shape.push_back(axis.count);
    axes.push_back(axis);
  }
};

using MaybeConverted = std::optional<Converted>;

MaybeConverted FromNc1hwc0(const Shape& s, const Shape& original) {
  if (s.size() != 5) return std::nullopt;
  const std::vector<std::int64_t> step = StepsOf(s);
  Converted to;
  to.Add(Whole(s[0], step[0]));
  to.Add(Joined(s[1], step[1], s[4], step[4], original[1]));
  to.Add(Whole(s[2], step[2]));
  to.Add(Whole(s[3], step[3]));
  return to;
}

MaybeConverted FromFractalNz(const Shape& s, const Shape& original) {
  const std::size_t n = s.size(), m = original.size();
  if (n < 4 || m < 2) return std::nullopt;
  const std::int64_t lead = Product(original, 0, m - 2);
  if (lead != Product(s, 0, n - 4)) return std::nullopt;
  const std::vector<std::int64_t> step = StepsOf(s);
  Converted to;
  if (m > 2) to.Add(Whole(lead, Product(s, n - 4, n)));
  to.Add(Joined(s[n - 3], step[n - 3], s[n - 2], step[n - 2], original[m - 2]));
  to.Add(Joined(s[n - 4], step[n - 4], s[n - 1], step[n - 1], original[m - 1]));
  return to;
}

MaybeConverted FromFractalZ(const Shape& s, const Shape& original) {
  if (s.size() != 4 || original.size() != 4) return std::nullopt;
  const std::int64_t h = original[2], w = original[3];
  if (h <= 0 || w <= 0 || s[0] % (h * w) != 0) return std::nullopt;
  const std::vector<std::int64_t> step = StepsOf(s);
  Converted to;
  to.Add(Joined(s[1], step[1], s[2], step[2], original[0]));
  to.Add(Joined(s[0] / (h * w), h * w * step[0], s[3], step[3], original[1]));
  to.Add(Whole(h, w * step[0]));
  to.Add(Whole(w, step[0]));
  return to;
}

MaybeConverted Permuted(const Shape& s, std::initializer_list<std::size_t> axes) {
  if (s.size() != axes.size()) return std::nullopt;
  const std::vector<std::int64_t> step = StepsOf(s);
  Converted to;
  for (const std::size_t axis : axes) to.Add(Whole(s[axis], step[axis]));
  return to;
}
MaybeConverted FromNhwc(const Shape& s, const Shape&) { return Permuted(s, {0, 3, 1, 2}); }
MaybeConverted FromHwcn(const Shape& s, const Shape&) { return Permuted(s, {3, 2, 0, 1}); }

// (n, d, c1, h, w, c0) to (n, c, d, h, w).
Converted WithDepth(const Shape& s, std::int64_t channels) {
  const std::vector<std::int64_t> step = StepsOf(s);
  Converted to;
  to.Add(Whole(s[0], step[0]));
  to.Add(Joined(s[2], step[2], s[5], step[5], channels));
  to.Add(Whole(s[1], step[1]));
  to.Add(Whole(s[3], step[3]));
  to.Add(Whole(s[4], step[4]));
  return to;
}
MaybeConverted FromNdc1hwc0(const Shape& s, const Shape&) {
  if (s.size() != 6) return std::nullopt;
  return WithDepth(s, s[2] * s[5]);
}
// Only where the original is in that order: nothing in the file says so.
MaybeConverted FromNdc1hwc0OfFive(const Shape& s, const Shape& original) {
  if (s.size() != 6 || original.size() != 5) return std::nullopt;
  const bool fits = s[0] == original[0] && s[1] == original[2] && s[3] == original[3] &&
                    s[4] == original[4] && original[1] <= s[2] * s[5] && original[1] > (s[2] - 1) * s[5];
  if (!fits) return std::nullopt;
  return WithDepth(s, original[1]);
}

struct ConversionRow {
  std::uint64_t from;
  std::size_t fewest_dimensions, most_dimensions;  // of the original
  MaybeConverted (*convert)(const Shape& stored, const Shape& original);
};
constexpr ConversionRow kConversions[] = {
    {kNc1hwc0, 4, 4, FromNc1hwc0},
    {kFractalNz, 2, 4, FromFractalNz},
    {kFractalZ, 4, 4, FromFractalZ},
    {kNhwc, 4, 4, FromNhwc},
    {kHwcn, 4, 4, FromHwcn},
    {kNdc1hwc0, 2, 3, FromNdc1hwc0},
    {kNdc1hwc0, 5, 5, FromNdc1hwc0OfFive},
};

}  // namespace

std::string GeFormatName(std::uint64_t format) {
  return format < std::size(kFormatNames) ? std::string(kFormatNames[format])
                                          : "layout " + std::to_string(format);
}

PlainOrder::PlainOrder(Shape shape, std::vector<PlainAxis> axes)
    : shape_(std::move(shape)), axes_(std::move(axes)) {}

std::optional<PlainOrder> PlainOrder::Find(const GeOrder& order, std::uint64_t num_stored,
                                           std::string& note) {
  const std::size_t num_dimensions = order.original_shape.size();
  std::uint64_t format = order.format;
  if ((format == kNchw || format == kNhwc || format == kHwcn) && order.shape.size() != kPlainDimensions)
    format = kNd;
  if (num_dimensions < 2 || num_dimensions > 5) return std::nullopt;
  if (num_dimensions == 5 && format != kNdc1hwc0) return std::nullopt;
  const std::uint64_t goal = num_dimensions == 4 ? kNchw : kNd;
  if (format == goal || num_stored == 0) return std::nullopt;
  // Everything below counts on a product that fits and on data for all of it.
  const Result<std::uint64_t> product = NumElements(order.shape, Dtype::kC128);
  if (!product || *product == 0 || *product > num_stored) return std::nullopt;
  if (const auto wanted = NumElements(order.original_shape, Dtype::kC128); !wanted || *wanted == 0) {
    note = "the original shape " + ShapeText(order.original_shape) + " is not that of the data";
    return std::nullopt;
  }
  if (order.sub_format >= 2) {
    std::optional<PlainOrder> grouped = format == kFractalZ ? Grouped(order) : std::nullopt;
    if (!grouped) note = GeFormatName(format) + " of " + std::to_string(order.sub_format) + " groups";
    return grouped;
  }
  GeOrder known = order;
  known.format = format;
  return Convert(known, note);
}

std::optional<PlainOrder> PlainOrder::Convert(const GeOrder& order, std::string& note) {
  const std::size_t num_dimensions = order.original_shape.size();
  const auto* row = std::find_if(std::begin(kConversions), std::end(kConversions), [&](const auto& known) {
    return known.from == order.format && known.fewest_dimensions <= num_dimensions &&
           num_dimensions <= known.most_dimensions;
  });
  if (row == std::end(kConversions)) {
    note = GeFormatName(order.format) + " has no conversion";
    return std::nullopt;
  }
  MaybeConverted converted = row->convert(order.shape, order.original_shape);
  if (!converted) {
    note = GeFormatName(order.format) + " " + ShapeText(order.shape) + " does not fit the original shape " +
           ShapeText(order.original_shape);
    return std::nullopt;
  }
  PlainOrder plain(std::move(converted->shape), std::move(converted->axes));
  plain.CutTo(order.original_shape);
  return plain;
}

// Left to right: nothing is cut when a dimension is too small before one is too large.
void PlainOrder::CutTo(const Shape& original) {
  if (shape_.size() < original.size()) return;
  Shape wanted = original;
  wanted.resize(shape_.size(), 1);
  for (std::size_t i = 0; i < shape_.size(); ++i) {
    if (shape_[i] < wanted[i]) return;
    if (shape_[i] == wanted[i]) continue;
    for (std::size_t k = 0; k < shape_.size(); ++k) {
      shape_[k] = std::min(shape_[k], wanted[k]);
      axes_[k].count = shape_[k];
    }
    return;
  }
}

// Several groups share a block of the stored tensor, each in its own corner of it; docs/formats/ge_dump.md
// has the formula.
std::optional<PlainOrder> PlainOrder::Grouped(const GeOrder& order) {
  const Shape &s = order.shape, &original = order.original_shape;
  constexpr std::int64_t kMostGroups = std::int64_t{1} << 31, kFractal = 16;
  const std::int64_t groups = order.sub_format;
  if (s.size() != 4 || original.size() != 4 || groups > kMostGroups) return std::nullopt;
  const std::int64_t n = original[0], c = original[1], h = original[2], w = original[3], c0 = s[3];
  const std::int64_t most = std::int64_t{1} << 31;  // lcm() of two such numbers fits
  if (n <= 0 || c <= 0 || h <= 0 || w <= 0 || c0 <= 0 || n > most || c > most || c0 > most || n % groups != 0)
    return std::nullopt;
  const std::int64_t outputs = n / groups;
  const std::int64_t for_inputs = std::lcm(c, c0) / c, for_outputs = std::lcm(outputs, kFractal) / outputs;
  const std::int64_t together = std::min(std::lcm(for_inputs, for_outputs), groups);
  const auto divided = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t c1 = divided(together * c, c0), o1 = divided(together * outputs, kFractal);
  // Compared one by one, because a product of claims might not fit.
  if (s[0] % (h * w) != 0 || s[0] / (h * w) != divided(groups, together) * c1 || s[1] != o1 ||
      s[2] != kFractal)
    return std::nullopt;
  const std::int64_t plane = o1 * kFractal * c0;  // one position of the kernel
  Converted to;
  to.Add(Whole(n, 0));  // see PlainGroups
  to.Add({c, c0, h * w * plane, 1});
  to.Add(Whole(h, w * plane));
  to.Add(Whole(w, plane));
  PlainOrder plain(std::move(to.shape), std::move(to.axes));
  plain.groups_ = {outputs, c, together, c1 * h * w * plane, c0};
  return plain;
}

template <std::size_t kItemBytes>
void PlainOrder::GatherItems(const std::byte* stored, std::uint64_t first, std::size_t count,
                             std::byte* out) const {
  const std::size_t num_axes = axes_.size();
  constexpr std::size_t kMostAxes = 5;
  std::int64_t index[kMostAxes] = {};
  std::uint64_t rest = first;
  for (std::size_t k = num_axes; k-- > 0;) {
    const auto size = static_cast<std::uint64_t>(shape_[k]);
    index[k] = static_cast<std::int64_t>(rest % size);
    rest /= size;
  }
  const PlainAxis& last = axes_[num_axes - 1];
  while (count > 0) {
    std::int64_t base = 0, channel_phase = 0;
    if (groups_) {
      const std::int64_t group = index[0] / groups_->outputs_of_a_group;
      const std::int64_t corner = group % groups_->groups_together;
      const std::int64_t channel =
          corner * groups_->outputs_of_a_group + index[0] % groups_->outputs_of_a_group;
      base = group / groups_->groups_together * groups_->block_step + channel * groups_->channel_step;
      channel_phase = corner * groups_->inputs_of_a_group;
    }
    for (std::size_t k = 0; k + 1 < num_axes; ++k)
      base += axes_[k].At(index[k] + (k == 1 ? channel_phase : 0));
    std::int64_t at = index[num_axes - 1];
    const auto in_row = std::min(static_cast<std::int64_t>(count), shape_[num_axes - 1] - at);
    const std::int64_t end = at + in_row;
    if (last.inner_step == 1 || (last.inner == 1 && last.outer_step == 1)) {
      // Runs of neighbours; those of FRACTAL_NZ have 16 elements and are copied without asking how many.
      const bool one_run = last.inner_step != 1;
      constexpr std::int64_t kRun = 16;
      while (at < end) {
        const std::int64_t within = one_run ? 0 : at % last.inner;
        const std::int64_t run = one_run ? end - at : std::min(last.inner - within, end - at);
        const std::byte* from = stored + static_cast<std::size_t>(base + last.At(at)) * kItemBytes;
        if (run == kRun) {
          std::memcpy(out, from, kRun * kItemBytes);
        } else {
          std::memcpy(out, from, static_cast<std::size_t>(run) * kItemBytes);
        }
        out += static_cast<std::size_t>(run) * kItemBytes;
        at += run;
      }
    } else {
      for (; at < end; ++at, out += kItemBytes)
        std::memcpy(out, stored + static_cast<std::size_t>(base + last.At(at)) * kItemBytes, kItemBytes);
    }
    count -= static_cast<std::size_t>(in_row);
    index[num_axes - 1] = at;
    for (std::size_t k = num_axes; k-- > 1 && index[k] == shape_[k];) {
      index[k] = 0;
      ++index[k - 1];
    }
  }
}

void PlainOrder::Gather(const std::byte* stored, std::size_t item_bytes, std::uint64_t first,
                        std::size_t count, std::byte* out) const {
  switch (item_bytes) {
    case 1:
      return GatherItems<1>(stored, first, count, out);
    case 2:
      return GatherItems<2>(stored, first, count, out);
    case 4:
      return GatherItems<4>(stored, first, count, out);
    case 8:
      return GatherItems<8>(stored, first, count, out);
    default:
      return GatherItems<16>(stored, first, count, out);
  }
}

}  // namespace vernier
