// One tensor handed over -> what is written about it, measured or remembered, and its file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "record/sink.h"
#include "record/staging_pool.h"
#include "record/stored_cache.h"
#include "record/tensor_words.h"
#include "record/workers.h"
#include "vernier/record.h"

namespace vernier {

// Used by one thread at a time.
class TensorMeter {
 public:
  explicit TensorMeter(const RecorderOptions& options);

  bool WantsFile(const TensorWords& tensor) const {
    return (options_.tensors || tensor.Has(kStore)) && !tensor.Has(kNoStore);
  }
  // Reads the elements now, and has `store` keep them for `place`; null: nothing is to be kept. However often
  // a tensor comes, its numbers are those of its elements at that moment.
  struct Taken {
    StoredCache::Known known;
    std::shared_ptr<const Sketch> sketch;  // null: none
  };
  Result<Taken> Measure(const TensorWords& tensor, Sink* store, const Place& place, RecordTotals& totals);
  // What is known of elements that somebody else has, of which no copy is made.
  struct Checked {
    Measured measured;  // `numbers`: all of it; else only the digest
    std::shared_ptr<const Sketch> sketch;
    std::uint32_t crc32 = 0;
    std::optional<std::uint64_t> xor64;
  };
  // Of elements that will be stored, or only measured. Thread-safe. REQUIRES: tensor.readable()
  Checked Check(const TensorWords& tensor, bool stores, bool numbers) const;
  // Storages may get new numbers after this.
  void Forget() { cache_.Clear(); }

 private:
  SummaryMode ModeOf(const TensorWords& tensor) const;
  bool HasHighPrecision(const TensorWords& tensor) const;
  Summary Summarize(const TensorWords& tensor, const SummaryRequest& request, RecordTotals& totals);
  SummaryRequest RequestOf(const TensorWords& tensor) const;
  Result<Taken> Read(const TensorWords& tensor, Sink* store, const Place& place, RecordTotals& totals);

  const RecorderOptions& options_;
  StagingPool pool_;
  Workers workers_;
  StoredCache cache_;
};

}  // namespace vernier
