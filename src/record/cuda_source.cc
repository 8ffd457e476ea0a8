// The kernels that measure tensors on NVIDIA devices, as source for the run-time compiler.
#include <string>

#include "record/cuda_shared.h"
#include "record/cuda_sketch_source.h"

namespace vernier::cuda {
namespace {

unsigned XToThe(unsigned long long exponent) {
  unsigned power = kCrcOne, square = kCrcOne >> 1;
  for (; exponent != 0; exponent >>= 1, square = CrcTimes(square, square)) {
    if ((exponent & 1u) != 0) power = CrcTimes(power, square);
  }
  return power;
}

void FillTable(unsigned (&table)[4][256], unsigned factor) {
  for (unsigned byte = 0; byte < 4; ++byte) {
    for (unsigned value = 0; value < 256; ++value) table[byte][value] = CrcTimes(value << (8 * byte), factor);
  }
}

CrcTables MakeTables() {
  constexpr unsigned kVectorBits = 8 * kVectorBytes;
  CrcTables tables{};
  FillTable(tables.step, XToThe(kVectorBits * kNumThreads));
  FillTable(tables.word, XToThe(32));
  for (unsigned i = 0; i < kNumThreads; ++i) tables.place[i] = XToThe(kVectorBits * (kNumThreads - 1 - i));
  for (unsigned byte = 0; byte < 4; ++byte) {
    for (unsigned value = 0; value < 256; ++value) {
      tables.power[byte][value] = XToThe(static_cast<unsigned long long>(value) << (8 * byte));
    }
  }
  return tables;
}

// One block looks at a run of vectors of 16 bytes. Its threads take turns, vector by vector, so that they
// read neighbouring memory; a thread's CRC therefore steps over the vectors of all the others. Every sum has
// one order that depends on nothing but the number of elements: the same tensor gives the same bits.
constexpr char kKernel[] = R"cuda(
typedef unsigned long long u64;

__device__ u64 OffsetOf(const Job& job, u64 element) {
  u64 offset = 0;
  for (int axis = (int)job.num_axes - 1; axis > 0; --axis) {
    const u64 size = (u64)job.axes[axis].size;
    const u64 quotient = (element | size) >> 32 ? element / size : (unsigned)element / (unsigned)size;
    offset += (element - quotient * size) * (u64)job.axes[axis].stride;
    element = quotient;
  }
  return job.num_axes == 0 ? offset : offset + element * (u64)job.axes[0].stride;
}

// Elements that do not lie in one vector of memory; zeros behind the last.
__device__ __noinline__ uint4 Gather(const Job& job, u64 vector) {
  const unsigned per_vector = kVectorBytes / job.item_bytes;
  const u64 first = vector * per_vector;
  if (job.layout == kRunsOfVectors && first + per_vector <= job.num_elements) {
    return *(const uint4*)(job.data + OffsetOf(job, first) * job.item_bytes);
  }
  u64 halves[2] = {0, 0};
  for (unsigned i = 0; i < per_vector && first + i < job.num_elements; ++i) {
    const u64 address = job.data + OffsetOf(job, first + i) * job.item_bytes;
    const unsigned at = i * job.item_bytes;
    u64 bits;
    switch (job.item_bytes) {
      case 1: bits = *(const unsigned char*)address; break;
      case 2: bits = *(const unsigned short*)address; break;
      case 4: bits = *(const unsigned*)address; break;
      default: bits = *(const u64*)address; break;
    }
    halves[at / 8] |= bits << (8 * (at % 8));
  }
  return make_uint4((unsigned)halves[0], (unsigned)(halves[0] >> 32), (unsigned)halves[1], (unsigned)(halves[1] >> 32));
}

__device__ __forceinline__ uint4 LoadRun(const Job& job, u64 vector) {
  return __ldcs((const uint4*)job.data + vector);
}

__device__ __forceinline__ uint4 LoadAny(const Job& job, u64 vector, u64 num_whole) {
  return job.layout == kOneRun && vector < num_whole ? LoadRun(job, vector) : Gather(job, vector);
}

// ---- statistics

struct Half { unsigned short bits; };
struct Brain { unsigned short bits; };

template <class T> struct Wide { typedef long long type; };
template <> struct Wide<double> { typedef double type; };
template <> struct Wide<float> { typedef float type; };
template <> struct Wide<Half> { typedef float type; };
template <> struct Wide<Brain> { typedef float type; };

template <class T> struct Item {
  static __device__ long long Of(const unsigned (&words)[4], int i) {
    const int at = i * (int)sizeof(T);
    if (sizeof(T) == 8) return (long long)((u64)words[at / 4] | (u64)words[at / 4 + (sizeof(T) == 8)] << 32);
    return (long long)(T)(words[at / 4] >> (8 * (at % 4)));
  }
};
// Signed like all the others: the host turns the highest bit back.
template <> struct Item<u64> {
  static __device__ long long Of(const unsigned (&words)[4], int i) {
    return (long long)(((u64)words[2 * i] | (u64)words[2 * i + 1] << 32) ^ 0x8000000000000000ull);
  }
};
template <> struct Item<double> {
  static __device__ double Of(const unsigned (&words)[4], int i) {
    return __longlong_as_double((long long)((u64)words[2 * i] | (u64)words[2 * i + 1] << 32));
  }
};
template <> struct Item<float> {
  static __device__ float Of(const unsigned (&words)[4], int i) { return __uint_as_float(words[i]); }
};
template <> struct Item<Brain> {
  static __device__ float Of(const unsigned (&words)[4], int i) {
    return __uint_as_float(i % 2 ? words[i / 2] & 0xFFFF0000u : words[i / 2] << 16);
  }
};
template <> struct Item<Half> {
  static __device__ float Of(const unsigned (&words)[4], int i) {
    const unsigned short bits = (unsigned short)(words[i / 2] >> (16 * (i % 2)));
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};

__device__ __forceinline__ float Lower(float a, float b) { return fminf(a, b); }
__device__ __forceinline__ float Higher(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double Lower(double a, double b) { return fmin(a, b); }
__device__ __forceinline__ double Higher(double a, double b) { return fmax(a, b); }
__device__ __forceinline__ long long Lower(long long a, long long b) { return b < a ? b : a; }
__device__ __forceinline__ long long Higher(long long a, long long b) { return a < b ? b : a; }
__device__ __forceinline__ float Most(float) { return __uint_as_float(0x7F800000u); }
__device__ __forceinline__ double Most(double) { return __longlong_as_double(0x7FF0000000000000ll); }
__device__ __forceinline__ long long Most(long long) { return 0x7FFFFFFFFFFFFFFFll; }
__device__ __forceinline__ float Least(float) { return __uint_as_float(0xFF800000u); }
__device__ __forceinline__ double Least(double) { return -Most(0.0); }
__device__ __forceinline__ long long Least(long long) { return -0x7FFFFFFFFFFFFFFFll - 1; }
__device__ __forceinline__ u64 BitsOf(float value) { return (u64)__double_as_longlong((double)value); }
__device__ __forceinline__ u64 BitsOf(double value) { return (u64)__double_as_longlong(value); }
__device__ __forceinline__ u64 BitsOf(long long value) { return (u64)value; }

// Whole numbers are rare, and shorter code compiles sooner.
template <class W> struct IsWhole { enum { value = 0 }; };
template <> struct IsWhole<long long> { enum { value = 1 }; };

template <class T> struct Tally {
  typedef typename Wide<T>::type W;
  W low, high;
  double sum, sum_sq;
  __device__ Tally() : low(Most(W())), high(Least(W())), sum(0), sum_sq(0) {}
  __device__ __forceinline__ void AddOne(const unsigned (&words)[4], int i) {
    const W item = Item<T>::Of(words, i);
    low = Lower(low, item);
    high = Higher(high, item);
    const double value = (double)item;
    sum += value;
    sum_sq = fma(value, value, sum_sq);
  }
  __device__ __forceinline__ void Add(const uint4& vector) {
    const unsigned words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
    for (int i = 0; i < kVectorBytes / (int)sizeof(T); ++i) AddOne(words, i);
  }
  __device__ void AddSome(const uint4& vector, unsigned count) {
    const unsigned words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
    for (int i = 0; i < kVectorBytes / (int)sizeof(T); ++i) {
      if (i < (int)count) AddOne(words, i);
    }
  }
  // Into the first thread of each warp.
  __device__ __forceinline__ void JoinWarp() {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      sum += __shfl_down_sync(0xFFFFFFFFu, sum, distance);
      sum_sq += __shfl_down_sync(0xFFFFFFFFu, sum_sq, distance);
      low = Lower(low, __shfl_down_sync(0xFFFFFFFFu, low, distance));
      high = Higher(high, __shfl_down_sync(0xFFFFFFFFu, high, distance));
    }
  }
};

template <class T> __device__ __noinline__ void Measure(const Job& job, u64 begin, u64 end, Found& part) {
  const unsigned per_vector = kVectorBytes / (unsigned)sizeof(T);
  const u64 num_whole = job.num_elements / per_vector;
  const unsigned rest = (unsigned)(job.num_elements % per_vector);
  const u64 stop = end < num_whole ? end : num_whole;
  Tally<T> tally;
  u64 at = begin + threadIdx.x;
  if (!IsWhole<typename Wide<T>::type>::value && job.layout == kOneRun) {
    for (; at + 3 * kNumThreads < stop; at += 4 * kNumThreads) {
      const uint4 a = LoadRun(job, at), b = LoadRun(job, at + kNumThreads);
      const uint4 c = LoadRun(job, at + 2 * kNumThreads), d = LoadRun(job, at + 3 * kNumThreads);
      tally.Add(a);
      tally.Add(b);
      tally.Add(c);
      tally.Add(d);
    }
  }
  for (; at < stop; at += kNumThreads) tally.Add(LoadAny(job, at, num_whole));
  if (rest != 0 && at == num_whole && at < end) tally.AddSome(Gather(job, num_whole), rest);
  tally.JoinWarp();
  part.low = BitsOf(tally.low);
  part.high = BitsOf(tally.high);
  part.sum = tally.sum;
  part.sum_sq = tally.sum_sq;
}

__device__ void MeasureKind(const Job& job, u64 begin, u64 end, Found& part) {
  switch (job.kind) {
    case kF64: return Measure<double>(job, begin, end, part);
    case kF32: return Measure<float>(job, begin, end, part);
    case kF16: return Measure<Half>(job, begin, end, part);
    case kBF16: return Measure<Brain>(job, begin, end, part);
    case kI8: return Measure<signed char>(job, begin, end, part);
    case kI16: return Measure<short>(job, begin, end, part);
    case kI32: return Measure<int>(job, begin, end, part);
    case kI64: return Measure<long long>(job, begin, end, part);
    case kU8: return Measure<unsigned char>(job, begin, end, part);
    case kU16: return Measure<unsigned short>(job, begin, end, part);
    case kU32: return Measure<unsigned>(job, begin, end, part);
    case kU64: return Measure<u64>(job, begin, end, part);
  }
}

)cuda";

constexpr char kRest[] = R"cuda(
// ---- digests

__device__ u64 Xor64(const Job& job, u64 begin, u64 end, u64 num_whole) {
  u64 found = 0;
  for (u64 at = begin + threadIdx.x; at < end; at += kNumThreads) {
    const uint4 vector = LoadAny(job, at, num_whole);
    found ^= (u64)(vector.x ^ vector.z) | (u64)(vector.y ^ vector.w) << 32;
  }
  return found;
}

__device__ __forceinline__ void CrcAdd(const unsigned (&step)[4][256], unsigned (&crc)[4], const uint4& vector) {
  crc[0] = CrcTimesTable(step, crc[0]) ^ vector.x;
  crc[1] = CrcTimesTable(step, crc[1]) ^ vector.y;
  crc[2] = CrcTimesTable(step, crc[2]) ^ vector.z;
  crc[3] = CrcTimesTable(step, crc[3]) ^ vector.w;
}

// As if zeros followed up to a whole turn of all threads.
__device__ unsigned Crc32(const Job& job, const CrcTables& tables, u64 begin, u64 end, u64 num_whole) {
  __shared__ unsigned step[4][256];
  for (unsigned i = threadIdx.x; i < 1024; i += kNumThreads) step[i / 256][i % 256] = tables.step[i / 256][i % 256];
  __syncthreads();
  unsigned crc[4] = {0, 0, 0, 0};
  const u64 num_turns = (end - begin + kNumThreads - 1) / kNumThreads;
  const u64 num_whole_turns = job.layout == kOneRun && begin < num_whole ? ((end < num_whole ? end : num_whole) - begin) / kNumThreads : 0;
  u64 turn = 0, at = begin + threadIdx.x;
  for (; turn + 4 <= num_whole_turns; turn += 4, at += 4 * kNumThreads) {
    const uint4 a = LoadRun(job, at), b = LoadRun(job, at + kNumThreads);
    const uint4 c = LoadRun(job, at + 2 * kNumThreads), d = LoadRun(job, at + 3 * kNumThreads);
    CrcAdd(step, crc, a);
    CrcAdd(step, crc, b);
    CrcAdd(step, crc, c);
    CrcAdd(step, crc, d);
  }
  for (; turn < num_turns; ++turn, at += kNumThreads) {
    CrcAdd(step, crc, at < end ? LoadAny(job, at, num_whole) : make_uint4(0, 0, 0, 0));
  }
  unsigned all = crc[0];
  for (int i = 1; i < 4; ++i) all = CrcTimesTable(tables.word, all) ^ crc[i];
  return CrcTimes(all, tables.place[threadIdx.x]);
}

// ---- many into one

__device__ void Join(bool whole_numbers, Found& into, const Found& next) {
  into.sum += next.sum;
  into.sum_sq += next.sum_sq;
  if (whole_numbers) {
    into.low = BitsOf(Lower((long long)into.low, (long long)next.low));
    into.high = BitsOf(Higher((long long)into.high, (long long)next.high));
  } else {
    into.low = BitsOf(Lower(__longlong_as_double(into.low), __longlong_as_double(next.low)));
    into.high = BitsOf(Higher(__longlong_as_double(into.high), __longlong_as_double(next.high)));
  }
  into.digest ^= next.digest;
}

__device__ u64 XorWarp(u64 digest) {
  for (int distance = 16; distance > 0; distance /= 2) digest ^= __shfl_down_sync(0xFFFFFFFFu, digest, distance);
  return digest;
}

// From the first thread of each warp into the first of all.
__device__ void JoinWarps(bool whole_numbers, Found& part) {
  __shared__ Found warps[kNumThreads / 32];
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = part;
  __syncthreads();
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 1; i < kNumThreads / 32; ++i) Join(whole_numbers, part, warps[i]);
  }
}

