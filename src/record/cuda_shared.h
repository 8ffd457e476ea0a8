// What the recorder and its kernel on the device must agree on, written once: each part is compiled here and
// is also text that the device's compiler gets. Only types of C, and no preprocessor lines, inside.
#pragma once

namespace vernier::cuda {

#define VN_ON_DEVICE inline
#define VN_ALSO_AS_TEXT(name, ...) \
  __VA_ARGS__                      \
  inline constexpr char name[] = #__VA_ARGS__;

// clang-format off
VN_ALSO_AS_TEXT(kSharedTypes,
enum { kMaxAxes = 8, kMaxJobs = 16, kFewJobs = 3, kNumThreads = 256, kMaxBlocks = 528, kVectorBytes = 16 };
enum Wanted { kStatistics = 1, kCrc32 = 2, kXor64 = 4, kSketch = 8 };
enum { kNumSums = 64, kSketchWords = 66 };
enum Layout { kOneRun, kRunsOfVectors, kScattered };
enum Kind { kF64, kF32, kF16, kBF16, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64 };

struct Axis { long long size, stride; };

struct Found {
  double sum, sum_sq;
  unsigned long long low, high;
  unsigned long long digest;
  unsigned long long last_is_negative;
  unsigned long long sequence;
  unsigned long long unused;
};

struct Job {
  unsigned long long data, found, sketch;
  unsigned long long num_elements, sequence;
  unsigned long long vectors_per_block;
  unsigned kind, item_bytes, wanted, layout;
  unsigned first_block, num_blocks, num_axes, unused;
  Axis axes[kMaxAxes];
};

struct Memory { unsigned long long parts, counters, tables, sketches; };
template <int kNumJobs> struct Launch {
  Memory memory;
  unsigned num_jobs, unused;
  Job jobs[kNumJobs];
};

struct CrcTables {
  unsigned step[4][256];
  unsigned word[4][256];
  unsigned place[kNumThreads];
  unsigned power[4][256];
};
)

// Polynomials over two elements modulo that of CRC-32. Bit 31 is the coefficient of 1, as zlib has it.
VN_ALSO_AS_TEXT(kSharedMath,
enum : unsigned { kCrcOne = 0x80000000u, kCrcPolynomial = 0xEDB88320u, kCrcOrder = 0xFFFFFFFFu };

VN_ON_DEVICE unsigned CrcTimes(unsigned a, unsigned b) {
  unsigned product = 0;
  for (int i = 0; i < 32; ++i) {
    product ^= b & (0u - (a >> 31));
    a <<= 1;
    b = (b >> 1) ^ (kCrcPolynomial & (0u - (b & 1u)));
  }
  return product;
}

VN_ON_DEVICE unsigned CrcExponent(long long bits) {
  const long long rest = bits % (long long)kCrcOrder;
  return (unsigned)(rest < 0 ? rest + (long long)kCrcOrder : rest);
}

VN_ON_DEVICE unsigned CrcPower(const unsigned (&power)[4][256], unsigned exponent) {
  return CrcTimes(CrcTimes(power[0][exponent & 255u], power[1][exponent >> 8 & 255u]),
                  CrcTimes(power[2][exponent >> 16 & 255u], power[3][exponent >> 24]));
}

VN_ON_DEVICE unsigned CrcTimesTable(const unsigned (&table)[4][256], unsigned value) {
  return table[0][value & 255u] ^ table[1][value >> 8 & 255u] ^ table[2][value >> 16 & 255u] ^
         table[3][value >> 24];
}
)
// clang-format on
#undef VN_ON_DEVICE
#undef VN_ALSO_AS_TEXT

// Of `bytes` the kernel gives the polynomial times x^32; what is left is the start value and the last
// exclusive or of CRC-32.
unsigned CrcOfRest(const CrcTables& tables, unsigned long long num_bytes, unsigned rest);
const CrcTables& TablesForCrc();

// The whole program for the device's compiler. Its kernels are "VernierMeasure" and, for at most kFewJobs
// jobs, "VernierMeasureFew": what is handed to a kernel takes time to copy. `with_sketches`: kSketch may be
// wanted of a job, and a launch with such jobs has SketchBytes() of dynamic shared memory.
const char* KernelSource(bool with_sketches);
// Of the job that needs most of them.
unsigned SketchBytes(const Job* jobs, unsigned num_jobs);

}  // namespace vernier::cuda
