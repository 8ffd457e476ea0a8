#include "record/late_tensor.h"

#include <utility>

namespace vernier {
namespace {

Writer::Job Settled(const std::shared_ptr<Slot>& slot, Kept kept) {
  slot->stored = slot->decided = kept.stored;
  return [slot, write = std::move(kept.write)]() -> Result<Done> {
    VN_ASSIGN_OR_RETURN(slot->stored, write());
    return Done{};
  };
}

}  // namespace

bool LateTensor::IsInOrder(const TensorWords& tensor) {
  return tensor.readable() && Walk::InOrder(tensor.strided()).contiguous();
}

Writer::Undecided LateTensor::Jobs(std::shared_ptr<LateTensor> late, const TensorMeter& meter) {
  const auto found = std::make_shared<TensorMeter::Checked>();
  Writer::Undecided jobs;
  jobs.measure = [late, found, &meter]() -> Result<Done> {
    Slot& slot = *late->slot;
    *found = meter.Check(late->tensor, late->store != nullptr, !slot.has_numbers);
    slot.TakeNumbers(found->measured, found->sketch);
    if (late->store == nullptr) late->memory.reset();
    return Done{};
  };
  jobs.decide = [late = std::move(late), found](std::uint64_t number) -> Writer::Job {
    if (late->store == nullptr) return nullptr;
    Elements elements{*late->tensor.dtype, late->tensor.shape, found->crc32, std::move(late->memory), {},
                      found->xor64};
    return Settled(late->slot, late->store->Keep(late->place, std::move(elements), number));
  };
  return jobs;
}

Writer::Undecided SameTensor::Jobs(SameTensor same) {
  Writer::Undecided jobs;
  jobs.decide = [same = std::move(same)](std::uint64_t number) -> Writer::Job {
    same.slot->TakeNumbers(same.first->measured, same.first->sketch);
    if (same.store == nullptr || same.first->decided == nullptr) return nullptr;
    return Settled(same.slot, same.store->KeepAgain(same.place, *same.first->decided, number));
  };
  return jobs;
}

}  // namespace vernier
