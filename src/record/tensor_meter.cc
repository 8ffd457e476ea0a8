#include "record/tensor_meter.h"

namespace vernier {
namespace {

// Nothing to read: only an empty tensor has a digest, that of no bytes.
Measured WithoutElements(const TensorWords& tensor, SummaryMode mode) {
  Measured measured = NothingMeasured();
  measured.has_digest = mode == SummaryMode::kMd5 && tensor.num_elements == 0 && !tensor.Has(kNoData);
  return measured;
}

}  // namespace

TensorMeter::TensorMeter(const RecorderOptions& options)
    : options_(options), pool_(options.staging_bytes), workers_(options.num_threads) {}

Result<MeasureCache::Known> TensorMeter::Measure(const TensorWords& tensor, Sink* store, const Place& place,
                                                 RecordTotals& totals) {
  ++totals.num_tensors;
  if (!tensor.readable()) {
    return MeasureCache::Known{WithoutElements(tensor, options_.summary), nullptr};
  }
  if (!WantsFile(tensor)) store = nullptr;
  if (store != nullptr) totals.bytes_seen += tensor.num_bytes();
  if (tensor.storage == 0) return Read(tensor, store, place, totals);

  // A file holds the shape too, so that another view needs one of its own.
  const MeasureCache::Key key =
      store != nullptr ? MeasureCache::KeyOf(tensor) : MeasureCache::KeyOf(tensor, WalkOf(tensor));
  const std::uint64_t fingerprint = MeasureCache::FingerprintOf(tensor);
  const MeasureCache::Known* const known = cache_.Find(key, fingerprint, tensor.num_bytes());
  if (known != nullptr && store == nullptr) return MeasureCache::Known{known->measured, nullptr};
  if (known != nullptr && options_.dedup && known->stored != nullptr && !known->stored->gone) {
    totals.bytes_saved += tensor.num_bytes();
    return MeasureCache::Known{known->measured, &store->StoreAgain(place, *known->stored)};
  }
  VN_ASSIGN_OR_RETURN(const MeasureCache::Known read, Read(tensor, store, place, totals));
  cache_.Insert(key, fingerprint, tensor.num_bytes(), read);
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

Walk TensorMeter::WalkOf(const TensorWords& tensor) const {
  return ModeOf(tensor) == SummaryMode::kStatistics ? Walk::ByMemory(tensor.strided())
                                                    : Walk::InOrder(tensor.strided());
}

Result<MeasureCache::Known> TensorMeter::Read(const TensorWords& tensor, Sink* store, const Place& place,
                                              RecordTotals& totals) {
  ++totals.num_measured;
  totals.bytes_measured += tensor.num_bytes();
  SummaryRequest request = RequestFor(*tensor.dtype, ModeOf(tensor), HasHighPrecision(tensor));
  StagingPool::Buffer copy;
  if (store != nullptr) {
    copy = pool_.Take(tensor.num_bytes());
    if (copy == nullptr) {
      return Error{ErrorCode::kTooLarge, std::string(place.record),
                   "no memory for a copy of " + std::to_string(tensor.num_bytes()) + " bytes"};
    }
    request.copy = copy.get();
    request.crc32 = true;  // a zip archive needs it
  }
  SummaryTask task(tensor.strided(), request);
  workers_.ForEach(task.num_chunks(), [&](std::size_t chunk) { task.RunChunk(chunk); });
  Summary summary = task.Finish();
  if (request.statistics && !HasHighPrecision(tensor)) RoundSmallSquares(tensor.strided(), summary);
  MeasureCache::Known known;
  known.measured =
      ApplyRules(summary, *tensor.dtype, tensor.shape.empty(), ModeOf(tensor), HasHighPrecision(tensor));
  if (store != nullptr) {
    known.stored = &store->Store(place, {*tensor.dtype, tensor.shape, summary.crc32, std::move(copy)});
  }
  return known;
}

}  // namespace vernier