__device__ void JoinThreads(bool whole_numbers, Found& part) {
  for (int distance = 16; distance > 0; distance /= 2) {
    Found next;
    next.sum = __shfl_down_sync(0xFFFFFFFFu, part.sum, distance);
    next.sum_sq = __shfl_down_sync(0xFFFFFFFFu, part.sum_sq, distance);
    next.low = __shfl_down_sync(0xFFFFFFFFu, part.low, distance);
    next.high = __shfl_down_sync(0xFFFFFFFFu, part.high, distance);
    next.digest = __shfl_down_sync(0xFFFFFFFFu, part.digest, distance);
    Join(whole_numbers, part, next);
  }
  __syncthreads();  // the place of the warps was used before
  JoinWarps(whole_numbers, part);
}

__device__ Found Nothing(bool whole_numbers) {
  Found none;
  none.sum = none.sum_sq = 0;
  none.low = whole_numbers ? BitsOf(Most(0ll)) : BitsOf(Most(0.0));
  none.high = whole_numbers ? BitsOf(Least(0ll)) : BitsOf(Least(0.0));
  none.digest = none.last_is_negative = none.sequence = none.unused = 0;
  return none;
}

// The host looks at the sequence: it must come last.
__device__ void Publish(const Job& job, bool whole_numbers, const Found& found) {
  u64 negative = 0;
  if (!whole_numbers && (job.wanted & kStatistics) && __longlong_as_double(found.low) == 0 && __longlong_as_double(found.high) == 0) {
    const u64 last = OffsetOf(job, job.num_elements - 1);
    negative = *(const unsigned char*)(job.data + (last + 1) * job.item_bytes - 1) >> 7;
  }
  volatile Found* const to = (volatile Found*)job.found;
  to->sum = found.sum;
  to->sum_sq = found.sum_sq;
  to->low = found.low;
  to->high = found.high;
  to->digest = found.digest;
  to->last_is_negative = negative;
  __threadfence_system();
  to->sequence = job.sequence;
}

