// One tensor handed over -> what is written about it, measured or remembered, and its file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "record/measure_cache.h"
#include "record/staging_pool.h"
#include "record/tensor_files.h"
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
  // Reads the elements now. `files` may be null when nothing is to be stored; `stem` gives the name of the
  // file and is asked only when there will be one. The file given has one user more.
  Result<MeasureCache::Known> Measure(const TensorWords& tensor, TensorFiles* files,
                                      const std::function<std::string()>& stem, RecordTotals& totals);
  // Storages may get new numbers after this.
  void Forget() { cache_.Clear(); }

 private:
  SummaryMode ModeOf(const TensorWords& tensor) const;
  bool HasHighPrecision(const TensorWords& tensor) const;
  Walk WalkOf(const TensorWords& tensor) const;
  Result<MeasureCache::Known> Read(const TensorWords& tensor, TensorFiles* files,
                                   const std::function<std::string()>& stem, RecordTotals& totals);

  const RecorderOptions& options_;
  StagingPool pool_;
  Workers workers_;
  MeasureCache cache_;
};

}  // namespace vernier
