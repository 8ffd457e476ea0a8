// Walks over the fields of a protobuf message where it lies: numbers, texts and messages inside it, nothing
// copied, nothing generated. https://protobuf.dev/programming-guides/encoding/ has the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace vernier {

enum class WireType : std::uint8_t {
  kNumber = 0,
  kFixed64 = 1,
  kBytes = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5
};

struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::kNumber;
  std::uint64_t value = 0;           // of the three kinds of numbers
  std::span<const std::byte> bytes;  // of kBytes

  bool is_number() const { return type == WireType::kNumber; }
  bool is_bytes() const { return type == WireType::kBytes; }
};

// One message. Next() gives its fields in order; groups, which nobody writes any more, end it as damage does.
class WireCursor {
 public:
  explicit WireCursor(std::span<const std::byte> message) : left_(message) {}

  // None at the end of the message, or where it is damaged.
  std::optional<WireField> Next() {
    if (left_.empty() || damaged_) return std::nullopt;
    WireField field;
    const std::optional<std::uint64_t> key = TakeVarint();
    constexpr std::uint64_t kLargestNumber = (std::uint64_t{1} << 29) - 1;
    if (!key || *key >> 3 == 0 || *key >> 3 > kLargestNumber) return Damaged();
    field.number = static_cast<std::uint32_t>(*key >> 3);
    field.type = static_cast<WireType>(*key & 7);
    switch (field.type) {
      case WireType::kNumber: {
        const std::optional<std::uint64_t> value = TakeVarint();
        if (!value) return Damaged();
        field.value = *value;
        return field;
      }
      case WireType::kFixed64:
        return TakeFixed(8, field);
      case WireType::kFixed32:
        return TakeFixed(4, field);
      case WireType::kBytes: {
        const std::optional<std::uint64_t> length = TakeVarint();
        if (!length || *length > left_.size()) return Damaged();
        field.bytes = left_.first(static_cast<std::size_t>(*length));
        left_ = left_.subspan(field.bytes.size());
        return field;
      }
      default:
        return Damaged();
    }
  }

  bool damaged() const { return damaged_; }

  // The next number without a key in front of it, as packed lists have them.
  std::optional<std::uint64_t> TakeVarint() {
    constexpr int kMostBytes = 10;
    std::uint64_t value = 0;
    for (int i = 0; i < kMostBytes && static_cast<std::size_t>(i) < left_.size(); ++i) {
      const auto byte = std::to_integer<std::uint64_t>(left_[static_cast<std::size_t>(i)]);
      value |= (byte & 0x7f) << (7 * i);
      if (byte < 0x80) {
        left_ = left_.subspan(static_cast<std::size_t>(i) + 1);
        return value;
      }
    }
    return std::nullopt;
  }
  bool at_end() const { return left_.empty(); }

 private:
  std::optional<WireField> Damaged() {
    damaged_ = true;
    return std::nullopt;
  }

  std::optional<WireField> TakeFixed(std::size_t num_bytes, WireField& field) {
    if (left_.size() < num_bytes) return Damaged();
    for (std::size_t i = num_bytes; i-- > 0;)
      field.value = field.value << 8 | std::to_integer<std::uint64_t>(left_[i]);
    left_ = left_.subspan(num_bytes);
    return field;
  }

  std::span<const std::byte> left_;
  bool damaged_ = false;
};

}  // namespace vernier
