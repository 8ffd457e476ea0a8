#include "profiles/msprobe/match.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "profiles/msprobe/keys_internal.h"

namespace vernier::msprobe {
namespace {

// The rows of one side by key. Keys are not stored: they are made again from the dump where a hash agrees,
// which is cheaper than keeping a second copy of every name.
class RowIndex {
 public:
  explicit RowIndex(const RowKeys& keys) : keys_(keys) {
    const std::size_t num_rows = keys.dump().rows().size();
    slots_.resize(std::bit_ceil(num_rows * 2 + 1), {0, kNoRow});
    std::string key, other;
    for (std::uint32_t row = 0; row < num_rows; ++row) {
      keys_.KeyOf(row, key);
      if (key.empty()) continue;
      const std::uint32_t hash = Hash(key);
      std::size_t at = Start(hash);
      for (; slots_[at].row != kNoRow; at = Next(at)) {
        if (slots_[at].hash != hash || has_repeats_) continue;
        keys_.KeyOf(slots_[at].row, other);
        has_repeats_ = other == key;
      }
      slots_[at] = {hash, row};
    }
  }

  // Whether any two rows have the same key.
  bool has_repeats() const { return has_repeats_; }

  // Appends the rows of that key, in row order.
  void Find(const std::string& key, std::vector<std::uint32_t>& rows) const {
    std::string candidate;
    const std::uint32_t hash = Hash(key);
    for (std::size_t at = Start(hash); slots_[at].row != kNoRow; at = Next(at)) {
      if (slots_[at].hash != hash) continue;
      keys_.KeyOf(slots_[at].row, candidate);
      if (candidate == key) rows.push_back(slots_[at].row);
    }
  }

 private:
  struct Slot {
    std::uint32_t hash, row;
  };
  static std::uint32_t Hash(std::string_view key) {
    return static_cast<std::uint32_t>(std::hash<std::string_view>()(key));
  }
  std::size_t Start(std::uint32_t hash) const { return hash & (slots_.size() - 1); }
  std::size_t Next(std::size_t at) const { return (at + 1) & (slots_.size() - 1); }