__device__ __forceinline__ void Run(const Job* jobs, unsigned num_jobs, const Memory& memory) {
  __shared__ bool is_last;
  unsigned number = 0;
  while (number + 1 < num_jobs && blockIdx.x >= jobs[number + 1].first_block) ++number;
  const Job& job = jobs[number];
  const unsigned block = blockIdx.x - job.first_block;
  const unsigned per_vector = kVectorBytes / job.item_bytes;
  const u64 num_vectors = (job.num_elements + per_vector - 1) / per_vector;
  const u64 begin = block * job.vectors_per_block;
  const u64 end = begin + job.vectors_per_block < num_vectors ? begin + job.vectors_per_block : num_vectors;
  const u64 num_whole = job.num_elements / per_vector;
  const bool whole_numbers = job.kind >= kI8;
  Found part = Nothing(whole_numbers);
#ifdef VN_SKETCHES
  const bool is_alone = job.num_blocks == 1;
  u64* const sketches = (u64*)memory.sketches + (u64)job.first_block * kSketchWords;
  if (job.wanted & kSketch) SketchKind(job, begin, end, part, is_alone ? (u64*)job.sketch : sketches + (u64)block * kSketchWords, is_alone);
  else if (job.wanted & kStatistics) MeasureKind(job, begin, end, part);
#else
  if (job.wanted & kStatistics) MeasureKind(job, begin, end, part);
#endif
  if (job.wanted & kXor64) part.digest = Xor64(job, begin, end, num_whole);
  const CrcTables& tables = *(const CrcTables*)memory.tables;
  if (job.wanted & kCrc32) part.digest = Crc32(job, tables, begin, end, num_whole);
  if (job.wanted & (kXor64 | kCrc32)) part.digest = XorWarp(part.digest);
  JoinWarps(whole_numbers, part);
  if (threadIdx.x == 0 && (job.wanted & kCrc32)) {
    const u64 padded_end = begin + (end - begin + kNumThreads - 1) / kNumThreads * kNumThreads;
    const long long bytes_behind = (long long)(job.num_elements * job.item_bytes) - (long long)(padded_end * kVectorBytes);
    part.digest = CrcTimes((unsigned)part.digest, CrcPower(tables.power, CrcExponent(8 * bytes_behind + 32)));
  }
  if (job.num_blocks == 1) {
    if (threadIdx.x == 0) Publish(job, whole_numbers, part);
    return;
  }
  Found* const parts = (Found*)memory.parts + job.first_block;
  if (threadIdx.x == 0) {
    parts[block] = part;
    __threadfence();
    // Counts around, so that it is zero again for the next launch.
    is_last = atomicInc((unsigned*)memory.counters + number, job.num_blocks - 1) == job.num_blocks - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  Found all = Nothing(whole_numbers);
  // All loads before the first sum: they take longest.
  Found others[(kMaxBlocks + kNumThreads - 1) / kNumThreads];
#pragma unroll
  for (unsigned i = 0; i < sizeof(others) / sizeof(Found); ++i) {
    others[i] = all;
    const unsigned at = threadIdx.x + i * kNumThreads;
    if (at < job.num_blocks) {
      others[i].sum = __ldcg(&parts[at].sum);
      others[i].sum_sq = __ldcg(&parts[at].sum_sq);
      others[i].low = __ldcg(&parts[at].low);
      others[i].high = __ldcg(&parts[at].high);
      others[i].digest = __ldcg(&parts[at].digest);
    }
  }
#pragma unroll
  for (unsigned i = 0; i < sizeof(others) / sizeof(Found); ++i) Join(whole_numbers, all, others[i]);
#ifdef VN_SKETCHES
  if (job.wanted & kSketch) JoinSketches(job, sketches);  // before the barrier in JoinThreads
#endif
  JoinThreads(whole_numbers, all);
  if (threadIdx.x == 0) Publish(job, whole_numbers, all);
}

extern "C" __global__ void __launch_bounds__(kNumThreads, 4) VernierMeasure(const __grid_constant__ Launch<kMaxJobs> launch) {
  Run(launch.jobs, launch.num_jobs, launch.memory);
}

extern "C" __global__ void __launch_bounds__(kNumThreads, 4) VernierMeasureFew(const __grid_constant__ Launch<kFewJobs> launch) {
  Run(launch.jobs, launch.num_jobs, launch.memory);
}
)cuda";

}  // namespace

