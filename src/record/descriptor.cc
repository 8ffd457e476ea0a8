#include "record/descriptor.h"

#include <functional>
#include <utility>

#include "core/json_cursor.h"
#include "core/json_writer.h"
#include "record/descriptor_style.h"

namespace vernier {

// What a descriptor says of a tensor beyond its elements.
struct DescriptorWriter::Texts {
  std::string_view type, dtype;  // JSON; empty: the usual ones
  std::string_view after;        // a JSON object, or empty

  static Result<Texts> Of(std::string_view extras) {
    Texts texts;
    if (extras.empty()) return texts;
    JsonIndenter reader(extras, nullptr);
    VN_RETURN_IF_ERROR(reader.Members([&](std::string_view key) -> Result<Done> {
      VN_ASSIGN_OR_RETURN(const std::string_view value, reader.RawValue());
      if (key == "type") texts.type = value;
      if (key == "dtype") texts.dtype = value;
      if (key == "after") texts.after = value;
      return Done{};
    }));
    return texts;
  }
};

namespace {

void AppendShape(std::span<const std::int64_t> shape, const DescriptorStyle& style, std::string& out) {
  out += '[';
  for (const std::int64_t& size : shape) {
    if (&size != shape.data()) out += ',';
    out += style.shape_item;
    AppendInteger(size, out);
  }
  if (!shape.empty()) out += style.shape_end;
  out += ']';
}

void AppendDtype(const TensorWords& tensor, std::string_view given, std::string& out) {
  if (!given.empty()) {
    out += given;
  } else if (tensor.dtype) {
    out.append("\"torch.").append(Name(*tensor.dtype)).append("\"");
  } else {
    out += "null";
  }
}

Result<Done> AppendAfter(std::string_view after, int depth, std::string& out) {
  if (after.empty()) return Done{};
  JsonIndenter members(after, nullptr);
  return members.Members([&](std::string_view key) {
    out += ',';
    AppendLine(depth + 1, out);
    out.append("\"").append(key).append("\": ");
    return members.Value(depth + 1, out);
  });
}

}  // namespace

// Built only for tensors that get a file.
std::string DescriptorWriter::Stem() const {
  bool skip_first = false;
  std::string stem = FileStem(*entry_, field_->key, skip_first);
  for (std::size_t i = 0; i < path_->size(); ++i) {
    const PathPart& part = (*path_)[i];
    if (i == 0 && skip_first && part.index == 0) continue;
    stem += '.';
    if (part.index >= 0) {
      AppendInteger(part.index, stem);
    } else {
      stem += DecodeJsonString(part.key);
    }
  }
  return stem;
}

Result<Done> DescriptorWriter::WriteTensor(std::string_view extras, int depth, std::string& out) {
  VN_ASSIGN_OR_RETURN(const TensorWords tensor, TakeTensor(words_));
  VN_ASSIGN_OR_RETURN(const Texts texts, Texts::Of(extras));
  return Write(tensor, texts, nullptr, depth, out);
}

Result<Done> DescriptorWriter::WriteAlone(std::string_view stem, std::string& out) {
  VN_ASSIGN_OR_RETURN(const TensorWords tensor, TakeTensor(words_));
  if (tensor.Has(kDeferred)) {
    return Error{ErrorCode::kBadArgument, std::string(stem), "a deferred tensor has nothing to describe yet"};
  }
  const std::string owned(stem);
  return Write(tensor, Texts{}, &owned, 0, out);
}

std::shared_ptr<Slot> DescriptorWriter::MakeSlot(const TensorWords& tensor) {
  auto slot = std::make_shared<Slot>();
  slot->entry = entry_;
  slot->copy_follows = tensor.Has(kCopyFollows);
  slot->wants_file = files_ != nullptr && meter_.WantsFile(tensor);
  if (slot->copy_follows) slot->stem = Stem();
  slots_[tensor.address] = slot;
  ++totals_.num_tensors;
  return slot;
}

Result<std::shared_ptr<Slot>> DescriptorWriter::OnDevice(const TensorWords& tensor) {
  if (cuda_ != nullptr) return cuda_->Measure(tensor, totals_);
  return Error{ErrorCode::kBadArgument, "words", "memory of a device, and VnRecorderUseCuda was not called"};
}

void DescriptorWriter::AddHole(Hole::Part part, int depth, const std::shared_ptr<Slot>& slot,
                               const std::string& out) {
  field_->holes.push_back({out.size(), depth, part, slot});
}

Result<Done> DescriptorWriter::Write(const TensorWords& tensor, const Texts& texts, const std::string* stem,
                                     int depth, std::string& out) {
  std::shared_ptr<Slot> slot;
  MeasureCache::Known known;
  if (tensor.Has(kCuda) && tensor.readable()) {
    VN_ASSIGN_OR_RETURN(slot, OnDevice(tensor));
    if (stem != nullptr) {
      VN_RETURN_IF_ERROR(cuda_->Launch());
      cuda_->WaitFor(slot->sequence);
    }
    if (stem != nullptr || slot->sequence == 0) known.measured = std::exchange(slot, nullptr)->measured;
  } else if (tensor.Has(kDeferred) && !tensor.Has(kNoData)) {
    slot = MakeSlot(tensor);
  } else {
    VN_ASSIGN_OR_RETURN(known,
                        meter_.Measure(
                            tensor, files_, [&] { return stem != nullptr ? *stem : Stem(); }, totals_));
    not_finite_ |= known.measured.not_finite;
    if (known.file != nullptr && entry_ != nullptr && stem == nullptr) {
      known.file = &files_->NameWithin(entry_->name, *known.file, [&] { return Stem(); });
    }
    if (known.file != nullptr && field_ != nullptr) field_->files.push_back(known.file);
  }
  const DescriptorStyle& style = StyleAt(depth);
  out += style.open_type;
  out += texts.type.empty() ? std::string_view("\"torch.Tensor\"") : texts.type;
  out += style.dtype;
  AppendDtype(tensor, texts.dtype, out);
  out += style.shape;
  AppendShape(tensor.shape, style, out);
  const bool is_array = tensor.Has(kArray);
  if (slot != nullptr) {
    AddHole(Hole::kSummary, depth, slot, out);
  } else {
    AppendSummary(known.measured, is_array ? SummaryMode::kStatistics : mode_, depth, out);
  }
  if (!is_array) {
    out += style.requires_grad;
    out += tensor.Has(kRequiresGrad) ? "true" : "false";
  }
  VN_RETURN_IF_ERROR(AppendAfter(texts.after, depth, out));
  if (slot != nullptr) {
    AddHole(Hole::kTail, depth, slot, out);
  } else {
    AppendTail(known.measured, known.file, is_array ? SummaryMode::kStatistics : mode_, depth, out);
  }
  out += style.end;
  out += '}';
  return Done{};
}

}  // namespace vernier
