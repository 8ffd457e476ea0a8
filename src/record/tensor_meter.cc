#include "record/tensor_meter.h"

#include "measure/magnitudes.h"

namespace vernier {
namespace {

// Nothing to read: only an empty tensor has a digest, that of no bytes.
Measured WithoutElements(const TensorWords& tensor, SummaryMode mode) {
  Measured measured = NothingMeasured();
  measured.has_digest = mode == SummaryMode::kMd5 && tensor.num_elements == 0 && !tensor.Has(kNoData);
  return measured;
}

// Of every byte. With the sum of two kinds a change would have to keep both.
std::uint64_t FingerprintOf(const Summary& summary) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
  return summary.xor64 * kOdd + summary.crc32;
}

Result<TensorStats> FullStatistics(const Elements& elements) {
  const Shape shape(elements.shape.begin(), elements.shape.end());
  VN_ASSIGN_OR_RETURN(const TensorView view,
                      MagnitudesOf(BorrowTensor(elements.dtype, shape, elements.bytes.get())));
  return MeasureTensor(view, {false, 1});
}

}  // namespace

TensorMeter::TensorMeter(const RecorderOptions& options)
    : options_(options), pool_(options.staging_bytes), workers_(options.num_threads) {}

// Nothing but reading it tells that memory is as it was: a write through .data, through NumPy or by somebody
// else's kernel moves no version. What is only measured is measured again, then; what is stored need not be
// copied and written again.
Result<TensorMeter::Taken> TensorMeter::Measure(const TensorWords& tensor, Sink* store, const Place& place,
                                                RecordTotals& totals) {
  ++totals.num_tensors;
  if (!tensor.readable()) {
    return Taken{{WithoutElements(tensor, options_.summary), nullptr}, nullptr};
  }
  if (!WantsFile(tensor)) store = nullptr;
  if (store != nullptr) totals.bytes_seen += tensor.num_bytes();
  if (store == nullptr || tensor.storage == 0 || !options_.dedup) return Read(tensor, store, place, totals);

  const StoredCache::Key key = StoredCache::KeyOf(tensor);
  const StoredCache::Known* const known = cache_.Find(key, tensor.num_bytes());
  if (known != nullptr && !known->stored->gone) {
    // Sketches are too large to be remembered.
    SummaryRequest request = RequestOf(tensor);
    request.statistics &= request.sketch_sums != 0 && !options_.full_statistics;
    request.crc32 = request.xor64 = true;
    const Summary summary = Summarize(tensor, request, totals);
    if (FingerprintOf(summary) == known->fingerprint) {
      totals.bytes_saved += tensor.num_bytes();
      return Taken{{known->measured, &store->StoreAgain(place, *known->stored)}, summary.sketch};
    }
  }
  VN_ASSIGN_OR_RETURN(const Taken read, Read(tensor, store, place, totals));
  cache_.Insert(key, tensor.num_bytes(), read.known);
  return read;
}

SummaryMode TensorMeter::ModeOf(const TensorWords& tensor) const {
  return tensor.Has(kArray) ? SummaryMode::kStatistics : options_.summary;
}

// NumPy computes in double where torch would not compute at all.
bool TensorMeter::HasHighPrecision(const TensorWords& tensor) const {
  if (!tensor.Has(kArray)) return options_.high_precision;
  return Class(*tensor.dtype) != DtypeClass::kFloat || *tensor.dtype == Dtype::kF64;
}

SummaryRequest TensorMeter::RequestOf(const TensorWords& tensor) const {
  return RequestFor(*tensor.dtype, ModeOf(tensor), HasHighPrecision(tensor), options_.sketch_sums);
}

Summary TensorMeter::Summarize(const TensorWords& tensor, const SummaryRequest& request,
                               RecordTotals& totals) {
  totals.bytes_measured += tensor.num_bytes();
  SummaryTask task(tensor.strided(), request);
  workers_.ForEach(task.num_chunks(), [&](std::size_t chunk) { task.RunChunk(chunk); });
  return task.Finish();
}

TensorMeter::Checked TensorMeter::Check(const TensorWords& tensor, bool stores, bool numbers) const {
  SummaryRequest request = RequestOf(tensor);
  request.statistics &= numbers;
  request.crc32 |= stores;  // a zip archive needs it
  request.xor64 |= stores && options_.dedup;
  Summary summary = vernier::Summarize(tensor.strided(), request);
  if (request.statistics && !HasHighPrecision(tensor)) RoundSmallSquares(tensor.strided(), summary);
  Checked checked;
  checked.measured =
      ApplyRules(summary, *tensor.dtype, tensor.shape.empty(), ModeOf(tensor), HasHighPrecision(tensor));
  checked.sketch = summary.sketch;
  checked.crc32 = summary.crc32;
  if (request.xor64) checked.xor64 = summary.xor64;
  return checked;
}

Result<TensorMeter::Taken> TensorMeter::Read(const TensorWords& tensor, Sink* store, const Place& place,
                                             RecordTotals& totals) {
  ++totals.num_measured;
  SummaryRequest request = RequestOf(tensor);
  StagingPool::Buffer copy;
  if (store != nullptr) {
    copy = pool_.Take(tensor.num_bytes());
    if (copy == nullptr) {
      return Error{ErrorCode::kTooLarge, std::string(place.record),
                   "no memory for a copy of " + std::to_string(tensor.num_bytes()) + " bytes"};
    }
    const bool may_come_again = tensor.storage != 0 && options_.dedup;
    request.copy = copy.get();
    request.statistics &= !options_.full_statistics;
    request.crc32 = may_come_again || !options_.full_statistics;  // a zip archive needs it
    request.xor64 |= may_come_again;
  }
  Summary summary = Summarize(tensor, request, totals);
  if (request.statistics && !HasHighPrecision(tensor)) RoundSmallSquares(tensor.strided(), summary);
  StoredCache::Known known;
  const bool is_measured = store == nullptr || !options_.full_statistics;
  known.measured = is_measured ? ApplyRules(summary, *tensor.dtype, tensor.shape.empty(), ModeOf(tensor),
                                            HasHighPrecision(tensor))
                               : NothingMeasured();
  if (store != nullptr) {
    known.fingerprint = FingerprintOf(summary);
    Elements elements{*tensor.dtype, tensor.shape, summary.crc32, std::move(copy), {}};
    if (request.xor64) elements.xor64 = summary.xor64;
    if (options_.full_statistics) {
      VN_ASSIGN_OR_RETURN(elements.stats, FullStatistics(elements));
    }
    known.stored = &store->Store(place, std::move(elements));
  }
  return Taken{known, summary.sketch};
}

}  // namespace vernier
