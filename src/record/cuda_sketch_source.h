// The part of the kernels in cuda_source.cc that makes sketches: compiled only where they are asked for,
// because whoever does not shall not wait for it.
#pragma once

namespace vernier::cuda {

inline constexpr char kSketchKernel[] = R"cuda(
// ---- sketches: see measure/sketch.h

enum : unsigned { kFull = 0xFFFFFFFFu };
extern __shared__ double sketch_sums[];

__device__ u64 SketchMix(u64 counter) {
  u64 z = (counter + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// A whole number, of any kind: rare, and one piece of code for all compiles sooner.
struct Whole {};
__device__ double WholeOf(const Job& job, const uint4& vector, unsigned i) {
  const unsigned at = i * job.item_bytes, shift = 64 - 8 * job.item_bytes;
  const u64 half = at < 8 ? (u64)vector.x | (u64)vector.y << 32 : (u64)vector.z | (u64)vector.w << 32;
  const u64 top = half >> (8 * (at % 8)) << shift;
  return job.kind <= kI64 ? (double)((long long)top >> shift) : (double)(top >> shift);
}
template <class T> struct Value {
  static __device__ __forceinline__ double Of(const Job&, const uint4& vector, int i) {
    const unsigned words[4] = {vector.x, vector.y, vector.z, vector.w};
    return (double)Item<T>::Of(words, i);
  }
};
template <> struct Value<Whole> {
  static __device__ __forceinline__ double Of(const Job& job, const uint4& vector, int i) { return WholeOf(job, vector, (unsigned)i); }
};
// Vectors of whole numbers have as many as their type has room for, and their statistics are another's work.
template <class T> struct Sketched {
  static __device__ __forceinline__ unsigned PerVector(const Job&) { return kVectorBytes / (unsigned)sizeof(T); }
  Tally<T> tally;
  __device__ __forceinline__ void Add(const uint4& vector, bool is_whole, unsigned count) {
    if (is_whole) tally.Add(vector);
    else tally.AddSome(vector, count);
  }
  __device__ void Finish(Found& part) {
    tally.JoinWarp();
    part.low = BitsOf(tally.low);
    part.high = BitsOf(tally.high);
    part.sum = tally.sum;
    part.sum_sq = tally.sum_sq;
  }
};
template <> struct Sketched<Whole> {
  static __device__ __forceinline__ unsigned PerVector(const Job& job) { return kVectorBytes / job.item_bytes; }
  __device__ void Add(const uint4&, bool, unsigned) {}
  __device__ void Finish(Found&) {}
};

// Where a sum lies among those of its group of threads: neighbours of a group write to different banks.
__device__ __forceinline__ unsigned PlaceOf(unsigned sum, unsigned per_vector) {
  return sum % per_vector * (kNumSums / per_vector) + sum / per_vector;
}

// A block of 64 elements belongs to neighbouring threads of one warp, which have sums of their own and in one
// turn write to each once. Statistics are added exactly as Measure() does.
template <class T> __device__ __noinline__ void MeasureWithSketch(const Job& job, u64 begin, u64 end, Found& part, u64* to, bool to_host) {
  const unsigned per_vector = Sketched<T>::PerVector(job), threads_of_group = kNumSums / per_vector;
  const unsigned num_groups = kNumThreads / threads_of_group;
  const u64 num_whole = job.num_elements / per_vector;
  const unsigned rest = (unsigned)(job.num_elements % per_vector);
  __shared__ unsigned all_bad;
  if (threadIdx.x == 0) all_bad = 0;
  for (unsigned i = threadIdx.x; i < num_groups * kNumSums; i += kNumThreads) sketch_sums[i] = 0;
  __syncthreads();
  double* const sums = sketch_sums + threadIdx.x / threads_of_group * kNumSums;
  const unsigned first = threadIdx.x % threads_of_group * per_vector;
  const u64 num_turns = (end - begin + kNumThreads - 1) / kNumThreads;
  Sketched<T> statistics;
  unsigned num_bad = 0;
  u64 at = begin + threadIdx.x;
  uint4 next = at < end ? LoadAny(job, at, num_whole) : make_uint4(0, 0, 0, 0);
  for (u64 turn = 0; turn < num_turns; ++turn, at += kNumThreads) {
    const uint4 vector = next;
    if (at + kNumThreads < end) next = LoadAny(job, at + kNumThreads, num_whole);
    const unsigned count = at < num_whole ? per_vector : at < end ? rest : 0;
    statistics.Add(vector, count == per_vector, count);
    // One hash in each of two neighbours.
    const u64 block = at / threads_of_group, odd = threadIdx.x % 2;
    const u64 mine = SketchMix(2 * block + odd), other = __shfl_xor_sync(kFull, mine, 1);
    const u64 signs = (odd ? other : mine) >> first;
    const unsigned turned = (unsigned)(odd ? mine : other) & (kNumSums - 1);
#pragma unroll
    for (int i = 0; i < (int)per_vector; ++i) {
      double value = Value<T>::Of(job, vector, i);
      const bool is_there = i < (int)count, counts = fabs(value) <= 1e30;
      num_bad += is_there && !counts;
      value = signs >> i & 1 ? -value : value;
      if (is_there && counts) sums[PlaceOf((first + i) ^ turned, per_vector)] += value;
    }
    __syncwarp();  // the next turn's places are other threads' now
  }
  statistics.Finish(part);
  if (num_bad != 0) atomicAdd(&all_bad, num_bad);
  __syncthreads();
  if (threadIdx.x < kNumSums) {
    double sum = 0;
    for (unsigned group = 0; group < num_groups; ++group) sum += sketch_sums[group * kNumSums + PlaceOf(threadIdx.x, per_vector)];
    ((volatile u64*)to)[threadIdx.x] = (u64)__double_as_longlong(sum);
    if (threadIdx.x == 0) ((volatile u64*)to)[kNumSums] = all_bad;
    // Before anybody hears of it, which is behind the next barrier.
    if (to_host) __threadfence_system();
    else __threadfence();
  }
}

// Few elements are told as they are.
template <class T> __device__ void TellElements(const Job& job) {
  if (threadIdx.x >= kNumSums) return;
  const unsigned per_vector = Sketched<T>::PerVector(job);
  const uint4 vector = Gather(job, threadIdx.x / per_vector);
  double value = 0;
#pragma unroll
  for (int i = 0; i < (int)per_vector; ++i) {
    if (i == (int)(threadIdx.x % per_vector)) value = Value<T>::Of(job, vector, i);
  }
  volatile u64* const to = (volatile u64*)job.sketch;
  to[threadIdx.x] = threadIdx.x < job.num_elements ? (u64)__double_as_longlong(value) : 0;
  if (threadIdx.x == 0) to[kNumSums] = 0;
  __threadfence_system();
}

template <class T> __device__ void SketchAs(const Job& job, u64 begin, u64 end, Found& part, u64* to, bool to_host) {
  if (job.num_elements >= kNumSums) return MeasureWithSketch<T>(job, begin, end, part, to, to_host);
  MeasureKind(job, begin, end, part);
  TellElements<T>(job);
}

__device__ void SketchKind(const Job& job, u64 begin, u64 end, Found& part, u64* to, bool to_host) {
  switch (job.kind) {
    case kF64: return SketchAs<double>(job, begin, end, part, to, to_host);
    case kF32: return SketchAs<float>(job, begin, end, part, to, to_host);
    case kF16: return SketchAs<Half>(job, begin, end, part, to, to_host);
    case kBF16: return SketchAs<Brain>(job, begin, end, part, to, to_host);
  }
  if (job.num_elements >= kNumSums) MeasureKind(job, begin, end, part);
  SketchAs<Whole>(job, begin, end, part, to, to_host);
}

// Of all blocks, in one order: every fourth by itself, then these.
__device__ void JoinSketches(const Job& job, const u64* parts) {
  __shared__ double quarters[4][kNumSums];
  const unsigned sum = threadIdx.x % kNumSums, quarter = threadIdx.x / kNumSums;
  double all = 0;
  for (unsigned block = quarter; block < job.num_blocks; block += 4) {
    all += __longlong_as_double((long long)__ldcg(parts + block * kSketchWords + sum));
  }
  quarters[quarter][sum] = all;
  __syncthreads();
  if (threadIdx.x >= kNumSums) return;
  volatile u64* const to = (volatile u64*)job.sketch;
  to[sum] = (u64)__double_as_longlong((quarters[0][sum] + quarters[1][sum]) + (quarters[2][sum] + quarters[3][sum]));
  if (sum == 0) {
    u64 num_bad = 0;
    for (unsigned block = 0; block < job.num_blocks; ++block) num_bad += __ldcg(parts + block * kSketchWords + kNumSums);
    to[kNumSums] = num_bad;
  }
  __threadfence_system();
}
)cuda";

}  // namespace vernier::cuda