  const RowKeys& keys_;
  std::vector<Slot> slots_;
  bool has_repeats_ = false;
};

std::string ShapeOf(const Dump& dump, std::uint32_t row) {
  TextArena arena;
  return std::string(dump.Read(dump.rows()[row], arena).shape);
}

// So many pairs of one key are no recording's: only a file made to exhaust the machine has them.
constexpr std::size_t kMostPairsOfAKey = std::size_t{1} << 20;

// Rows of one key on both sides, several on at least one: every NPU row with every bench row of its shape,
// and rows of one shape together.
void PairAll(const Dump& npu, const Dump& bench, const std::vector<std::uint32_t>& npu_rows,
             const std::vector<std::uint32_t>& bench_rows, bool by_shape, std::vector<RowPair>& pairs) {
  if (npu_rows.size() * bench_rows.size() > kMostPairsOfAKey) {
    for (std::size_t i = 0; i < npu_rows.size(); ++i)
      pairs.push_back({npu_rows[i], i < bench_rows.size() ? bench_rows[i] : kNoRow});
    return;
  }
  std::vector<std::string> npu_shapes, bench_shapes;
  for (const std::uint32_t row : npu_rows) npu_shapes.push_back(by_shape ? ShapeOf(npu, row) : "");
  for (const std::uint32_t row : bench_rows) bench_shapes.push_back(by_shape ? ShapeOf(bench, row) : "");
  std::vector<bool> written(npu_rows.size());
  for (std::size_t first = 0; first < npu_rows.size(); ++first) {
    for (std::size_t i = first; i < npu_rows.size(); ++i) {
      if (written[i] || npu_shapes[i] != npu_shapes[first]) continue;
      written[i] = true;
      const std::size_t before = pairs.size();
      for (std::size_t j = 0; j < bench_rows.size(); ++j) {
        if (bench_shapes[j] == npu_shapes[i]) pairs.push_back({npu_rows[i], bench_rows[j]});
      }
      if (pairs.size() == before) pairs.push_back({npu_rows[i], kNoRow});
    }
  }
}

std::vector<RowPair> JoinByKey(const Dump& npu, const Dump& bench, const RowMatchOptions& options) {
  const RowKeys npu_keys(npu, options, Side::kNpu), bench_keys(bench, options, Side::kBench);
  const RowIndex npu_index(npu_keys), bench_index(bench_keys);
  std::vector<RowPair> pairs;
  pairs.reserve(npu.rows().size());
  std::vector<bool> written(npu.rows().size());
  std::vector<std::uint32_t> same_npu, same_bench;
  std::string key;
  for (std::uint32_t row = 0; row < npu.rows().size(); ++row) {
    if (written[row]) continue;
    npu_keys.KeyOf(row, key);
    same_npu.clear();
    same_bench.clear();
    if (key.empty()) {
      pairs.push_back({row, kNoRow});
      continue;
    }
    // Mapped names may coincide; each row then keeps its own place.
    if (options.rule == PairRule::kExact && npu_index.has_repeats()) {
      npu_index.Find(key, same_npu);
    } else {
      same_npu.push_back(row);
    }
    bench_index.Find(key, same_bench);
    for (const std::uint32_t same : same_npu) written[same] = true;
    if (same_npu.size() == 1 && same_bench.size() <= 1) {
      pairs.push_back({row, same_bench.empty() ? kNoRow : same_bench[0]});
    } else {
      PairAll(npu, bench, same_npu, same_bench, options.shape_is_part_of_the_key, pairs);
    }
  }
  return pairs;
}

// One number for each text.
class Numbers {
 public:
  std::uint32_t Of(std::string text) {
    return numbers_.try_emplace(std::move(text), static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

// The reference walks two queues, and at every step looks for the newest row of one side among all waiting
// rows of the other, front first. Waiting rows are found by key here instead of one by one; the outcome is
// the same.
class FuzzyQueue {
 public:
  FuzzyQueue(const RowKeys& keys, bool by_shape, Numbers& numbers)
      : keys_of_(keys), dump_(keys.dump()), by_shape_(by_shape), numbers_(numbers) {}
  bool Push(std::uint32_t row) {
    if (row >= dump_.rows().size()) return false;
    std::string key;
    keys_of_.KeyOf(row, key);
    key = FuzzyName(key);
    if (by_shape_) key += '\n' + ShapeOf(dump_, row);
    keys_.push_back(numbers_.Of(std::move(key)));
    waiting_[keys_.back()].push_back(row);
    return true;
  }
  std::uint32_t end() const { return static_cast<std::uint32_t>(keys_.size()); }
  std::uint32_t KeyOf(std::uint32_t row) const { return keys_[row]; }
  // The first waiting row of that key from `front` on.
  std::uint32_t Find(std::uint32_t key, std::uint32_t front) {
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) return kNoRow;
    std::vector<std::uint32_t>& rows = found->second;
    const auto first = std::lower_bound(rows.begin(), rows.end(), front);
    return first == rows.end() ? kNoRow : *first;
  }

 private:
  const RowKeys& keys_of_;
  const Dump& dump_;
  bool by_shape_;
  Numbers& numbers_;
  std::vector<std::uint32_t> keys_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> waiting_;
};

std::vector<RowPair> JoinFuzzily(const Dump& npu, const Dump& bench, const RowMatchOptions& options) {
  const RowKeys npu_keys(npu, options, Side::kNpu), bench_keys(bench, options, Side::kBench);
  Numbers numbers;
  FuzzyQueue npu_queue(npu_keys, options.shape_is_part_of_the_key, numbers),
      bench_queue(bench_keys, options.shape_is_part_of_the_key, numbers);
  std::vector<RowPair> pairs;
  std::uint32_t npu_front = 0, bench_front = 0;
  const auto take = [&](std::uint32_t p, std::uint32_t q) {
    for (; npu_front < p; ++npu_front) pairs.push_back({npu_front, kNoRow});
    pairs.push_back({p, q});
    npu_front = p + 1;
    bench_front = q + 1;
  };
  const std::size_t longest = std::max(npu.rows().size(), bench.rows().size());
  for (std::uint32_t i = 0; i < longest; ++i) {
    npu_queue.Push(i);
    bench_queue.Push(i);
    if (npu_front == npu_queue.end() || bench_front == bench_queue.end()) {
      if (npu_front == npu_queue.end() && bench_front == bench_queue.end()) continue;
      break;
    }
    const std::uint32_t n = npu_queue.end() - 1, b = bench_queue.end() - 1;
    if (const std::uint32_t q = bench_queue.Find(npu_queue.KeyOf(n), bench_front); q != kNoRow) {
      take(n, q);
    } else if (const std::uint32_t p = npu_queue.Find(bench_queue.KeyOf(b), npu_front); p != kNoRow) {
      take(p, b);
    }
  }
  for (; npu_front < npu.rows().size(); ++npu_front) pairs.push_back({npu_front, kNoRow});
  return pairs;
}

std::vector<RowPair> JoinByPosition(const Dump& npu, const Dump& bench) {
  std::vector<RowPair> pairs;
  for (std::uint32_t row = 0; row < npu.rows().size(); ++row)
    pairs.push_back({row, row < bench.rows().size() ? row : kNoRow});
  return pairs;
}

constexpr std::string_view kHalfAndSingle[][3] = {{"torch.float16", "torch.float32", "torch.bfloat16"},
                                                  {"Float16", "Float32", "BFloat16"}};

// "torch.int32" and "Int32" are both "int".
std::string_view DtypeClass(std::string_view dtype) {
  std::string lower(dtype.substr(dtype.rfind('.') + 1));
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const std::string_view kind : {"int", "float", "bool", "complex"}) {
    if (lower.find(kind) != std::string::npos) return kind;
  }
  return dtype;
}

}  // namespace

std::string_view Name(PairRule rule) {
  static constexpr std::string_view kNames[] = {"exact name", "fuzzy name", "data mapping", "cell mapping",
                                                "position"};
  return kNames[static_cast<std::size_t>(rule)];
}

std::vector<RowPair> MatchRows(const Dump& npu, const Dump& bench, const RowMatchOptions& options) {
  if (options.rule == PairRule::kPosition) return JoinByPosition(npu, bench);
  return options.rule == PairRule::kFuzzy ? JoinFuzzily(npu, bench, options) : JoinByKey(npu, bench, options);
}

bool DtypesAgree(std::string_view npu, std::string_view bench, bool across_frameworks) {
  if (npu == bench) return true;
  if (across_frameworks && DtypeClass(npu) == DtypeClass(bench)) return true;
  const auto in = [](const auto& group, std::string_view dtype) {
    return std::find(std::begin(group), std::end(group), dtype) != std::end(group);
  };
  return std::any_of(std::begin(kHalfAndSingle), std::end(kHalfAndSingle),
                     [&](const auto& group) { return in(group, npu) && in(group, bench); });
}

}  // namespace vernier::msprobe
