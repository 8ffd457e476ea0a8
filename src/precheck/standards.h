// Which standard an output is judged by, and the numbers of that standard.
#pragma once

#include <optional>
#include <string_view>

#include "precheck/rules.h"
#include "vernier/dtype.h"
#include "vernier/measure.h"

namespace vernier::precheck {

enum class Policy { kManual, kPerApi, kBenchmarkFirst };
enum class Thresholds { kManual, kPeer };
inline constexpr std::string_view kPolicyNames[] = {"manual", "per_api", "benchmark_first"};
inline constexpr std::string_view kThresholdNames[] = {"manual", "peer"};

enum class Standard { kBenchmark, kUlp, kAbsolute, kDual1000, kBinary, kAccumulative };

bool IsFloat8(Dtype dtype);
// float16, bfloat16 or float32: what the standards were made for.
bool HasStandards(Dtype dtype);

// `api` is the bare name: "softmax", "linalg.inv". `device` is nothing where the dtype is none of ours.
Standard StandardOf(const Rules& rules, Policy policy, std::string_view api, std::optional<Dtype> device,
                    bool has_float8_inputs);

// The monitoring level of an API: 0, 1 or 2.
int LevelOf(const Rules& rules, std::string_view api);

// What MeasurePair needs for a standard; `bench` is the dtype in which the bench is stored.
PrecheckOptions OptionsOf(const Rules& rules, Thresholds thresholds, Standard standard, Dtype device,
                          Dtype bench);

}  // namespace vernier::precheck
