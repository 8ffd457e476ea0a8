// A recording as the verdict sees it: the calls of a program in the order in which they ended, whatever
// family of dumps they come from.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace vernier {

inline constexpr std::uint32_t kNoCall = ~std::uint32_t{0};

enum class Pass : std::uint8_t {
  kForward,
  kBackward,
  kGradient
};  // kGradient: what a module's parameters got

// What a call is, without its numbers. Views live as long as the recording.
struct Call {
  std::string_view name;  // as recorded
  std::string_view
      kind;  // what was called, without where and how often: "Functional.linear", "Module.Linear"
  std::string_view place;  // the module call around it, for a module its own path; comparable across wrappers
  std::string_view twin;   // equal for the forward and the backward call of one operation; empty: not known
  Pass pass = Pass::kForward;
  bool is_module = false;
  bool is_frame = false;       // a module around operators that were recorded themselves
  bool is_around = false;      // a module around any calls that were; see MarkFrames for both
  bool is_product = false;     // sums of products: their rounding depends on the kernel
  bool is_step = false;        // a small error in may make a large one out, where it decides something
  bool is_order = false;       // gives an order, in which ties may fall either way
  bool is_share = false;       // gives shares of a whole: whatever it is given, they add up to one
  bool is_scaling = false;     // divides by the spread of what it is given
  bool is_cancelling = false;  // its backward subtracts means: what remains is small, and its error is not
  bool is_writer = false;      // its first input is written over: what stood there before is no evidence
  bool is_in_place = false;    // changes what it is given, by its name
  bool is_unset = false;       // its output holds whatever the memory held
  bool is_random = false;
  bool has_workspace = false;  // what it gives beside floats is for its own backward call alone
  bool is_collective = false;  // takes from other ranks
};

using Calls = std::vector<Call>;

// The module path of a place, without the number of the call.
std::string_view PathOf(const Call& call);

// Sets what modules are around. One in which nothing was recorded (a GRU, a kernel of its own) is a call like
// others.
void MarkFrames(Calls& calls);

}  // namespace vernier