const CrcTables& TablesForCrc() {
  static const CrcTables tables = MakeTables();
  return tables;
}

unsigned CrcOfRest(const CrcTables& tables, unsigned long long num_bytes, unsigned rest) {
  constexpr unsigned kOnes = 0xFFFFFFFFu;
  const unsigned start =
      CrcTimes(kOnes, CrcPower(tables.power, CrcExponent(static_cast<long long>(8 * num_bytes))));
  return rest ^ start ^ kOnes;
}

const char* KernelSource(bool with_sketches) {
  static const std::string begin = std::string("#define VN_ON_DEVICE __device__ inline\n") + kSharedTypes +
                                   "\n" + kSharedMath + "\n" + kKernel;
  static const std::string plain = begin + kRest;
  static const std::string sketching = "#define VN_SKETCHES\n" + begin + kSketchKernel + kRest;
  return (with_sketches ? sketching : plain).c_str();
}

unsigned SketchBytes(const Job* jobs, unsigned num_jobs) {
  unsigned most = 0;
  for (unsigned i = 0; i < num_jobs; ++i) {
    if ((jobs[i].wanted & kSketch) == 0 || jobs[i].num_elements < kNumSums) continue;
    // Each group of threads has its sums, and as many threads as vectors of a block of 64 elements.
    const unsigned threads_of_group = kNumSums * jobs[i].item_bytes / kVectorBytes;
    const unsigned num_bytes = kNumThreads / threads_of_group * kNumSums * sizeof(double);
    most = num_bytes > most ? num_bytes : most;
  }
  return most;
}

}  // namespace vernier::cuda
