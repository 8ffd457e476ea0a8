#include <algorithm>
#include <iterator>
#include <vector>

#include "match/fuzzy_internal.h"

namespace vernier {
namespace {

// Components that frameworks put around a model without changing what is in it.
constexpr std::string_view kWrappers[] = {
    "module",                     // DataParallel, DistributedDataParallel
    "model",                      // a model held by a trainer or by its head
    "_orig_mod",                  // torch.compile
    "_fsdp_wrapped_module",       // FullyShardedDataParallel
    "_checkpoint_wrapped_module"  // activation checkpointing
};

bool IsWrapper(std::string_view component) {
  return std::find(std::begin(kWrappers), std::end(kWrappers), component) != std::end(kWrappers);
}

bool IsNumber(std::string_view component) {
  return !component.empty() && component.find_first_not_of("0123456789") == std::string_view::npos;
}

bool IsDirection(std::string_view component) { return component == "forward" || component == "backward"; }

std::vector<std::string_view> Components(std::string_view name) {
  std::vector<std::string_view> components;
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
    components.push_back(name.substr(0, dot));
    name.remove_prefix(dot + 1);
  }
  components.push_back(name);
  return components;
}

std::string Joined(const std::vector<std::string_view>& components) {
  std::string name;
  for (const std::string_view component : components) {
    if (!name.empty()) name += '.';
    name += component;
  }
  return name;
}

// Only ASCII: bytes of other alphabets are neither separators nor have a case that we know.
bool IsSeparator(char c) {
  const auto byte = static_cast<unsigned char>(c);
  const bool is_letter = (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
  return byte < 0x80 && !is_letter && !(byte >= '0' && byte <= '9');
}

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

}  // namespace

std::string WithoutWrappers(std::string_view name) {
  std::vector<std::string_view> components = Components(name);
  std::erase_if(components, IsWrapper);
  return Joined(components);
}

std::string WithPlainSeparators(std::string_view name) {
  std::string plain;
  for (const char c : WithoutWrappers(name)) {
    if (!IsSeparator(c)) {
      plain += Lower(c);
    } else if (!plain.empty() && plain.back() != '.') {
      plain += '.';
    }
  }
  while (plain.ends_with('.')) plain.pop_back();
  return WithoutWrappers(plain);
}

std::string WithoutCallCounter(std::string_view name) {
  const std::string plain = WithPlainSeparators(name);
  const std::vector<std::string_view> all = Components(plain);
  std::vector<std::string_view> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool before = i + 1 < all.size() && IsDirection(all[i + 1]);
    // Where a number stands on either side, the one in front counts the calls.
    const bool after = i > 0 && IsDirection(all[i - 1]) && !(i > 1 && IsNumber(all[i - 2]));
    if (!(IsNumber(all[i]) && (before || after))) kept.push_back(all[i]);
  }
  return Joined(kept);
}

}  // namespace vernier
