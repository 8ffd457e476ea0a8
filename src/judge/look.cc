#include "judge/look.h"

namespace vernier {

Look LookAt(std::span<const Facts> all) {
  Look look;
  bool other_type = false, same_type = false, mixed_input = false, other_result = false;
  for (const Facts& facts : all) {
    const bool is_output = facts.role == Role::kOutput;
    const bool is_input = facts.role == Role::kInput;
    const auto see = [](bool& flag, bool holds) { flag = flag || holds; };
    see(look.half, facts.Has(Facts::kHalf));
    see(look.eighth, facts.Has(Facts::kEighth));
    see(look.mixed, facts.Has(Facts::kMixed));
    see(look.differs, facts.TellsOtherArgument());
    see(other_type, facts.Has(Facts::kOtherType));
    see(same_type, !is_output && facts.Has(Facts::kTensor) && facts.Has(Facts::kMatched));
    see(mixed_input, !is_output && facts.Has(Facts::kMixed));
    look.blind = look.blind && !facts.Has(Facts::kMatched);
    see(look.lacks_input,
        is_input && facts.Has(Facts::kTensor) && !facts.Has(Facts::kMatched) && !facts.Has(Facts::kDiffers));
    const bool is_masked = facts.Has(Facts::kHuge) || facts.Has(Facts::kDrowned);
    const bool is_whole = facts.Has(Facts::kTensor) && !facts.Has(Facts::kFloat);
    see(look.masked_input, !is_output && is_masked);
    see(look.hidden_input, !is_output && is_masked && !facts.Has(Facts::kWhole));
    see(look.by_statistics, is_output && facts.error > 0 && !facts.Has(Facts::kWhole));
    see(look.masked_output, is_output && is_masked);
    see(look.takes_mask, is_input && (is_masked || is_whole));
    see(look.other_index, is_input && is_whole && facts.Has(Facts::kMeasured) && facts.error > 0);
    see(look.gives_floats, is_output && facts.Has(Facts::kFloat));
    // Of a mask a checksum tells only that it is another one.
    see(look.other_mask,
        is_input && facts.Has(Facts::kHuge) && facts.Has(Facts::kChecked) && facts.error > 0);
    see(look.only_masks_differ, is_output && is_masked && facts.error > 0);
    see(other_result, is_output && !is_masked && facts.error > 0);
    see(look.local, is_output && facts.Has(Facts::kLocal));
    see(look.keeps_mean, is_output && facts.Has(Facts::kMeanKept));
  }
  look.only_masks_differ = look.only_masks_differ && !other_result;
  // Another dtype is an argument like others where it is not only the one that everything has.
  look.differs = look.differs || (other_type && same_type && !mixed_input);
  return look;
}

}  // namespace vernier
