// What a recorder says about one tensor, and no more: extremes, sums, digests, and a copy in C order, all
// from one reading of its memory. measure.h has the fuller account that a comparison needs.
//
// Like everything here the result depends on the elements and their order in memory alone: not on the number
// of threads, not on the instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "measure/sketch.h"
#include "measure/strided.h"

namespace vernier {

struct SummaryRequest {
  bool statistics = true;
  bool sums_of_integers = false;  // floats always have them
  bool crc32 = false;             // of the bytes in C order
  bool xor64 = false;             // of the same, as words of 8 bytes, zeros behind the last
  std::size_t sketch_sums = 0;    // IsSketchSize(), of the elements in C order; needs statistics; 0: none
  std::byte* copy = nullptr;      // receives the elements in C order
};

struct Summary {
  std::uint64_t num_elements = 0;
  double min = 0, max = 0;  // of floats; of complex numbers' magnitudes. Meaningless when has_nan()
  double sum = 0, sum_sq = 0;
  std::int64_t integer_min = 0, integer_max = 0;  // of integers and bool; the bits of a uint64
  std::uint32_t crc32 = 0;
  std::uint64_t xor64 = 0;
  std::shared_ptr<const Sketch> sketch;  // null: none was asked for

  // Squares are never negative, so that no infinities can cancel: only a NaN makes this sum one.
  bool has_nan() const { return sum_sq != sum_sq; }
  friend bool operator==(const Summary&, const Summary&) = default;
};

// Has a meaning for the statistics of Summary; float8 has none.
bool HasSummary(Dtype dtype);

// One tensor, cut into chunks that any threads may run, each once. The tensor's shape and strides, and its
// memory, must outlive it.
class SummaryTask {
 public:
  // REQUIRES: at least one element, Walk::kMaxAxes axes at most
  SummaryTask(const StridedTensor& tensor, const SummaryRequest& request);
  SummaryTask(const SummaryTask&) = delete;
  SummaryTask& operator=(const SummaryTask&) = delete;

  std::size_t num_chunks() const { return num_chunks_; }
  void RunChunk(std::size_t chunk);  // REQUIRES: chunk < num_chunks(); thread-safe
  Summary Finish() const;            // after every chunk

 private:
  // Of each chunk, for the real and the imaginary parts; or all elements, when they are few.
  struct SketchPart {
    alignas(64) double sums[2][kSketchSums] = {};
    std::uint64_t num_bad = 0;
  };

  bool is_kept_whole() const { return walk_.num_elements() < kSketchSums; }
  template <class T>
  void SketchBlock(const std::byte* block, std::size_t n, std::uint64_t first, bool all_count,
                   SketchPart& part) const;
  std::shared_ptr<const Sketch> FinishSketch() const;
  Summary& PartOf(std::size_t chunk) { return chunk == 0 ? first_ : others_[chunk - 1]; }

  StridedTensor tensor_;
  SummaryRequest request_;
  std::size_t item_bytes_;
  Walk walk_;
  std::size_t num_chunks_;
  Summary first_;  // most tensors are one chunk, and then nothing is allocated
  std::vector<Summary> others_;
  std::unique_ptr<SketchPart[]> sketches_;  // null: not asked for
};

// On this thread.
Summary Summarize(const StridedTensor& tensor, const SummaryRequest& request);

}  // namespace vernier
