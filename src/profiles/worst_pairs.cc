#include "profiles/worst_pairs.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "report/worst_text.h"

namespace vernier {
namespace {

constexpr std::size_t kWidest = 100;  // columns of a line

std::vector<std::uint64_t> PositionOf(std::uint64_t index, const Shape& shape) {
  std::vector<std::uint64_t> position(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto length = static_cast<std::uint64_t>(shape[i]);
    position[i] = index % length;
    index /= length;
  }
  return position;
}

std::string DtypeText(const LoadedPair& pair) {
  const std::string_view target = Name(pair.target.dtype), golden = Name(pair.golden.dtype);
  return target == golden ? std::string(target) : fmt::format("{} vs {}", target, golden);
}

bool IsComplex(const LoadedPair& pair) {
  return Class(pair.target.dtype) == DtypeClass::kComplex || Class(pair.golden.dtype) == DtypeClass::kComplex;
}

void Fill(const LoadedPair& loaded, const ElementDifferences& found, WorstPair& pair) {
  const Shape& shape = loaded.target.shape;
  pair.num_elements = found.num_numbers;
  pair.num_different = found.num_different;
  for (const RankedElement& element : found.worst) {
    const char* const part = !IsComplex(loaded) ? "" : element.is_imaginary ? "imag" : "real";
    pair.worst_elements.push_back({PositionOf(element.index, shape), part, element.target, element.golden,
                                   element.abs_diff, element.ulp});
  }
  if (!found.concentration) return;
  pair.concentrated_in = ConcentrationText(*found.concentration, shape);
  pair.share = found.concentration->share;
  if (found.concentration->kind != Concentration::Kind::kRange) return;
  pair.axis = found.concentration->axis;
  pair.first = found.concentration->first;
  pair.last = found.concentration->last;
}

}  // namespace

void WorstPairPicker::Add(std::size_t pair, bool failed, double severity) {
  num_failed_ += failed;
  const auto is_worse = [](const Candidate& a, const Candidate& b) {
    return a.failed != b.failed ? a.failed : a.severity > b.severity;
  };
  const Candidate added{pair, failed, severity};
  worst_.insert(std::upper_bound(worst_.begin(), worst_.end(), added, is_worse), added);
  if (worst_.size() > kMostPairsShown) worst_.pop_back();
}

std::vector<std::size_t> WorstPairPicker::Picked() const {
  std::size_t count = num_failed_ > 0 && num_failed_ <= kMostPairsShown ? num_failed_ : 1;
  count = std::min(count, worst_.size());
  std::vector<std::size_t> pairs;
  for (std::size_t i = 0; i < count; ++i) pairs.push_back(worst_[i].pair);
  return pairs;
}

Result<Done> LookAtElements(std::span<const PairToLookAt> pairs, const CompareRequest& request,
                            const CompareHooks& hooks, RankOutcome& rank, std::string& text) {
  const std::size_t width = hooks.screen.width == 0 ? kWidest : std::min(kWidest, hooks.screen.width);
  for (const PairToLookAt& pair : pairs) {
    WorstPair& shown = rank.worst_pairs.emplace_back();
    shown.name = pair.name;
    shown.golden_name = pair.golden_name;
    const Result<LoadedPair> loaded = pair.load();
    Result<ElementDifferences> found = loaded ? Result<ElementDifferences>(ElementDifferences{})
                                              : Result<ElementDifferences>(loaded.error());
    if (loaded) {
      ElementOptions options;
      options.num_worst = request.worst;
      options.num_threads = request.num_threads;
      options.stop = hooks.stop;
      const std::uint64_t num_bytes = loaded->target.num_bytes() + loaded->golden.num_bytes();
      if (hooks.on_progress) {
        options.on_progress = [&](std::uint64_t bytes_done) {
          hooks.on_progress({bytes_done == num_bytes ? 1u : 0u, 1, bytes_done, num_bytes});
        };
      }
      found = CompareElements(loaded->target, loaded->golden, options);
    }
    if (!found && found.error().code == ErrorCode::kCancelled) return found.error();
    if (!found) {
      shown.error = found.error().Message();
      text += fmt::format("worst elements of {}: {}\n", Printable(pair.title), Printable(shown.error));
      continue;
    }
    Fill(*loaded, *found, shown);
    text += WorstText({pair.title, DtypeText(*loaded), loaded->target.shape}, *found, width);
  }
  return Done{};
}

}  // namespace vernier
